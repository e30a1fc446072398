// A replay in the simulator: the same list, the same report, in virtual time.
#pragma once

#include "base/result.h"
#include "bench/replay_list.h"
#include "bench/replay_report.h"
#include "simulate/fleet_simulation.h"

namespace causeway::bench {

// On `fleet`, whose models are the catalogue, the first the most popular; its room for requests
// that wait is made as large as the list. Errors of replay_list() and run_fleet().
Result<ReplayReport> replay_simulated(simulate::FleetSimulationOptions fleet,
                                      const ReplayOptions& options);

}  // namespace causeway::bench
