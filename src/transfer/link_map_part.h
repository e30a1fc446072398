// A machine's link map as a process reads it that sees only some of the GPUs, or in another order
// (CUDA_VISIBLE_DEVICES). A map counts the machine's GPUs by the rank of their PCI bus ids.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transfer/link_map.h"

namespace causeway::transfer {

// The part of a map that is about some links only, in a new order: `links[i]` is the map's index of
// the i-th.
LinkMap part_of(const LinkMap& map, const std::vector<int>& links);

// Ranks PCI bus ids ("0000:1b:00.0") among all GPUs of the machine; nullopt when one is not there.
std::optional<std::vector<int>> ranks_of(const std::vector<std::string>& ids,
                                         std::vector<std::string> machine);

// The part that is about the GPUs with these ids, in their order, of a machine whose GPUs are
// `machine`. kUnsupported when an id is not among them; kInvalidArgument when the map is about
// fewer GPUs; kCorrupt when the part makes no sense.
Result<LinkMap> part_for(const LinkMap& map, const std::vector<std::string>& ids,
                         std::vector<std::string> machine);

}  // namespace causeway::transfer
