// Memory of KV frames, which goes the same way as that of weights; weights themselves are moved by
// the tests of slices.
#include "weights/transfer_mover.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "base/clock.h"
#include "device/host/host_machine.h"

namespace causeway::weights::frame_memory_test {
namespace {

using Kind = WeightCommand::Kind;

class FrameMemoryTest : public ::testing::Test {
 protected:
  FrameMemoryTest() {
    const device::LinkProfile links = device::make_link_tree({.link = 1e9, .link_duplex = 2e9});
    machine_ =
        device::HostMachine::create({.links = links, .extent_bytes = kib(64)}, clock_, memory_)
            .value();
    device_ = machine_->open({.name = "d", .arena_bytes = mib(1)}).value();
    engine_ = transfer::TransferEngine::create({.staging_bytes_max = Bytes(0)},
                                               {{.slices = {device_.get()}}},
                                               transfer::assume_all_links(1), clock_)
                  .value();
    frames_ = device_->arena().reserve(8, device::Arena::End::kLow).value();
    shares_ = std::make_unique<transfer::LinkShares>(links);
    auto routes = shares_->routes_in({.target = 0, .links = transfer::LinkSet::of(0)}).value();
    claim_ = shares_->claim(device::CopyPriority::kWeightsAhead, std::move(routes));
    mover_ = TransferMover::start(*device_, *engine_, *claim_).value();
    mover_->set_frames(frames_);
    mover_->set_notify([this] {
      const std::lock_guard lock(mutex_);
      ++notified_;
      changed_.notify_all();
    });
  }

  void submit(Kind kind, std::int64_t first, std::int64_t extents) {
    WeightCommand command;
    command.kind = kind;
    command.first_extent = first;
    command.extents = extents;
    mover_->submit({&command, 1});
  }
  void wait_for_notes(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return notified_ >= count; }));
  }

  RealClock clock_;
  device::HostMemory memory_;
  std::unique_ptr<device::HostMachine> machine_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<transfer::TransferEngine> engine_;
  std::unique_ptr<transfer::LinkShares> shares_;
  std::unique_ptr<transfer::LinkClaim> claim_;
  device::AddressRange frames_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int notified_ = 0;
  std::unique_ptr<TransferMover> mover_;
};

TEST_F(FrameMemoryTest, EveryExtentThatComesIsAnEvent) {
  submit(Kind::kCommit, 2, 3);
  wait_for_notes(3);
  const std::vector<WeightEvent> events = mover_->poll();
  ASSERT_EQ(events.size(), 3u);
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_FALSE(events[i].model.valid());
    EXPECT_EQ(events[i].extent, 2 + static_cast<std::int64_t>(i));
    EXPECT_TRUE(events[i].outcome.ok());
  }
  EXPECT_TRUE(frames_.committed(2, 3));
  std::memset(frames_.data() + (128 << 10), 1, 192 << 10);
  submit(Kind::kDecommit, 3, 1);
  submit(Kind::kCommit, 0, 1);  // behind it
  wait_for_notes(4);
  EXPECT_FALSE(frames_.committed(3, 1));
  EXPECT_TRUE(frames_.committed(4, 1));
  EXPECT_EQ(mover_->poll().size(), 1u);
  EXPECT_EQ(mover_->committed(), 0) << "no model has any";
}

// Whatever it has done by then, nothing is called or left behind afterwards.
TEST_F(FrameMemoryTest, AMoverMayEndDuringAMove) {
  submit(Kind::kCommit, 0, 8);
  wait_for_notes(1);
  submit(Kind::kDecommit, 0, 4);
  mover_->set_notify({});
  const int notified = notified_;
  mover_.reset();
  EXPECT_EQ(notified_, notified);
}

}  // namespace
}  // namespace causeway::weights::frame_memory_test
