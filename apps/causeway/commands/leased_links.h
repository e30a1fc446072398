// Which links worker processes share, and so lease from each other (docs/design/worker.md, "Leased
// links"). Pure.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "topology/gpu_names.h"
#include "transfer/lease_book.h"
#include "transfer/link_shares.h"

namespace causeway::app {

// The book of the links that workers share, with a member for each of `gpus`, in their order. A
// worker uses its GPU's own link to host memory and no relay's. Without `instances` GPUs are
// numbered as in the profile of `machine`, and share what that says. With some, `gpus` are indices
// of instances, and those of one GPU share its link; what links of several GPUs have in common is
// not known then, and `machine` is not read. Null: no two workers share anything. kUnsupported: a
// GPU's link does not reach host memory.
Result<std::unique_ptr<transfer::LeaseBook>> book_of_workers(
    std::vector<int> gpus, std::span<const topology::ChosenInstance> instances,
    const transfer::LinkShares& machine);

}  // namespace causeway::app
