#include "device/paced_registration.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/clock.h"
#include "device/arena.h"

namespace causeway::device::paced_registration_test {
namespace {

// Records what was made reachable, and when; each MiB takes 50 µs of the clock.
class RegisteringDevice final : public Device {
 public:
  struct Piece {
    Nanos at;
    Bytes offset;
    Bytes bytes;
  };
  explicit RegisteringDevice(ManualClock& clock) : clock_(clock) {}
  DeviceId id() const override { return DeviceId(0); }
  const Capabilities& capabilities() const override { return capabilities_; }
  Arena& arena() override { std::abort(); }
  Result<std::unique_ptr<Stream>> make_stream(const std::string&) override {
    return unsupported("no streams");
  }
  Result<std::unique_ptr<Event>> make_event() override { return unsupported("no events"); }
  Result<std::unique_ptr<Semaphore>> make_semaphore() override { return unsupported("no events"); }
  Status make_reachable(HostAddress address, Bytes bytes) override {
    EXPECT_EQ(address.region, RegionId(3));
    if (std::ssize(pieces) == fail_at) return exhausted("no more pages");
    pieces.push_back({clock_.now(), address.offset, bytes});
    clock_.advance(micros(50) * (bytes / mib(1)));
    return {};
  }
  void make_unreachable(HostAddress address, Bytes bytes) override {
    EXPECT_EQ(address.region, RegionId(3));
    taken_back.push_back({clock_.now(), address.offset, bytes});
    clock_.advance(micros(50) * (bytes / mib(1)));
  }

  bool is_reachable(HostAddress address, Bytes bytes) const override {
    return address.offset >= known_from && address.offset + bytes <= known_to;
  }

  std::vector<Piece> pieces;
  std::vector<Piece> taken_back;
  Bytes known_from, known_to;  // what is reachable already
  std::int64_t fail_at = -1;

 private:
  ManualClock& clock_;
  Capabilities capabilities_;
};

struct PacedRegistrationTest : ::testing::Test {
  ManualClock clock;
  RegisteringDevice device{clock};
  bool is_busy = false;
  Nanos cancel_at = seconds(100);
  Pace pace{.piece = mib(4),
            .pause_busy = millis(1),
            .busy = [this] { return is_busy; },
            .cancelled = [this] { return clock.now() >= cancel_at; },
            .pause = [this](Nanos length) { clock.advance(length); }};

  Status make(Bytes bytes) {
    return make_reachable_paced(device, {RegionId(3), kib(4)}, bytes, pace);
  }
  // All of [4 KiB, 4 KiB + bytes), each byte once, in order.
  void expect_all(Bytes bytes) const {
    Bytes at = kib(4);
    for (const auto& piece : device.pieces) {
      EXPECT_EQ(piece.offset, at);
      at += piece.bytes;
    }
    EXPECT_EQ(at, kib(4) + bytes);
  }
};

TEST_F(PacedRegistrationTest, AnIdleDeviceGetsThemWithoutPause) {
  ASSERT_TRUE(make(mib(600)).ok());
  expect_all(mib(600));
  EXPECT_EQ(clock.now(), micros(50) * 600);
}

TEST_F(PacedRegistrationTest, ABusyDeviceGetsSmallPiecesWithPauses) {
  is_busy = true;
  ASSERT_TRUE(make(mib(20)).ok());
  expect_all(mib(20));
  ASSERT_EQ(device.pieces.size(), 5u);
  EXPECT_EQ(device.pieces[0].at, Nanos(0));
  EXPECT_EQ(device.pieces[1].at, micros(200) + millis(1));
  EXPECT_EQ(device.pieces[4].bytes, mib(4));
  EXPECT_EQ(clock.now(), micros(50) * 20 + millis(4));  // none after the last
}

TEST_F(PacedRegistrationTest, ThePaceFollowsTheDevice) {
  pace.busy = [&] { return clock.now() < millis(5); };
  ASSERT_TRUE(make(mib(300)).ok());
  expect_all(mib(300));
  // Pieces of 0.2 ms, after which 1 ms of pause until 5 ms have gone by.
  EXPECT_EQ(clock.now(), micros(50) * 300 + millis(1) * 4);
}

TEST_F(PacedRegistrationTest, WhatIsReachableAlreadyTakesNoTime) {
  is_busy = true;
  device.known_from = kib(4) + mib(4);
  device.known_to = kib(4) + mib(16);
  ASSERT_TRUE(make(mib(20)).ok());
  ASSERT_EQ(device.pieces.size(), 2u);
  EXPECT_EQ(device.pieces[1].offset, device.known_to);
  EXPECT_EQ(clock.now(), micros(50) * 8 + millis(1));
  device.known_from = kib(4);
  device.known_to = kib(4) + mib(20);
  cancel_at = Nanos(0);
  EXPECT_TRUE(make(mib(20)).ok());  // there is nothing to give up
  EXPECT_EQ(device.pieces.size(), 2u);
}

// Whatever the device did while memory was registered, no piece delays launches for long later.
TEST_F(PacedRegistrationTest, NoPieceIsLarge) {
  pace.piece = Pace().piece;
  for (const bool busy : {false, true}) {
    is_busy = busy;
    ASSERT_TRUE(make(mib(300)).ok());
    for (const auto& piece : device.pieces) EXPECT_LE(piece.bytes, mib(8));
  }
}

TEST_F(PacedRegistrationTest, IsTakenBackInTheSamePiecesAtTheSamePace) {
  is_busy = true;
  ASSERT_TRUE(make(mib(20)).ok());
  const Nanos begin = clock.now();
  make_unreachable_paced(device, {RegionId(3), kib(4)}, mib(20), pace);
  ASSERT_EQ(device.taken_back.size(), device.pieces.size());
  for (std::size_t i = 0; i < device.pieces.size(); ++i) {
    EXPECT_EQ(device.taken_back[i].offset, device.pieces[i].offset);
    EXPECT_EQ(device.taken_back[i].bytes, device.pieces[i].bytes);
    EXPECT_EQ(device.taken_back[i].at - begin, device.pieces[i].at);
  }
  is_busy = false;
  const Nanos idle = clock.now();
  make_unreachable_paced(device, {RegionId(3), kib(4)}, mib(20), pace);
  EXPECT_EQ(clock.now() - idle, micros(50) * 20);
}

TEST_F(PacedRegistrationTest, TakingBackEndsWhenCancelled) {
  is_busy = true;
  cancel_at = millis(3);
  make_unreachable_paced(device, {RegionId(3), kib(4)}, gib(2), pace);
  EXPECT_EQ(device.taken_back.size(), 3u);
}

TEST_F(PacedRegistrationTest, EndsWhenCancelledOrRefused) {
  is_busy = true;
  cancel_at = millis(3);
  const Status cancelled = make(gib(2));
  EXPECT_EQ(cancelled.error().code, ErrorCode::kCancelled);
  EXPECT_NE(cancelled.error().message.find("of 2048 MiB"), std::string::npos);
  EXPECT_EQ(device.pieces.size(), 3u);
  cancel_at = seconds(100);
  device.fail_at = 5;
  EXPECT_EQ(make(gib(2)).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(device.pieces.size(), 5u);
  EXPECT_TRUE(make(Bytes(0)).ok());
}

}  // namespace
}  // namespace causeway::device::paced_registration_test
