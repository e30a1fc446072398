#include "transfer/link_lane.h"

#include <gtest/gtest.h>

#include "transfer/testing/bench_machine.h"

namespace causeway::transfer::link_lane_test {
namespace {

using testing::BenchMachine;
using testing::FaultPlan;
using testing::kPatience;

constexpr Bytes kChunk = kib(256);

// A lane into the memory of one device, and a task of four chunks for it.
struct Lane {
  Chunk chunk(int index, bool completes) const {
    Chunk chunk;
    chunk.id = ChunkId(index);
    chunk.range = {kChunk * index, kChunk * (index + 1)};
    chunk.completes = completes;
    return chunk;
  }
  Status launch(const Chunk& chunk, std::uint32_t value) {
    return lane->launch(chunk, segments, {arrived.get(), value}, machine.clock.now());
  }
  // The outcome of the next that ends.
  Status ended() {
    const Nanos end = machine.clock.now() + kPatience;
    while (machine.clock.now() < end) {
      for (const LinkLane::Ended& one : lane->poll()) return one.status;
    }
    return Error{ErrorCode::kDeadlineExceeded, "nothing ended"};
  }

  BenchMachine machine{{.devices = 1}};
  SegmentTable segments =
      SegmentTable::make(machine.request(Direction::kIn, 0, kChunk * 4).segments).value();
  std::unique_ptr<device::Semaphore> arrived = machine.device(0).make_semaphore().value();
  std::unique_ptr<LinkLane> lane = LinkLane::create(machine.device(0), LinkLaneOptions()).value();
};

TEST(LinkLane, TheStreamRaisesTheSignalOfWhatCompletesATransfer) {
  Lane lane;
  ASSERT_TRUE(lane.launch(lane.chunk(0, false), 1).ok());
  ASSERT_TRUE(lane.ended().ok());
  EXPECT_EQ(lane.arrived->value(), 0u);
  // Nobody polls: the stream does it alone.
  ASSERT_TRUE(lane.launch(lane.chunk(1, true), 2).ok());
  EXPECT_TRUE(lane.arrived->wait(2, kPatience).ok());
  EXPECT_TRUE(lane.ended().ok());
}

TEST(LinkLane, TheSignalWaitsForTheChunksBefore) {
  Lane lane;
  lane.machine.faults(0).next(FaultPlan::Kind::kHang, 1);
  ASSERT_TRUE(lane.launch(lane.chunk(0, false), 1).ok());
  ASSERT_TRUE(lane.launch(lane.chunk(1, true), 1).ok());
  EXPECT_EQ(lane.arrived->wait(1, millis(5)).error().code, ErrorCode::kDeadlineExceeded);
  lane.machine.faults(0).release();
  EXPECT_TRUE(lane.arrived->wait(1, kPatience).ok());
  EXPECT_TRUE(lane.ended().ok());
}

TEST(LinkLane, NothingIsRaisedBehindAChunkThatFailed) {
  Lane lane;
  lane.machine.faults(0).next(FaultPlan::Kind::kFail, 1);
  ASSERT_TRUE(lane.launch(lane.chunk(0, false), 1).ok());
  ASSERT_TRUE(lane.launch(lane.chunk(1, true), 1).ok());
  EXPECT_FALSE(lane.ended().ok());
  while (lane.lane->busy() > 0) (void)lane.lane->poll();
  EXPECT_EQ(lane.arrived->value(), 0u);
  ASSERT_TRUE(lane.lane->repair().ok());
  ASSERT_TRUE(lane.launch(lane.chunk(1, true), 1).ok());
  EXPECT_TRUE(lane.ended().ok());
  EXPECT_EQ(lane.arrived->value(), 1u);
}

}  // namespace
}  // namespace causeway::transfer::link_lane_test
