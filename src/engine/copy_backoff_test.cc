#include "engine/copy_backoff.h"

#include <gtest/gtest.h>

namespace causeway::engine::copy_backoff_test {
namespace {

constexpr int kMax = CopyBackoff::kLossesMax;
constexpr Nanos kFirst = CopyBackoff::kFirst;
constexpr Nanos kStart = seconds(100);

CopyBackoff resting() {
  CopyBackoff backoff;
  for (int i = 0; i < kMax; ++i) backoff.lost(kStart);
  return backoff;
}

TEST(CopyBackoff, RestsAfterLossesInARow) {
  CopyBackoff backoff;
  for (int i = 0; i < kMax - 1; ++i) backoff.lost(kStart);
  EXPECT_FALSE(backoff.rests(kStart));
  backoff.moved();
  for (int i = 0; i < kMax - 1; ++i) backoff.lost(kStart);
  EXPECT_FALSE(backoff.rests(kStart));
  backoff.lost(kStart);
  EXPECT_TRUE(backoff.rests(kStart));
  EXPECT_TRUE(backoff.rests(kStart + kFirst - Nanos(1)));
  EXPECT_FALSE(backoff.rests(kStart + kFirst));
}

TEST(CopyBackoff, RestsTwiceAsLongWhenThatDidNotHelp) {
  CopyBackoff backoff = resting();
  backoff.lost(kStart + kFirst - Nanos(1));  // had been begun before
  Nanos now = kStart + kFirst;
  EXPECT_FALSE(backoff.rests(now));
  for (Nanos pause = kFirst * 2; pause < CopyBackoff::kLongest; pause = pause * 2) {
    backoff.lost(now);
    EXPECT_TRUE(backoff.rests(now + pause - Nanos(1)));
    now += pause;
    EXPECT_FALSE(backoff.rests(now));
  }
  for (int i = 0; i < 3; ++i) {
    backoff.lost(now);
    now += CopyBackoff::kLongest;
    EXPECT_FALSE(backoff.rests(now));
  }
}

TEST(CopyBackoff, OneThatWentWellMakesItTrusting) {
  CopyBackoff backoff = resting();
  const Nanos now = kStart + kFirst;
  backoff.moved();
  backoff.lost(now);
  EXPECT_FALSE(backoff.rests(now));
  for (int i = 1; i < kMax; ++i) backoff.lost(now);
  EXPECT_FALSE(backoff.rests(now + kFirst));
}

}  // namespace
}  // namespace causeway::engine::copy_backoff_test
