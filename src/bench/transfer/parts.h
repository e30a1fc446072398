// The parts of `causeway bench transfer`: each is a file with a function that adds its rows. A
// row's bar is what the project demands of that part.
#pragma once

#include <span>

#include "bench/transfer/rig.h"

namespace causeway::transfer::bench {

Status run_sizes(Rig& rig, Report& report);       // by size and direction; both ways at once
Status run_break_even(Rig& rig, Report& report);  // the size from which many links pay
Status run_sets(Rig& rig, Report& report);        // all sets of links, and what the engine chooses
Status run_gpus(Rig& rig, Report& report);        // the best set of 1 … N links
Status run_chunks(Rig& rig, Report& report);      // chunk size × depth
Status run_segments(Rig& rig, Report& report);    // scattered: loop, batch, ours
Status run_direct_first(Rig& rig, Report& report);  // transfers of all GPUs; traffic between them
Status run_background(Rig& rig, Report& report);    // beside native copies on one link
Status run_static(Rig& rig, Report& report);        // dynamic against static splits
Status run_processes(Rig& rig, Report& report);     // two at once
Status run_cpu(Rig& rig, Report& report);           // of the process: copying, idle
Status run_memory(Rig& rig, Report& report);        // of each relaying GPU

struct Part {
  const char* name;
  const char* what;
  Status (*run)(Rig&, Report&);
};
std::span<const Part> parts();  // in the order in which they run

// Moves back to back for `length`; bytes per second. What a second process does.
Result<double> steady_rate_of(Rig& rig, TransferEngine& engine, int gpu, Direction direction,
                              Nanos length);

}  // namespace causeway::transfer::bench
