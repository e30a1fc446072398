#include "kernels/activation/activation.h"

#include <algorithm>

#include "kernels/parallel.h"

#define CAUSEWAY_SIMD_BODY "kernels/activation/body.inc"
#include "kernels/simd/each_variant.inc"

namespace causeway::kernels::activation {

void run(const Params& p) {
  // Ranges of the flattened output, so that a single long row is shared too.
  constexpr std::int64_t kElementsPerThread = 8 << 10;
  auto* times = p.gate == Gate::kSilu ? CAUSEWAY_SELECT(p.variant, silu_times)
                                      : CAUSEWAY_SELECT(p.variant, gelu_times);
  const auto stretch = [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t row = begin / p.size;
      const std::int64_t col = begin % p.size;
      const std::int64_t count = std::min(p.size - col, end - begin);
      const float* gate = p.gate_up + row * 2 * p.size + col;
      times(gate, gate + p.size, count, p.out + begin);
      begin += count;
    }
  };
  parallel_ranges(p.rows * p.size, kElementsPerThread, stretch);
}

}  // namespace causeway::kernels::activation
