#include "bench/kv_figures.h"

#include <gtest/gtest.h>

namespace causeway::bench::kv_figures_test {
namespace {

TEST(KvFigures, AreRatesBesideTheRawLimit) {
  KvWayRates ours{.what = "ours, duplex", .wanted = 0.97};
  for (const std::int64_t ms : {100, 99, 98, 102, 101}) {
    ours.add(Bytes(9'800'000'000), millis(ms));
  }
  KvWayRates loop{.what = "per-layer loop", .model = "small"};
  loop.add(Bytes(1'000'000'000), seconds(1));
  const auto figures = kv_figures({loop, ours}, 100);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].label(), "per-layer loop, small");
  EXPECT_DOUBLE_EQ(figures[0].measured, 1);
  EXPECT_EQ(figures[0].unit, "GB/s");
  EXPECT_TRUE(figures[0].met());
  EXPECT_DOUBLE_EQ(figures[1].measured, 98);
  EXPECT_DOUBLE_EQ(figures[1].limit, 100);
  EXPECT_DOUBLE_EQ(figures[1].wanted, 97);
  EXPECT_TRUE(figures[1].met());
  EXPECT_FALSE(kv_figures({ours}, 102).front().met());
  EXPECT_EQ(figures[1].samples, 5);
}

}  // namespace
}  // namespace causeway::bench::kv_figures_test
