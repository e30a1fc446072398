// Which runs go through the kernel for one token (cuda_one_token.cuh), and what lies where in the
// shared memory of its CTAs. Plain arithmetic, tested on the host.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/moe/cuda_limits.h"
#include "kernels/moe/cuda_one_token_stream.h"

#ifdef __CUDACC__
#define CAUSEWAY_LAYOUT __host__ __device__ __forceinline__
#else
#define CAUSEWAY_LAYOUT inline
#endif

namespace causeway::kernels::moe {

// Less than half of an SM's: with all of it the kernels around this one lose more than it gains.
constexpr int kOneTokenSharedMax = 104 * 1024;

struct OneTokenItem {
  const char* weight[3];  // gate, up, down
};

// What is added next: an item's sums, with this weight.
struct OneTokenAddend {
  float weight;
  int item;
};

// Offsets. Items are the chosen experts, in the order of choice.
struct OneTokenLayout {
  std::uint32_t x;               // bf16 [hidden], normed
  std::uint32_t partial;         // float [2][kWorkerWarps]
  std::uint32_t keys;            // uint32_t [kWorkers], order_key of the experts' scores
  std::uint32_t sorted;          // uint32_t [kWorkerWarps][32], a warp's keys from the best on
  std::uint32_t items;           // OneTokenItem [k]
  std::uint32_t chosen_keys;     // uint32_t [k]
  std::uint32_t chosen_experts;  // int [k]
  std::uint32_t addends;         // OneTokenAddend [k], by rising expert
  std::uint32_t barriers;        // full and empty [stages], and four that are used once
  std::uint32_t ring;  // stages, a multiple of 128; at first the norm's weight and rows of router
  std::uint32_t stage_bytes;
  int lag;
  // These depend on the number of CTAs; one_token_pieces() leaves them out.
  int stages;
  Divider by_ctas;
  std::uint32_t down_sums;  // float [k][the CTA's rows of down]
  std::uint32_t bytes;
};

// The layout without what depends on the number of CTAs.
CAUSEWAY_LAYOUT OneTokenLayout one_token_pieces(int hidden, int intermediate, int k) {
  OneTokenLayout at = {};
  std::uint32_t end = 0;
  const auto take = [&end](int bytes) {
    const std::uint32_t begin = end;
    end += static_cast<std::uint32_t>((bytes + 15) / 16 * 16);
    return begin;
  };
  at.x = take(hidden * 2);
  at.partial = take(2 * kWorkerWarps * 4);
  at.keys = take(kWorkers * 4);
  at.sorted = take(kWorkers * 4);
  at.items = take(k * static_cast<int>(sizeof(OneTokenItem)));
  at.chosen_keys = take(k * 4);
  at.chosen_experts = take(k * 4);
  at.addends = take(k * static_cast<int>(sizeof(OneTokenAddend)));
  at.barriers = take(8 * (2 * kStagesMax + 4));
  at.ring = (end + 127) / 128 * 128;
  const int gate = 4 * hidden, down = kDownRows * intermediate;
  at.stage_bytes = static_cast<std::uint32_t>(2 * (gate > down ? gate : down));
  at.lag = one_token_lag(k);
  return at;
}

// None where the shape is not for this kernel. `ctas`: of the launch.
std::optional<OneTokenLayout> one_token_layout(const ShapeCuda& shape, int ctas);

// Whether a run with a front goes through this kernel.
bool one_token_fits(const ShapeCuda& shape, std::int64_t tokens, int ctas);

}  // namespace causeway::kernels::moe

#undef CAUSEWAY_LAYOUT
