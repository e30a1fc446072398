// A model's one cached copy in a device's memory (decision 1): all its groups, in execution order,
// in neighbouring extents at the high end of the arena.
//
//   arena  │ KV … │ free … │ embedding │ layers.0 │ layers.1 │ … │ head │
//
// Where the device is the CPU, the copy is in its arena all the same.
#pragma once

#include <memory>

#include "base/result.h"
#include "device/device.h"
#include "weights/model_pool.h"

namespace causeway::weights {

// Copies `home` to the device, and returns the model as it lies there: its views are kResident and
// point into the arena, its groups are still those at home, which stays pinned as long. Blocks
// until all is copied. kResourceExhausted: the arena has not that much left (the message has the
// numbers); kDeadlineExceeded after `timeout`; or the copies' error. On error nothing stays behind.
// `memory` holds the home; it and the device must outlive the result.
Result<std::unique_ptr<PinnedModel>> make_resident(std::unique_ptr<PinnedModel> home,
                                                   const device::HostMemory& memory,
                                                   device::Device& device, Nanos timeout);

}  // namespace causeway::weights
