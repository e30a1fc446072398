#include "kernels/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include "kernels/testing/near.h"

namespace causeway::kernels::rms_norm::rms_norm_test {
namespace {

using testing::fresh_seed;
using testing::poisoned;
using testing::random_floats;
using testing::relative_error;
using testing::TestWeights;

TEST(RmsNormTest, EveryVariantAgreesWithDoublePrecision) {
  Random random(fresh_seed());
  for (const Variant variant : available_variants()) {
    for (const std::int64_t size : {1, 3, 8, 17, 31, 64, 129, 2048}) {
      for (const DType dtype : {DType::kBF16, DType::kF32}) {
        const std::int64_t outer = random.between(1, 5), inner = random.between(1, 3);
        const std::int64_t stride = inner * size + 2;
        const auto x = random_floats(random, outer * stride, 3);
        const TestWeights w(random, size, dtype);
        const float offset = size % 2 == 0 ? 0 : 1;
        auto out = poisoned(outer * inner * size);
        run({.outer = outer,
             .inner = inner,
             .size = size,
             .x = x.data(),
             .x_outer_stride = stride,
             .weight = w.ref(),
             .offset = offset,
             .epsilon = 1e-3f,
             .out = out.data(),
             .out_outer_stride = inner * size,
             .variant = variant});
        std::vector<double> exact;
        for (std::int64_t row = 0; row < outer * inner; ++row) {
          const float* in = x.data() + row / inner * stride + row % inner * size;
          double squares = 0;
          for (std::int64_t i = 0; i < size; ++i) squares += double{in[i]} * in[i];
          const double scale = 1 / std::sqrt(squares / static_cast<double>(size) + 1e-3);
          for (std::int64_t i = 0; i < size; ++i) {
            exact.push_back(in[i] * scale * (offset + w.values[static_cast<std::size_t>(i)]));
          }
        }
        EXPECT_LT(relative_error(out, exact), 1e-6) << name_of(variant) << ", size " << size;
      }
    }
  }
}

}  // namespace
}  // namespace causeway::kernels::rms_norm::rms_norm_test
