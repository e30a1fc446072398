// A small constant array in device memory. Taken from the CUDA runtime: far smaller than an extent.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"

namespace causeway::model {

struct FreeDeviceMemory {
  void operator()(void* memory) const;
};

// A copy of `bytes`, complete when this returns.
Result<std::unique_ptr<void, FreeDeviceMemory>> copy_to_device(std::span<const std::byte> bytes);

template <typename T>
class CudaArray {
 public:
  static Result<CudaArray> make(std::span<const T> values) {
    CAUSEWAY_ASSIGN(auto memory, copy_to_device(std::as_bytes(values)));
    CudaArray made;
    made.memory_ = std::move(memory);
    return Result<CudaArray>(std::move(made));
  }
  const T* data() const { return static_cast<const T*>(memory_.get()); }

 private:
  std::unique_ptr<void, FreeDeviceMemory> memory_;
};

}  // namespace causeway::model
