// The CPU backend of HybridGEMM, and what the kernel is compared with: plain loops, f32 sums in
// eight interleaved chains (so that a compiler may vectorise them), one rounding to bf16.
#include <bit>
#include <vector>

#include "kernels/hybrid_gemm/hybrid_gemm.h"

namespace causeway::kernels::hybrid_gemm {
namespace {

float widen(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// Round to nearest, ties to even; NaN stays NaN.
std::uint16_t narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

constexpr std::int64_t kChains = 8;

float dot(const float* x, const std::uint16_t* w, std::int64_t k) {
  float sums[kChains] = {};
  std::int64_t i = 0;
  for (; i + kChains <= k; i += kChains) {
    for (std::int64_t c = 0; c < kChains; ++c) sums[c] += x[i + c] * widen(w[i + c]);
  }
  for (; i < k; ++i) sums[0] += x[i] * widen(w[i]);
  float total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

}  // namespace

void run_on_host(const Shape& shape, const Operands& operands) {
  const auto* x = static_cast<const std::uint16_t*>(operands.x);  // [m × k]
  const auto* w = static_cast<const std::uint16_t*>(operands.w);  // [n × k]
  auto* o = static_cast<std::uint16_t*>(operands.o);              // [m × n]
  const auto* bias = static_cast<const std::uint16_t*>(operands.bias);
  const auto* residual = static_cast<const std::uint16_t*>(operands.residual);
  std::vector<float> row(static_cast<std::size_t>(shape.k));
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.k; ++j) {
      row[static_cast<std::size_t>(j)] = widen(x[i * operands.x_stride + j]);
    }
    for (std::int64_t j = 0; j < shape.n; ++j) {
      float sum = dot(row.data(), w + j * operands.w_stride, shape.k);
      if (bias != nullptr) sum += widen(bias[j]);
      if (residual != nullptr) sum += widen(residual[i * operands.residual_stride + j]);
      o[i * operands.o_stride + j] = narrow(sum);
    }
  }
}

}  // namespace causeway::kernels::hybrid_gemm
