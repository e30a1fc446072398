// Against the processor's division: small divisors, those around powers of two, any, and what lies
// around their multiples.
#include "kernels/moe/cuda_divider.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/random.h"
#include "kernels/testing/near.h"

namespace causeway::kernels::moe::cuda_divider_test {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<int>::max();

void expect_divides(int divisor, Random& random) {
  const Divider divider(divisor);
  for (int i = 0; i < 100; ++i) {
    const std::int64_t any = i == 0 ? kMost : random.between(0, kMost);
    const std::int64_t multiple = any / divisor * divisor;
    for (const std::int64_t n : {any, multiple, multiple - 1, std::int64_t{i}}) {
      if (n < 0) continue;
      ASSERT_EQ(divider.of(static_cast<int>(n)), n / divisor) << n << " ÷ " << divisor;
    }
  }
}

TEST(Divider, DividesAsTheProcessorDoes) {
  Random random(testing::fresh_seed());
  for (int divisor = 1; divisor < 600; ++divisor) expect_divides(divisor, random);
  for (int bits = 1; bits < 31; ++bits) {
    for (const int off : {-1, 0, 1}) expect_divides((1 << bits) + off, random);
  }
  for (int i = 0; i < 1000; ++i) {
    expect_divides(static_cast<int>(random.between(1, kMost)), random);
  }
}

}  // namespace
}  // namespace causeway::kernels::moe::cuda_divider_test
