#include "schedule/future_peak.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace causeway::schedule::future_peak_test {
namespace {

TEST(LengthHistory, DrawsFromThoseThatAreLonger) {
  LengthHistory history;
  EXPECT_EQ(history.longer_than(Tokens(5), 0.5, Tokens(99)), Tokens(99));
  for (const int length : {40, 10, 30, 20}) history.record(Tokens(length));
  EXPECT_EQ(history.longer_than(Tokens(0), 0.0, Tokens(99)), Tokens(10));
  EXPECT_EQ(history.longer_than(Tokens(0), 0.99, Tokens(99)), Tokens(40));
  EXPECT_EQ(history.longer_than(Tokens(20), 0.0, Tokens(99)), Tokens(30));
  EXPECT_EQ(history.longer_than(Tokens(40), 0.0, Tokens(99)), Tokens(99));
}

TEST(LengthHistory, ForgetsTheOldest) {
  LengthHistory history(3);
  for (int length = 1; length <= 10; ++length) history.record(Tokens(length));
  EXPECT_EQ(history.size(), 3);
  EXPECT_EQ(history.longer_than(Tokens(0), 0.0, Tokens(99)), Tokens(8));
}

TEST(FuturePeak, OfNobodyIsNothing) { EXPECT_EQ(future_peak({}), 0.0); }

TEST(FuturePeak, IsThatOfStepByStep) {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<FutureUse> uses;
    for (std::int64_t i = random.between(1, 12); i > 0; --i) {
      uses.push_back({.frames = static_cast<double>(random.between(0, 20)),
                      .frames_per_step = 1.0 / static_cast<double>(random.between(1, 8)),
                      .steps_left = random.between(0, 50)});
    }
    double peak = 0;
    for (std::int64_t step = 0; step <= 50; ++step) {
      double sum = 0;
      for (const FutureUse& use : uses) {
        if (use.steps_left < step) continue;
        sum += use.frames + use.frames_per_step * static_cast<double>(step);
      }
      peak = std::max(peak, sum);
    }
    EXPECT_NEAR(future_peak(uses), peak, 1e-9);
  }
}

}  // namespace
}  // namespace causeway::schedule::future_peak_test
