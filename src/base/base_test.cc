#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <limits>
#include <memory>
#include <set>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/units.h"

namespace causeway::base_test {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return invalid_argument("odd number");
  return n / 2;
}

Result<int> quarter(int n) {
  CAUSEWAY_ASSIGN(const int once, half(n));
  CAUSEWAY_ASSIGN(const int twice, half(once));
  return twice;
}

Status check_even(int n) {
  CAUSEWAY_TRY(half(n));
  return {};
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).error().message, "odd number");
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_EQ(check_even(3).error().code, ErrorCode::kInvalidArgument);
}

TEST(Result, ContextIsPrepended) {
  EXPECT_EQ(quarter(3).with_context("model.safetensors").error().message,
            "model.safetensors: odd number");
  EXPECT_EQ(quarter(4).with_context("unused").value(), 1);
}

TEST(Result, MovesMoveOnlyValues) {
  Result<std::unique_ptr<int>> boxed(std::make_unique<int>(7));
  EXPECT_EQ(*std::move(boxed).value(), 7);
}

TEST(Result, IoErrorNamesTheCause) {
  EXPECT_NE(io_error("open x", ENOENT).message.find("No such file"), std::string::npos);
}

TEST(ResultDeath, ValueOfAnErrorAborts) {
  EXPECT_DEATH(half(3).value(), "odd number");
}

TEST(Units, RoundUp) {
  EXPECT_EQ(round_up(Bytes(1), kib(4)), Bytes(4096));
  EXPECT_EQ(round_up(Bytes(4096), kib(4)), Bytes(4096));
  EXPECT_EQ(round_up(Bytes(0), kib(4)), Bytes(0));
}

TEST(Units, IdsStartInvalid) {
  EXPECT_FALSE(FrameId().valid());
  EXPECT_TRUE(FrameId(0).valid());
}

TEST(Units, SecondsBecomeTheNearestNanosThatFit) {
  EXPECT_EQ(nanos_from_seconds(1.5), millis(1'500));
  EXPECT_EQ(nanos_from_seconds(-0.25), millis(-250));
  const Nanos most(std::numeric_limits<std::int64_t>::max());
  const Nanos least(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(nanos_from_seconds(1e10), most);
  EXPECT_EQ(nanos_from_seconds(-1e10), least);
  EXPECT_EQ(nanos_from_seconds(std::numeric_limits<double>::infinity()), most);
  EXPECT_EQ(nanos_from_seconds(-std::numeric_limits<double>::infinity()), least);
  EXPECT_EQ(nanos_from_seconds(std::nan("")), Nanos(0));
  // 2^63 ns as a double is one more than fits; the double before it fits.
  EXPECT_EQ(nanos_from_seconds(9223372036.854775808), most);
  EXPECT_LT(nanos_from_seconds(9223372036.8547), most);
}

TEST(Random, SameSeedSameSequence) {
  Random a(42), b(42), c(43);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const auto x = a.bits();
    EXPECT_EQ(x, b.bits());
    differs |= x != c.bits();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, BelowCoversItsRangeEvenly) {
  Random random(1);
  int counts[7] = {};
  for (int i = 0; i < 70'000; ++i) ++counts[random.below(7)];
  for (const int n : counts) EXPECT_NEAR(n, 10'000, 500);
}

TEST(Random, MomentsOfItsDistributions) {
  Random random(2);
  double normal_squares = 0, exponential_sum = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    normal_squares += x * x;
    exponential_sum += random.exponential(3.0);
  }
  EXPECT_NEAR(normal_squares / kDraws, 1.0, 0.02);
  EXPECT_NEAR(exponential_sum / kDraws, 3.0, 0.05);
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock(seconds(5));
  EXPECT_EQ(clock.now(), seconds(5));
  clock.advance(millis(1));
  EXPECT_EQ(clock.now(), seconds(5) + millis(1));
}

TEST(RealClock, NeverRunsBackwards) {
  RealClock clock;
  Nanos last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const Nanos now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace causeway::base_test
