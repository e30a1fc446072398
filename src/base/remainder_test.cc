#include "base/remainder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/random.h"

namespace causeway::remainder_test {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

void expect_as_divided(std::uint64_t value, std::uint64_t divisor) {
  EXPECT_EQ(Remainder(divisor).of(value), value % divisor) << value << " by " << divisor;
}

TEST(Remainder, IsAsDivided) {
  Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    // Values and divisors of all lengths.
    const std::uint64_t value = random.bits() >> random.below(64);
    const std::uint64_t divisor = (random.bits() >> random.below(64)) | 1;
    expect_as_divided(value, divisor);
    expect_as_divided(kMost - value, divisor);
    expect_as_divided(value, divisor + (divisor < kMost ? 1 : 0));
  }
}

TEST(Remainder, IsAsDividedAtTheBorders) {
  for (int bits = 0; bits < 64; ++bits) {
    const std::uint64_t power = std::uint64_t{1} << bits;
    for (const std::uint64_t divisor : {power, power + 1, std::max<std::uint64_t>(1, power - 1)}) {
      const std::uint64_t most = kMost / divisor * divisor;
      for (const std::uint64_t value : {std::uint64_t{0}, divisor - 1, divisor, most - 1, most}) {
        expect_as_divided(value, divisor);
      }
      expect_as_divided(kMost, divisor);
    }
  }
}

}  // namespace
}  // namespace causeway::remainder_test
