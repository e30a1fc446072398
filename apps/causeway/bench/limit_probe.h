// What a slice's device reads and multiplies at most, measured beside the engine on memory of its
// own.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "bench/step_floor.h"
#include "device/device.h"

namespace causeway::bench {

class LimitProbe {
 public:
  virtual ~LimitProbe() = default;
  // The median of some runs. Nothing else may run on the device.
  virtual Result<DeviceLimits> measure() = 0;
};

// `device` outlives the limits, and is a GPU's; kResourceExhausted when it has no memory for them.
Result<std::unique_ptr<LimitProbe>> probe_gpu(device::Device& device);
std::unique_ptr<LimitProbe> probe_cpu(const Clock& clock);

}  // namespace causeway::bench
