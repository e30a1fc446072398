// A small constant array in device memory: a piece of the slice's arena.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "device/device.h"
#include "device/pieces.h"

namespace causeway::model {

// A copy of `bytes`, complete when this returns. `slice` is one of a CudaMachine; `pieces` are of
// its arena and outlive the copy. kResourceExhausted; kDevice; kDeadlineExceeded.
Result<device::Piece> copy_to_device(device::Device& slice, device::Pieces& pieces,
                                     std::span<const std::byte> bytes);

template <typename T>
class CudaArray {
 public:
  static Result<CudaArray> make(device::Device& slice, device::Pieces& pieces,
                                std::span<const T> values) {
    CudaArray made;
    CAUSEWAY_ASSIGN(made.memory_, copy_to_device(slice, pieces, std::as_bytes(values)));
    return Result<CudaArray>(std::move(made));
  }
  const T* data() const { return reinterpret_cast<const T*>(memory_.data()); }

 private:
  device::Piece memory_;
};

}  // namespace causeway::model
