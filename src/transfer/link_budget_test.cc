#include "transfer/link_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/random.h"
#include "transfer/testing/machines.h"

namespace causeway::transfer::link_budget_test {
namespace {

using device::kHostEnd;
using Hops = std::vector<LinkBudget::Hop>;

const Hops kToZero = {{kHostEnd, 0}};
const Hops kFromZero = {{0, kHostEnd}};

LinkBudget one_link() {
  return LinkBudget(device::make_link_tree({.devices = 2, .link = 55e9, .link_duplex = 97e9}));
}

Result<ReservationId> reserve(LinkBudget& budget, const Hops& hops, double rate) {
  return budget.reserve(budget.shares(hops, rate).value());
}

// The most that could still be moved along the hops, none of which shares a resource with another.
double available(const LinkBudget& budget, const Hops& hops) {
  double most = std::numeric_limits<double>::infinity();
  const std::vector<ResourceShare> shares = budget.shares(hops, 1).value();
  for (const ResourceShare& share : shares) {
    most = std::min(most, budget.available(share.resource) / share.bytes_per_second);
  }
  return most;
}

// The duplex sum is 97, not 110.
TEST(LinkBudget, BothWaysShareTheDuplexSum) {
  LinkBudget budget = one_link();
  ASSERT_TRUE(reserve(budget, kToZero, 55e9).ok());
  EXPECT_NEAR(available(budget, kFromZero), 42e9, 1);
  const auto refused = reserve(budget, kFromZero, 43e9);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("device0.duplex"), std::string::npos);
  EXPECT_TRUE(reserve(budget, kFromZero, 42e9).ok());
  budget.check_integrity();
}

TEST(LinkBudget, ARelayTakesThePeerLinksToo) {
  LinkBudget budget = one_link();
  const Hops relay = {{kHostEnd, 1}, {1, 0}};
  ASSERT_TRUE(reserve(budget, relay, 20e9).ok());
  EXPECT_NEAR(available(budget, {{kHostEnd, 1}}), 35e9, 1);
  EXPECT_NEAR(available(budget, {{1, 0}}), 375e9, 1);
  EXPECT_NEAR(available(budget, kToZero), 55e9, 1);
  EXPECT_EQ(budget.shares({{0, 7}}, 1).error().code, ErrorCode::kUnsupported);
}

TEST(LinkBudget, AFarLinkTakesMoreOfTheSocket) {
  LinkBudget budget(testing::eight_h200());
  ASSERT_TRUE(reserve(budget, {{0, kHostEnd}}, 50e9).ok());  // 90 of 132
  EXPECT_NEAR(available(budget, {{4, kHostEnd}}), 42e9, 1);
}

TEST(LinkBudget, ACapacityMayShrinkButNotGrowBeyondTheProfile) {
  LinkBudget budget = one_link();
  const int in = budget.shares(kToZero, 1).value().front().resource;
  const auto reserved = reserve(budget, kToZero, 30e9);
  ASSERT_TRUE(reserved.ok());
  budget.set_capacity(in, 40e9);
  EXPECT_NEAR(budget.available(in), 10e9, 1);
  budget.check_integrity();
  budget.set_capacity(in, 20e9);  // less than what is reserved
  EXPECT_EQ(budget.available(in), 0);
  EXPECT_FALSE(reserve(budget, kToZero, 1e9).ok());
  budget.release(*reserved);
  EXPECT_NEAR(budget.available(in), 20e9, 1);
  budget.set_capacity(in, 99e9);
  EXPECT_NEAR(budget.available(in), 55e9, 1);
}

// Random reservations on a machine with everything shared: no resource is ever overbooked, what is
// refused would have overbooked one, and releasing all leaves nothing.
TEST(LinkBudget, NoResourceIsEverOverbooked) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const device::LinkProfile profile = testing::eight_h200();
    LinkBudget budget(profile);
    std::vector<ReservationId> held;
    for (int step = 0; step < 400; ++step) {
      if (!held.empty() && random.chance(0.4)) {
        const auto i = static_cast<std::size_t>(random.below(std::ssize(held)));
        budget.release(held[i]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        const auto& path =
            profile.paths[static_cast<std::size_t>(random.below(std::ssize(profile.paths)))];
        const double rate = 60e9 * random.uniform();
        const double most = available(budget, {{path.source, path.target}});
        const auto reserved = reserve(budget, {{path.source, path.target}}, rate);
        EXPECT_EQ(reserved.ok(), rate <= most);
        if (reserved.ok()) held.push_back(*reserved);
      }
      budget.check_integrity();
    }
    for (const ReservationId id : held) budget.release(id);
    for (int r = 0; r < std::ssize(profile.resources); ++r) {
      EXPECT_NEAR(budget.reserved(r), 0, 1);
    }
  }
}

}  // namespace
}  // namespace causeway::transfer::link_budget_test
