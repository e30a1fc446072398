// A machine's link map for a process that sees only some of the GPUs, or sees them in another order
// (CUDA_VISIBLE_DEVICES). A map numbers the machine's GPUs by the rank of their PCI bus ids.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transfer/link_map.h"

namespace causeway::transfer {

// The part of a map that concerns some links only, in a new order: `links[i]` is the map's index of
// link i.
LinkMap part_of(const LinkMap& map, const std::vector<int>& links);

// Ranks PCI bus ids ("0000:1b:00.0") among all GPUs of the machine; nullopt when an id is missing
// there.
std::optional<std::vector<int>> ranks_of(const std::vector<std::string>& ids,
                                         std::vector<std::string> machine);

// The order in which a process measures its GPUs for a map: for each rank the index in `ids`, which
// are those of the GPUs that the process sees. kInvalidArgument when it does not see all of
// `machine`: a map is about all GPUs, and one of a part would replace it.
Result<std::vector<std::size_t>> order_for_map(const std::vector<std::string>& ids,
                                               const std::vector<std::string>& machine);

// The part that concerns the GPUs with these ids, in their order; `machine` are the machine's GPUs.
// kUnsupported when an id is not among them; kInvalidArgument when the map has fewer GPUs; kCorrupt
// when the part makes no sense.
Result<LinkMap> part_for(const LinkMap& map, const std::vector<std::string>& ids,
                         std::vector<std::string> machine);

}  // namespace causeway::transfer
