#include "device/host/host_machine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/random.h"
#include "device/testing/device_conformance.h"

namespace causeway::device::host_machine_test {
namespace {

constexpr Bytes kExtent = mib(1);
constexpr Nanos kPatience = seconds(60);

class Conforming final : public testing::ConformanceMachine {
 public:
  static Result<std::unique_ptr<testing::ConformanceMachine>> make(const Clock& clock,
                                                                   HostMemory& memory) {
    auto made = std::make_unique<Conforming>();
    CAUSEWAY_ASSIGN(made->machine_,
                    HostMachine::create({.devices = 2, .extent_bytes = testing::kConformanceExtent},
                                        clock, memory));
    return std::unique_ptr<testing::ConformanceMachine>(std::move(made));
  }
  Result<std::unique_ptr<Device>> open(const SliceSpec& slice) override {
    return machine_->open(slice);
  }
  int physical_devices() const override { return 2; }

 private:
  std::unique_ptr<HostMachine> machine_;
};

using testing::DeviceConformance;
INSTANTIATE_TEST_SUITE_P(Host, DeviceConformance,
                         ::testing::Values(testing::conformance("host", Conforming::make)),
                         testing::conformance_name);

// A machine with small extents, a host region, and one device (or more) with an arena.
class HostMachineTest : public ::testing::Test {
 protected:
  void set_up(std::optional<LinkProfile> links = std::nullopt, int devices = 1,
              Bytes region = mib(8)) {
    auto created = HostMachine::create(
        {.devices = devices, .links = std::move(links), .extent_bytes = kExtent}, clock_, memory_);
    ASSERT_TRUE(created.ok()) << created.error().message;
    machine_ = std::move(created).value();
    for (int d = 0; d < devices; ++d) {
      devices_.push_back(machine_
                             ->open({.name = "d" + std::to_string(d),
                                     .physical_device = d,
                                     .arena_bytes = mib(8) + kib(3)})
                             .value());
      extents_.push_back(devices_.back()->arena().allocate(8, Arena::End::kLow).value());
    }
    region_ = memory_.allocate({.name = "test", .bytes = region}).value();
    host_ = memory_.resolve({region_, Bytes(0)}, region);
  }
  ~HostMachineTest() override {
    streams_.clear();
    extents_.clear();
    devices_.clear();
  }
  Stream& stream(int device = 0) {
    streams_.push_back(devices_[static_cast<std::size_t>(device)]->make_stream("s").value());
    return *streams_.back();
  }
  MemoryAddress host(Bytes offset) const { return MemoryAddress::in_host({region_, offset}); }
  MemoryAddress arena(Bytes offset, int device = 0) const {
    return MemoryAddress::in_arena(devices_[static_cast<std::size_t>(device)]->id(), offset);
  }
  std::byte* arena_bytes(int device = 0) const {
    return extents_[static_cast<std::size_t>(device)].data();
  }
  Status copy(Stream& on, Copy copy, CopyPriority priority = CopyPriority::kStep) {
    return on.copy({&copy, 1}, priority);
  }

  RealClock clock_;
  HostMemory memory_;
  std::unique_ptr<HostMachine> machine_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Extents> extents_;
  std::vector<std::unique_ptr<Stream>> streams_;
  RegionId region_;
  std::span<std::byte> host_;
};

TEST_F(HostMachineTest, BatchesCopyBetweenAllMemories) {
  set_up(std::nullopt, 2);
  Random random(3);
  for (auto& byte : host_) byte = static_cast<std::byte>(random.bits());
  std::vector<Copy> in, across, back;
  for (std::int64_t i = 0; i < 64; ++i) {  // scattered: piece i lands at 63 - i
    in.push_back({arena(kib(64) * (63 - i)), host(kib(64) * i), kib(64)});
    across.push_back({arena(kib(64) * i, 1), arena(kib(64) * i, 0), kib(64)});
    back.push_back({host(mib(4) + kib(64) * i), arena(kib(64) * (63 - i), 1), kib(64)});
  }
  Stream& s = stream();
  ASSERT_TRUE(s.copy(in, CopyPriority::kKvIn).ok());
  ASSERT_TRUE(s.copy(across, CopyPriority::kPromotion).ok());
  ASSERT_TRUE(s.copy(back, CopyPriority::kTwin).ok());
  ASSERT_TRUE(s.synchronize(kPatience).ok());
  EXPECT_EQ(std::memcmp(host_.data(), host_.data() + (4 << 20), 4 << 20), 0);
  EXPECT_EQ(machine_->moved(kHostEnd, 0, CopyPriority::kKvIn), mib(4));
  EXPECT_EQ(machine_->moved(0, 1, CopyPriority::kPromotion), mib(4));
  EXPECT_EQ(machine_->moved(1, kHostEnd, CopyPriority::kTwin), mib(4));
  EXPECT_EQ(machine_->moved(kHostEnd, 0, CopyPriority::kStep), Bytes(0));
}

TEST_F(HostMachineTest, DestroyingAStreamCancelsWhatIsLeft) {
  LinkTree slow{.link = 1e6, .link_duplex = 1e6};  // 8 MiB would take 8 s
  set_up(make_link_tree(slow));
  const auto event = devices_[0]->make_event().value();
  {
    Stream& s = stream();
    ASSERT_TRUE(copy(s, {arena(Bytes(0)), host(Bytes(0)), mib(8)}).ok());
    ASSERT_TRUE(s.record(*event).ok());
    streams_.clear();
  }
  EXPECT_EQ(event->wait(kPatience).error().code, ErrorCode::kCancelled);
  EXPECT_LT(machine_->moved(kHostEnd, 0, CopyPriority::kStep), mib(8));
}

TEST_F(HostMachineTest, BadSlicesAndMachinesAreNamed) {
  set_up();
  EXPECT_EQ(machine_->open({.name = "x", .physical_device = 1}).error().code, ErrorCode::kNotFound);
  for (const int processors : {-1, machine_->processors() + 1}) {
    EXPECT_EQ(machine_->open({.name = "x", .processors = processors}).error().code,
              ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(machine_->open({.name = "x", .arena_bytes = Bytes(-1)}).ok());
  EXPECT_FALSE(HostMachine::create({.devices = 0}, clock_, memory_).ok());
  EXPECT_FALSE(
      HostMachine::create({.links = make_link_tree({.devices = 2})}, clock_, memory_).ok());
  LinkProfile bad = make_link_tree({});
  bad.resources[0].bytes_per_second = -1;
  EXPECT_FALSE(HostMachine::create({.links = bad}, clock_, memory_).ok());
}

TEST_F(HostMachineTest, MissingPathsAreUnsupported) {
  set_up(make_link_tree({.devices = 2, .peer_link = 0}), 2);
  EXPECT_FALSE(devices_[0]->capabilities().peer_copies);
  EXPECT_EQ(copy(stream(), {arena(Bytes(0), 1), arena(Bytes(0), 0), kib(1)}).error().code,
            ErrorCode::kUnsupported);
  EXPECT_TRUE(copy(stream(), {arena(kib(1)), arena(Bytes(0)), kib(1)}).ok());  // within one
}

// The model's time passes on the machine's clock, so these compare durations with bounds that hold
// on a busy machine: never faster than the model, and in the order that it gives.
class PacedTest : public HostMachineTest {
 protected:
  // Runs copies, each on a stream of its own; returns when each was done, in seconds from the
  // start.
  struct Timed {
    Copy copy;
    CopyPriority priority = CopyPriority::kStep;
    int device = 0;
  };
  std::vector<double> time(const std::vector<Timed>& copies) {
    std::vector<std::unique_ptr<Event>> events;
    std::vector<Stream*> on;
    for (const Timed& timed : copies) {
      on.push_back(&stream(timed.device));
      events.push_back(devices_[0]->make_event().value());
    }
    const Nanos start = clock_.now();
    for (std::size_t i = 0; i < copies.size(); ++i) {
      EXPECT_TRUE(copy(*on[i], copies[i].copy, copies[i].priority).ok());
      EXPECT_TRUE(on[i]->record(*events[i]).ok());
    }
    std::vector<double> seconds;
    for (const auto& event : events) {
      EXPECT_TRUE(event->wait(kPatience).ok());
      seconds.push_back(to_seconds(event->completed_at().value() - start));
    }
    return seconds;
  }
};

TEST_F(PacedTest, OneLinkRunsAtItsRate) {
  set_up(make_link_tree({.link = 80e6, .link_duplex = 160e6}));
  const auto done = time({{{arena(Bytes(0)), host(Bytes(0)), mib(8)}}});
  EXPECT_GE(done[0], 8.388608 / 80);
  EXPECT_LT(done[0], 8.388608 / 80 * 20);
  EXPECT_EQ(machine_->accounted(0), mib(8));
  EXPECT_EQ(machine_->moved(kHostEnd, 0, CopyPriority::kStep), mib(8));
}

TEST_F(PacedTest, BothWaysAreBoundByTheirSum) {
  set_up(make_link_tree({.link = 80e6, .link_duplex = 100e6}));
  const auto done =
      time({{{arena(Bytes(0)), host(Bytes(0)), mib(4)}}, {{host(mib(4)), arena(mib(4)), mib(4)}}});
  EXPECT_GE(std::max(done[0], done[1]), 8.388608 / 100);  // 8 MiB over the duplex sum
  EXPECT_EQ(machine_->accounted(2), mib(8));
}

TEST_F(PacedTest, DevicesBehindASwitchShareIt) {
  LinkTree tree{.devices = 2, .link = 80e6, .link_duplex = 160e6, .devices_per_switch = 2};
  tree.switch_link = 90e6;
  set_up(make_link_tree(tree), 2);
  const auto done = time({{{arena(Bytes(0), 0), host(Bytes(0)), mib(4)}},
                          {{arena(Bytes(0), 1), host(mib(4)), mib(4)}, CopyPriority::kStep, 1}});
  EXPECT_GE(std::max(done[0], done[1]), 8.388608 / 90);
}

TEST_F(PacedTest, UrgentBytesOvertake) {
  set_up(make_link_tree({.link = 40e6, .link_duplex = 80e6}));
  const auto done = time({{{arena(Bytes(0)), host(Bytes(0)), mib(6)}, CopyPriority::kPromotion},
                          {{arena(mib(6)), host(mib(6)), mib(1)}, CopyPriority::kStep}});
  EXPECT_LT(done[1], done[0]);
  EXPECT_GE(done[0], 7.340032 / 40);  // and lose no bandwidth by it
}

TEST_F(PacedTest, VirtualTimeDecides) {
  ManualClock clock;
  HostMemory memory;
  const RegionId region = memory.allocate({.name = "test", .bytes = mib(1)}).value();
  auto machine =
      HostMachine::create(
          {.links = make_link_tree({.link = 1e6, .link_duplex = 2e6, .latency = millis(5)}),
           .extent_bytes = kExtent},
          clock, memory)
          .value();
  const auto device = machine->open({.name = "d", .arena_bytes = mib(1)}).value();
  const Extents extents = device->arena().allocate(1, Arena::End::kLow).value();
  const auto s = device->make_stream("s").value();
  const auto event = device->make_event().value();
  const Copy copy{MemoryAddress::in_arena(device->id(), Bytes(0)),
                  MemoryAddress::in_host({region, Bytes(0)}), Bytes(1'000'000)};
  ASSERT_TRUE(s->copy({&copy, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(s->record(*event).ok());
  EXPECT_EQ(event->wait(millis(30)).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(machine->accounted(0), Bytes(0));
  // The transfer starts when its thread runs, so more than one attempt may be needed.
  int jumps = 0;
  do {
    clock.advance(seconds(2));
    ++jumps;
  } while (!event->wait(millis(50)).ok() && jumps < 1'000);
  EXPECT_GE(event->completed_at().value(), millis(1'005));
  EXPECT_EQ(machine->accounted(0), Bytes(1'000'000));
}

// Many threads, streams and events at once; what arrives must be what was sent.
TEST_F(HostMachineTest, StressKeepsEveryByte) {
  set_up(make_link_tree({.devices = 2, .link = 3e9, .link_duplex = 5e9, .peer_link = 4e9}), 2);
  constexpr int kWorkers = 4;
  std::vector<std::thread> workers;
  std::atomic<std::int64_t> sent{0};
  for (int w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&, w] {
      Random random(static_cast<std::uint64_t>(w));
      const Bytes mine = mib(2) * w;  // of every memory; one half is sent, the other received
      for (int round = 0; round < 12; ++round) {
        auto in = devices_[0]->make_stream("in").value();
        auto out = devices_[1]->make_stream("out").value();
        const auto arrived = devices_[0]->make_event().value();
        const Bytes size(random.between(1, 1 << 20));
        for (std::int64_t i = 0; i < size.count; ++i) {
          host_[to_size(mine) + static_cast<std::size_t>(i)] =
              static_cast<std::byte>(random.bits());
        }
        const auto priority = static_cast<CopyPriority>(random.below(kCopyPriorities));
        EXPECT_TRUE(copy(*in, {arena(mine, 0), host(mine), size}, priority).ok());
        EXPECT_TRUE(copy(*in, {arena(mine, 1), arena(mine, 0), size}, priority).ok());
        EXPECT_TRUE(in->record(*arrived).ok());
        EXPECT_TRUE(out->wait(*arrived).ok());
        EXPECT_TRUE(copy(*out, {host(mine + mib(1)), arena(mine, 1), size}, priority).ok());
        EXPECT_TRUE(out->synchronize(kPatience).ok());
        EXPECT_EQ(std::memcmp(host_.data() + mine.count, host_.data() + mine.count + (1 << 20),
                              to_size(size)),
                  0);
        sent += size.count;
      }
    });
  }
  for (auto& worker : workers) worker.join();
  Bytes moved;
  for (int p = 0; p < kCopyPriorities; ++p) {
    moved += machine_->moved(kHostEnd, 0, static_cast<CopyPriority>(p));
  }
  EXPECT_EQ(moved.count, sent.load());
  EXPECT_EQ(machine_->accounted(0).count, sent.load());  // device0.in
}

TEST(HostMachine, AWaitForASemaphoreEndsWithItsStream) {
  const RealClock clock;
  HostMemory memory;
  const auto machine = HostMachine::create({}, clock, memory).value();
  const auto device = machine->open({.name = "d"}).value();
  const auto never = device->make_semaphore().value();
  const auto mark = device->make_event().value();
  auto s = device->make_stream("s").value();
  ASSERT_TRUE(s->wait(*never, 1).ok());
  ASSERT_TRUE(s->record(*mark).ok());
  EXPECT_EQ(mark->wait(millis(5)).error().code, ErrorCode::kDeadlineExceeded);
  s.reset();
  EXPECT_EQ(mark->wait(seconds(60)).error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace causeway::device::host_machine_test
