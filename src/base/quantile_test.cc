#include "base/quantile.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/units.h"

namespace causeway::quantile_test {
namespace {

TEST(Quantile, IsOneOfTheSortedValues) {
  const std::vector<double> values{5, 1, 4, 2, 3};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 0.3), 2);
  EXPECT_EQ(median(values), 3);
  EXPECT_EQ(quantile(values, 0.9), 5);
  EXPECT_EQ(quantile(values, 1), 5);
}

TEST(Quantile, BetweenTwoIsTheNearerOrTheLarger) {
  EXPECT_EQ(median(std::vector<int>{10, 20}), 20);
  EXPECT_EQ(quantile(std::vector<int>{10, 20}, 0.49), 10);
  EXPECT_EQ(median(std::vector<Nanos>{Nanos(4), Nanos(1), Nanos(3), Nanos(2)}), Nanos(3));
}

TEST(Quantile, OfManyIsTheirRank) {
  std::vector<int> values(1001);
  std::iota(values.rbegin(), values.rend(), 0);
  for (int rank = 0; rank <= 1000; ++rank) EXPECT_EQ(quantile(values, rank / 1000.0), rank);
}

TEST(QuantileDeath, ThereIsAValueAndAShare) {
  EXPECT_DEATH(median(std::vector<double>{}), "no value was measured");
  EXPECT_DEATH(quantile(std::vector<double>{1}, 1.1), "below 0 or above 1");
}

}  // namespace
}  // namespace causeway::quantile_test
