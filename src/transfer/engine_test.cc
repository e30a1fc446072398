#include "transfer/engine.h"

#include <gtest/gtest.h>

#include <thread>

#include "transfer/testing/bench_machine.h"

namespace causeway::transfer::engine_test {
namespace {

using testing::BenchMachine;
using testing::FaultPlan;
using testing::kPatience;
using testing::small_chunks;

Bytes relayed_bytes(const TransferStats& stats, Direction direction) {
  Bytes bytes;
  for (const auto& link : stats.links) bytes += link[index_of(direction)].relayed;
  return bytes;
}

Bytes all_bytes(const TransferStats& stats) {
  Bytes bytes;
  for (const auto& link : stats.links) {
    for (const LinkTraffic& way : link) bytes += way.direct + way.relayed;
  }
  return bytes;
}

class Engine : public ::testing::TestWithParam<Direction> {};
INSTANTIATE_TEST_SUITE_P(Ways, Engine, ::testing::ValuesIn(kBothDirections),
                         [](const auto& way) { return std::string(name_of(way.param)); });

TEST_P(Engine, MovesALargeTransferOverAllLinks) {
  // Links are slow, so that no link can do everything before the others begin.
  BenchMachine machine({.links = device::make_link_tree({.devices = 3,
                                                         .link = 40e6,
                                                         .link_duplex = 80e6,
                                                         .peer_link = 2e9,
                                                         .latency = micros(10)})});
  machine.start();
  ASSERT_TRUE(machine.move_and_compare(GetParam(), 1, mib(8)).ok());
  const TransferStats stats = machine.engine->stats();
  EXPECT_EQ(all_bytes(stats), mib(8));
  EXPECT_EQ(stats.transfers, 1);
  for (const int relay : {0, 2}) {
    EXPECT_GT(stats.links[static_cast<std::size_t>(relay)][index_of(GetParam())].relayed, kib(512));
  }
  EXPECT_GT(stats.links[1][index_of(GetParam())].direct, kib(512));
}

TEST_P(Engine, SmallTransfersGoDirectWithoutItsThread) {
  BenchMachine machine;
  machine.start();
  for (const Bytes bytes : {Bytes(0), Bytes(1), Bytes(4'097), kib(127)}) {
    ASSERT_TRUE(machine.move_and_compare(GetParam(), 0, bytes).ok()) << bytes.count;
  }
  const TransferStats stats = machine.engine->stats();
  EXPECT_LE(stats.transfers, 1);  // the empty one
  EXPECT_EQ(relayed_bytes(stats, GetParam()), Bytes(0));
}

TEST_P(Engine, WaitsForWhatTheSourceIsMadeBy) {
  BenchMachine machine;
  machine.start();
  for (const Bytes bytes : {kib(5), mib(2)}) {
    FaultPlan door;  // outlives the stream, which waits at it
    const auto stream = machine.device(0).make_stream("maker").value();
    const auto made = machine.device(0).make_event().value();
    const auto source = GetParam() == Direction::kIn ? machine.host_bytes(Bytes(0), bytes)
                                                     : machine.device_bytes(2, Bytes(0), bytes);
    const auto target = GetParam() == Direction::kIn ? machine.device_bytes(2, Bytes(0), bytes)
                                                     : machine.host_bytes(Bytes(0), bytes);
    std::fill(source.begin(), source.end(), std::byte{1});
    ASSERT_TRUE(stream->run([&] { return door.wait_for_release(); }).ok());
    ASSERT_TRUE(stream
                    ->run([&]() -> Status {
                      std::fill(source.begin(), source.end(), std::byte{2});
                      return {};
                    })
                    .ok());
    ASSERT_TRUE(stream->record(*made).ok());
    TransferRequest request = machine.request(GetParam(), 2, bytes);
    request.after = made.get();
    const Completion completion = machine.engine->submit(std::move(request)).value();
    EXPECT_EQ(completion.wait(millis(30)).error().code, ErrorCode::kDeadlineExceeded);
    EXPECT_FALSE(completion.done().value());
    door.release();
    ASSERT_TRUE(completion.wait(kPatience).ok());
    EXPECT_TRUE(completion.done().value());
    EXPECT_TRUE(
        std::all_of(target.begin(), target.end(), [](std::byte b) { return b == std::byte{2}; }));
  }
}

TEST_P(Engine, CountsBytesByWhatTheyAreFor) {
  BenchMachine machine;
  machine.start();
  PurposeTraffic expected;
  for (int p = 0; p < device::kCopyPriorities; ++p) {
    for (const Bytes bytes : {kib(5 + p), mib(1) + kib(p)}) {
      TransferRequest request = machine.request(GetParam(), p % 2, bytes);
      request.priority = static_cast<device::CopyPriority>(p);
      ASSERT_TRUE(machine.engine->submit(std::move(request))->wait(kPatience).ok());
      expected[static_cast<std::size_t>(p)][index_of(GetParam())] += bytes;
    }
  }
  EXPECT_EQ(machine.engine->stats().by_purpose, expected);
  // Bytes of failed copies are not counted; bytes that are moved again are counted once.
  machine.faults(0).next(FaultPlan::Kind::kFail, 1, 1);
  ASSERT_TRUE(machine.move_and_compare(GetParam(), 0, mib(4)).ok());
  expected[0][index_of(GetParam())] += mib(4);
  EXPECT_EQ(machine.engine->stats().by_purpose, expected);
  EXPECT_EQ(all_bytes(machine.engine->stats()), [&] {
    Bytes sum;
    for (const auto& purpose : expected) sum += purpose[index_of(GetParam())];
    return sum;
  }());
}

// The semaphore is raised by the stream, by the engine's thread, or by both.
TEST_P(Engine, TheSignalIsRaisedWhenTheBytesAreThere) {
  BenchMachine machine;
  machine.start();
  const auto arrived = machine.device(0).make_semaphore().value();
  const auto reader = machine.device(2).make_stream("reader").value();
  std::uint32_t value = 0;
  for (const Bytes bytes : {Bytes(0), kib(5), kib(100), mib(4)}) {
    for (const LinkSet only : {LinkSet(), LinkSet::of(1), LinkSet::of(0)}) {
      Random random(value);
      const auto a = machine.host_bytes(Bytes(0), bytes);
      const auto b = machine.device_bytes(1, Bytes(0), bytes);
      testing::fill(GetParam() == Direction::kIn ? a : b, random);
      TransferRequest request = machine.request(GetParam(), 1, bytes);
      request.only = only;
      request.signal = arrived.get();
      request.signal_value = ++value;
      const Completion completion = machine.engine->submit(std::move(request)).value();
      bool same = false;
      ASSERT_TRUE(reader->wait(*arrived, value).ok());
      ASSERT_TRUE(reader
                      ->run([&]() -> Status {
                        same = std::equal(a.begin(), a.end(), b.begin());
                        return {};
                      })
                      .ok());
      ASSERT_TRUE(reader->synchronize(kPatience).ok());
      EXPECT_TRUE(same) << bytes.count << " over " << text_of(only);
      ASSERT_TRUE(completion.wait(kPatience).ok());
      EXPECT_EQ(arrived->value(), value);
    }
  }
}

TEST_P(Engine, WhatIsMovedAgainRaisesTheSignalAtItsEnd) {
  for (const FaultPlan::Kind kind : {FaultPlan::Kind::kRefuse, FaultPlan::Kind::kFail}) {
    for (const int skip : {0, 1, 2, 3}) {
      BenchMachine machine({.devices = 1});
      machine.start();
      machine.faults(0).next(kind, 1, skip);
      const auto arrived = machine.device(0).make_semaphore().value();
      Random random(4);
      const auto a = machine.host_bytes(Bytes(0), mib(1));
      const auto b = machine.device_bytes(0, Bytes(0), mib(1));
      testing::fill(GetParam() == Direction::kIn ? a : b, random);
      TransferRequest request = machine.request(GetParam(), 0, mib(1));
      request.signal = arrived.get();
      request.signal_value = 1;
      const Completion completion = machine.engine->submit(std::move(request)).value();
      ASSERT_TRUE(arrived->wait(1, kPatience).ok());
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
      EXPECT_TRUE(completion.wait(kPatience).ok());
      EXPECT_EQ(machine.faults(0).happened(), 1);
    }
  }
}

// The links are modelled, so that the transfer is half-way when it fails.
TEST_P(Engine, ATransferThatFailsLeavesItsSignalToTheSubmitter) {
  for (const Bytes bytes : {kib(100), mib(2)}) {
    BenchMachine machine({.links = device::make_link_tree(
                              {.devices = 2, .link = 40e6, .link_duplex = 80e6, .peer_link = 0})});
    machine.start();
    const bool small = bytes < kib(128);
    machine.faults(0).next(FaultPlan::Kind::kFail, 1'000'000, small ? 0 : 2);
    const auto arrived = machine.device(0).make_semaphore().value();
    const auto steps = machine.device(0).make_stream("steps").value();
    TransferRequest request = machine.request(GetParam(), 0, bytes);
    request.signal = arrived.get();
    request.signal_value = 1;
    const Completion completion = machine.engine->submit(std::move(request)).value();
    bool ran = false;
    ASSERT_TRUE(steps->wait(*arrived, 1).ok());
    ASSERT_TRUE(steps
                    ->run([&]() -> Status {
                      ran = true;
                      return {};
                    })
                    .ok());
    EXPECT_EQ(completion.wait(kPatience).error().code, ErrorCode::kDevice);
    EXPECT_EQ(arrived->value(), 0u);
    EXPECT_EQ(steps->synchronize(millis(5)).error().code, ErrorCode::kDeadlineExceeded);
    arrived->raise(1);
    EXPECT_TRUE(steps->synchronize(kPatience).ok());
    EXPECT_TRUE(ran);
    machine.faults(0).next(FaultPlan::Kind::kFail, 0);
    EXPECT_TRUE(machine.move_and_compare(GetParam(), 0, bytes).ok()) << "it works again";
  }
}

TEST_P(Engine, AFailingRelayIsReplacedByTheDirectWay) {
  for (const FaultPlan::Kind kind : {FaultPlan::Kind::kFail, FaultPlan::Kind::kRefuse}) {
    for (int skip = 0; skip < 4; ++skip) {
      BenchMachine machine;
      machine.start();
      machine.faults(1).next(kind, 1, skip);
      ASSERT_TRUE(machine.move_and_compare(GetParam(), 0, mib(8)).ok());
      if (machine.faults(1).happened() == 0) continue;
      const TransferStats stats = machine.engine->stats();
      EXPECT_GE(stats.retries, 1);
      EXPECT_EQ(stats.failures, 0);
      EXPECT_EQ(stats.relays_off, 1);
      ASSERT_TRUE(machine.move_and_compare(GetParam(), 1, mib(4), 2).ok()) << "its own link works";
    }
  }
}

TEST_P(Engine, ARelayThatFailedOnceRestsAndReturns) {
  BenchMachine machine({.links = device::make_link_tree(
                            {.devices = 3, .link = 40e6, .link_duplex = 80e6, .peer_link = 2e9})});
  TransferEngineOptions options = small_chunks();
  options.relay_rest = millis(5);
  machine.start(options);
  machine.faults(1).next(FaultPlan::Kind::kFail, 1);
  ASSERT_TRUE(machine.move_and_compare(GetParam(), 0, mib(8)).ok());
  ASSERT_EQ(machine.faults(1).happened(), 1);
  ASSERT_TRUE(machine.move_and_compare(GetParam(), 0, mib(8), 2).ok());
  EXPECT_EQ(machine.engine->stats().relays_off, 0);
  EXPECT_GT(machine.engine->stats().links[1][index_of(GetParam())].relayed, kib(512));
}

// When streams were asked for all the time, the relay's rest grew to hours.
TEST_P(Engine, ARelayReturnsWhenItsStreamsCouldNotBeMadeForAMoment) {
  BenchMachine machine({.links = device::make_link_tree(
                            {.devices = 3, .link = 40e6, .link_duplex = 80e6, .peer_link = 2e9})});
  TransferEngineOptions options = small_chunks();
  options.relay_rest = millis(5);
  machine.start(options);
  machine.faults(1).next(FaultPlan::Kind::kFail, 1);
  machine.faults(1).refuse_streams(true);
  ASSERT_TRUE(machine.move_and_compare(GetParam(), 0, mib(8)).ok());
  ASSERT_EQ(machine.faults(1).happened(), 1);
  EXPECT_EQ(machine.engine->stats().relays_off, 1);
  EXPECT_EQ(machine.move_and_compare(GetParam(), 1, mib(1)).error().code,
            ErrorCode::kResourceExhausted);
  machine.faults(1).refuse_streams(false);
  EXPECT_TRUE(machine.move_and_compare(GetParam(), 1, mib(1)).ok()) << "its own link works at once";
  const Nanos end = machine.clock.now() + kPatience;
  while (machine.engine->stats().relays_off > 0 && machine.clock.now() < end) {
    ASSERT_TRUE(machine.move_and_compare(GetParam(), 0, mib(1)).ok());
  }
  EXPECT_EQ(machine.engine->stats().relays_off, 0);
}

TEST_P(Engine, AChunkOfTheOnlyLinkIsMovedAgain) {
  for (const FaultPlan::Kind kind : {FaultPlan::Kind::kRefuse, FaultPlan::Kind::kFail}) {
    for (const int skip : {0, 1}) {
      BenchMachine machine({.devices = 1});
      machine.start();
      machine.faults(0).next(kind, 1, skip);
      EXPECT_TRUE(machine.move_and_compare(GetParam(), 0, mib(4)).ok());
      EXPECT_EQ(machine.faults(0).happened(), 1);
      EXPECT_GE(machine.engine->stats().retries, 1);
    }
  }
}

TEST_P(Engine, AStuckChunkOfTheOnlyLinkIsWaitedFor) {
  BenchMachine machine({.devices = 1});
  TransferEngineOptions options = small_chunks();
  options.chunk_time_max = millis(300);
  machine.start(options);
  machine.faults(0).next(FaultPlan::Kind::kHang, 1, 1);
  Random random(9);
  const auto a = machine.host_bytes(Bytes(0), mib(4));
  const auto b = machine.device_bytes(0, Bytes(0), mib(4));
  testing::fill(GetParam() == Direction::kIn ? a : b, random);
  const Completion completion =
      machine.engine->submit(machine.request(GetParam(), 0, mib(4))).value();
  const Nanos end = machine.clock.now() + kPatience;
  const auto not_yet = [&](Nanos time) {
    EXPECT_EQ(completion.wait(time).error().code, ErrorCode::kDeadlineExceeded);
  };
  while (machine.faults(0).happened() == 0 && machine.clock.now() < end) not_yet(millis(5));
  not_yet(millis(600));  // it is given up meanwhile
  machine.faults(0).release();
  ASSERT_TRUE(completion.wait(kPatience).ok());
  EXPECT_EQ(machine.faults(0).happened(), 1);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
}

TEST_P(Engine, ADirectWayThatAlwaysFailsFailsTheTransferOnly) {
  for (const FaultPlan::Kind kind : {FaultPlan::Kind::kFail, FaultPlan::Kind::kRefuse}) {
    BenchMachine machine;
    machine.start();
    machine.faults(0).next(kind, 1'000'000);
    EXPECT_EQ(machine.move_and_compare(GetParam(), 0, mib(4)).error().code, ErrorCode::kDevice);
    EXPECT_TRUE(machine.move_and_compare(GetParam(), 1, mib(4)).ok());
    machine.faults(0).next(kind, 0);
    EXPECT_TRUE(machine.move_and_compare(GetParam(), 0, mib(4)).ok()) << "it works again";
  }
}

TEST_P(Engine, AStuckRelayIsGivenUpAndWaitedFor) {
  BenchMachine machine(
      {.links = device::make_link_tree(
           {.devices = 2, .link = 400e6, .link_duplex = 800e6, .peer_link = 2e9})});
  TransferEngineOptions options = small_chunks();
  options.chunk_time_max = millis(100);
  machine.start(options);
  machine.faults(1).next(FaultPlan::Kind::kHang, 1);
  Random random(9);
  const bool in = GetParam() == Direction::kIn;
  testing::fill(
      in ? machine.host_bytes(Bytes(0), mib(8)) : machine.device_bytes(0, Bytes(0), mib(8)),
      random);
  const Completion completion =
      machine.engine->submit(machine.request(GetParam(), 0, mib(8))).value();
  const Nanos deadline = machine.clock.now() + kPatience;
  while (machine.engine->stats().relays_off == 0 && machine.clock.now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(machine.engine->stats().relays_off, 1);
  // All bytes arrive soon, but the stuck copy could still write.
  EXPECT_EQ(completion.wait(millis(300)).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_FALSE(completion.done().value());
  machine.faults(1).release();
  ASSERT_TRUE(completion.wait(kPatience).ok());
  const auto a = machine.host_bytes(Bytes(0), mib(8));
  const auto b = machine.device_bytes(0, Bytes(0), mib(8));
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
}

TEST_P(Engine, ACopyThatNeverEndsFailsItsTransferAndThoseBehindIt) {
  BenchMachine machine;
  TransferEngineOptions options = small_chunks();
  options.chunk_time_max = millis(30);
  options.dispatch.relay = RelayPolicy::kNone;  // else relays save those behind it
  options.drain_max = millis(100);
  machine.start(options);
  machine.faults(0).next(FaultPlan::Kind::kHang, 1'000'000);
  std::vector<Completion> completions;
  for (int i = 0; i < 3; ++i) {
    completions.push_back(machine.engine->submit(machine.request(GetParam(), 0, mib(1))).value());
  }
  const Status first = completions[0].wait(kPatience);
  EXPECT_EQ(first.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_NE(first.error().message.find("must not be used"), std::string::npos)
      << first.error().message;
  for (const Completion& completion : completions) {
    EXPECT_FALSE(completion.wait(kPatience).ok());
    EXPECT_FALSE(completion.done().ok()) << "ended, not merely waited for";
  }
  EXPECT_TRUE(machine.move_and_compare(GetParam(), 1, mib(4)).ok()) << "others are not held up";
  machine.faults(0).release();
}

// A target's own link that was not asked for would leave the transfer to the one that was.
TEST_P(Engine, OthersDoNotWaitForALinkThatIsStuckWithItsOwnChunks) {
  for (const bool by_request : {true, false}) {
    BenchMachine machine;
    TransferEngineOptions options = small_chunks();
    options.chunk_time_max = millis(50);
    options.drain_max = millis(100);
    options.dispatch.tune_sets = false;
    PathFacts facts = assume_all_links(3);
    for (WayFacts& way : facts.ways) {
      way.best[0] = LinkSet::of(1);
      way.best_rate[0] = 40e6;
      way.alone = {20e6, 40e6, 20e6};
    }
    machine.start(options, by_request ? assume_all_links(3) : facts);
    machine.faults(1).next(FaultPlan::Kind::kHang, 1'000'000);
    TransferRequest own = machine.request(GetParam(), 1, mib(1));
    own.only = LinkSet::of(1);
    const Completion stuck = machine.engine->submit(std::move(own)).value();
    EXPECT_FALSE(stuck.wait(kPatience).ok());
    TransferRequest other = machine.request(GetParam(), 0, mib(1), mib(4));
    if (by_request) other.only = LinkSet::of(1);
    const Completion completion = machine.engine->submit(std::move(other)).value();
    EXPECT_TRUE(completion.wait(seconds(20)).ok());
    machine.faults(1).release();
  }
}

TEST_P(Engine, ALostRelayIsNotWaitedFor) {
  BenchMachine machine;
  TransferEngineOptions options = small_chunks();
  options.chunk_time_max = millis(30);
  machine.start(options);
  machine.faults(1).next(FaultPlan::Kind::kHang, 1'000'000);
  machine.faults(1).lose();
  EXPECT_TRUE(machine.move_and_compare(GetParam(), 0, mib(8)).ok());
  EXPECT_TRUE(machine.move_and_compare(GetParam(), 2, mib(8)).ok());
  machine.faults(1).release();
}

TEST_P(Engine, AGpuWithoutMemoryForStagingDoesNotRelay) {
  BenchMachine machine({.staging_bytes = Bytes(0)});
  machine.start();
  ASSERT_TRUE(machine.move_and_compare(GetParam(), 0, mib(8)).ok());
  EXPECT_EQ(relayed_bytes(machine.engine->stats(), GetParam()), Bytes(0));
}

TEST_P(Engine, GpusThatDoNotReachEachOtherDoNotRelay) {
  BenchMachine machine(
      {.links = device::make_link_tree({.devices = 3, .link = 2e9, .peer_link = 0})});
  machine.start();
  ASSERT_TRUE(machine.move_and_compare(GetParam(), 0, mib(8)).ok());
  EXPECT_EQ(relayed_bytes(machine.engine->stats(), GetParam()), Bytes(0));
}

// The relay has peers, but not this one.
TEST_P(Engine, APairWithoutAPathIsFoundOut) {
  device::LinkProfile profile = device::make_link_tree({.devices = 3, .link = 2e9});
  std::erase_if(profile.paths, [](const device::LinkPath& path) {
    return path.source != device::kHostEnd && path.target != device::kHostEnd &&
           path.source + path.target == 1;
  });
  BenchMachine machine({.links = profile});
  machine.start();
  ASSERT_TRUE(machine.move_and_compare(GetParam(), 0, mib(8)).ok());
  EXPECT_EQ(machine.engine->stats().links[1][index_of(GetParam())].relayed, Bytes(0));
  EXPECT_EQ(machine.engine->stats().relays_off, 0);
}

TEST_P(Engine, AWrongAddressIsTheRequestsFault) {
  BenchMachine machine;
  machine.start();
  TransferRequest request = machine.request(GetParam(), 0, mib(4));
  request.segments[0].device.offset += mib(7);  // beyond what is handed out
  const Completion completion = machine.engine->submit(std::move(request)).value();
  EXPECT_EQ(completion.wait(kPatience).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(machine.engine->stats().relays_off, 0);
  EXPECT_TRUE(machine.move_and_compare(GetParam(), 0, mib(4)).ok());
}

TEST_P(Engine, DestroyedWithWorkQueuedItEndsWhatItHolds) {
  BenchMachine machine({.links = device::make_link_tree(
                            {.devices = 3, .link = 20e6, .link_duplex = 40e6, .peer_link = 2e9})});
  machine.start();
  const auto never = machine.device(0).make_event().value();
  FaultPlan door;  // outlives the stream, which waits at it
  const auto blocked = machine.device(0).make_stream("blocked").value();
  ASSERT_TRUE(blocked->run([&] { return door.wait_for_release(); }).ok());
  ASSERT_TRUE(blocked->record(*never).ok());
  const auto reader = machine.device(1).make_stream("reader").value();
  TransferRequest gated = machine.request(GetParam(), 1, mib(4), mib(4), mib(4));
  gated.after = never.get();
  {
    const Completion slow = machine.engine->submit(machine.request(GetParam(), 0, mib(4))).value();
    const Completion waiting = machine.engine->submit(std::move(gated)).value();
    EXPECT_FALSE(slow.done().value());
    EXPECT_FALSE(waiting.done().value());
  }
  machine.stop();  // must return: 8 MiB at 20 MB/s would take long
  door.release();
}

TEST(EngineErrors, AnAfterThatFailsOrNeverComesFailsTheTransfer) {
  BenchMachine machine;
  TransferEngineOptions options = small_chunks();
  options.after_time_max = millis(50);
  machine.start(options);
  FaultPlan door;  // outlives the stream, which waits at it
  const auto stream = machine.device(0).make_stream("maker").value();
  const auto event = machine.device(0).make_event().value();
  ASSERT_TRUE(stream->run([&] { return door.wait_for_release(); }).ok());
  ASSERT_TRUE(stream->run([]() -> Status { return corrupt("the maker failed"); }).ok());
  ASSERT_TRUE(stream->record(*event).ok());
  TransferRequest request = machine.request(Direction::kIn, 0, mib(1));
  request.after = event.get();
  const Completion late = machine.engine->submit(request).value();
  EXPECT_EQ(late.wait(kPatience).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(late.done().ok());
  door.release();
  ASSERT_FALSE(stream->synchronize(kPatience).ok());
  const Completion failed = machine.engine->submit(request).value();
  EXPECT_EQ(failed.wait(kPatience).error().code, ErrorCode::kCorrupt);
}

TEST(EngineErrors, WrongRequestsAreRefused) {
  BenchMachine machine({.devices = 2});
  machine.start();
  TransferRequest request = machine.request(Direction::kIn, 0, mib(1));
  request.target = device::DeviceId(77);
  EXPECT_EQ(machine.engine->submit(request).error().code, ErrorCode::kInvalidArgument);
  request = machine.request(Direction::kIn, 0, mib(1));
  request.segments.push_back(machine.request(Direction::kIn, 1, mib(1)).segments[0]);
  EXPECT_EQ(machine.engine->submit(request).error().code, ErrorCode::kInvalidArgument);
  request = machine.request(Direction::kIn, 0, Bytes(-1));
  EXPECT_EQ(machine.engine->submit(request).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(TransferEngine::create({}, {}, assume_all_links(1), machine.clock).ok());
}

}  // namespace
}  // namespace causeway::transfer::engine_test
