#include "model/cuda_array.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <string>

namespace causeway::model {
namespace {

Error cuda_error(cudaError_t code, const char* what) {
  (void)cudaGetLastError();  // so that a later check does not report it again
  return {code == cudaErrorMemoryAllocation ? ErrorCode::kResourceExhausted : ErrorCode::kDevice,
          std::string(what) + ": " + cudaGetErrorString(code)};
}

}  // namespace

void FreeDeviceMemory::operator()(void* memory) const { cudaFree(memory); }

Result<std::unique_ptr<void, FreeDeviceMemory>> copy_to_device(std::span<const std::byte> bytes) {
  void* memory = nullptr;
  cudaError_t code = cudaMalloc(&memory, std::max<std::size_t>(bytes.size(), 1));
  if (code != cudaSuccess) return cuda_error(code, "memory for a model's constants");
  std::unique_ptr<void, FreeDeviceMemory> owned(memory);
  code = cudaMemcpy(memory, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  if (code != cudaSuccess) return cuda_error(code, "copying a model's constants");
  return std::move(owned);
}

}  // namespace causeway::model
