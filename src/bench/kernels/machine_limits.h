// What this machine can do at most, measured beside what is compared with it: the limits of the
// kernel and model benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "kernels/buffer.h"
#include "kernels/gemm/gemm.h"

namespace causeway::kernels::bench {

// Reads `memory` once with all threads, each its own contiguous share in memory order with prefetch
// ahead, and sums it up. Returns bytes per second. `memory` should be far larger than the caches.
double read_bandwidth(std::span<const std::byte> memory, const Clock& clock);

// Matrix product of large square matrices by oneDNN in the type in which it is fastest: bf16, or
// f32 where the CPU has no instructions for bf16.
class MatmulPeak {
 public:
  explicit MatmulPeak(std::int64_t size = 3072);
  // One product; floating-point operations per second.
  double measure(const Clock& clock);

 private:
  std::int64_t size_;
  Buffer<BFloat16> w_;
  Buffer<float> x_;
  Buffer<float> out_;
  gemm::Gemm gemm_;
};

}  // namespace causeway::kernels::bench
