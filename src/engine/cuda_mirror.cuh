// Pinned memory and its counterpart on the device, grown together: pieces of the slice's arena and
// regions of the machine's host memory, so that both are accounted for. Internal to this room.
#pragma once

#include <algorithm>
#include <cstddef>

#include "device/cuda/cuda_pinned.h"
#include "kernels/cuda_stream.h"
#include "kernels/small_copy/small_copy.h"
#include "model/cuda_workspace.h"

namespace causeway::engine {

template <typename T>
class CudaMirror {
 public:
  // The workspace outlives it.
  explicit CudaMirror(model::CudaWorkspace& workspace) : workspace_(workspace) {}

  // Makes room for `count`; growing loses the contents. No enqueued work may use it.
  // kResourceExhausted leaves it as it was.
  Status ensure(std::size_t count) {
    if (count <= capacity_) return {};
    const std::size_t wanted = std::max(count, 2 * capacity_);
    const Bytes bytes = bytes_of(wanted);
    CAUSEWAY_ASSIGN(auto host, device::CudaPinned::make(workspace_.device(), "step", bytes));
    CAUSEWAY_ASSIGN(auto device, workspace_.pieces().take(bytes));
    host_ = std::move(host);
    device_ = std::move(device);
    capacity_ = wanted;
    return {};
  }
  // Kernels make the copy, because copy engines may be busy with weights.
  Status up(std::size_t count, kernels::CudaStream stream) {
    return kernels::small_copy::run(
        {.target = device(), .source = host(), .bytes = bytes_of(count)}, stream);
  }
  Status down(std::size_t count, kernels::CudaStream stream) {
    return kernels::small_copy::run(
        {.target = host(), .source = device(), .bytes = bytes_of(count)}, stream);
  }
  T* host() const { return reinterpret_cast<T*>(host_.data()); }
  T* device() const { return reinterpret_cast<T*>(device_.data()); }

 private:
  static_assert(sizeof(T) % 4 == 0);
  static Bytes bytes_of(std::size_t count) {
    return Bytes(static_cast<std::int64_t>(count * sizeof(T)));
  }

  model::CudaWorkspace& workspace_;
  device::CudaPinned host_;
  device::Piece device_;
  std::size_t capacity_ = 0;
};

}  // namespace causeway::engine
