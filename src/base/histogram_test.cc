#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/random.h"

namespace causeway::histogram_test {
namespace {

TEST(Histogram, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.percentile(0.5), 0);
  EXPECT_EQ(histogram.mean(), 0.0);
}

TEST(Histogram, IsExactForSmallValues) {
  Histogram histogram;
  for (int i = 1; i <= 200; ++i) histogram.record(i);
  EXPECT_EQ(histogram.percentile(0.5), 100);
  EXPECT_EQ(histogram.percentile(0.99), 198);
  EXPECT_EQ(histogram.percentile(0), 1);
  EXPECT_EQ(histogram.percentile(1), 200);
  EXPECT_EQ(histogram.sum(), 20100.0);
}

TEST(Histogram, StaysWithinItsErrorOfTheExactPercentile) {
  constexpr std::uint64_t kSeed = 7;
  Random random(kSeed);
  Histogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<std::int64_t>(random.exponential(5e6)) << random.below(12);
    values.push_back(value);
    histogram.record(value);
  }
  std::sort(values.begin(), values.end());
  for (const double fraction : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999}) {
    const auto rank = static_cast<std::size_t>(std::ceil(fraction * 20'000)) - 1;
    const std::int64_t exact = values[rank];
    EXPECT_GE(histogram.percentile(fraction), exact) << fraction;
    EXPECT_LE(histogram.percentile(fraction), exact + exact / 128 + 1) << fraction;
  }
  EXPECT_EQ(histogram.max(), values.back());
  EXPECT_EQ(histogram.min(), values.front());
}

TEST(Histogram, TakesTheWholeRangeAndNegativeValues) {
  Histogram histogram;
  histogram.record(std::numeric_limits<std::int64_t>::max());
  histogram.record(-5);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(histogram.percentile(0.75), std::numeric_limits<std::int64_t>::max());
}

TEST(Histogram, MergingEqualsRecordingEverything) {
  constexpr std::uint64_t kSeed = 11;
  Random random(kSeed);
  Histogram parts[3];
  Histogram whole;
  for (int i = 0; i < 3000; ++i) {
    const std::int64_t value = random.below(std::int64_t{1} << (1 + i % 40));
    parts[i % 3].record(value, 2);
    whole.record(value, 2);
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.merge(part);
  EXPECT_EQ(merged.count(), whole.count());
  EXPECT_DOUBLE_EQ(merged.sum(), whole.sum());
  EXPECT_EQ(merged.min(), whole.min());
  for (int i = 0; i <= 100; ++i)
    EXPECT_EQ(merged.percentile(i / 100.0), whole.percentile(i / 100.0));
  merged.clear();
  EXPECT_EQ(merged.count(), 0);
}

TEST(Histogram, RecordsManyAsOneByOne) {
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    Histogram one_by_one, at_once;
    for (int call = 0; call < 4; ++call) {
      std::vector<std::int64_t> values;
      for (std::int64_t i = random.below(40); i > 0; --i) {
        values.push_back(random.between(-5, std::int64_t{1} << random.between(1, 40)));
      }
      for (const std::int64_t value : values) one_by_one.record(value);
      at_once.record(values);
    }
    EXPECT_EQ(one_by_one.count(), at_once.count());
    EXPECT_EQ(one_by_one.sum(), at_once.sum());
    EXPECT_EQ(one_by_one.min(), at_once.min());
    EXPECT_EQ(one_by_one.max(), at_once.max());
    for (int i = 0; i <= 20; ++i) {
      EXPECT_EQ(one_by_one.percentile(i / 20.0), at_once.percentile(i / 20.0));
    }
  }
}

}  // namespace
}  // namespace causeway::histogram_test
