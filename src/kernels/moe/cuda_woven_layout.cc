#include "kernels/moe/cuda_woven_layout.h"

#include <algorithm>

#include "kernels/moe/cuda_woven_stream.h"

namespace causeway::kernels::moe {
namespace {


std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Memory handed out piece by piece.
class Pieces {
 public:
  std::uint32_t take(std::int64_t bytes) {
    const std::int64_t begin = end_;
    end_ += ceil_div(bytes, 16) * 16;
    return static_cast<std::uint32_t>(begin);
  }
  std::int64_t end() const { return end_; }

 private:
  std::int64_t end_ = 0;
};

// A thread is an expert, and has active's columns in registers.
bool built_for(const ShapeCuda& s) {
  return s.experts <= kWorkers && s.intermediate <= kWovenIntermediateMax &&
         s.hidden <= kFrontHiddenMax;
}

}  // namespace

std::optional<WovenLayout> woven_layout(const ShapeCuda& s, int ctas) {
  if (!built_for(s)) return std::nullopt;
  const std::int64_t k = s.experts_per_token;
  const std::int64_t down_rows = ceil_div(s.hidden / kDownRows, ctas) * kDownRows;
  WovenLayout at = {};
  Pieces pieces;
  at.x = pieces.take(s.hidden * 2);
  at.partial = pieces.take(2 * kFewWarps * 4);
  at.keys = pieces.take(kWorkers * 4);
  at.sorted = pieces.take(kWorkers * 4);
  at.items = pieces.take(k * std::int64_t{sizeof(WovenItem)});
  at.chosen_keys = pieces.take(k * 4);
  at.chosen_experts = pieces.take(k * 4);
  at.addends = pieces.take(k * std::int64_t{sizeof(WovenAddend)});
  at.down_sums = pieces.take(k * down_rows * 4);
  at.barriers = pieces.take(8 * (2 * kStagesMax + 4));
  const std::int64_t ring = ceil_div(pieces.end(), 128) * 128, room = kWovenSharedMax - ring;
  const std::int64_t stage = 2 * std::max(4 * s.hidden, kDownRows * s.intermediate);
  const std::int64_t stages = std::min<std::int64_t>(kStagesMax, room / stage);
  const std::int64_t front = (1 + ceil_div(s.experts, ctas)) * s.hidden * 2;
  // A warp has every kFewWarps-th stage to itself, and relies on as many places.
  if (stages < kFewWarps || front > room) return std::nullopt;
  at.ring = static_cast<std::uint32_t>(ring);
  at.stage_bytes = static_cast<std::uint32_t>(stage);
  at.stages = static_cast<int>(stages);
  at.bytes = static_cast<std::uint32_t>(ring + std::max(stages * stage, front));
  at.lag = woven_lag(static_cast<int>(k));
  return at;
}

bool woven_fits(const ShapeCuda& shape, std::int64_t tokens, int ctas) {
  return tokens == 1 && woven_layout(shape, ctas).has_value();
}

}  // namespace causeway::kernels::moe
