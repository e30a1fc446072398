#include "transfer/link_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/random.h"
#include "transfer/testing/machines.h"

namespace causeway::transfer::link_shares_test {
namespace {

using device::CopyPriority;

// Two GPUs on links of 50 GB/s behind one socket that gives 60.
device::LinkProfile one_socket() {
  return device::make_link_tree(
      {.devices = 2, .link = 50e9, .devices_per_switch = 2, .switch_link = 60e9});
}

std::unique_ptr<LinkClaim> claim(LinkShares& shares, int target, LinkSet links,
                                 CopyPriority purpose = CopyPriority::kWeightsAhead,
                                 double rate_max = 0) {
  auto routes = shares.routes_in({.target = target, .links = links, .rate_max = rate_max});
  EXPECT_TRUE(routes.ok());
  return shares.claim(purpose, *std::move(routes));
}

double reserved(const LinkShares& shares) {
  double sum = 0;
  for (int r = 0; r < std::ssize(shares.resources()); ++r) sum += shares.reserved(r);
  return sum;
}

TEST(LinkShares, TwoBehindOneSocketGetHalfOfItEach) {
  LinkShares shares(one_socket());
  const auto a = claim(shares, 0, LinkSet::of(0));
  const auto b = claim(shares, 1, LinkSet::of(1));
  EXPECT_NEAR(a->rate(), 50e9, 1);  // what it would get
  EXPECT_EQ(reserved(shares), 0);
  a->begin();
  EXPECT_NEAR(a->rate(), 50e9, 1);
  EXPECT_NEAR(b->rate(), 30e9, 1);
  b->begin();
  EXPECT_NEAR(a->rate(), 30e9, 1);
  EXPECT_NEAR(b->rate(), 30e9, 1);
  shares.check_integrity();
  a->end();
  EXPECT_NEAR(a->rate(), 30e9, 1);
  EXPECT_NEAR(b->rate(), 50e9, 1);
  b->end();
  b->end();
  EXPECT_EQ(reserved(shares), 0);
  shares.check_integrity();
}

// One that can use less leaves the rest to the others.
TEST(LinkShares, WhatOneCannotUseTheOthersGet) {
  LinkShares shares(one_socket());
  const auto slow =
      claim(shares, 0, LinkSet::of(0), CopyPriority::kWeightsAhead, /*rate_max=*/20e9);
  const auto fast = claim(shares, 1, LinkSet::of(1));
  slow->begin();
  fast->begin();
  EXPECT_NEAR(slow->rate(), 20e9, 1);
  EXPECT_NEAR(fast->rate(), 40e9, 1);
}

TEST(LinkShares, LinksOfAClaimAreDividedOneByOne) {
  LinkShares shares(device::make_link_tree({.devices = 3, .link = 50e9}));
  const auto all = claim(shares, 0, LinkSet::first(3));
  EXPECT_NEAR(all->rate(), 150e9, 1);
  all->begin();
  const auto own = claim(shares, 1, LinkSet::of(1));
  own->begin();
  EXPECT_NEAR(own->rate(), 25e9, 1);
  EXPECT_NEAR(all->rate(), 125e9, 1);
  // By the map they give less together than the sum.
  const auto by_map =
      claim(shares, 2, LinkSet::of(2).with(1), CopyPriority::kPromotion, /*rate_max=*/10e9);
  all->end();
  own->end();
  EXPECT_NEAR(by_map->rate(), 10e9, 1);
  shares.check_integrity();
}

// Each way has a link's rate of its own, as long as both together do not take more than it has.
TEST(LinkShares, RoutesLeadOutToo) {
  LinkShares shares(
      device::make_link_tree({.devices = 2, .link = 50e9, .link_duplex = 90e9, .peer_link = 20e9}));
  const auto in = claim(shares, 0, LinkSet::of(0), CopyPriority::kKvIn);
  const auto routes = shares.routes_out({.target = 0, .links = LinkSet::first(2)});
  ASSERT_TRUE(routes.ok());
  const auto out = shares.claim(CopyPriority::kKvOut, *routes);
  EXPECT_NEAR(in->rate(), 50e9, 1);
  EXPECT_NEAR(out->rate(), 70e9, 1);  // 20 of them by the other GPU
  in->begin();
  EXPECT_NEAR(out->rate(), 60e9, 1);
  out->begin();
  EXPECT_NEAR(in->rate(), 50e9, 1);
  shares.check_integrity();
  in->end();
  out->end();
}

TEST(LinkShares, TheMostUrgentPurposeComesFirstAndMayTakeAll) {
  LinkShares shares(device::make_link_tree({.devices = 1, .link = 50e9}));
  const auto weights = claim(shares, 0, LinkSet::of(0));
  const auto kv = claim(shares, 0, LinkSet::of(0), CopyPriority::kKvIn);
  weights->begin();
  kv->begin();
  EXPECT_NEAR(kv->rate(), 50e9, 1);
  EXPECT_NEAR(weights->rate(), 0, 1e3);
  shares.check_integrity();
  kv->end();
  EXPECT_NEAR(weights->rate(), 50e9, 1);
}

TEST(LinkShares, AClaimThatGoesGivesBackWhatItHad) {
  LinkShares shares(one_socket());
  auto a = claim(shares, 0, LinkSet::of(0));
  const auto b = claim(shares, 1, LinkSet::of(1));
  a->begin();
  b->begin();
  a.reset();
  EXPECT_NEAR(b->rate(), 50e9, 1);
  shares.check_integrity();
}

TEST(LinkShares, ALinkWithoutAPathIsNoRoute) {
  LinkShares shares(device::make_link_tree({.devices = 2, .peer_link = 0}));
  EXPECT_EQ(shares.routes_in({.target = 0, .links = LinkSet::first(2)}).error().code,
            ErrorCode::kUnsupported);
}

TEST(LinkShares, RandomHistoriesKeepTheBook) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    LinkShares shares(testing::eight_h200());
    std::vector<std::unique_ptr<LinkClaim>> claims;
    for (int step = 0; step < 200; ++step) {
      const auto some = [&] { return static_cast<std::size_t>(random.below(std::ssize(claims))); };
      if (claims.empty() || (claims.size() < 8 && random.chance(0.3))) {
        const int target = static_cast<int>(random.below(8));
        const LinkSet links = LinkSet{static_cast<std::uint64_t>(random.below(256))}.with(target);
        const auto purpose = static_cast<CopyPriority>(random.below(device::kCopyPriorities));
        claims.push_back(claim(shares, target, links, purpose));
      } else if (random.chance(0.1)) {
        claims.erase(claims.begin() + static_cast<std::ptrdiff_t>(some()));
      } else if (random.chance(0.5)) {
        claims[some()]->begin();
      } else {
        claims[some()]->end();
      }
      shares.check_integrity();
    }
    claims.clear();
    shares.check_integrity();
    EXPECT_NEAR(reserved(shares), 0, 1);
  }
}

TEST(FairRates, NobodyCouldHaveMoreWithoutTakingFromOneThatHasLess) {
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> capacity(4);
    for (double& one : capacity) one = 1 + 99 * random.uniform();
    std::vector<LinkRoute> routes(5);
    std::vector<const LinkRoute*> pointers;
    for (LinkRoute& route : routes) {
      route.rate_max = 1 + 99 * random.uniform();
      for (int r = 0; r < 4; ++r) {
        if (random.chance(0.5)) route.per_byte.push_back({r, 0.1 + random.uniform()});
      }
      pointers.push_back(&route);
    }
    const std::vector<double> rates = fair_rates(capacity, pointers);
    std::vector<double> used(4, 0);
    for (std::size_t i = 0; i < routes.size(); ++i) {
      for (const ResourceShare& share : routes[i].per_byte) {
        used[static_cast<std::size_t>(share.resource)] += rates[i] * share.bytes_per_second;
      }
    }
    for (std::size_t r = 0; r < 4; ++r) EXPECT_LE(used[r], capacity[r] * (1 + 1e-9));
    for (std::size_t i = 0; i < routes.size(); ++i) {
      EXPECT_LE(rates[i], routes[i].rate_max * (1 + 1e-9));
      bool bound = rates[i] >= routes[i].rate_max * (1 - 1e-6);
      for (const ResourceShare& share : routes[i].per_byte) {
        const auto r = static_cast<std::size_t>(share.resource);
        if (used[r] < capacity[r] * (1 - 1e-6)) continue;
        // It is used up, and nobody on it has more.
        double most = 0;
        for (std::size_t other = 0; other < routes.size(); ++other) {
          for (const ResourceShare& theirs : routes[other].per_byte) {
            if (theirs.resource == share.resource) most = std::max(most, rates[other]);
          }
        }
        bound = bound || rates[i] >= most * (1 - 1e-6);
      }
      EXPECT_TRUE(bound) << "round " << round << ", route " << i;
    }
  }
}

TEST(LinkShares, ClaimsOfManyThreads) {
  LinkShares shares(testing::eight_h200());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<std::uint64_t>(t));
      for (int round = 0; round < 50; ++round) {
        const auto mine = claim(shares, t, LinkSet::of(t).with(7 - t));
        for (int i = 0; i < 10; ++i) {
          random.chance(0.5) ? mine->begin() : mine->end();
          EXPECT_GE(mine->rate(), 0);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  shares.check_integrity();
  EXPECT_NEAR(reserved(shares), 0, 1);
}

}  // namespace
}  // namespace causeway::transfer::link_shares_test
