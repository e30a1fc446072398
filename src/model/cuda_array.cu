#include "model/cuda_array.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda_status.cuh"

namespace causeway::model {
void FreeDeviceMemory::operator()(void* memory) const { cudaFree(memory); }

Result<std::unique_ptr<void, FreeDeviceMemory>> copy_to_device(std::span<const std::byte> bytes) {
  void* memory = nullptr;
  CAUSEWAY_TRY(kernels::cuda_status(cudaMalloc(&memory, std::max<std::size_t>(bytes.size(), 1)),
                                    "memory for a model's constants"));
  std::unique_ptr<void, FreeDeviceMemory> owned(memory);
  CAUSEWAY_TRY(
      kernels::cuda_status(cudaMemcpy(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                           "copying a model's constants"));
  return std::move(owned);
}

}  // namespace causeway::model
