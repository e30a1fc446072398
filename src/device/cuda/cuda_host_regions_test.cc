// Host memory registered in pieces, over a fake driver in which copies across a border fail.
#include "device/cuda/cuda_host_regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "base/random.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "device/testing/fake_cuda.h"

namespace causeway::device::cuda_host_regions_test {
namespace {

using testing::FakeCuda;

constexpr Nanos kPatience = seconds(60);
constexpr Bytes kRegion = mib(32);

// Delays registrations before the driver sees them. The driver's functions carry no state.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool closed = false;
  int waiting = 0;
  unsigned flags = 0;  // of the last registration
  decltype(CudaApi::cuMemHostRegister_v2) open_way = nullptr;
} gate;

int register_through_gate(void* address, std::size_t bytes, unsigned flags) {
  {
    std::unique_lock lock(gate.mutex);
    ++gate.waiting;
    gate.flags = flags;
    gate.changed.notify_all();
    gate.changed.wait_for(lock, std::chrono::seconds(60), [] { return !gate.closed; });
    --gate.waiting;
  }
  return gate.open_way(address, bytes, flags);
}

void close_gate(bool closed) {
  const std::lock_guard lock(gate.mutex);
  gate.closed = closed;
  gate.changed.notify_all();
}

bool wait_at_gate() {
  std::unique_lock lock(gate.mutex);
  return gate.changed.wait_for(lock, std::chrono::seconds(60), [] { return gate.waiting > 0; });
}

class CudaHostRegionsTest : public ::testing::Test {
 protected:
  CudaHostRegionsTest() {
    CudaApi api = driver_.api();
    gate.open_way = std::exchange(api.cuMemHostRegister_v2, register_through_gate);
    set_up(api);
  }
  void set_up(const CudaApi& api) {
    extents_ = Extents();
    device_.reset();
    machine_ = CudaMachine::create(api, {.extent_bytes = mib(2)}, clock_, memory_).value();
    device_ = machine_->open({.name = "d", .arena_bytes = kRegion}).value();
    extents_ = device_->arena().allocate(16, Arena::End::kLow).value();
  }
  ~CudaHostRegionsTest() override {
    extents_ = Extents();
    device_.reset();
    machine_.reset();
    EXPECT_EQ(driver_.leaks(), "");
  }
  HostAddress at(Bytes offset) const { return {region_, offset}; }
  MemoryAddress host(Bytes offset) const { return MemoryAddress::in_host(at(offset)); }
  MemoryAddress arena(Bytes offset) const { return MemoryAddress::in_arena(device_->id(), offset); }
  Status copy(Stream& on, const Copy& copy) { return on.copy({&copy, 1}, CopyPriority::kStep); }
  std::int64_t registrations() const { return driver_.calls_of("cuMemHostRegister_v2"); }
  void fill(Bytes begin, Bytes bytes, Random& random) {
    for (std::int64_t i = 0; i < bytes.count; ++i) {
      host_[static_cast<std::size_t>(begin.count + i)] = static_cast<std::byte>(random.bits());
    }
  }
  bool same(Bytes a, Bytes b, Bytes bytes) const {
    return std::memcmp(host_.data() + a.count, host_.data() + b.count, to_size(bytes)) == 0;
  }

  RealClock clock_;
  HostMemory memory_;
  FakeCuda driver_;
  std::unique_ptr<CudaMachine> machine_;
  std::unique_ptr<Device> device_;
  Extents extents_;
  RegionId region_ = memory_.allocate({.name = "test", .bytes = kRegion}).value();
  std::span<std::byte> host_ = memory_.resolve({region_, Bytes(0)}, kRegion);
};

// The driver refuses what this process may not write, unless it is told that it only reads.
TEST_F(CudaHostRegionsTest, WhatMayNotBeWrittenIsRegisteredForReading) {
  ASSERT_EQ(machine_->registered_access(), HostAccess::kRead);
  HostMemory owner;
  const RegionId home = owner.allocate({.name = "home", .bytes = mib(4)}).value();
  for (const HostAccess access : {HostAccess::kRead, HostAccess::kWrite}) {
    const RegionId here = memory_.adopt(owner.file_descriptor(home), mib(4), access).value();
    EXPECT_EQ(memory_.access(here), access);
    ASSERT_TRUE(device_->make_reachable({here, Bytes(0)}, mib(4)).ok());
    EXPECT_EQ((gate.flags & kCudaRegisterReadOnly) != 0, access == HostAccess::kRead);
    ASSERT_TRUE(memory_.release(here).ok());
  }
  EXPECT_EQ(memory_.access(region_), HostAccess::kWrite);
  ASSERT_TRUE(device_->make_reachable(at(Bytes(0)), mib(4)).ok());
  EXPECT_EQ(gate.flags & kCudaRegisterReadOnly, 0u);
}

TEST_F(CudaHostRegionsTest, ACopyIsSplitAtTheBorders) {
  Random random(1);
  fill(Bytes(0), mib(4), random);
  for (const Bytes begin : {kib(1024), Bytes(0), kib(256)}) {
    ASSERT_TRUE(device_->make_reachable(at(begin), kib(256)).ok());
  }
  ASSERT_TRUE(device_->make_reachable(at(kib(128)), mib(4)).ok());  // the two gaps
  EXPECT_EQ(registrations(), 5);
  const auto s = device_->make_stream("s").value();
  ASSERT_TRUE(copy(*s, {arena(Bytes(5)), host(Bytes(5)), mib(4) - Bytes(9)}).ok());
  EXPECT_EQ(driver_.calls_of("cuMemcpyBatchAsync_v2"), 1);
  const auto mark = device_->make_mark().value();
  const Copy back{host(mib(16) + Bytes(5)), arena(Bytes(5)), mib(4) - Bytes(9)};
  ASSERT_TRUE(device_->make_reachable(at(mib(16)), mib(1)).ok());
  ASSERT_TRUE(device_->make_reachable(at(mib(17)), mib(4)).ok());
  ASSERT_TRUE(s->copy_marked({&back, 1}, CopyPriority::kStep, *mark).ok());
  ASSERT_TRUE(mark->wait(kPatience).ok());
  EXPECT_EQ(driver_.calls_of("cuMemcpyBatchAsync_v2"), 2);
  EXPECT_TRUE(same(Bytes(5), mib(16) + Bytes(5), mib(4) - Bytes(9)));
  EXPECT_EQ(registrations(), 7);
}

// Any copies between host and device, and within the host, over pieces of any size.
TEST_F(CudaHostRegionsTest, RandomCopiesOverRandomPieces) {
  Random random(2);
  fill(Bytes(0), mib(16), random);
  std::vector<Bytes> cuts = {Bytes(0), kRegion};
  for (int i = 0; i < 60; ++i) cuts.push_back(kib(4) * random.below(kRegion / kib(4)));
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    ASSERT_TRUE(device_->make_reachable(at(cuts[i - 1]), cuts[i] - cuts[i - 1]).ok());
  }
  const auto s = device_->make_stream("s").value();
  for (int round = 0; round < 100; ++round) {
    const Bytes size(random.between(0, mib(4).count));
    const Bytes source(random.between(0, (mib(16) - size).count));
    const Bytes target = mib(16) + Bytes(random.between(0, (mib(16) - size).count));
    std::vector<Copy> batch;
    if (round % 3 == 0) {
      batch = {{host(target), host(source), size}};
    } else {
      const Bytes part(random.between(0, size.count));
      const std::vector<Copy> in = {{arena(Bytes(0)), host(source), part},
                                    {arena(part), host(source + part), size - part}};
      ASSERT_TRUE(s->copy(in, CopyPriority::kStep).ok());
      batch = {{host(target), arena(Bytes(0)), size}};
    }
    ASSERT_TRUE(s->copy(batch, CopyPriority::kStep).ok());
    ASSERT_TRUE(s->synchronize(kPatience).ok());
    ASSERT_TRUE(same(source, target, size)) << "round " << round;
  }
}

TEST_F(CudaHostRegionsTest, BatchesStayOneCall) {
  ASSERT_TRUE(device_->make_reachable(at(Bytes(0)), mib(1)).ok());
  ASSERT_TRUE(device_->make_reachable(at(mib(1)), mib(1)).ok());
  const auto s = device_->make_stream("s").value();
  const std::vector<Copy> batch = {{arena(Bytes(0)), host(kib(512)), mib(1)},
                                   {arena(mib(2)), host(kib(1000)), kib(100)}};
  ASSERT_TRUE(s->copy(batch, CopyPriority::kStep).ok());
  EXPECT_EQ(driver_.calls_of("cuMemcpyBatchAsync_v2"), 1);
  EXPECT_EQ(driver_.calls_of("cuMemcpyAsync"), 0);
}

TEST_F(CudaHostRegionsTest, WhatIsRegisteredIsNotRegisteredAgain) {
  ASSERT_TRUE(device_->make_reachable(at(mib(4) + Bytes(100)), Bytes(1000)).ok());  // one page
  ASSERT_TRUE(device_->make_reachable(at(mib(4)), kib(4)).ok());
  ASSERT_TRUE(device_->make_reachable(at(mib(1)), Bytes(0)).ok());
  EXPECT_EQ(registrations(), 1);
  ASSERT_TRUE(device_->make_reachable(at(Bytes(0)), kRegion).ok());
  EXPECT_EQ(registrations(), 3);  // before and behind it
  ASSERT_TRUE(cuda_address_of(*device_, at(Bytes(0)), kRegion).ok());
  EXPECT_EQ(registrations(), 3);
  // A region that is used first is registered whole.
  const RegionId other = memory_.allocate({.name = "other", .bytes = mib(16)}).value();
  ASSERT_TRUE(cuda_address_of(*device_, {other, mib(4)}, kib(4)).ok());
  ASSERT_TRUE(device_->make_reachable({other, Bytes(0)}, mib(16)).ok());
  EXPECT_EQ(registrations(), 4);
  ASSERT_TRUE(memory_.release(other).ok());
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), 1);
  ASSERT_TRUE(memory_.release(region_).ok());
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), 4);
}

// Piece by piece, so that the thread that unregisters a large region can pause in between.
TEST_F(CudaHostRegionsTest, PiecesAreTakenBackOneByOne) {
  Random random(7);
  fill(Bytes(0), mib(32), random);
  for (Bytes at_piece; at_piece < kRegion; at_piece += mib(8)) {
    ASSERT_TRUE(device_->make_reachable(at(at_piece), mib(8)).ok());
  }
  const auto s = device_->make_stream("s").value();
  ASSERT_TRUE(copy(*s, {arena(Bytes(0)), host(mib(8)), mib(1)}).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  device_->make_unreachable(at(mib(8)), mib(8));
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), 1);
  device_->make_unreachable(at(mib(8)), mib(8));  // nothing begins there any more
  device_->make_unreachable(at(mib(17)), mib(4));
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), 1);
  // The stream's view of the piece is not used any more: it is registered again.
  ASSERT_TRUE(copy(*s, {arena(Bytes(0)), host(mib(8)), mib(1)}).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_EQ(registrations(), 5);
  for (Bytes at_piece; at_piece < kRegion; at_piece += mib(8)) {
    device_->make_unreachable(at(at_piece), mib(8));
  }
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), 5);
  ASSERT_TRUE(memory_.release(region_).ok());
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), 5);
}

// A thread waits for a piece that is being registered; other pieces of the region are not delayed.
TEST_F(CudaHostRegionsTest, TakingBackWaitsForWhatIsInProgress) {
  ASSERT_TRUE(device_->make_reachable(at(Bytes(0)), mib(1)).ok());
  close_gate(true);
  std::thread registrar([&] { EXPECT_TRUE(device_->make_reachable(at(mib(1)), mib(1)).ok()); });
  ASSERT_TRUE(wait_at_gate());
  device_->make_unreachable(at(Bytes(0)), mib(1));
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), 1);
  std::thread taker([&] { device_->make_unreachable(at(mib(1)), mib(1)); });
  close_gate(false);
  registrar.join();
  taker.join();
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), 2);
}

// Memory that was not made reachable is registered on use, in pieces of 8 MiB and not whole.
TEST_F(CudaHostRegionsTest, GapsAreFilledOnUse) {
  Random random(4);
  fill(Bytes(0), mib(16), random);
  ASSERT_TRUE(device_->make_reachable(at(mib(1)), mib(1)).ok());
  const auto s = device_->make_stream("s").value();
  ASSERT_TRUE(copy(*s, {arena(Bytes(0)), host(mib(5)), kib(4)}).ok());  // 2 to 8 MiB
  EXPECT_EQ(registrations(), 2);
  ASSERT_TRUE(copy(*s, {arena(Bytes(0)), host(mib(2)), mib(6)}).ok());
  EXPECT_EQ(registrations(), 2);
  ASSERT_TRUE(copy(*s, {arena(Bytes(0)), host(kib(512)), mib(12)}).ok());  // 0 to 1, 8 to 16
  EXPECT_EQ(registrations(), 4);
  ASSERT_TRUE(device_->make_reachable(at(mib(16)), mib(16)).ok());
  ASSERT_TRUE(copy(*s, {host(mib(16)), arena(Bytes(0)), mib(12)}).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_TRUE(same(kib(512), mib(16), mib(12)));
}

TEST_F(CudaHostRegionsTest, AFailureLeavesNothingAndNamesThePiece) {
  for (const std::string call :
       {"cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2", "cuCtxPushCurrent_v2"}) {
    driver_.fail_next(call, kCudaOutOfMemory);
    const Status refused = device_->make_reachable(at(mib(8)), mib(8));
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted) << call;
    EXPECT_NE(refused.error().message.find("making 8 MiB at offset 8388608 of host region 0 of 32 "
                                           "MiB reachable for GPU 0"),
              std::string::npos)
        << refused.error().message;
    EXPECT_EQ(driver_.leaks().find("registered"), std::string::npos) << driver_.leaks();
  }
  const std::int64_t before = registrations();
  ASSERT_TRUE(cuda_address_of(*device_, at(mib(8)), kib(4)).ok());  // whole: there is no piece
  ASSERT_TRUE(cuda_address_of(*device_, at(Bytes(0)), kRegion).ok());
  EXPECT_EQ(registrations(), before + 1);
}

// Memory that several slices of a GPU use is registered once, and stays when the one that asked has
// ended.
TEST_F(CudaHostRegionsTest, WhatOneSliceMadeReachableAllReach) {
  Random random(6);
  fill(Bytes(0), mib(1), random);
  auto part = machine_->open({.name = "part", .processors = 64, .arena_bytes = mib(2)}).value();
  EXPECT_FALSE(device_->is_reachable(at(Bytes(0)), kib(1)));
  ASSERT_TRUE(part->make_reachable(at(Bytes(0)), mib(2)).ok());
  ASSERT_TRUE(part->make_reachable(at(mib(2)), mib(2)).ok());
  ASSERT_TRUE(device_->make_reachable(at(Bytes(0)), mib(4)).ok());
  EXPECT_EQ(registrations(), 2);
  part.reset();
  EXPECT_TRUE(device_->is_reachable(at(kib(4)), mib(4) - kib(4)));
  EXPECT_FALSE(device_->is_reachable(at(mib(3)), mib(2)));
  const auto s = device_->make_stream("s").value();
  ASSERT_TRUE(copy(*s, {arena(Bytes(0)), host(Bytes(0)), mib(1)}).ok());
  ASSERT_TRUE(copy(*s, {host(mib(3)), arena(Bytes(0)), mib(1)}).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_TRUE(same(Bytes(0), mib(3), mib(1)));
  EXPECT_EQ(registrations(), 2);
  auto again = machine_->open({.name = "part", .processors = 64}).value();
  again->make_unreachable(at(Bytes(0)), mib(4));
  EXPECT_FALSE(device_->is_reachable(at(Bytes(0)), mib(4)));
}

TEST_F(CudaHostRegionsTest, RangesOutOfTheirRegionAreABug) {
  EXPECT_DEATH((void)device_->make_reachable(at(mib(31)), mib(2)).ok(), "out of its region");
  EXPECT_DEATH((void)cuda_address_of(*device_, at(mib(1)), Bytes(INT64_MAX)).ok(),
               "out of its region");
}

TEST_F(CudaHostRegionsTest, KernelsSeeNeighbouringPiecesAsOne) {
  ASSERT_TRUE(device_->make_reachable(at(Bytes(0)), mib(1)).ok());
  ASSERT_TRUE(device_->make_reachable(at(mib(1)), mib(1)).ok());
  EXPECT_EQ(cuda_address_of(*device_, at(kib(4)), kib(2000)).value(),
            reinterpret_cast<CudaDevicePointer>(host_.data()) + 4096);
  // A driver that gives each registration an address of its own.
  CudaApi api = driver_.api();
  api.cuMemHostGetDevicePointer_v2 = [](CudaDevicePointer* seen, void* address, unsigned) {
    static std::atomic<CudaDevicePointer> shift{0};
    *seen = reinterpret_cast<CudaDevicePointer>(address) + (shift += mib(64).count);
    return 0;
  };
  set_up(api);
  ASSERT_TRUE(device_->make_reachable(at(Bytes(0)), mib(1)).ok());
  ASSERT_TRUE(device_->make_reachable(at(mib(1)), mib(1)).ok());
  EXPECT_TRUE(cuda_address_of(*device_, at(mib(1)), mib(1)).ok());
  const auto across = cuda_address_of(*device_, at(kib(4)), kib(2000));
  EXPECT_EQ(across.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(across.error().message.find("host region 0"), std::string::npos);
  EXPECT_NE(across.error().message.find("offset 1048576"), std::string::npos);
}

// The driver's work on one piece delays only threads that need that piece.
TEST_F(CudaHostRegionsTest, CopiesFromOtherPiecesDoNotWait) {
  Random random(5);
  fill(Bytes(0), mib(2), random);
  ASSERT_TRUE(device_->make_reachable(at(Bytes(0)), mib(1)).ok());
  ASSERT_TRUE(device_->make_reachable(at(mib(16)), mib(1)).ok());
  close_gate(true);
  std::thread registrar([&] { EXPECT_TRUE(device_->make_reachable(at(mib(1)), mib(1)).ok()); });
  ASSERT_TRUE(wait_at_gate());
  const auto s = device_->make_stream("s").value();
  EXPECT_TRUE(copy(*s, {arena(Bytes(0)), host(Bytes(0)), mib(1)}).ok());
  EXPECT_TRUE(copy(*s, {host(mib(16)), arena(Bytes(0)), mib(1)}).ok());
  EXPECT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_TRUE(same(Bytes(0), mib(16), mib(1)));
  std::atomic<bool> copied{false};
  std::thread copier([&] {  // waits for the piece instead of registering it, too
    const auto other = device_->make_stream("other").value();
    EXPECT_TRUE(copy(*other, {arena(mib(1)), host(mib(1)), mib(1)}).ok());
    EXPECT_TRUE(other->synchronize(kPatience).ok());
    copied.store(true);
  });
  EXPECT_FALSE(copied.load());
  close_gate(false);
  registrar.join();
  copier.join();
  EXPECT_EQ(registrations(), 3);
}

// Releasing waits for a registration that is under way.
TEST_F(CudaHostRegionsTest, ReleasedRegionsAreUnregisteredToTheLastPiece) {
  ASSERT_TRUE(device_->make_reachable(at(Bytes(0)), mib(1)).ok());
  close_gate(true);
  std::thread registrar([&] { EXPECT_TRUE(device_->make_reachable(at(mib(1)), mib(1)).ok()); });
  ASSERT_TRUE(wait_at_gate());
  std::thread releaser([&] { EXPECT_TRUE(memory_.release(region_).ok()); });
  close_gate(false);
  registrar.join();
  releaser.join();
  EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), registrations());
  EXPECT_EQ(driver_.leaks().find("registered"), std::string::npos) << driver_.leaks();
}

TEST_F(CudaHostRegionsTest, ThreadsRegisterAndCopyAtOnce) {
  for (int round = 0; round < 3; ++round) {
    const RegionId region = memory_.allocate({.name = "shared", .bytes = kRegion}).value();
    const auto bytes = memory_.resolve({region, Bytes(0)}, kRegion);
    const auto in_region = [&](Bytes offset) { return MemoryAddress::in_host({region, offset}); };
    std::vector<std::thread> threads;
    for (int w = 0; w < 2; ++w) {
      threads.emplace_back([&, w] {
        Random random(static_cast<std::uint64_t>(10 * round + w));
        for (int i = 0; i < 60; ++i) {
          const Bytes begin(random.below(kRegion.count - mib(1).count));
          EXPECT_TRUE(
              device_->make_reachable({region, begin}, Bytes(random.between(1, mib(1).count)))
                  .ok());
        }
      });
    }
    for (int w = 0; w < 2; ++w) {
      threads.emplace_back([&, w] {
        Random random(static_cast<std::uint64_t>(100 + 10 * round + w));
        const auto s = device_->make_stream("s").value();
        const Bytes mine = mib(16) * w;  // of both memories; one half is sent, the other received
        for (int i = 0; i < 30; ++i) {
          const Bytes size(random.between(1, mib(2).count));
          const Bytes offset(random.below((mib(8) - size).count));
          const Bytes from = mine + offset;
          std::memset(bytes.data() + from.count, random.bits() & 255, to_size(size));
          EXPECT_TRUE(copy(*s, {arena(from), in_region(from), size}).ok());
          EXPECT_TRUE(copy(*s, {in_region(from + mib(8)), arena(from), size}).ok());
          EXPECT_TRUE(s->synchronize(kPatience).ok());
          EXPECT_EQ(std::memcmp(bytes.data() + from.count, bytes.data() + (from + mib(8)).count,
                                to_size(size)),
                    0);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(memory_.release(region).ok());
    EXPECT_EQ(driver_.calls_of("cuMemHostUnregister"), registrations());
  }
}

}  // namespace
}  // namespace causeway::device::cuda_host_regions_test
