#include "bench/zipf.h"

#include <gtest/gtest.h>

namespace causeway::bench::zipf_test {
namespace {

std::vector<int> counts(std::int64_t models, double exponent, int draws) {
  const Zipf zipf(models, exponent);
  Random random(3);
  std::vector<int> counts(static_cast<std::size_t>(models));
  for (int i = 0; i < draws; ++i) ++counts[static_cast<std::size_t>(zipf.choose(random))];
  return counts;
}

TEST(Zipf, TheNthIsChosenAnNthAsOften) {
  const auto seen = counts(4, 1, 100'000);
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_NEAR(seen[i], seen[0] / static_cast<double>(i + 1), 800) << i;
  }
}

TEST(Zipf, WithoutAnExponentAllAreChosenAlike) {
  const auto all = counts(5, 0, 50'000);
  ASSERT_EQ(all.size(), 5u);
  for (const int seen : all) EXPECT_NEAR(seen, 10'000, 500);
}

TEST(Zipf, OneIsAlwaysChosen) { EXPECT_EQ(counts(1, 1, 100), std::vector<int>{100}); }

}  // namespace
}  // namespace causeway::bench::zipf_test
