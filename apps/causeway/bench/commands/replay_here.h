// A replay without a server: slices and a fleet are opened in this process, as `serve` opens them,
// and asked directly.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "bench/replay_fleet.h"
#include "commands/rotation_options.h"
#include "commands/served_slices.h"
#include "fleet/placement.h"

namespace causeway::app {

struct ReplayHereOptions {
  std::string models_dir;
  bool cuda = false;
  Bytes pool = {};  // host memory for weights; zero: seven eighths of what there is
  ServedSlicesOptions slices = {};
  fleet::PlacementKind placement = fleet::PlacementKind::kBandwidth;
  Nanos ready_max = {};  // how long to wait for models to be loaded before; zero: not
  bench::FleetReplay replay = {};
};

// Blocks until the last request has ended or is given up, and all that was opened is closed.
// Errors: those of opening, which name options as `serve` does; kDeadlineExceeded: the models are
// not loaded in time; of bench::replay_on_fleet().
Result<bench::ReplayReport> replay_here(ReplayHereOptions options, const RotationOptions& targets,
                                        const bench::ReplayOptions& list, const Clock& clock);

}  // namespace causeway::app
