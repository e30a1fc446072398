#include "kernels/moe/cuda_one_token_layout.h"

#include <algorithm>

namespace causeway::kernels::moe {
namespace {

// A thread is an expert, and has active's columns in registers.
bool built_for(const ShapeCuda& s) {
  return s.experts <= kWorkers && s.intermediate <= kOneTokenIntermediateMax &&
         s.hidden <= kFrontHiddenMax;
}

}  // namespace

std::optional<OneTokenLayout> one_token_layout(const ShapeCuda& s, int ctas) {
  if (!built_for(s)) return std::nullopt;
  const std::int64_t k = s.experts_per_token;
  OneTokenLayout at = one_token_pieces(static_cast<int>(s.hidden), static_cast<int>(s.intermediate),
                                       static_cast<int>(k));
  const std::int64_t down_rows = ceil_div(s.hidden / kDownRows, ctas) * kDownRows;
  const std::int64_t sums = k * down_rows * 4;
  const std::int64_t room = kOneTokenSharedMax - at.ring - ceil_div(sums, 16) * 16;
  const std::int64_t stage = at.stage_bytes;
  const std::int64_t stages = std::min<std::int64_t>(kStagesMax, room / stage);
  const std::int64_t front = (1 + ceil_div(s.experts, ctas)) * s.hidden * 2;
  // A warp has every kWorkerWarps-th stage to itself, and relies on as many places.
  if (stages < kWorkerWarps || front > room) return std::nullopt;
  at.stages = static_cast<int>(stages);
  at.by_ctas = Divider(ctas);
  at.down_sums = static_cast<std::uint32_t>(at.ring + std::max(stages * stage, front));
  at.bytes = static_cast<std::uint32_t>(at.down_sums + sums);
  return at;
}

bool one_token_fits(const ShapeCuda& shape, std::int64_t tokens, int ctas) {
  return tokens == 1 && one_token_layout(shape, ctas).has_value();
}

}  // namespace causeway::kernels::moe
