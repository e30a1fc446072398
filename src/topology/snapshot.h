// Topologies as JSON: what `causeway topology --json` prints, and what tests and simulation read.
// Carries no serial numbers, UUIDs or host names.
//
//   {"causeway_topology": 1, "cores": …, "nodes": [{"kind": "machine", …}, …], "gpus": […], …}
//
// Fields added later are optional to a reader; a change of meaning raises the version.
#pragma once

#include <string>
#include <string_view>

#include "topology/topology.h"

namespace causeway::topology {

inline constexpr int kSnapshotVersion = 1;

std::string write_snapshot(const Machine& machine);

// Accepts text from any source: size, nesting, counts and strings are bounded. kCorrupt names the
// field; kUnsupported says that the version is newer.
Result<Machine> read_snapshot(std::string_view text);
// Reads the same from a file. kIo when it cannot be read.
Result<Machine> load_snapshot(const std::string& path);

}  // namespace causeway::topology
