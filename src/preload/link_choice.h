// Which links may serve which GPUs of this process, and which are worth it: from the machine's link
// map where there is one, otherwise assumed. A process may see fewer GPUs than the machine has, and
// in another order (CUDA_VISIBLE_DEVICES), so only the part of a map that concerns the visible GPUs
// is used.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "preload/gpus.h"
#include "transfer/path_facts.h"

namespace causeway::preload {

// The only map in `folder` of a machine with so many GPUs; "" when there is none, or several. Only
// the management library could tell which of several is this machine's, and this library does not
// load it into other programs.
std::string only_map_in(const std::string& folder, std::size_t gpus);

// `file` is the file of a map, "" for the only one in `folder`, or "none". Without a map that fits
// this machine paths are assumed; when `file` names one that does not fit, the reason is said.
transfer::PathFacts paths_for(const Gpus& gpus, const std::string& file, const std::string& folder,
                              const std::function<void(const std::string&)>& say);

}  // namespace causeway::preload
