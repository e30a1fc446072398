// Small constant arrays in device memory, pieces of the slice's arena, and how they come there.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"
#include "device/cuda/cuda_pinned.h"
#include "device/device.h"
#include "device/pieces.h"

namespace causeway::model {

// Copies by way of a page that stays registered, in a stream of its own. A page for each array
// would be registered, and unregistered, while other slices serve: the driver waits for all that
// the GPU does, and holds up all launches meanwhile. One thread at a time.
class ConstantCopier {
 public:
  // `slice` is one of a CudaMachine, and outlives it. kResourceExhausted; kDevice.
  static Result<ConstantCopier> make(device::Device& slice);

  // A copy of `bytes`, complete when this returns. `pieces` are of the slice's arena.
  // kResourceExhausted; kDevice; kDeadlineExceeded.
  Result<device::Piece> copy(std::span<const std::byte> bytes, device::Pieces& pieces);

 private:
  explicit ConstantCopier(device::Device& slice) : slice_(&slice) {}

  device::Device* slice_;
  device::CudaPinned page_;
  std::unique_ptr<device::Stream> stream_;  // goes first, after what it copies between
};

template <typename T>
class CudaArray {
 public:
  CudaArray() = default;
  explicit CudaArray(device::Piece memory) : memory_(std::move(memory)) {}
  const T* data() const { return reinterpret_cast<const T*>(memory_.data()); }

 private:
  device::Piece memory_;
};

}  // namespace causeway::model
