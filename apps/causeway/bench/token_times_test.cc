#include "bench/token_times.h"

#include <gtest/gtest.h>

namespace causeway::bench::token_times_test {
namespace {

std::vector<double> gaps_of(const TokenTimes& times, Nanos from, Nanos to) {
  Samples gaps;
  times.add_gaps(from, to, gaps);
  return gaps.values;
}

TEST(TokenTimes, AGapCountsWhenAPartOfItLiesInTheTime) {
  const TokenTimes times{.at = {millis(0), millis(1), millis(3), millis(6), millis(10)}};
  EXPECT_EQ(gaps_of(times, millis(0), millis(10)), (std::vector<double>{1, 2, 3, 4}));
  // Also one that began before, or ends after.
  EXPECT_EQ(gaps_of(times, millis(2), millis(4)), (std::vector<double>{2, 3}));
  EXPECT_EQ(gaps_of(times, millis(1), millis(3)), (std::vector<double>{2}));
  EXPECT_EQ(gaps_of(times, millis(10), millis(20)), std::vector<double>());
  EXPECT_EQ(gaps_of({}, millis(0), millis(20)), std::vector<double>());
}

TEST(TokenTimesSink, TellsWhenATokenCameAndHowARequestEnded) {
  ManualClock clock;
  TokenTimesSink sink(clock);
  EXPECT_FALSE(sink.begun(RequestId(1), Nanos(0)));
  request::Output output;
  output.request = RequestId(1);
  output.tokens.resize(2);
  clock.set(millis(5));
  sink.on_outputs({output});
  EXPECT_TRUE(sink.begun(RequestId(1), Nanos(0)));
  EXPECT_EQ(sink.wait(RequestId(1), 2, Nanos(0)).value().at,
            (std::vector<Nanos>{millis(5), millis(5)}));
  EXPECT_EQ(sink.wait_for_end(RequestId(1), Nanos(0)).error().code, ErrorCode::kDeadlineExceeded);
  request::Output end;
  end.request = RequestId(1);
  end.finished = true;
  end.error = "it broke";
  sink.on_outputs({end});
  EXPECT_EQ(sink.wait_for_end(RequestId(1), Nanos(0)).error().message, "it broke");
}

}  // namespace
}  // namespace causeway::bench::token_times_test
