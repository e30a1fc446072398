// A machine's topology for people: a tree of what hangs behind what, and a table of its GPUs.
#pragma once

#include <string>

#include "topology/topology.h"

namespace causeway::topology {

// "55.2 GB/s"; "?" when it is 0.
std::string rate_text(double bytes_per_second);
// "141 GiB", "512 MiB".
std::string size_text(Bytes bytes);

// CPUs, memory and driver, then the tree, one node a line.
std::string render_tree(const Machine& machine);
// One GPU a line; "" when there is none.
std::string render_gpus(const Machine& machine);
// The machine's notes on what could not be found out, one on each line.
std::string render_notes(const Machine& machine);

}  // namespace causeway::topology
