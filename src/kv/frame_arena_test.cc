#include "kv/frame_arena.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/clock.h"
#include "device/host/host_machine.h"

namespace causeway::kv::frame_arena_test {
namespace {

class FrameArenaTest : public ::testing::Test {
 protected:
  FrameArenaTest() {
    machine_ = device::HostMachine::create({.extent_bytes = mib(1)}, clock_, memory_).value();
    device_ = machine_->open({.name = "d", .arena_bytes = mib(4)}).value();
  }
  RealClock clock_;
  device::HostMemory memory_;
  std::unique_ptr<device::HostMachine> machine_;
  std::unique_ptr<device::Device> device_;
};

TEST_F(FrameArenaTest, FramesLieOneAfterTheOther) {
  const FrameArena frames = FrameArena::create(*device_, {.frame = kib(256), .frames = 9}).value();
  EXPECT_EQ(frames.bytes(), mib(3));  // nine quarters of an extent
  EXPECT_EQ(device_->arena().free_extents(), 1);
  EXPECT_EQ(frames.base(), device_->arena().base());
  for (std::int64_t f = 0; f < 9; ++f) {
    EXPECT_EQ(frames.bytes_of(FrameId(f)).data(), frames.base() + f * (256 << 10));
    EXPECT_EQ(frames.bytes_of(FrameId(f)).size(), 256u << 10);
    std::memset(frames.bytes_of(FrameId(f)).data(), static_cast<int>(f), 256 << 10);
  }
  EXPECT_EQ(frames.bytes_of(FrameId(3)).back(), std::byte{3});
  EXPECT_EQ(frames.bytes_of(FrameId(4)).front(), std::byte{4});
  EXPECT_DEATH(frames.bytes_of(FrameId(9)), "no such frame");
  EXPECT_DEATH(frames.bytes_of(FrameId()), "no such frame");
  EXPECT_DEATH(frames.address_of(FrameId(0), kib(256)), "beyond its frame");
}

TEST_F(FrameArenaTest, CopiesReachFramesByAddress) {
  // Not at the arena's start: addresses must not assume it.
  const auto other = device_->arena().allocate(1, device::Arena::End::kLow).value();
  const FrameArena frames = FrameArena::create(*device_, {.frame = kib(64), .frames = 20}).value();
  const RegionId region = memory_.allocate({.name = "twin", .bytes = kib(64)}).value();
  const auto host = memory_.resolve({region, Bytes(0)}, kib(64));
  std::memset(host.data(), 0x5A, host.size());
  const auto stream = device_->make_stream("kv").value();
  const device::Copy copy{frames.address_of(FrameId(17), kib(32)),
                          device::MemoryAddress::in_host({region, Bytes(0)}), kib(32)};
  ASSERT_TRUE(stream->copy({&copy, 1}, device::CopyPriority::kKvIn).ok());
  ASSERT_TRUE(stream->synchronize(seconds(60)).ok());
  const auto frame = frames.bytes_of(FrameId(17));
  EXPECT_EQ(frame[(32 << 10) - 1], std::byte{0});
  EXPECT_EQ(frame[32 << 10], std::byte{0x5A});
  EXPECT_EQ(frame.back(), std::byte{0x5A});
  EXPECT_EQ(frames.bytes_of(FrameId(18)).front(), std::byte{0});
}

TEST_F(FrameArenaTest, MemoryComesAndGoesAndAddressesStay) {
  FrameArena frames =
      FrameArena::create(*device_, {.frame = kib(256), .frames = 4, .frames_max = 12}).value();
  EXPECT_EQ(frames.frames_max(), 12);
  EXPECT_EQ(frames.bytes(), mib(1));
  EXPECT_EQ(device_->arena().free_extents(), 1);
  ASSERT_TRUE(frames.range().commit(2, 1).ok());
  EXPECT_EQ(frames.bytes(), mib(2));
  EXPECT_EQ(frames.bytes_of(FrameId(11)).data(), frames.base() + 11 * (256 << 10));
  std::memset(frames.bytes_of(FrameId(11)).data(), 0x5A, 256 << 10);
  frames.range().decommit(0, 1);
  EXPECT_EQ(frames.bytes(), mib(1));
  EXPECT_EQ(frames.bytes_of(FrameId(11)).back(), std::byte{0x5A});
}

TEST_F(FrameArenaTest, TinyFramesForTinyModels) {
  const FrameArena frames =
      FrameArena::create(*device_, {.frame = Bytes(64), .frames = 16'384}).value();
  EXPECT_EQ(frames.bytes(), mib(1));
}

TEST_F(FrameArenaTest, BadSizesAreErrors) {
  for (const std::int64_t frame : {0L, -4L, 32L, 3'000L, 2L << 20}) {
    EXPECT_EQ(FrameArena::create(*device_, {.frame = Bytes(frame), .frames = 1}).error().code,
              ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(FrameArena::create(*device_, {.frame = kib(64), .frames = 0}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(FrameArena::create(*device_, {.frame = kib(64), .frames = 64}).ok());
  for (const std::int64_t frames : {65L, INT64_MAX}) {
    const auto refused = FrameArena::create(*device_, {.frame = kib(64), .frames = frames});
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(refused.error().message.find("the KV cache of"), std::string::npos);
  }
}

}  // namespace
}  // namespace causeway::kv::frame_arena_test
