#include "simulate/link_rates.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace causeway::simulate::link_rates_test {
namespace {

TEST(LinkRates, ACopyGoesOnWhereTheLinkLeftIt) {
  LinkRates rates;
  EXPECT_EQ(rates.end_of(Nanos(5), Nanos(7)), Nanos(12));
  rates.add(Nanos(100), Nanos(200), 0);
  rates.add(Nanos(300), Nanos(400), 0.5);
  EXPECT_EQ(rates.end_of(Nanos(0), Nanos(100)), Nanos(100));
  EXPECT_EQ(rates.end_of(Nanos(0), Nanos(101)), Nanos(201));
  EXPECT_EQ(rates.end_of(Nanos(150), Nanos(10)), Nanos(210));
  EXPECT_EQ(rates.end_of(Nanos(290), Nanos(30)), Nanos(340));
  EXPECT_EQ(rates.end_of(Nanos(0), Nanos(300)), Nanos(450));
  EXPECT_EQ(rates.end_of(Nanos(500), Nanos(3)), Nanos(503));
}

TEST(LinkRates, TheLeastShareCountsWhereSpansOverlap) {
  LinkRates rates;
  rates.add(Nanos(0), Nanos(100), 0.5);
  rates.add(Nanos(50), Nanos(150), 0);
  EXPECT_EQ(rates.whole_time(Nanos(0), Nanos(50)), Nanos(25));
  EXPECT_EQ(rates.whole_time(Nanos(0), Nanos(200)), Nanos(75));
  EXPECT_EQ(rates.end_of(Nanos(0), Nanos(26)), Nanos(151));
}

// Against steps of a nanosecond.
TEST(LinkRates, AsSteppedOneByOne) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    LinkRates rates;
    double share[300];
    for (double& one : share) one = 1;
    for (std::int64_t spans = random.below(4); spans > 0; --spans) {
      const std::int64_t from = random.below(150), until = random.between(from, 200);
      const double least = 0.5 * static_cast<double>(random.below(3));
      rates.add(Nanos(from), Nanos(until), least);
      for (std::int64_t i = from; i < until; ++i) share[i] = std::min(share[i], least);
    }
    const std::int64_t begins = random.below(150), takes = random.between(1, 60);
    double left = static_cast<double>(takes);
    std::int64_t at = begins;
    for (; left > 0; ++at) left -= share[at];
    const Nanos ends = rates.end_of(Nanos(begins), Nanos(takes));
    // Halves of a nanosecond are lost at the borders of spans.
    EXPECT_NEAR(static_cast<double>(ends.count), static_cast<double>(at), 4) << "seed " << seed;
    EXPECT_NEAR(static_cast<double>(rates.whole_time(Nanos(begins), ends).count),
                static_cast<double>(takes), 4)
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace causeway::simulate::link_rates_test
