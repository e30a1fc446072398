// Which links may serve which GPUs of this process, and which are worth it: from the machine's link
// map where there is one, else assumed. A process may see fewer GPUs than the machine has, in
// another order (CUDA_VISIBLE_DEVICES), so a map is read as far as it is about the visible ones.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "preload/gpus.h"
#include "transfer/link_map.h"

namespace causeway::preload {

// The part of a map that is about some links only, in a new order: `links[i]` is the map's index of
// the i-th.
transfer::LinkMap part_of(const transfer::LinkMap& map, const std::vector<int>& links);

// Ranks PCI bus ids ("0000:1b:00.0") among all GPUs of the machine; nullopt when one is not there.
std::optional<std::vector<int>> ranks_of(const std::vector<std::string>& ids,
                                         std::vector<std::string> machine);

// The only map in `folder` of a machine with so many GPUs; "" when there is none, or several: which
// of them is this machine's, only the management library could say, and that is not for strangers'
// processes.
std::string only_map_in(const std::string& folder, std::size_t gpus);

// `file`: of a map; "": the only one in `folder`; "none", or not fit for this machine: paths are
// assumed, and why a `file` does not fit is said.
transfer::PathFacts paths_for(const Gpus& gpus, const std::string& file, const std::string& folder,
                              const std::function<void(const std::string&)>& say);

}  // namespace causeway::preload
