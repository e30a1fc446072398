#include "simulate/home_read.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace causeway::simulate::home_read_test {
namespace {

TEST(HomeRead, HasTheLinkWhereNothingIsCopied) {
  const HomeRead read = read_beside({}, millis(5), millis(3));
  EXPECT_EQ(read.end, millis(8));
  EXPECT_EQ(read.delays, Nanos(0));
}

TEST(HomeRead, IsOverBeforeACopyBegins) {
  const std::vector<LinkUse> copies = {{millis(0), millis(4)}, {millis(8), millis(20)}};
  const HomeRead read = read_beside(copies, millis(5), millis(3));
  EXPECT_EQ(read.end, millis(8));
  EXPECT_EQ(read.delays, Nanos(0)) << "the first copy has ended, the second has not begun";
}

TEST(HomeRead, SharesTheLinkWithACopy) {
  const std::vector<LinkUse> copies = {{millis(0), millis(20)}};
  const HomeRead within = read_beside(copies, millis(5), millis(3));
  EXPECT_EQ(within.end, millis(11)) << "half of the link";
  EXPECT_EQ(within.delays, millis(3));
  const HomeRead beyond = read_beside(copies, millis(5), millis(40));
  EXPECT_EQ(beyond.end, millis(60)) << "all of it once the copy has ended";
  EXPECT_EQ(beyond.delays, millis(15));
}

TEST(HomeRead, WhatIsLaterStandsLaterInTheWay) {
  const std::vector<LinkUse> copies = {{millis(0), millis(10)}, {millis(12), millis(14)}};
  // Beside the first until 20, alone until 22, then beside the second, which is 10 later.
  const HomeRead read = read_beside(copies, millis(0), millis(13));
  EXPECT_EQ(read.end, millis(24));
  EXPECT_EQ(read.delays, millis(11));
}

// The link is never given to more than it can do, and the read is not slower than half.
TEST(HomeRead, TakesWhatThereIs) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    std::vector<LinkUse> copies;
    Nanos busy, last;
    const Nanos at(random.between(0, 1000));
    for (std::int64_t i = random.between(0, 6); i > 0; --i) {
      const Nanos begin = last + Nanos(random.between(0, 200));
      last = begin + Nanos(random.between(1, 300));
      copies.push_back({begin, last});
      busy += std::max(Nanos(0), last - std::max(begin, at));
    }
    const Nanos takes(random.between(0, 2000));
    const HomeRead read = read_beside(copies, at, takes);
    ASSERT_GE(read.end, at + takes) << "seed " << seed;
    ASSERT_EQ(read.end - at - takes, read.delays) << "seed " << seed << ": what they share it both";
    ASSERT_LE(read.delays, std::min(takes, busy)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace causeway::simulate::home_read_test
