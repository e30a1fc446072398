#include "bench/prefix_bench.h"

#include <gtest/gtest.h>

namespace causeway::bench::prefix_bench_test {
namespace {

Samples of(double value) {
  Samples samples;
  samples.add(value);
  return samples;
}

TEST(PrefixFigures, CopiesMayTakeATenthMoreThanTheLinkNeeds) {
  PrefixReport report{.bytes = Bytes(1'000'000'000),
                      .link = 50e9,
                      .computed = of(500),
                      .in_hbm = of(30),
                      .in_host = of(61),
                      .found = 8000};
  const auto figures = prefix_figures(report);
  ASSERT_EQ(figures.size(), 3u);
  EXPECT_DOUBLE_EQ(figures[2].limit, 50);
  EXPECT_DOUBLE_EQ(figures[2].wanted, 22 + 30 + 10);
  EXPECT_TRUE(figures[2].met());
  report.in_host = of(62.1);
  EXPECT_FALSE(prefix_figures(report)[2].met());
}

}  // namespace
}  // namespace causeway::bench::prefix_bench_test
