// Host memory that a slice's copies and kernels reach at the link's speed: a region of the
// machine's HostMemory, registered with the driver, so that it is accounted for like all others.
#pragma once

#include <cstddef>
#include <string>

#include "device/device.h"

namespace causeway::device {

// Move-only. No enqueued work may use it when it is destroyed, except on a lost GPU: there it stays
// registered, so that work that never ends cannot write to memory that has another use by then.
class CudaPinned {
 public:
  // Zeroed. `slice` is one of a CudaMachine, and outlives it. kResourceExhausted, with the numbers.
  static Result<CudaPinned> make(Device& slice, const std::string& name, Bytes bytes);
  CudaPinned() = default;
  CudaPinned(CudaPinned&& other) noexcept;
  CudaPinned& operator=(CudaPinned&& other) noexcept;
  ~CudaPinned();

  std::byte* data() const { return data_; }
  Bytes bytes() const { return bytes_; }
  MemoryAddress address(Bytes offset = Bytes(0)) const {
    return MemoryAddress::in_host({region_, offset});
  }

 private:
  CudaPinned(HostMemory& memory, RegionId region, Bytes bytes);
  void release();

  HostMemory* memory_ = nullptr;
  RegionId region_;
  std::byte* data_ = nullptr;
  Bytes bytes_;
};

}  // namespace causeway::device
