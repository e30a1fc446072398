// What a mover claims of the links; what it moves is tested where slices are put together.
#include "weights/transfer_mover.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/testing/must.h"
#include "device/host/host_machine.h"
#include "transfer/testing/faulty_device.h"

namespace causeway::weights::transfer_mover_test {
namespace {

using Kind = WeightCommand::Kind;

constexpr Bytes kExtent = kib(64);
constexpr double kLink = 2e6;  // an extent takes 33 ms

// A model of three extents, a group each.
class MoverTest : public ::testing::Test {
 protected:
  MoverTest() {
    const device::LinkProfile links = device::make_link_tree({.link = kLink, .link_duplex = kLink});
    machine_ = must(
        device::HostMachine::create({.links = links, .extent_bytes = kExtent}, clock_, memory_));
    device_ = must(machine_->open({.name = "mover", .arena_bytes = kExtent * 8}));
    faulty_ = std::make_unique<transfer::testing::FaultyDevice>(*device_, faults_);
    engine_ = must(transfer::TransferEngine::create({.staging_bytes_max = Bytes(0)},
                                                    {{.slices = {faulty_.get()}}},
                                                    transfer::assume_all_links(1), clock_));
    shares_ = std::make_unique<transfer::LinkShares>(links);
    claim_ =
        shares_->claim(device::CopyPriority::kWeightsAhead,
                       must(shares_->routes_in({.target = 0, .links = transfer::LinkSet::of(0)})));
    mover_ = must(TransferMover::start(*device_, *engine_, *claim_));
  }

  void add() {
    const RegionId region = must(memory_.allocate({.name = "home", .bytes = kExtent * 3}));
    TransferMover::Place place{.model = {},
                               .home = device::MemoryAddress::in_host({region, Bytes(0)})};
    for (int group = 0; group < 3; ++group) {
      place.model.groups.push_back({.offset = kExtent * group, .bytes = kExtent});
      place.model.layout_groups.push_back(group);
    }
    must(mover_->add_model(kModel, std::move(place)));
  }
  void bring(int groups) {
    std::vector<WeightCommand> commands = {
        {.kind = Kind::kCommit, .model = kModel, .first_extent = 0, .extents = groups}};
    for (int group = 0; group < groups; ++group) {
      commands.push_back({.kind = Kind::kBring, .model = kModel, .group = group, .arrival = 1});
    }
    mover_->submit(commands);
  }
  // How many have failed.
  int wait_for_ends(int groups) {
    int ended = 0, failed = 0;
    const Nanos end = clock_.now() + seconds(20);
    while (ended < groups && clock_.now() < end) {
      for (const WeightEvent& event : mover_->poll()) {
        ++ended;
        failed += event.outcome.ok() ? 0 : 1;
      }
    }
    EXPECT_EQ(ended, groups);
    return failed;
  }
  double reserved() const {
    double sum = 0;
    for (int r = 0; r < std::ssize(shares_->resources()); ++r) sum += shares_->reserved(r);
    return sum;
  }

  static constexpr ModelId kModel{3};
  RealClock clock_;
  device::HostMemory memory_;
  std::unique_ptr<device::HostMachine> machine_;
  std::unique_ptr<device::Device> device_;
  transfer::testing::FaultPlan faults_;
  std::unique_ptr<transfer::testing::FaultyDevice> faulty_;
  std::unique_ptr<transfer::TransferEngine> engine_;
  std::unique_ptr<transfer::LinkShares> shares_;
  std::unique_ptr<transfer::LinkClaim> claim_;
  std::unique_ptr<TransferMover> mover_;
};

TEST_F(MoverTest, HoldsItsShareWhileSomethingIsOnItsWay) {
  add();
  EXPECT_EQ(reserved(), 0);
  EXPECT_NEAR(mover_->granted_rate(), kLink, 1);
  bring(3);
  EXPECT_NEAR(reserved(), 2 * kLink, 1);  // the link in, and both ways together
  EXPECT_EQ(wait_for_ends(3), 0);
  EXPECT_EQ(reserved(), 0);
  shares_->check_integrity();
}

TEST_F(MoverTest, GivesItBackWhenCopiesFail) {
  faults_.next(transfer::testing::FaultPlan::Kind::kFail, 100);
  add();
  bring(3);
  EXPECT_EQ(wait_for_ends(3), 3);
  EXPECT_EQ(reserved(), 0);
  shares_->check_integrity();
}

TEST_F(MoverTest, GivesItBackWhenItGoesWithCommandsLeft) {
  add();
  bring(3);
  mover_.reset();
  EXPECT_EQ(reserved(), 0);
  shares_->check_integrity();
}

// Who copies out what goes finds all of it in memory.
TEST_F(MoverTest, TellsWhatGoesBeforeItsMemoryDoes) {
  std::vector<std::pair<Bytes, Bytes>> told;
  std::int64_t committed = -1;
  mover_->set_before_drop([&](Bytes offset, Bytes bytes) {
    told.emplace_back(offset, bytes);
    committed = mover_->committed();
  });
  add();
  bring(3);
  ASSERT_EQ(wait_for_ends(3), 0);
  const WeightCommand drop{
      .kind = Kind::kDecommit, .model = kModel, .first_extent = 1, .extents = 2};
  mover_->submit({&drop, 1});
  const Nanos end = clock_.now() + seconds(20);
  while (mover_->committed() > 1 && clock_.now() < end) std::this_thread::yield();
  EXPECT_EQ(mover_->committed(), 1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].second, kExtent * 2);
  EXPECT_EQ(told[0].first % kExtent, Bytes(0));
  EXPECT_EQ(committed, 3);
}

// Another purpose has all of the link: copies go nevertheless.
TEST_F(MoverTest, CopiesWhenNothingIsGranted) {
  add();
  const auto urgent =
      shares_->claim(device::CopyPriority::kKvIn,
                     must(shares_->routes_in({.target = 0, .links = transfer::LinkSet::of(0)})));
  urgent->begin();
  EXPECT_EQ(mover_->granted_rate(), 0);
  bring(2);
  EXPECT_EQ(wait_for_ends(2), 0);
  shares_->check_integrity();
}

}  // namespace
}  // namespace causeway::weights::transfer_mover_test
