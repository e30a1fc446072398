#include "kv/twin_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "device/host/host_machine.h"

namespace causeway::kv::twin_memory_test {
namespace {

using ::testing::HasSubstr;

TEST(TwinMemoryTest, TwinsLieOneAfterTheOtherAndTheMemoryGoesWithThem) {
  device::HostMemory memory;
  {
    const auto twins = TwinMemory::create(memory, {.frame = kib(64), .bytes = kib(64 * 5 + 63)});
    ASSERT_TRUE(twins.ok()) << twins.error().message;
    EXPECT_EQ((*twins)->twins(), 5);
    EXPECT_EQ((*twins)->bytes(), kib(64 * 5));
    EXPECT_EQ(memory.total_bytes(), kib(64 * 5));  // whole pages, no more than the budget
    const auto third = (*twins)->bytes_of(TwinId(3));
    EXPECT_EQ(third.size(), 64u << 10);
    EXPECT_EQ(third.data(), (*twins)->bytes_of(TwinId(0)).data() + 3 * (64 << 10));
    EXPECT_EQ((*twins)->address_of(TwinId(3)).offset, kib(192));
    EXPECT_FALSE((*twins)->address_of(TwinId(3)).device.valid());
    EXPECT_DEATH((*twins)->bytes_of(TwinId(5)), "no such twin");
    EXPECT_DEATH((*twins)->bytes_of(TwinId()), "no such twin");
  }
  EXPECT_EQ(memory.total_bytes(), Bytes(0));
}

TEST(TwinMemoryTest, SaysWhyItCannotBe) {
  device::HostMemory memory;
  const auto small = TwinMemory::create(memory, {.frame = kib(64), .bytes = kib(63)});
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(small.error().message, HasSubstr("64512 bytes of host memory for KV are less than"));
  const auto large = TwinMemory::create(memory, {.frame = mib(4), .bytes = gib(1 << 18)});
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(large.error().message, HasSubstr("'kv twins' needs 268435456 MiB"));
  EXPECT_EQ(memory.total_bytes(), Bytes(0));
}

// A device that records what is made reachable.
class NotingDevice final : public device::Device {
 public:
  explicit NotingDevice(device::Device& inner) : inner_(inner) {}
  device::DeviceId id() const override { return inner_.id(); }
  const device::Capabilities& capabilities() const override { return inner_.capabilities(); }
  device::Arena& arena() override { return inner_.arena(); }
  Result<std::unique_ptr<device::Stream>> make_stream(const std::string& name) override {
    return inner_.make_stream(name);
  }
  Result<std::unique_ptr<device::Event>> make_event() override { return inner_.make_event(); }
  Result<std::unique_ptr<device::Semaphore>> make_semaphore() override {
    return inner_.make_semaphore();
  }
  Status make_reachable(device::HostAddress, Bytes bytes) override {
    if (++pieces == fails_at) return exhausted("no room to register");
    reachable += bytes;
    return {};
  }
  void make_unreachable(device::HostAddress, Bytes) override { ++taken_back; }

  int pieces = 0, taken_back = 0, fails_at = -1;
  Bytes reachable;

 private:
  device::Device& inner_;
};

TEST(TwinMemoryTest, IsMadeReachableInPiecesWithPausesWhileNeighboursServe) {
  RealClock clock;
  device::HostMemory memory;
  const auto machine = device::HostMachine::create({.extent_bytes = mib(1)}, clock, memory).value();
  const auto device = machine->open({.name = "d", .arena_bytes = mib(4)}).value();
  for (const bool serve : {false, true}) {
    NotingDevice noting(*device);
    int pauses = 0;
    const device::Pace pace{.piece = kib(256),
                            .busy = [&] { return serve; },
                            .cancelled = [] { return false; },
                            .pause = [&](Nanos) { ++pauses; }};
    {
      const auto twins =
          TwinMemory::create(memory, {.frame = kib(64), .bytes = kib(64 * 9)}).value();
      ASSERT_TRUE(twins->reach(noting, pace).ok());
      EXPECT_EQ(noting.pieces, 3);
      EXPECT_EQ(noting.reachable, kib(64 * 9));
      EXPECT_EQ(pauses, serve ? 2 : 0);
    }
    EXPECT_EQ(noting.taken_back, 3);
    EXPECT_EQ(pauses, serve ? 4 : 0);
    noting.fails_at = 5;
    const auto twins = TwinMemory::create(memory, {.frame = kib(64), .bytes = kib(64 * 9)}).value();
    EXPECT_THAT(twins->reach(noting, pace).error().message, HasSubstr("no room to register"));
  }
  EXPECT_EQ(memory.total_bytes(), Bytes(0));
}

TEST(TwinMemoryTest, GrowsPieceByPieceAndGoesAtAnyTime) {
  RealClock clock;
  device::HostMemory memory;
  const auto machine = device::HostMachine::create({.extent_bytes = mib(1)}, clock, memory).value();
  const auto device = machine->open({.name = "d", .arena_bytes = mib(4)}).value();
  bool cancelled = false;
  const device::Pace pace{.piece = kib(64),
                          .busy = [] { return false; },
                          .cancelled = [&] { return cancelled; },
                          .pause = [](Nanos) {}};
  // 7 twins in pieces of 3: 3, 3, 1.
  const TwinMemoryOptions options{.frame = kib(64), .bytes = kib(64 * 7), .piece = kib(64 * 4 - 1)};
  {
    NotingDevice noting(*device);
    {
      const auto twins = TwinMemory::create(memory, options).value();
      EXPECT_EQ(twins->twins(), 7);
      EXPECT_EQ(twins->twins_there(), 3);
      EXPECT_EQ(memory.total_bytes(), kib(64 * 3));
      EXPECT_DEATH((void)twins->grow(), "once the first are reachable");
      ASSERT_TRUE(twins->reach(noting, pace).ok());
      EXPECT_EQ(noting.reachable, kib(64 * 3));
      EXPECT_DEATH(twins->bytes_of(TwinId(3)), "not there yet");
      EXPECT_EQ(twins->grow().value(), 3);
      EXPECT_EQ(twins->grow().value(), 1);
      EXPECT_EQ(twins->grow().value(), 0);
      EXPECT_EQ(twins->twins_there(), 7);
      EXPECT_EQ(memory.total_bytes(), kib(64 * 7));
      EXPECT_EQ(noting.reachable, kib(64 * 7));
      // Each has a place of its own.
      for (std::int64_t t = 0; t < 7; ++t) {
        twins->bytes_of(TwinId(t))[0] = static_cast<std::byte>(t);
      }
      for (std::int64_t t = 0; t < 7; ++t) {
        EXPECT_EQ(twins->bytes_of(TwinId(t))[0], static_cast<std::byte>(t));
        EXPECT_EQ(twins->bytes_of(TwinId(t)).size(), 64u << 10);
      }
      EXPECT_EQ(twins->address_of(TwinId(6)).offset, Bytes(0));
      EXPECT_EQ(twins->address_of(TwinId(5)).offset, kib(128));
    }
    EXPECT_EQ(noting.taken_back, 7);
  }
  for (const bool fails : {false, true}) {
    NotingDevice noting(*device);
    const auto twins = TwinMemory::create(memory, options).value();
    ASSERT_TRUE(twins->reach(noting, pace).ok());
    cancelled = !fails;
    if (fails) noting.fails_at = 5;
    EXPECT_EQ(twins->grow().error().code,
              fails ? ErrorCode::kResourceExhausted : ErrorCode::kCancelled);
    EXPECT_EQ(twins->twins_there(), 3);
    cancelled = false;
    noting.fails_at = -1;
    EXPECT_EQ(twins->grow().value(), 3);
    EXPECT_EQ(memory.total_bytes(), kib(64 * 6));
  }
  EXPECT_EQ(memory.total_bytes(), Bytes(0));
}

}  // namespace
}  // namespace causeway::kv::twin_memory_test
