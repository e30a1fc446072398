#include "worker/restart.h"

#include <gtest/gtest.h>

namespace causeway::worker::restart_test {
namespace {

TEST(RestartTest, ThePauseBeginsWithTheSecondLossInARow) {
  const auto pause = [](std::int64_t losses) {
    return restart_pause(losses, millis(100), seconds(30));
  };
  EXPECT_EQ(pause(1), Nanos(0));
  EXPECT_EQ(pause(2), millis(100));
  EXPECT_EQ(pause(3), millis(200));
  EXPECT_EQ(pause(10), millis(25'600));
  EXPECT_EQ(pause(11), seconds(30));
  EXPECT_EQ(pause(std::int64_t{1} << 60), seconds(30));
}

TEST(RestartTest, APauseIsNeverLongerThanTheMost) {
  EXPECT_EQ(restart_pause(2, seconds(9), seconds(4)), seconds(4));
  EXPECT_EQ(restart_pause(5, Nanos(0), Nanos(0)), Nanos(0));
}

TEST(RestartTest, TheLineSaysEachPart) {
  RestartParts parts{.end = millis(882),
                     .hello = millis(130),
                     .prepare = millis(720),
                     .wait = millis(32),
                     .open = millis(210),
                     .all = millis(1092)};
  EXPECT_EQ(in_words(parts),
            "1092 ms after it was lost: end of the old process 882 ms, beside it start 130 ms and "
            "preparing 720 ms, waiting for that end 32 ms, opening 210 ms");
  parts.starts = 3;
  EXPECT_EQ(in_words(parts).substr(0, 36), "1092 ms and 3 starts after it was lo");
}

}  // namespace
}  // namespace causeway::worker::restart_test
