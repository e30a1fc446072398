#include "bench/server/measure.h"

#include <gtest/gtest.h>

namespace causeway::server::measure_test {
namespace {

TEST(Measure, EveryStreamIsCompleteAndTimed) {
  const RealClock clock;
  const auto first = measure_first_byte(8, 4, 3, 2, clock);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->load.complete, 24);
  EXPECT_EQ(first->load.failed, 0);
  EXPECT_EQ(first->load.first_byte_ns.count(), 24);
  const auto many = measure_concurrency(50, 4, 2, clock);
  ASSERT_TRUE(many.ok()) << many.error().message;
  EXPECT_EQ(many->load.complete, 50);
  EXPECT_NE(to_json({*first, *many}).find("\"streams_complete\":50"), std::string::npos);
}

}  // namespace
}  // namespace causeway::server::measure_test
