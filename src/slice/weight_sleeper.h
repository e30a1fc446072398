// The baseline of sleep and wake: weights are copied to host memory before their memory gets
// another use. They are at home already, so nothing reads the copies, and the same piece of host
// memory is used again and again.
#pragma once

#include <memory>
#include <mutex>

#include "device/device.h"
#include "device/host_memory.h"

namespace causeway::slice {

class WeightSleeper {
 public:
  // Both arguments must outlive the result. kResourceExhausted: no host memory is left; or a
  // device's error.
  static Result<std::unique_ptr<WeightSleeper>> open(device::Device& device,
                                                     device::HostMemory& memory);
  // For open().
  WeightSleeper(device::Device& device, device::HostMemory& memory, RegionId region);
  ~WeightSleeper();
  WeightSleeper(const WeightSleeper&) = delete;
  WeightSleeper& operator=(const WeightSleeper&) = delete;

  // Copies a part of the device's arena that has memory. Blocks until it is copied, for 30 s at
  // most; a failure is logged, and the weights are dropped all the same. Called on the mover's
  // thread.
  void copy_out(Bytes offset, Bytes bytes);
  Bytes copied() const;  // any thread

 private:
  Status copy_piece(Bytes offset, Bytes bytes);

  device::Device& device_;
  device::HostMemory& memory_;
  const RegionId region_;
  std::unique_ptr<device::Stream> stream_;
  mutable std::mutex mutex_;  // guards what follows
  Bytes copied_;
};

}  // namespace causeway::slice
