// A result of the CUDA runtime as a Status.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "base/result.h"

namespace causeway::kernels {

// "<what>: <CUDA's words>"; kResourceExhausted when memory ran out, else kDevice. Clears the
// runtime's last error, so that a later check does not report it again.
inline Status cuda_status(cudaError_t code, const std::string& what) {
  if (code == cudaSuccess) return {};
  (void)cudaGetLastError();
  return Error{
      code == cudaErrorMemoryAllocation ? ErrorCode::kResourceExhausted : ErrorCode::kDevice,
      what + ": " + cudaGetErrorString(code)};
}

}  // namespace causeway::kernels
