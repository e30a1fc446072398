// Which links may serve which GPUs of this process, and which are worth it: from the machine's link
// map where there is one, else assumed. A process may see fewer GPUs than the machine has, in
// another order (CUDA_VISIBLE_DEVICES), so a map is read as far as it is about the visible ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "preload/gpus.h"
#include "transfer/path_facts.h"

namespace causeway::preload {

// The only map in `folder` of a machine with so many GPUs; "" when there is none, or several: which
// of them is this machine's, only the management library could say, and that is not for strangers'
// processes.
std::string only_map_in(const std::string& folder, std::size_t gpus);

// `file`: of a map; "": the only one in `folder`; "none", or not fit for this machine: paths are
// assumed, and why a `file` does not fit is said.
transfer::PathFacts paths_for(const Gpus& gpus, const std::string& file, const std::string& folder,
                              const std::function<void(const std::string&)>& say);

}  // namespace causeway::preload
