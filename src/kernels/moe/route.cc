#include <cmath>

#include "kernels/moe/moe.h"

namespace causeway::kernels::moe {

void route(const Routing& r, std::int32_t* chosen, float* weights) {
  // Scores in the order wanted; NaN counts as the lowest, so that the order stays strict.
  const auto score = [&](std::int32_t i) {
    return std::isnan(r.scores[i]) ? -INFINITY : r.scores[i];
  };
  const auto better = [&](std::int32_t a, std::int32_t b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  };
  std::int64_t kept = 0;
  for (std::int32_t i = 0; i < r.count; ++i) {
    if (kept == r.k && !better(i, chosen[kept - 1])) continue;
    std::int64_t at = kept < r.k ? kept++ : kept - 1;
    for (; at > 0 && better(i, chosen[at - 1]); --at) chosen[at] = chosen[at - 1];
    chosen[at] = i;
  }
  const float largest = r.scores[chosen[0]];
  float total = 0;
  for (std::int64_t i = 0; i < r.count; ++i) total += std::exp(r.scores[i] - largest);
  float chosen_total = 0;
  for (std::int64_t i = 0; i < r.k; ++i) {
    weights[i] = std::exp(r.scores[chosen[i]] - largest) / total;
    chosen_total += weights[i];
  }
  if (!r.normalise) return;
  for (std::int64_t i = 0; i < r.k; ++i) weights[i] /= chosen_total;
}

}  // namespace causeway::kernels::moe
