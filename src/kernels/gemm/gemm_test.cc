#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/rounds.h"
#include "kernels/testing/near.h"

namespace causeway::kernels::gemm::gemm_test {
namespace {

using testing::fresh_seed;
using testing::poisoned;
using testing::random_floats;
using testing::TestWeights;

struct Case {
  std::int64_t m, n, k;
  DType dtype;
  bool bias;
  Variant variant = best_variant();
  Path path = Path::kBest;
};

// Runs a case with strides larger than the rows; returns the error against double precision, in
// units of what sums of such terms come to: of few results all may nearly cancel.
double error_of(const Case& c, Gemm& gemm, Random& random) {
  const std::int64_t x_stride = c.k + 3, out_stride = c.n + 5;
  const auto x = random_floats(random, c.m * x_stride);
  const TestWeights w(random, c.n * c.k, c.dtype);
  const TestWeights bias(random, c.n, c.dtype);
  auto out = poisoned(c.m * out_stride);
  gemm.run({.m = c.m,
            .n = c.n,
            .k = c.k,
            .x = x.data(),
            .x_stride = x_stride,
            .w = w.ref(),
            .bias = c.bias ? bias.ref() : WeightsRef{},
            .out = out.data(),
            .out_stride = out_stride,
            .variant = c.variant,
            .path = c.path});
  double difference = 0, norm = 0;  // squared
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < out_stride; ++j) {
      const float value = out[static_cast<std::size_t>(i * out_stride + j)];
      if (j >= c.n) {
        EXPECT_TRUE(std::isnan(value)) << "written beyond the row";
        continue;
      }
      double sum = 0;
      const auto add = [&](double term) {
        sum += term;
        norm += term * term;
      };
      if (c.bias) add(bias.values[static_cast<std::size_t>(j)]);
      for (std::int64_t d = 0; d < c.k; ++d) {
        float xv = x[static_cast<std::size_t>(i * x_stride + d)];
        if (c.dtype == DType::kBF16) xv = to_float(to_bfloat16(xv));
        add(double{xv} * w.values[static_cast<std::size_t>(j * c.k + d)]);
      }
      if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
      difference += (value - sum) * (value - sum);
    }
  }
  return std::sqrt(difference / norm);
}

TEST(GemmTest, EveryVariantAgreesWithDoublePrecision) {
  Random random(fresh_seed());
  Gemm gemm;
  const std::int64_t sizes[] = {1, 2, 7, 16, 17, 31, 33, 63, 64, 65, 127, 129, 251};
  for (const Variant variant : available_variants()) {
    for (std::int64_t m = 1; m <= 19; ++m) {
      for (const DType dtype : {DType::kBF16, DType::kF32}) {
        const std::int64_t n = sizes[random.below(std::ssize(sizes))];
        const std::int64_t k = sizes[random.below(std::ssize(sizes))];
        for (const Path path : {Path::kOwnLoops, Path::kOwnPairs}) {
          const Case c{m, n, k, dtype, random.chance(0.5), variant, path};
          EXPECT_LT(error_of(c, gemm, random), 2e-6)
              << name_of(variant) << " " << m << " x " << n << " x " << k << " " << name_of(dtype)
              << (path == Path::kOwnPairs ? ", pairs" : "");
        }
      }
    }
  }
}

// Blocks of w and parts of k, of which the last ones are short.
TEST(GemmTest, ProductsOfSeveralBlocksAgreeWithDoublePrecision) {
  Random random(fresh_seed());
  Gemm gemm;
  for (const Variant variant : available_variants()) {
    for (const std::int64_t m : {1, 6, 13}) {
      if (kSanitized && m != 6) continue;
      for (const Path path : {Path::kOwnLoops, Path::kOwnPairs}) {
        const Case c{m, 83, 4'099, DType::kBF16, false, variant, path};
        EXPECT_LT(error_of(c, gemm, random), 3e-6) << name_of(variant) << " " << m;
      }
    }
  }
}

TEST(GemmTest, LargeProductsAgreeWithDoublePrecision) {
  Random random(fresh_seed());
  Gemm gemm;
  for (const std::int64_t m : {15, 16, 17, 23, 24, 64, 67}) {
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      for (int repeat = 0; repeat < 2; ++repeat) {  // the second time it is prepared already
        const Case c{m, 130 + m, 257, dtype, repeat == 0};
        EXPECT_LT(error_of(c, gemm, random), 2e-6) << m << " rows, " << name_of(dtype);
      }
    }
  }
}

// Full and short strips, slivers and parts of k, rows too many behind odd m, several panels.
TEST(GemmTest, TilesAgreeWithDoublePrecision) {
  Random random(fresh_seed());
  Gemm gemm;
  const std::int64_t widths[] = {1, 15, 16, 17, 31, 32, 33, 65, 257, 600};
  const std::int64_t depths[] = {1, 15, 31, 32, 33, 127, 384, 385, 1'023, 2'049};
  for (const Variant variant : available_variants()) {
    for (std::int64_t m = 1; m <= 35; m += kSanitized ? 5 : 1) {
      const std::int64_t n = widths[random.below(std::ssize(widths))];
      const std::int64_t k = depths[random.below(std::ssize(depths))];
      const DType dtype = random.chance(0.7) ? DType::kBF16 : DType::kF32;
      const Case c{m, n, k, dtype, random.chance(0.3), variant, Path::kTiles};
      EXPECT_LT(error_of(c, gemm, random), 3e-6)
          << name_of(variant) << " " << m << " x " << n << " x " << k << " " << name_of(dtype);
    }
  }
}

// What the other rows are, and how many, changes no bit of a row.
TEST(GemmTest, ARowOfTilesDependsOnNoOtherRow) {
  Random random(fresh_seed());
  Gemm gemm;
  constexpr std::int64_t kRows = 41, kN = 45, kK = 500;
  const auto x = random_floats(random, kRows * kK);
  const TestWeights w(random, kN * kK, DType::kBF16);
  const auto product = [&](std::int64_t first, std::int64_t rows, Variant variant) {
    auto out = poisoned(rows * kN);
    gemm.run({.m = rows,
              .n = kN,
              .k = kK,
              .x = x.data() + first * kK,
              .x_stride = kK,
              .w = w.ref(),
              .bias = {},
              .out = out.data(),
              .out_stride = kN,
              .variant = variant,
              .path = Path::kTiles});
    return out;
  };
  for (const Variant variant : available_variants()) {
    const auto all = product(0, kRows, variant);
    for (const std::int64_t rows : {1, 2, 13, 16}) {
      const auto first = static_cast<std::int64_t>(random.below(kRows - rows));
      const auto some = product(first, rows, variant);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first * kN))
          << name_of(variant) << ", " << rows << " rows from " << first;
    }
  }
}

// The tiles round x themselves: as to_bfloat16() does, infinities and NaN included.
TEST(GemmTest, TilesRoundAsTheOwnLoopsDo) {
  Gemm gemm;
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {1.0f + 0x1p-8f,
                          1.0f + 0x3p-8f,
                          -(1.0f + 0x1p-8f) - 0x1p-20f,
                          0x1.fffffep127f,
                          inf,
                          -inf,
                          -0.0f,
                          0x1p-149f,
                          std::numeric_limits<float>::quiet_NaN()};
  const BFloat16 one = to_bfloat16(1.0f);
  const auto rows = std::ssize(x);
  for (const Variant variant : available_variants()) {
    for (const std::int64_t k : {1, 32}) {
      std::vector<float> padded(static_cast<std::size_t>(rows * k), 0.0f);
      for (std::int64_t i = 0; i < rows; ++i) {
        padded[static_cast<std::size_t>(i * k)] = x[static_cast<std::size_t>(i)];
      }
      std::vector<BFloat16> w(static_cast<std::size_t>(k), BFloat16{});
      w[0] = one;
      auto out = poisoned(rows);
      gemm.run({.m = rows,
                .n = 1,
                .k = k,
                .x = padded.data(),
                .x_stride = k,
                .w = {reinterpret_cast<const std::byte*>(w.data()), DType::kBF16},
                .bias = {},
                .out = out.data(),
                .out_stride = 1,
                .variant = variant,
                .path = Path::kTiles});
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const float wanted = to_float(to_bfloat16(x[at]));
        EXPECT_TRUE(out[at] == wanted || (std::isnan(out[at]) && std::isnan(wanted)))
            << name_of(variant) << ", k " << k << ": " << x[at] << " became " << out[at];
      }
    }
  }
}

TEST(GemmTest, SharesLargeWeightsAmongThreads) {
  Random random(fresh_seed());
  Gemm gemm;
  for (const std::int64_t m : {1, 3, 11}) {
    EXPECT_LT(error_of({m, 1031, 1030, DType::kBF16, true}, gemm, random), 2e-6);
    EXPECT_LT(error_of({m, 515, 1030, DType::kF32, false}, gemm, random), 2e-6);
  }
}

TEST(GemmTest, RoundsActivationsToBf16OnlyBesideBf16Weights) {
  Gemm gemm;
  const float x = 1.0f + 0x1p-12f;  // not a bf16
  const float one = 1.0f;
  const BFloat16 bf16_one = to_bfloat16(1.0f);
  float out = 0;
  gemm.run({.m = 1,
            .n = 1,
            .k = 1,
            .x = &x,
            .x_stride = 1,
            .w = {reinterpret_cast<const std::byte*>(&one), DType::kF32},
            .bias = {},
            .out = &out,
            .out_stride = 1});
  EXPECT_EQ(out, x);
  gemm.run({.m = 1,
            .n = 1,
            .k = 1,
            .x = &x,
            .x_stride = 1,
            .w = {reinterpret_cast<const std::byte*>(&bf16_one), DType::kBF16},
            .bias = {},
            .out = &out,
            .out_stride = 1});
  EXPECT_EQ(out, 1.0f);
}

}  // namespace
}  // namespace causeway::kernels::gemm::gemm_test
