#include "commands/leased_links.h"

#include <gtest/gtest.h>

#include "device/link_profile.h"
#include "transfer/link_map.h"
#include "transfer/testing/machines.h"

namespace causeway::app::leased_links_test {
namespace {

using transfer::LeaseBook;
using transfer::LinkShares;

const double kLink = device::LinkTree().link;  // of a GPU whose link was not measured

std::unique_ptr<LeaseBook> book(const LinkShares& machine, std::vector<int> gpus) {
  return book_of_workers(std::move(gpus), {}, machine).value();
}

// Of instances on a machine with one link, which is not theirs.
std::unique_ptr<LeaseBook> book(const std::vector<topology::ChosenInstance>& instances,
                                std::vector<int> gpus) {
  const LinkShares machine(device::make_link_tree({.link = 1e9, .link_duplex = 2e9}));
  return book_of_workers(std::move(gpus), instances, machine).value();
}

// The bytes of weights a second that a member gets which asks for all that there are.
double granted(LeaseBook& book, int member) {
  transfer::LinkAsk ask;
  ask.wants.in[static_cast<std::size_t>(device::CopyPriority::kWeightsAhead)] = 1e12;
  EXPECT_TRUE(book.ask(member, ask, millis(1)).ok());
  const auto lease = book.take(member, millis(1));
  book.check_integrity(millis(1));
  return lease ? lease->share.in : 0;
}

const std::vector<topology::ChosenInstance> kInstances = {
    {"MIG-1", "0000:1b:00.0"}, {"MIG-2", "0000:9b:00.0"}, {"MIG-3", "0000:1b:00.0"}};

TEST(LeasedLinks, InstancesOfAGpuShareItsLink) {
  const auto leases = book(kInstances, {0, 1, 2});
  ASSERT_NE(leases, nullptr);
  // The least of a link: two have it together, or one.
  EXPECT_GT(leases->least(0).in, 0);
  EXPECT_NEAR(leases->least(0).in, leases->least(2).in, 1);
  EXPECT_NEAR(leases->least(0).in + leases->least(2).in, leases->least(1).in, 1);
  EXPECT_NEAR(granted(*leases, 0), kLink - leases->least(2).in, 1);
  EXPECT_NEAR(granted(*leases, 1), kLink, 1);  // whatever those of the other GPU do
}

TEST(LeasedLinks, MembersAreInTheOrderOfWorkers) {
  const auto leases = book(kInstances, {2, 1, 0});
  ASSERT_NE(leases, nullptr);
  EXPECT_NEAR(leases->least(0).in + leases->least(2).in, leases->least(1).in, 1);
}

TEST(LeasedLinks, InstancesOfUnknownGpusAreTakenToShareOne) {
  const auto leases = book({{"MIG-1", ""}, {"MIG-2", ""}}, {0, 1});
  ASSERT_NE(leases, nullptr);
  EXPECT_NEAR(granted(*leases, 1), kLink - leases->least(0).in, 1);
}

TEST(LeasedLinks, InstancesOfDifferentGpusShareNothing) {
  EXPECT_EQ(book(kInstances, {0, 1}), nullptr);
  EXPECT_EQ(book(kInstances, {1, 2}), nullptr);
}

TEST(LeasedLinks, WholeGpusShareWhatTheirOwnLinksCrossByTheMap) {
  const transfer::LinkMap map = transfer::testing::map_of(transfer::testing::eight_h200(), 8);
  ASSERT_GT(transfer::best_set(map, 0, transfer::Direction::kIn).rate, 1.5 * kLink)
      << "links of others as relays would give more than a GPU's own";
  const LinkShares machine(transfer::profile_of(map));
  const auto own = transfer::facts_of(map).way(transfer::Direction::kIn).alone;
  const auto leases = book(machine, {0, 1, 2, 3, 4, 5, 6, 7});
  ASSERT_NE(leases, nullptr);
  // Nothing of a relay's link is added to its own.
  EXPECT_NEAR(granted(*leases, 0), own[0], 0.01 * own[0]);
  for (int gpu = 1; gpu < 7; ++gpu) granted(*leases, gpu);
  // The last finds what the others leave of the memory, however idle its own link is.
  EXPECT_LT(granted(*leases, 7), 0.5 * own[7]);
}

TEST(LeasedLinks, WholeGpusWithoutALinkMapShareNothing) {
  const LinkShares machine(device::make_link_tree({.devices = 2}));
  EXPECT_EQ(book(machine, {0, 1}), nullptr);
}

TEST(LeasedLinks, OneWorkerSharesNothing) {
  const LinkShares mapped(
      transfer::profile_of(transfer::testing::map_of(transfer::testing::eight_h200(), 8)));
  for (int gpu = 0; gpu < 8; ++gpu) EXPECT_EQ(book(mapped, {gpu}), nullptr) << gpu;
  for (int instance = 0; instance < 3; ++instance) {
    EXPECT_EQ(book(kInstances, {instance}), nullptr) << instance;
  }
}

TEST(LeasedLinks, AGpuWithoutAWayToHostMemoryIsRefused) {
  const LinkShares machine(device::make_link_tree({.devices = 2}));
  EXPECT_EQ(book_of_workers({0, 2}, {}, machine).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace causeway::app::leased_links_test
