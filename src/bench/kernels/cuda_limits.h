// What a GPU can do at most, measured beside what is compared with it. All functions enqueue on
// `stream`, wait for it, and time by events of the GPU.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/units.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::bench {

// Reads `bytes` of device memory at `memory` `times` times, every byte once, and returns the bytes
// per second of the whole. They should be far more than the L2 holds.
Result<double> cuda_read_bandwidth(const void* memory, Bytes bytes, int times, CudaStream stream);

// cuBLASLt's bf16 product of random 8192³ matrices, in floating-point operations per second.
// `memory` has cuda_matmul_bytes() of device memory, which are overwritten.
Bytes cuda_matmul_bytes();
Result<double> cuda_matmul_peak(void* memory, CudaStream stream);

// Random bf16 values, uniform in ±scale, in all of `memory`.
Status cuda_fill_random_bf16(void* memory, Bytes bytes, std::uint64_t seed, float scale,
                             CudaStream stream);

}  // namespace causeway::kernels::bench
