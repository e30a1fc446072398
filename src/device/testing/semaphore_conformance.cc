#include <algorithm>
#include <atomic>
#include <thread>

#include "device/testing/conformance_parts.h"

namespace causeway::device::testing {

void link_semaphore_conformance() {}

TEST_P(DeviceConformance, SemaphoresOrderStreams) {
  ASSERT_TRUE(devices_[0]->capabilities().semaphores);
  Random random(29);
  const int far = static_cast<int>(devices_.size()) - 1;
  for (const bool behind_work : {false, true}) {
    fill(host_, random);
    std::fill_n(host_.data() + mib(4).count, mib(1).count, std::byte{0});
    const auto gate = semaphore();
    const auto arrived = semaphore(far);
    const auto a = stream();
    const auto b = stream();
    const auto end = event();
    Door door;
    if (behind_work) {
      ASSERT_TRUE(a->run([&] { return door.pass(); }).ok());
      ASSERT_TRUE(b->run([]() -> Status { return {}; }).ok());
    }
    ASSERT_TRUE(a->wait(*gate, 1).ok());
    ASSERT_TRUE(copy(*a, {arena(Bytes(0)), host(Bytes(0)), mib(1)}).ok());
    ASSERT_TRUE(a->signal(*arrived, 7).ok());
    ASSERT_TRUE(b->wait(*arrived, 7).ok());
    ASSERT_TRUE(copy(*b, {host(mib(4)), arena(Bytes(0)), mib(1)}).ok());
    ASSERT_TRUE(b->record(*end).ok());
    EXPECT_FALSE(end->done().value());
    EXPECT_EQ(end->wait(millis(5)).error().code, ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(arrived->value(), 0u);
    gate->raise(1);  // the host lets the first go on
    door.open();
    ASSERT_TRUE(arrived->wait(7, kPatience).ok());
    ASSERT_TRUE(end->wait(kPatience).ok());
    EXPECT_EQ(std::memcmp(host_.data(), host_.data() + mib(4).count, to_size(mib(1))), 0);
    EXPECT_TRUE(a->synchronize(kPatience).ok());
  }
}

TEST_P(DeviceConformance, SemaphoresServeAllDevices) {
  if (devices_.size() < 2) GTEST_SKIP() << "one device";
  const auto there = semaphore(1);
  const auto a = stream(0);
  const auto b = stream(1);
  Random random(31);
  fill(host_, random);
  ASSERT_TRUE(b->wait(*there, 1).ok());
  ASSERT_TRUE(copy(*b, {arena(Bytes(0), 1), host(mib(1)), mib(1)}).ok());
  ASSERT_TRUE(copy(*a, {arena(Bytes(0)), host(Bytes(0)), mib(1)}).ok());
  ASSERT_TRUE(copy(*a, {host(mib(1)), arena(Bytes(0)), mib(1)}).ok());
  ASSERT_TRUE(a->signal(*there, 1).ok());
  ASSERT_TRUE(b->synchronize(kPatience).ok());
  const auto seen = read(Bytes(0), mib(1), 1);
  EXPECT_EQ(std::memcmp(seen.data(), host_.data(), seen.size()), 0);
}

TEST_P(DeviceConformance, SemaphoresOnlyGrow) {
  const auto counter = semaphore();
  const auto s = stream();
  EXPECT_EQ(counter->value(), 0u);
  EXPECT_TRUE(counter->wait(0, Nanos(0)).ok());
  counter->raise(5);
  counter->raise(3);
  EXPECT_EQ(counter->value(), 5u);
  ASSERT_TRUE(s->signal(*counter, 4).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_EQ(counter->value(), 5u);
  ASSERT_TRUE(s->signal(*counter, 6).ok());
  ASSERT_TRUE(s->signal(*counter, 9).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_EQ(counter->value(), 9u);
  // There is no wait for a value that is reached.
  for (std::uint32_t i = 0; i < 1'000; ++i) ASSERT_TRUE(s->wait(*counter, i % 10).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  const Nanos begin = clock_.now();
  const Status late = counter->wait(10, millis(20));
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_NE(late.error().message.find("10"), std::string::npos) << late.error().message;
  EXPECT_GE(clock_.now() - begin, millis(20));
  // Around the end of the numbers.
  counter->raise(0x7000'0000);
  counter->raise(0xE000'0000);
  EXPECT_TRUE(counter->wait(0x7000'0000, Nanos(0)).ok());
  ASSERT_TRUE(s->signal(*counter, 2).ok());
  ASSERT_TRUE(s->wait(*counter, 0xFFFF'FFFF).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_EQ(counter->value(), 2u);
}

TEST_P(DeviceConformance, SemaphoresAreManyAndUsedAgain) {
  for (int round = 0; round < 2; ++round) {
    const auto gate = semaphore();
    const auto a = stream();
    const auto b = stream();
    std::vector<std::unique_ptr<Semaphore>> many;
    for (int i = 0; i < 1'500; ++i) {
      many.push_back(semaphore());
      ASSERT_EQ(many.back()->value(), 0u);
    }
    ASSERT_TRUE(a->wait(*gate, 1).ok());
    for (std::uint32_t i = 0; i < 200; ++i) {  // each waits for the other by turns
      Semaphore& here = *many[i];
      ASSERT_TRUE((i % 2 == 0 ? a : b)->signal(here, i + 1).ok());
      ASSERT_TRUE((i % 2 == 0 ? b : a)->wait(here, i + 1).ok());
    }
    EXPECT_EQ(b->synchronize(millis(2)).error().code, ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(many[0]->value(), 0u);
    for (std::size_t i = 200; i < many.size(); ++i) {
      many[i]->raise(static_cast<std::uint32_t>(i));
    }
    gate->raise(1);
    ASSERT_TRUE(a->synchronize(kPatience).ok());
    ASSERT_TRUE(b->synchronize(kPatience).ok());
    for (std::size_t i = 0; i < many.size(); ++i) {
      EXPECT_EQ(many[i]->value(), i < 200 ? i + 1 : i);
    }
  }
}

TEST_P(DeviceConformance, AFailedStreamRaisesNothing) {
  const auto done = semaphore();
  const auto a = stream();
  const auto b = stream();
  bool ran = false;
  ASSERT_TRUE(a->run([]() -> Status { return corrupt("planted"); }).ok());
  ASSERT_TRUE(a->signal(*done, 1).ok());
  ASSERT_TRUE(a->wait(*done, 1).ok());  // skipped
  ASSERT_TRUE(b->wait(*done, 1).ok());
  ASSERT_TRUE(b->run([&]() -> Status {
                 ran = true;
                 return {};
               }).ok());
  EXPECT_EQ(a->synchronize(kPatience).error().code, ErrorCode::kCorrupt);
  ASSERT_TRUE(a->signal(*done, 1).ok());
  EXPECT_EQ(a->synchronize(kPatience).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(b->synchronize(millis(5)).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(done->value(), 0u);
  done->raise(1);  // the owner must do it
  EXPECT_TRUE(b->synchronize(kPatience).ok());
  EXPECT_TRUE(ran);
}

TEST_P(DeviceConformance, DestroyingAStreamForgetsItsSemaphores) {
  const auto never = semaphore();
  const auto unraised = semaphore();
  auto s = stream();
  Door door;
  ASSERT_TRUE(s->run([&] { return door.pass(); }).ok());
  for (int i = 0; i < 200; ++i) {  // enough to be under way when the stream goes
    ASSERT_TRUE(s->run([]() -> Status {
                   std::mutex mutex;
                   std::unique_lock lock(mutex);
                   std::condition_variable().wait_for(lock, std::chrono::milliseconds(5));
                   return {};
                 }).ok());
  }
  ASSERT_TRUE(s->signal(*unraised, 1).ok());
  ASSERT_TRUE(s->wait(*never, 1).ok());
  door.wait_for_guest();
  door.open();
  s.reset();
  EXPECT_EQ(unraised->value(), 0u);
  // And the same for one that waits on the device, once the owner has raised.
  s = stream();
  ASSERT_TRUE(s->wait(*never, 1).ok());
  never->raise(1);
  s.reset();
  EXPECT_TRUE(devices_[0]->health().ok());
}

TEST_P(DeviceConformance, SemaphoresUnderStress) {
  constexpr std::uint32_t kRounds = 60;
  const auto ping = semaphore();
  const auto pong = semaphore();
  std::atomic<std::uint32_t> raised{0};
  std::thread host([&] {  // half of the raises come from here
    for (std::uint32_t i = 1; i <= kRounds; ++i) {
      EXPECT_TRUE(pong->wait(i, kPatience).ok());
      raised.store(i);
      ping->raise(i);
    }
  });
  const auto s = stream();
  const auto other = stream();
  for (std::uint32_t i = 1; i <= kRounds; ++i) {
    EXPECT_TRUE(s->signal(*pong, i).ok());
    EXPECT_TRUE(s->wait(*ping, i).ok());
    EXPECT_TRUE(other->wait(*ping, i).ok());
    if (i % 7 != 0) continue;
    EXPECT_TRUE(other
                    ->run([&, i]() -> Status {
                      return raised.load() >= i ? Status() : Status(corrupt("too early"));
                    })
                    .ok());
  }
  EXPECT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_TRUE(other->synchronize(kPatience).ok());
  host.join();
}

}  // namespace causeway::device::testing
