#include "transfer/link_lease.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "transfer/link_shares.h"

namespace causeway::transfer::link_lease_test {
namespace {

using device::CopyPriority;

constexpr LinkRates kLeast{.in = 2e9, .out = 1e9};
constexpr Nanos kBegun = seconds(100);

LinkWants of_weights(double rate) {
  LinkWants wants;
  wants.in[static_cast<std::size_t>(CopyPriority::kWeightsAhead)] = rate;
  return wants;
}

double wanted_weights(const LinkAsk& ask) {
  return ask.wants.in[static_cast<std::size_t>(CopyPriority::kWeightsAhead)];
}

LinkLease lease(std::int64_t number, Nanos asked, LinkRates share, LinkRates offer = {}) {
  return {.number = number, .asked = asked, .length = kLeaseLength, .share = share, .offer = offer};
}

TEST(HeldLease, WhatCopiesIsCountedByTheShareAndWhatDoesNotByTheOffer) {
  HeldLease held(kLeast, kBegun);
  ASSERT_TRUE(held.ask({}, kBegun));
  ASSERT_TRUE(held.take(lease(1, kBegun, {10e9, 5e9}, {40e9, 30e9}), kBegun + millis(1)).ok());
  EXPECT_EQ(held.rates(kBegun + millis(1)).in, 40e9);
  EXPECT_EQ(held.rates(kBegun + millis(1)).out, 30e9);
  ASSERT_TRUE(held.ask(of_weights(50e9), kBegun + millis(2)));
  EXPECT_EQ(held.rates(kBegun + millis(2)).in, 10e9);
  EXPECT_EQ(held.rates(kBegun + millis(2)).out, 30e9);
  EXPECT_EQ(held.share(kBegun + millis(2)).out, 5e9);
}

// A model may be attached, and its time a token foretold, before the first lease comes.
TEST(HeldLease, UntilTheFirstLeaseWholeLinksAreOffered) {
  HeldLease held(kLeast, kBegun);
  EXPECT_GT(held.rates(kBegun).in, 1e15);
  EXPECT_EQ(held.share(kBegun).in, kLeast.in);
  EXPECT_EQ(held.rates(kBegun + kLeaseLength).in, kLeast.in);
}

TEST(HeldLease, EndsByItselfAndLeavesTheLeast) {
  HeldLease held(kLeast, kBegun);
  ASSERT_TRUE(held.ask(of_weights(50e9), kBegun));
  ASSERT_TRUE(held.take(lease(1, kBegun, {10e9, 5e9}, {40e9, 30e9}), kBegun + millis(400)).ok());
  EXPECT_EQ(held.rates(kBegun + kLeaseLength - Nanos(1)).in, 10e9);
  EXPECT_EQ(held.next(kBegun + millis(1)), kBegun + kLeaseLength / 2);
  for (const Nanos after : {kBegun + kLeaseLength, kBegun + seconds(1000)}) {
    EXPECT_EQ(held.rates(after).in, kLeast.in);
    EXPECT_EQ(held.rates(after).out, kLeast.out);
  }
}

TEST(HeldLease, OneThatComesTooLateIsWorthNothing) {
  HeldLease held(kLeast, kBegun);
  ASSERT_TRUE(held.ask(of_weights(50e9), kBegun));
  ASSERT_TRUE(held.take(lease(1, kBegun, {10e9, 5e9}), kBegun + kLeaseLength).ok());
  EXPECT_EQ(held.share(kBegun + kLeaseLength).in, kLeast.in);
  EXPECT_EQ(held.next(kBegun + kLeaseLength), kBegun + kLeaseLength / 2);
}

TEST(HeldLease, IsAskedForAgainInTimeAndWhenSomethingElseIsWanted) {
  HeldLease held(kLeast, kBegun);
  ASSERT_TRUE(held.ask(of_weights(50e9), kBegun));
  EXPECT_FALSE(held.ask(of_weights(50e9), kBegun + millis(1)));
  EXPECT_EQ(wanted_weights(held.ask(of_weights(60e9), kBegun + millis(2)).value()), 60e9);
  const Nanos again = kBegun + millis(2) + kLeaseLength / 2;
  EXPECT_FALSE(held.ask(of_weights(60e9), again - Nanos(1)));
  EXPECT_TRUE(held.ask(of_weights(60e9), again));
}

TEST(HeldLease, WhatIsWantedIsGivenBackALittleLater) {
  HeldLease held(kLeast, kBegun);
  ASSERT_TRUE(held.ask(of_weights(50e9), kBegun));
  EXPECT_FALSE(held.ask({}, kBegun + millis(10)));
  EXPECT_FALSE(held.ask(of_weights(50e9), kBegun + millis(20)));
  EXPECT_FALSE(held.ask({}, kBegun + millis(69)));
  EXPECT_EQ(wanted_weights(held.ask({}, kBegun + millis(70)).value()), 0);
}

// The supervisor waits for it: another is to have what this one had.
TEST(HeldLease, AShareThatShrinksIsSaidToApplyAtOnce) {
  HeldLease held(kLeast, kBegun);
  ASSERT_TRUE(held.ask(of_weights(50e9), kBegun));
  ASSERT_TRUE(held.take(lease(1, kBegun, {10e9, 5e9}), kBegun).ok());
  EXPECT_FALSE(held.ask(of_weights(50e9), kBegun + millis(1)));
  ASSERT_TRUE(held.take(lease(2, kBegun, {10e9, 4e9}), kBegun + millis(1)).ok());
  EXPECT_EQ(held.ask(of_weights(50e9), kBegun + millis(1))->applied, 2);
  EXPECT_FALSE(held.ask(of_weights(50e9), kBegun + millis(2)));
  ASSERT_TRUE(held.take(lease(1, kBegun, {30e9, 30e9}), kBegun + millis(2)).ok());  // an old one
  EXPECT_EQ(held.share(kBegun + millis(2)).in, 10e9);
}

TEST(HeldLease, WhatMakesNoSenseIsRefused) {
  HeldLease held(kLeast, kBegun);
  const auto code = [&](const LinkLease& bad) { return held.take(bad, kBegun).error().code; };
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(code(lease(1, kBegun + Nanos(1), {1e9, 1e9})), ErrorCode::kCorrupt);
  EXPECT_EQ(code(lease(1, Nanos(-1), {1e9, 1e9})), ErrorCode::kCorrupt);
  EXPECT_EQ(code(lease(1, kBegun, {-1, 1e9})), ErrorCode::kCorrupt);
  EXPECT_EQ(code(lease(1, kBegun, {1e9, infinite})), ErrorCode::kCorrupt);
  EXPECT_EQ(code(lease(1, kBegun, {1e9, 1e9}, {std::nan(""), 1e9})), ErrorCode::kCorrupt);
  LinkLease endless = lease(1, kBegun, {1e9, 1e9});
  endless.length = kLeaseLength + Nanos(1);
  EXPECT_EQ(code(endless), ErrorCode::kCorrupt);
  endless.length = Nanos(-1);
  EXPECT_EQ(code(endless), ErrorCode::kCorrupt);
  EXPECT_EQ(held.share(kBegun).in, kLeast.in);
}

// Over relays, too: each link brings bytes from host memory once.
TEST(LeasedWays, EveryPathToHostMemoryCrossesThem) {
  device::LinkProfile profile = device::make_link_tree({.devices = 2, .link = 50e9});
  profile.paths.front().costs.assign(profile.paths.front().route.size(), 1);
  const LeasedWays ways = add_leased_ways(profile);
  ASSERT_TRUE(device::check(profile).ok());
  LinkShares shares(profile);
  const auto claim =
      shares.claim(CopyPriority::kWeightsAhead,
                   shares.routes_in({.target = 0, .links = LinkSet::first(2)}).value());
  const auto out = shares.claim(CopyPriority::kKvOut,
                                shares.routes_out({.target = 1, .links = LinkSet::of(1)}).value());
  EXPECT_NEAR(claim->rate(), 100e9, 1);
  EXPECT_EQ(shares.wanted(ways.in), RatesByPurpose());
  claim->begin();
  shares.set_capacity(ways.in, 30e9);
  EXPECT_NEAR(claim->rate(), 30e9, 1);
  EXPECT_NEAR(out->rate(), 50e9, 1);
  const RatesByPurpose wanted = shares.wanted(ways.in);
  EXPECT_NEAR(wanted[static_cast<std::size_t>(CopyPriority::kWeightsAhead)], 100e9, 1);
  EXPECT_EQ(shares.wanted(ways.out), RatesByPurpose());
  shares.check_integrity();
  shares.set_capacity(ways.in, std::numeric_limits<double>::infinity());
  EXPECT_NEAR(claim->rate(), 100e9, 1);
  claim->end();
  shares.check_integrity();
}

}  // namespace
}  // namespace causeway::transfer::link_lease_test
