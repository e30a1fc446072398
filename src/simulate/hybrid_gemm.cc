#include "simulate/hybrid_gemm.h"

#include <algorithm>
#include <cmath>

namespace causeway::simulate {

bool depends_on_alpha(double weight_bytes, double flops) {
  return weight_bytes > 0 && flops / weight_bytes > kHybridRows;
}

HybridWork hybrid_work(double weight_bytes, double flops, double alpha) {
  if (!(weight_bytes > 0)) return {};
  const double rows = flops / weight_bytes;
  const double crossings = std::max(1.0, std::ceil(rows / kHybridRows - 1e-9));
  return {.link_bytes = weight_bytes * std::lerp(1.0, crossings, alpha),
          .hbm_bytes = flops / kHybridFlops * std::lerp(kAsymmetricHbm, kSymmetricHbm, alpha),
          .flops = flops * std::lerp(1 / kAsymmetricRate, 1.0, alpha)};
}

}  // namespace causeway::simulate
