// Pinned memory and its counterpart on the device, grown together. Internal to this room.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>

#include "kernels/cuda_status.cuh"
#include "kernels/cuda_stream.h"

namespace causeway::engine {

template <typename T>
class CudaMirror {
 public:
  CudaMirror() = default;
  CudaMirror(const CudaMirror&) = delete;
  CudaMirror& operator=(const CudaMirror&) = delete;
  ~CudaMirror() { free(); }

  // Room for `count`; what was in it is lost when it grows. Nothing enqueued may use it.
  Status ensure(std::size_t count) {
    if (count <= capacity_) return {};
    const std::size_t wanted = std::max(count, 2 * capacity_);
    free();
    void* host = nullptr;
    CAUSEWAY_TRY(kernels::cuda_status(cudaMallocHost(&host, wanted * sizeof(T)),
                                      "pinned memory for a step's tables"));
    host_ = static_cast<T*>(host);
    void* device = nullptr;
    CAUSEWAY_TRY(kernels::cuda_status(cudaMalloc(&device, wanted * sizeof(T)),
                                      "device memory for a step's tables"));
    device_ = static_cast<T*>(device);
    capacity_ = wanted;
    return {};
  }
  Status up(std::size_t count, kernels::CudaStream stream) {
    return kernels::cuda_status(
        cudaMemcpyAsync(device_, host_, count * sizeof(T), cudaMemcpyHostToDevice, stream),
        "copying a step's tables");
  }
  Status down(std::size_t count, kernels::CudaStream stream) {
    return kernels::cuda_status(
        cudaMemcpyAsync(host_, device_, count * sizeof(T), cudaMemcpyDeviceToHost, stream),
        "copying what was sampled");
  }
  T* host() const { return host_; }
  T* device() const { return device_; }

 private:
  void free() {
    if (host_ != nullptr) cudaFreeHost(host_);
    if (device_ != nullptr) cudaFree(device_);
    host_ = device_ = nullptr;
    capacity_ = 0;
  }
  T* host_ = nullptr;
  T* device_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace causeway::engine
