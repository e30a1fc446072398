// Dealing `total` things out to `count` CTAs in contiguous shares of which none is longer than
// another by more than one, without a division on the device: two 64-bit ones are 2 KB of code.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define CAUSEWAY_SHARES __host__ __device__ __forceinline__
#else
#define CAUSEWAY_SHARES inline
#endif

namespace causeway::kernels::gemm {

// Shares of at least total / count, rounded down; of up to 256 the same as index · total / count.
struct EvenShares {
  static constexpr std::int64_t kTotalMax = (std::int64_t{1} << 31) - 1;
  static constexpr std::int64_t kCountMax = (1 << 16) - 1;

  std::uint64_t each;  // total / count in 2^-16, rounded up

  static constexpr EvenShares of(std::int64_t total, std::int64_t count) {
    return {static_cast<std::uint64_t>(((total << 16) + count - 1) / count)};
  }
  // Where share `index` begins, and the one in front ends: begin(count) is `total`, because
  // rounding up adds less than `count` · 2^-16 there, less than one.
  CAUSEWAY_SHARES int begin(unsigned index) const { return static_cast<int>((index * each) >> 16); }
};

}  // namespace causeway::kernels::gemm
