// Random histories of a fleet in virtual time: the FleetCore that serves over as many EngineCores
// as it has slices, on machines whose links their slices share, and all that may befall them
// (fleet_faults.h).
//
// From its seed a history draws machines (whole, halves or quarters), a catalogue that does not fit
// them, host memory that may not hold it, KV that may rotate, policies, limits, fault rates, a
// workload and a schedule of cancels, lost slices, links that hang, machines that are divided anew,
// jumps of the fleet's clock and pauses of the host. Checked after every instant of every 16th
// history, and after one of 32 of the others: FleetSimulation::check_integrity, which asks fleet,
// engines, KV and caches of weights, what links carried, what is in host memory and what is
// attached where. At every instant: what devices are asked for. For each client: every token is the
// one to which the tokens before it lead, whichever slices gave them; exactly one end, and for a
// reason that this history has; nothing of a slice that was lost. When all is over nothing is held
// anywhere.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "simulate/fleet_simulation.h"

namespace causeway::simulate {

struct FleetEnginesReport {
  std::string failure;  // empty: all checks held
  FleetSimulationReport simulation;
  std::int64_t instants = 0;
  std::int64_t requests = 0;
  std::int64_t finished = 0;
  std::int64_t cancelled = 0;
  std::int64_t errors = 0;
  std::map<std::string, std::int64_t> causes;  // of these: how many that say so
  std::int64_t resumed_finished = 0;  // on another slice than they began
  std::int64_t tokens = 0;
  // Requests that ended because the device hung.
  std::int64_t hung = 0;
  std::int64_t troubles = 0;  // of links
  std::int64_t jumps = 0;
  std::int64_t pauses = 0;
};

// `keeps`: the report has latencies and what became of each request, too.
FleetEnginesReport run_fleet_engines_history(std::uint64_t seed, bool keeps = false);

}  // namespace causeway::simulate
