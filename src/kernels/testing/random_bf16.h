// Random bf16 values in host memory: weights and KV of tests and benches, as fast as memory takes
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/random.h"
#include "kernels/parallel.h"

namespace causeway::kernels::testing {

// Random finite values of magnitude about `scale` in all of `memory`, with all threads.
inline void fill_random_bf16(std::span<std::byte> memory, std::uint64_t seed, float scale) {
  auto* values = reinterpret_cast<BFloat16*>(memory.data());
  const auto count = static_cast<std::int64_t>(memory.size() / sizeof(BFloat16));
  // Sign and mantissa random, exponent that of `scale`: magnitudes in [scale, 2 scale).
  const std::uint16_t exponent = to_bfloat16(scale).bits & 0x7F80u;
  parallel_ranges(count, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t state = seed + static_cast<std::uint64_t>(begin);
    for (std::int64_t i = begin; i < end; ++i) {
      if ((i - begin) % 4 == 0) state = mix64(state);
      const auto bits = static_cast<std::uint16_t>(state >> (i - begin) % 4 * 16);
      values[i].bits = static_cast<std::uint16_t>((bits & 0x807Fu) | exponent);
    }
  });
}

}  // namespace causeway::kernels::testing
