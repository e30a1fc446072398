#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include "kernels/testing/near.h"

namespace causeway::kernels::rope::rope_test {
namespace {

using testing::fresh_seed;
using testing::random_floats;
using testing::relative_error;

TEST(RopeTest, EveryVariantRotatesByPositionTimesFrequency) {
  Random random(fresh_seed());
  for (const Variant variant : available_variants()) {
    for (const std::int64_t size : {2, 6, 16, 64, 80, 128}) {
      const auto frequency = frequencies(size, 10000);
      const std::vector<std::int64_t> positions = {0, 1, 77, 130'000, random.below(1 << 20)};
      const std::int64_t tokens = std::ssize(positions), heads = 3, stride = heads * size + 1;
      std::vector<float> table(static_cast<std::size_t>(tokens * size));
      fill_table({.frequencies = frequency, .size = size}, positions, table.data());
      const auto before = random_floats(random, tokens * stride);
      auto x = before;
      run({.tokens = tokens,
           .heads = heads,
           .size = size,
           .table = table.data(),
           .x = x.data(),
           .x_stride = stride,
           .variant = variant});
      std::vector<double> exact(before.begin(), before.end());
      for (std::int64_t row = 0; row < tokens * heads; ++row) {
        const std::int64_t t = row / heads, at = t * stride + row % heads * size;
        for (std::int64_t i = 0; i < size / 2; ++i) {
          const double angle =
              static_cast<double>(positions[static_cast<std::size_t>(t)]) *
              std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(size));
          const auto low = static_cast<std::size_t>(at + i);
          const auto high = static_cast<std::size_t>(at + i + size / 2);
          const double a = before[low], b = before[high];
          exact[low] = a * std::cos(angle) - b * std::sin(angle);
          exact[high] = b * std::cos(angle) + a * std::sin(angle);
        }
      }
      EXPECT_LT(relative_error(x, exact), 1e-6) << name_of(variant) << ", size " << size;
    }
  }
}

TEST(RopeTest, PairsWithoutAFrequencyStayAsTheyAre) {
  const std::vector<double> two = {1, 0.25};
  const std::vector<std::int64_t> positions = {0, 3, 70'000};
  std::vector<float> table(3 * 10);
  fill_table({.frequencies = two, .size = 10, .amplitude = 1.5}, positions, table.data());
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t i = 0; i < 5; ++i) {
      const double angle = i < 2 ? static_cast<double>(positions[t]) * two[i] : 0;
      const double amplitude = i < 2 ? 1.5 : 1;
      EXPECT_FLOAT_EQ(table[t * 10 + i], static_cast<float>(amplitude * std::cos(angle)));
      EXPECT_FLOAT_EQ(table[t * 10 + 5 + i], static_cast<float>(amplitude * std::sin(angle)));
    }
  }
}

}  // namespace
}  // namespace causeway::kernels::rope::rope_test
