#include "kernels/rope/rope.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "kernels/parallel.h"

#define CAUSEWAY_SIMD_BODY "kernels/rope/body.inc"
#include "kernels/simd/each_variant.inc"

namespace causeway::kernels::rope {
namespace {

constexpr std::int64_t kElementsPerThread = 16 << 10;

}  // namespace

std::vector<double> frequencies(std::int64_t size, double theta) {
  std::vector<double> result(static_cast<std::size_t>(size / 2));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(size);
    result[i] = std::pow(theta, exponent);
  }
  return result;
}

void fill_table(const TableParams& params, std::span<const std::int64_t> positions, float* out) {
  const std::int64_t half = params.size / 2, rotated = std::ssize(params.frequencies);
  CAUSEWAY_CHECK(rotated <= half, "more frequencies than pairs");
  const auto count = static_cast<std::int64_t>(positions.size());
  parallel_ranges(count, 1 + 1024 / (half + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* row = out + t * 2 * half;
      for (std::int64_t i = 0; i < rotated; ++i) {
        const double angle = static_cast<double>(positions[static_cast<std::size_t>(t)]) *
                             params.frequencies[static_cast<std::size_t>(i)];
        row[i] = static_cast<float>(params.amplitude * std::cos(angle));
        row[half + i] = static_cast<float>(params.amplitude * std::sin(angle));
      }
      std::fill(row + rotated, row + half, 1.0f);
      std::fill(row + half + rotated, row + 2 * half, 0.0f);
    }
  });
}

void run(const Params& p) {
  auto* rotate = CAUSEWAY_SELECT(p.variant, rotate);
  const std::int64_t grain = 1 + kElementsPerThread / (p.heads * p.size);
  parallel_ranges(p.tokens, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t h = 0; h < p.heads; ++h) {
        rotate(p.x + t * p.x_stride + h * p.size, p.table + t * p.size, p.size / 2);
      }
    }
  });
}

}  // namespace causeway::kernels::rope
