#include "kernels/rms_norm/rms_norm.h"

#include "kernels/parallel.h"

#define CAUSEWAY_SIMD_BODY "kernels/rms_norm/body.inc"
#include "kernels/simd/each_variant.inc"

namespace causeway::kernels::rms_norm {

void run(const Params& p) {
  // A thread is worth starting for this many elements.
  constexpr std::int64_t kElementsPerThread = 16 << 10;
  auto* row = p.weight.is_bf16() ? CAUSEWAY_SELECT(p.variant, row_bf16)
                                 : CAUSEWAY_SELECT(p.variant, row_f32);
  const std::int64_t grain = 1 + kElementsPerThread / (p.inner * p.size);
  parallel_ranges(p.outer, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      for (std::int64_t i = 0; i < p.inner; ++i) {
        row(p.x + o * p.x_outer_stride + i * p.size, p.weight, p.size, p.epsilon, p.offset,
            p.out + o * p.out_outer_stride + i * p.size);
      }
    }
  });
}

}  // namespace causeway::kernels::rms_norm
