// The baseline of sleep and wake: weights that give way are copied to host memory before their
// memory is another's. They are at home already, so nothing reads the copy: a piece of host memory
// is used again and again.
#pragma once

#include <memory>
#include <mutex>

#include "device/device.h"
#include "device/host_memory.h"

namespace causeway::slice {

class WeightSleeper {
 public:
  // Both outlive it. kResourceExhausted: no host memory; a device's error.
  static Result<std::unique_ptr<WeightSleeper>> open(device::Device& device,
                                                     device::HostMemory& memory);
  // For open().
  WeightSleeper(device::Device& device, device::HostMemory& memory, RegionId region);
  ~WeightSleeper();
  WeightSleeper(const WeightSleeper&) = delete;
  WeightSleeper& operator=(const WeightSleeper&) = delete;

  // Of the device's arena, where memory is. Blocks until it is copied, 30 s at the most: the log
  // says what went wrong, and the weights go all the same. The mover's thread.
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
