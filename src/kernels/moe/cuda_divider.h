// Division of whole numbers by what a launch knows before, without dividing. For kernels whose
// code is fetched for every launch.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define CAUSEWAY_DIVIDER __host__ __device__ __forceinline__
#else
#define CAUSEWAY_DIVIDER inline
#endif

namespace causeway::kernels::moe {

// Divides n from 0 to 2³¹ - 1 by `divisor`, at least 1, as n × ⌈2^shift ÷ divisor⌉ ÷ 2^shift, where
// 2^(shift - 31) is at least the divisor (Granlund and Montgomery, 1994).
struct Divider {
  std::uint32_t multiplier = 0;
  int shift = 31;

  Divider() = default;
  explicit Divider(int divisor) {
    while ((std::int64_t{1} << (shift - 31)) < divisor) ++shift;
    const std::uint64_t by = static_cast<std::uint32_t>(divisor);
    multiplier = static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + by - 1) / by);
  }
  CAUSEWAY_DIVIDER int of(int n) const {
    return static_cast<int>(std::uint64_t{static_cast<std::uint32_t>(n)} * multiplier >> shift);
  }
};

}  // namespace causeway::kernels::moe

#undef CAUSEWAY_DIVIDER
