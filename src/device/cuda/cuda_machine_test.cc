// The CUDA backend over a fake driver: the rules of device.h, and every fault of the driver.
#include "device/cuda/cuda_machine.h"
#include "base/testing/rounds.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "device/cuda/cuda_context.h"
#include "device/cuda/cuda_device.h"
#include "device/testing/device_conformance.h"
#include "device/testing/fake_cuda.h"

namespace causeway::device::cuda_machine_test {
namespace {

using testing::DeviceConformance;
using testing::FakeCuda;

constexpr Nanos kPatience = seconds(60);
constexpr Bytes kExtent = testing::kConformanceExtent;

class Conforming final : public testing::ConformanceMachine {
 public:
  static Result<std::unique_ptr<testing::ConformanceMachine>> make(const Clock& clock,
                                                                   HostMemory& memory) {
    auto made = std::make_unique<Conforming>();
    CAUSEWAY_ASSIGN(made->machine_, CudaMachine::create(made->driver_.api(),
                                                        {.extent_bytes = kExtent}, clock, memory));
    return std::unique_ptr<testing::ConformanceMachine>(std::move(made));
  }
  ~Conforming() override {
    machine_.reset();
    EXPECT_EQ(driver_.leaks(), "");
  }
  Result<std::unique_ptr<Device>> open(const SliceSpec& slice) override {
    return machine_->open(slice);
  }
  int physical_devices() const override { return machine_->gpus(); }

 private:
  FakeCuda driver_;
  std::unique_ptr<CudaMachine> machine_;
};

INSTANTIATE_TEST_SUITE_P(FakeCuda, DeviceConformance,
                         ::testing::Values(testing::conformance("cuda", Conforming::make)),
                         testing::conformance_name);

class CudaMachineTest : public ::testing::Test {
 protected:
  void set_up(testing::FakeCudaOptions options = {}) {
    driver_.emplace(options);
    machine_ =
        CudaMachine::create(driver_->api(), {.extent_bytes = kExtent, .drain_max = millis(20)},
                            clock_, memory_)
            .value();
    device_ = machine_->open({.name = "d", .arena_bytes = kExtent * 8}).value();
    extents_ = device_->arena().allocate(4, Arena::End::kLow).value();
    region_ = memory_.allocate({.name = "test", .bytes = mib(2)}).value();
    host_ = memory_.resolve({region_, Bytes(0)}, mib(2));
  }
  ~CudaMachineTest() override {
    extents_ = Extents();
    device_.reset();
    machine_.reset();
    if (driver_) {
      EXPECT_EQ(driver_->leaks(), "");
    }
  }
  Copy copy(Bytes size = kib(4)) const {
    return {MemoryAddress::in_arena(device_->id(), Bytes(0)),
            MemoryAddress::in_host({region_, Bytes(0)}), size};
  }

  RealClock clock_;
  HostMemory memory_;
  std::optional<FakeCuda> driver_;
  std::unique_ptr<CudaMachine> machine_;
  std::unique_ptr<Device> device_;
  Extents extents_;
  RegionId region_;
  std::span<std::byte> host_;
};

TEST_F(CudaMachineTest, OneCopyAndManyGoTheirWays) {
  set_up();
  const auto s = device_->make_stream("s").value();
  const std::vector<Copy> one = {copy()};
  const std::vector<Copy> two = {copy(), copy()};
  const std::vector<Copy> one_in_effect = {copy(), copy(Bytes(0))};
  ASSERT_TRUE(s->copy(one, CopyPriority::kStep).ok());
  ASSERT_TRUE(s->copy(one_in_effect, CopyPriority::kStep).ok());
  EXPECT_EQ(driver_->calls_of("cuMemcpyBatchAsync_v2"), 0);
  EXPECT_EQ(driver_->calls_of("cuMemcpyAsync"), 2);
  ASSERT_TRUE(s->copy(two, CopyPriority::kStep).ok());
  EXPECT_EQ(driver_->calls_of("cuMemcpyBatchAsync_v2"), 1);
  EXPECT_EQ(driver_->calls_of("cuMemcpyAsync"), 2);
}

// Small transfers depend on this: no more calls than the driver needs.
TEST_F(CudaMachineTest, AMarkedCopyCostsTwoCallsAndItsContext) {
  set_up({.polls_until_ready = 0});
  const auto s = device_->make_stream("s").value();
  const auto mark = device_->make_mark().value();
  const Copy one = copy();
  const auto pushes_of = [&] {
    const std::int64_t before = driver_->calls_of("cuCtxPushCurrent_v2");
    EXPECT_TRUE(s->copy_marked({&one, 1}, CopyPriority::kStep, *mark).ok());
    return driver_->calls_of("cuCtxPushCurrent_v2") - before;
  };
  pushes_of();  // the region is registered, the event made
  ASSERT_TRUE(mark->wait(seconds(1)).ok());
  EXPECT_EQ(pushes_of(), 1);
  ASSERT_TRUE(mark->wait(seconds(1)).ok());
  {
    const auto current = CudaCurrent::enter(*device_);
    ASSERT_TRUE(current.ok());
    EXPECT_EQ(pushes_of(), 0);
    const std::int64_t before = driver_->calls_of("cuCtxPushCurrent_v2");
    EXPECT_TRUE(mark->done().value());
    EXPECT_EQ(driver_->calls_of("cuCtxPushCurrent_v2"), before);
  }
  const auto calls = driver_->calls_of("cuMemcpyAsync") + driver_->calls_of("cuEventRecord");
  EXPECT_EQ(pushes_of(), 1);  // and restores the thread's context
  EXPECT_EQ(driver_->calls_of("cuMemcpyAsync") + driver_->calls_of("cuEventRecord"), calls + 2);
  ASSERT_TRUE(mark->wait(seconds(1)).ok());
  // The current context is another GPU's, and not this one's.
  const auto other = machine_->open({.name = "other", .physical_device = 1}).value();
  const auto current = CudaCurrent::enter(*other);
  ASSERT_TRUE(current.ok());
  EXPECT_EQ(pushes_of(), 1);
}

TEST_F(CudaMachineTest, AMarkedCopyThatTheDriverRefusesFailsTheStream) {
  set_up();
  const Copy one = copy();
  for (const std::string call : {"cuMemcpyAsync", "cuEventRecord", "cuCtxPushCurrent_v2"}) {
    const auto s = device_->make_stream("s").value();
    const auto mark = device_->make_mark().value();
    ASSERT_TRUE(s->copy_marked({&one, 1}, CopyPriority::kStep, *mark).ok());
    ASSERT_TRUE(mark->wait(seconds(1)).ok());
    driver_->fail_next(call, 1);
    EXPECT_FALSE(s->copy_marked({&one, 1}, CopyPriority::kStep, *mark).ok()) << call;
    EXPECT_FALSE(s->synchronize(seconds(1)).ok()) << call;
  }
}

// A batch cannot be captured: then each copy is a node.
TEST_F(CudaMachineTest, CapturingStreamsCopyOneByOne) {
  driver_.emplace();
  CudaApi api = driver_->api();
  api.cuStreamIsCapturing = [](CUstream_st*, int* status) {
    *status = 1;
    return 0;
  };
  auto machine = CudaMachine::create(api, {.extent_bytes = kExtent}, clock_, memory_).value();
  auto device = machine->open({.name = "d", .arena_bytes = kExtent}).value();
  const auto region = memory_.allocate({.name = "test", .bytes = mib(1)}).value();
  {
    const Extents extents = device->arena().allocate(1, Arena::End::kLow).value();
    const auto s = device->make_stream("s").value();
    const std::vector<Copy> three(3, {MemoryAddress::in_arena(device->id(), Bytes(0)),
                                      MemoryAddress::in_host({region, Bytes(0)}), kib(1)});
    ASSERT_TRUE(s->copy(three, CopyPriority::kStep).ok());
    EXPECT_EQ(driver_->calls_of("cuMemcpyBatchAsync_v2"), 0);
    EXPECT_EQ(driver_->calls_of("cuMemcpyAsync"), 3);
  }
}

TEST_F(CudaMachineTest, SlicesGetUnitsOfTheirOwn) {
  set_up();
  const auto a = machine_->open({.name = "a", .processors = 16}).value();
  const auto b = machine_->open({.name = "b", .processors = 56}).value();
  auto c = machine_->open({.name = "c", .processors = 56}).value();
  EXPECT_EQ(a->capabilities().processors, 16);
  EXPECT_EQ(b->capabilities().processors, 56);
  EXPECT_EQ(c->capabilities().processors, 56);
  EXPECT_EQ(device_->capabilities().processors, 132);
  const auto full = machine_->open({.name = "d", .processors = 13});
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(full.error().message.find("0 of 128"), std::string::npos) << full.error().message;
  c.reset();
  EXPECT_TRUE(machine_->open({.name = "e", .processors = 40}).ok());
  EXPECT_EQ(machine_->open({.name = "f", .processors = 1}).value()->capabilities().processors, 8);
  EXPECT_NE(cuda_context_of(*a), cuda_context_of(*b));
  const auto splits = machine_->sm_splits(0).value();
  ASSERT_EQ(splits.size(), 1u) << "none reaches more than 128 SMs";
  EXPECT_EQ(splits[0].sms, 8);
  EXPECT_EQ(splits[0].count, 16);
  const auto all = machine_->open({.name = "all", .processors = 132}).value();
  EXPECT_EQ(cuda_context_of(*all), cuda_context_of(*device_));  // the primary one
  EXPECT_EQ(machine_->open({.name = "x", .processors = 133}).error().code,
            ErrorCode::kInvalidArgument);
}

// 15 units of 8 SMs are 120 of an H200's 132 SMs; units of 16, 32 or 64 reach 128 of them.
TEST_F(CudaMachineTest, ACoarserSplitReachesMore) {
  set_up({.finest_units_max = 15});
  const auto splits = machine_->sm_splits(0).value();
  std::vector<int> units;
  for (const CudaSmUnits& split : splits) units.push_back(split.sms);
  EXPECT_EQ(units, (std::vector<int>{8, 16, 32, 64}));
  EXPECT_EQ(splits[2].count, 4);
  std::vector<std::unique_ptr<Device>> quarters;
  for (int i = 0; i < 4; ++i) {
    quarters.push_back(machine_->open({.name = "q", .processors = 32, .unit = 32}).value());
    EXPECT_EQ(quarters.back()->capabilities().processors, 32);
  }
  EXPECT_EQ(machine_->open({.name = "q", .processors = 32, .unit = 32}).error().code,
            ErrorCode::kResourceExhausted);
  const auto other = machine_->open({.name = "o", .processors = 24});
  EXPECT_EQ(other.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(other.error().message.find("split into units of 32"), std::string::npos)
      << other.error().message;
  quarters.clear();
  EXPECT_EQ(machine_->open({.name = "o", .processors = 24}).value()->capabilities().processors, 24);
  for (const int unit : {-8, 72}) {
    EXPECT_EQ(machine_->open({.name = "x", .processors = 64, .unit = unit}).error().code,
              ErrorCode::kInvalidArgument);
  }
}

// A call that waits for all work of the GPU may not begin while a stream waits for work that has
// yet to be enqueued.
TEST_F(CudaMachineTest, NoStreamWaitsWhileAPartIsOpenedOrClosed) {
  set_up();
  const auto semaphore = device_->make_semaphore().value();
  const auto s = device_->make_stream("s").value();
  std::atomic<int> steps{0};
  ASSERT_TRUE(s->wait(*semaphore, 1).ok());
  std::thread opener([&] {
    auto part = machine_->open({.name = "part", .processors = 64, .arena_bytes = kExtent}).value();
    ++steps;
    EXPECT_TRUE(s->wait(*semaphore, 2).ok());
    ++steps;
    part.reset();
    ++steps;
  });
  const auto settled = [&](int wanted) {
    const RealClock clock;
    const Nanos end = clock.now() + kPatience;
    while (steps.load() < wanted && clock.now() < end) pause_alone(millis(1));
    pause_alone(millis(20));
    return steps.load() == wanted;
  };
  EXPECT_TRUE(settled(0));
  semaphore->raise(1);
  EXPECT_TRUE(settled(2));
  semaphore->raise(2);
  EXPECT_TRUE(settled(3));
  opener.join();
  ASSERT_TRUE(s->synchronize(kPatience).ok());
}

TEST_F(CudaMachineTest, ExtentGrowthBeyondTheGpuNamesTheNumbers) {
  set_up({.memory = mib(20)});
  const auto big = machine_->open({.name = "big", .arena_bytes = mib(64)}).value();
  const auto held = big->arena().allocate(2, Arena::End::kLow).value();  // 8 + 4 of 20 MiB
  const auto more = big->arena().allocate(7, Arena::End::kLow);
  ASSERT_EQ(more.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(more.error().message,
            "memory for 7 extents, 14 MiB in all: slice 'big': GPU 0 (Fake GPU) gives no more; 0 "
            "MiB of 20 MiB are free and this arena has 12 MiB (what was just tried included): "
            "cuMemCreate failed with 2: the driver's own words");
  EXPECT_TRUE(big->arena().allocate(4, Arena::End::kHigh).ok());  // nothing was lost by trying
}

TEST_F(CudaMachineTest, PeersThatCannotReachEachOtherAreUnsupported) {
  set_up({.peers = false});
  EXPECT_FALSE(device_->capabilities().peer_copies);
  const auto other =
      machine_->open({.name = "o", .physical_device = 1, .arena_bytes = kExtent}).value();
  const Extents there = other->arena().allocate(1, Arena::End::kLow).value();
  const auto s = device_->make_stream("s").value();
  const Copy across{MemoryAddress::in_arena(other->id(), Bytes(0)),
                    MemoryAddress::in_arena(device_->id(), Bytes(0)), kib(1)};
  EXPECT_EQ(s->copy({&across, 1}, CopyPriority::kStep).error().code, ErrorCode::kUnsupported);
}

TEST_F(CudaMachineTest, ALostGpuSaysSoInTheDriversWords) {
  set_up();
  const auto s = device_->make_stream("s").value();
  const auto before = device_->make_event().value();
  driver_->hold(true);
  ASSERT_TRUE(s->record(*before).ok());
  EXPECT_FALSE(before->done().value());
  EXPECT_TRUE(device_->health().ok());
  driver_->lose(700);
  const Status waited = before->wait(kPatience);
  ASSERT_EQ(waited.error().code, ErrorCode::kDevice);
  EXPECT_NE(waited.error().message.find("GPU 0 (Fake GPU) is lost"), std::string::npos);
  EXPECT_NE(waited.error().message.find("the driver's own words"), std::string::npos);
  EXPECT_EQ(s->synchronize(kPatience).error().code, ErrorCode::kDevice);
  EXPECT_EQ(device_->health().error().code, ErrorCode::kDevice);
  const Copy one = copy();
  EXPECT_FALSE(s->copy({&one, 1}, CopyPriority::kStep).ok());
  EXPECT_FALSE(device_->make_stream("late").ok());
  EXPECT_FALSE(device_->arena().allocate(1, Arena::End::kLow).ok());
  EXPECT_EQ(cuda_enqueue(*s, [](CUstream_st*) -> Status { return {}; }).error().code,
            ErrorCode::kDevice);
  bool ran = false;
  ASSERT_TRUE(s->run([&]() -> Status {
                 ran = true;
                 return {};
               }).ok());
  EXPECT_EQ(s->synchronize(kPatience).error().code, ErrorCode::kDevice);
  EXPECT_FALSE(ran);
}

TEST_F(CudaMachineTest, WorkThatNeverEndsIsWaitedForInVainOnlySoLong) {
  set_up();
  auto s = device_->make_stream("stuck").value();
  auto mark = device_->make_event().value();
  driver_->hold(true);
  ASSERT_TRUE(s->record(*mark).ok());
  EXPECT_EQ(mark->wait(millis(5)).error().code, ErrorCode::kDeadlineExceeded);
  const Status late = s->synchronize(millis(5));
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_NE(late.error().message.find("d/stuck"), std::string::npos);
  s.reset();  // gives up after drain_max
  EXPECT_EQ(device_->health().error().code, ErrorCode::kDevice);
  EXPECT_NE(device_->health().error().message.find("did not end"), std::string::npos);
  // Memory that the work may still use is kept until the process ends.
  mark.reset();
  extents_ = Extents();
  EXPECT_NE(driver_->leaks().find("mappings: 4"), std::string::npos) << driver_->leaks();
  device_.reset();
  machine_.reset();
  driver_.reset();
}

TEST_F(CudaMachineTest, LaunchesKeepTheirPlace) {
  set_up();
  const auto s = device_->make_stream("s").value();
  std::vector<int> order;
  std::thread::id launcher;
  const auto launch = [&](int number) {
    return cuda_enqueue(*s, [&, number](CUstream_st* stream) -> Status {
      EXPECT_EQ(stream, cuda_stream_of(*s));
      order.push_back(number);
      launcher = std::this_thread::get_id();
      return {};
    });
  };
  ASSERT_TRUE(launch(1).ok());
  EXPECT_EQ(launcher, std::this_thread::get_id());
  ASSERT_TRUE(s->run([&]() -> Status {
                 order.push_back(2);
                 return {};
               }).ok());
  ASSERT_TRUE(launch(3).ok());
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(
      cuda_enqueue(*s, [](CUstream_st*) -> Status { return corrupt("planted"); }).error().code,
      ErrorCode::kCorrupt);
  EXPECT_EQ(launch(4).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(order.size(), 3u);
}

TEST_F(CudaMachineTest, RegionsAreRegisteredOnceAndReleased) {
  set_up();
  const auto seen = cuda_address_of(*device_, {region_, kib(8)}, kib(4));
  EXPECT_EQ(*seen, reinterpret_cast<CudaDevicePointer>(host_.data()) + 8192);
  const auto s = device_->make_stream("s").value();
  const Copy one = copy();
  ASSERT_TRUE(s->copy({&one, 1}, CopyPriority::kStep).ok());
  EXPECT_EQ(driver_->calls_of("cuMemHostRegister_v2"), 1);
  ASSERT_TRUE(s->synchronize(kPatience).ok());
  ASSERT_TRUE(memory_.release(region_).ok());
  EXPECT_EQ(driver_->calls_of("cuMemHostUnregister"), 1);
  driver_->fail_next("cuMemHostRegister_v2", kCudaOutOfMemory);
  region_ = memory_.allocate({.name = "again", .bytes = mib(2)}).value();
  const auto refused = cuda_address_of(*device_, {region_, Bytes(0)}, kib(4));
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("2 MiB reachable for GPU 0"), std::string::npos)
      << refused.error().message;
}

// A stream uses the region that it used last without a look-up, but not once that has been
// released.
TEST_F(CudaMachineTest, AStreamForgetsAReleasedRegion) {
  set_up();
  const auto s = device_->make_stream("s").value();
  const RegionId kept = memory_.allocate({.name = "kept", .bytes = mib(2)}).value();
  const auto kept_bytes = memory_.resolve({kept, Bytes(0)}, mib(2));
  host_[0] = std::byte{1};
  kept_bytes[0] = std::byte{2};
  const MemoryAddress first = MemoryAddress::in_arena(device_->id(), Bytes(0));
  const MemoryAddress second = MemoryAddress::in_arena(device_->id(), kib(4));
  const auto move = [&](MemoryAddress target, MemoryAddress source) {
    const Copy one{target, source, kib(4)};
    return s->copy({&one, 1}, CopyPriority::kStep).ok() && s->synchronize(kPatience).ok();
  };
  ASSERT_TRUE(move(first, MemoryAddress::in_host({region_, Bytes(0)})));
  ASSERT_TRUE(move(second, MemoryAddress::in_host({kept, Bytes(0)})));
  ASSERT_TRUE(move(first, MemoryAddress::in_host({region_, Bytes(0)})));
  ASSERT_TRUE(move(MemoryAddress::in_host({kept, kib(8)}), first));
  EXPECT_EQ(kept_bytes[8192], std::byte{1});
  const Copy beyond{first, MemoryAddress::in_host({kept, mib(2)}), kib(4)};
  EXPECT_DEATH((void)s->copy({&beyond, 1}, CopyPriority::kStep).ok(), "");

  ASSERT_TRUE(move(first, MemoryAddress::in_host({region_, Bytes(0)})));
  ASSERT_TRUE(memory_.release(region_).ok());
  const Copy late{first, MemoryAddress::in_host({region_, Bytes(0)}), kib(4)};
  EXPECT_DEATH((void)s->copy({&late, 1}, CopyPriority::kStep).ok(), "");
  EXPECT_TRUE(move(MemoryAddress::in_host({kept, kib(12)}), second));
  EXPECT_EQ(kept_bytes[12288], std::byte{2});
}

// Memory moves between ranges without the driver's allocator.
TEST_F(CudaMachineTest, ExtentsAreRecycled) {
  set_up();
  AddressRange a = device_->arena().reserve(2).value();
  AddressRange b = device_->arena().reserve(2).value();
  ASSERT_TRUE(a.commit(0, 2).ok());
  const std::int64_t created = driver_->calls_of("cuMemCreate");
  for (int round = 0; round < 1000; ++round) {
    AddressRange& from = round % 2 == 0 ? a : b;
    AddressRange& to = round % 2 == 0 ? b : a;
    from.decommit(0, 2);
    ASSERT_TRUE(to.commit(0, 2).ok());
  }
  EXPECT_EQ(driver_->calls_of("cuMemCreate"), created);
  EXPECT_EQ(driver_->calls_of("cuMemRelease"), 0);
}

// A process that has a MIG instance is shown it as its GPU 0. What a slice may take is planned from
// these two (schedule/hbm_plan.h), and so from the instance. The management library, which tells of
// the GPU that it is a part of, is not asked.
TEST_F(CudaMachineTest, MemoryIsWhatTheDriverShowsThisProcess) {
  set_up({.gpus = 1, .memory = mib(20)});
  EXPECT_EQ(machine_->gpus(), 1);
  EXPECT_EQ(machine_->describe(0)->memory, mib(20));
  EXPECT_EQ(machine_->free_memory(0).value(), mib(20) - extents_.bytes());
}

TEST(CudaMachineMemory, ItsPeakFollowsFromItsClockAndBus) {
  const auto peak_of = [](testing::FakeCudaOptions options) {
    FakeCuda driver(options);
    const RealClock clock;
    HostMemory memory;
    return CudaMachine::create(driver.api(), {}, clock, memory).value()->describe(0)->memory_peak;
  };
  EXPECT_NEAR(peak_of({.memory_clock = 2'619'000, .memory_bus = 5'120}), 3.352e12, 1e9);
  EXPECT_EQ(peak_of({.memory_clock = 0}), 0);
  EXPECT_EQ(peak_of({.memory_bus = 0}), 0);
}

TEST_F(CudaMachineTest, WhereReadingAloneIsNotRegisteredMemoryMustBeWritable) {
  set_up({.read_only = false});
  EXPECT_EQ(machine_->registered_access(), HostAccess::kWrite);
}

TEST_F(CudaMachineTest, SparesCountAsUsedUntilTheyAreTrimmed) {
  set_up({.memory = mib(16)});
  EXPECT_EQ(machine_->free_memory(0).value(), mib(8));  // four extents are held
  Arena& arena = device_->arena();
  {
    AddressRange range = arena.reserve(4).value();
    ASSERT_TRUE(range.commit(0, 4).ok());
  }
  EXPECT_EQ(machine_->free_memory(0).value(), Bytes(0));
  // No memory of the GPU is free, but the arena has some; for Extents it is zeroed.
  {
    const Extents extents = arena.allocate(3, Arena::End::kHigh).value();
    const auto s = device_->make_stream("s").value();
    host_[0] = std::byte{1};
    const Copy back{MemoryAddress::in_host({region_, Bytes(0)}),
                    MemoryAddress::in_arena(device_->id(), extents.offset()), kib(4)};
    ASSERT_TRUE(s->copy({&back, 1}, CopyPriority::kStep).ok());
    ASSERT_TRUE(s->synchronize(kPatience).ok());
    EXPECT_EQ(host_[0], std::byte{0});
  }
  arena.trim();
  EXPECT_EQ(machine_->free_memory(0).value(), mib(8));
  // Another slice takes the memory that was given back; a commit that fails keeps nothing of it.
  const auto other = machine_->open({.name = "other", .arena_bytes = kExtent * 8}).value();
  const Extents theirs = other->arena().allocate(1, Arena::End::kLow).value();
  AddressRange range = arena.reserve(4).value();
  const Status refused = range.commit(0, 4);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused.error().message,
            "memory for 4 extents, 8 MiB in all: slice 'd': GPU 0 (Fake GPU) gives no more; 0 MiB "
            "of 16 MiB are free and this arena has 14 MiB (what was just tried included): "
            "cuMemCreate failed with 2: the driver's own words");
  EXPECT_EQ(machine_->free_memory(0).value(), mib(6));
  EXPECT_TRUE(range.commit(0, 3).ok());
}

TEST_F(CudaMachineTest, SparesHaveALimit) {
  driver_.emplace();
  machine_ = CudaMachine::create(driver_->api(), {.extent_bytes = kExtent, .spares_max = mib(5)},
                                 clock_, memory_)
                 .value();
  device_ = machine_->open({.name = "d", .arena_bytes = kExtent * 8}).value();
  AddressRange range = device_->arena().reserve(8).value();
  ASSERT_TRUE(range.commit(0, 8).ok());
  range.decommit(0, 8);
  EXPECT_EQ(driver_->calls_of("cuMemRelease"), 6);
  ASSERT_TRUE(range.commit(0, 8).ok());
  EXPECT_EQ(driver_->calls_of("cuMemCreate"), 14);
}

TEST_F(CudaMachineTest, ACommitThatTheDriverRefusesChangesNothing) {
  set_up();
  AddressRange range = device_->arena().reserve(3).value();
  for (const bool with_spares : {false, true}) {
    for (const std::string call :
         {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuCtxPushCurrent_v2"}) {
      if (with_spares && call == "cuMemCreate") continue;
      if (with_spares) {
        ASSERT_TRUE(range.commit(0, 3).ok());
        range.decommit(0, 3);
      } else {
        device_->arena().trim();
      }
      driver_->fail_next(call, 1);
      EXPECT_FALSE(range.commit(0, 3).ok()) << call;
      EXPECT_FALSE(range.committed(0, 1) || range.committed(1, 1) || range.committed(2, 1));
      EXPECT_EQ(machine_->free_memory(0).value(), mib(256) - extents_.bytes()) << call;
      EXPECT_TRUE(range.commit(0, 3).ok()) << call;
      range.decommit(0, 3);
    }
  }
  // An allocation that may still be mapped somewhere is not used again.
  ASSERT_TRUE(range.commit(0, 1).ok());
  device_->arena().trim();
  driver_->fail_next("cuMemUnmap", 1);
  const std::int64_t released = driver_->calls_of("cuMemRelease");
  range.decommit(0, 1);
  EXPECT_EQ(driver_->calls_of("cuMemRelease"), released + 1);
  EXPECT_TRUE(range.commit(0, 1).ok());
}

// Memory behind a range, some of it twice.
Status use_ranges(Arena& arena) {
  CAUSEWAY_ASSIGN(AddressRange range, arena.reserve(2));
  CAUSEWAY_TRY(range.commit(0, 2));
  range.decommit(1, 1);
  return range.commit(1, 1);
}

TEST_F(CudaMachineTest, SemaphoresCostOneCallAndNoThread) {
  set_up({.polls_until_ready = 0});
  const auto counter = device_->make_semaphore().value();
  const auto a = device_->make_stream("a").value();
  const auto b = device_->make_stream("b").value();
  ASSERT_TRUE(b->wait(*counter, 1).ok());
  EXPECT_EQ(driver_->calls_of("cuStreamWaitValue32_v2"), 1);
  ASSERT_TRUE(a->signal(*counter, 1).ok());
  EXPECT_EQ(driver_->calls_of("cuStreamWriteValue32_v2"), 1);
  ASSERT_TRUE(b->synchronize(kPatience).ok());
  const std::int64_t calls = driver_->calls();
  ASSERT_TRUE(b->wait(*counter, 1).ok());  // reached: not even a call
  EXPECT_EQ(driver_->calls(), calls);
  ASSERT_TRUE(a->signal(*counter, 1).ok());
  EXPECT_EQ(driver_->calls_of("cuStreamWriteValue32_v2"), 1);
}

TEST_F(CudaMachineTest, SemaphoresShareFewPages) {
  set_up();
  const std::int64_t before = driver_->calls_of("cuMemHostRegister_v2");
  std::vector<std::unique_ptr<Semaphore>> many;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3'000; ++i) many.push_back(device_->make_semaphore().value());
    for (const auto& one : many) one->raise(1);
    many.clear();
  }
  EXPECT_EQ(driver_->calls_of("cuMemHostRegister_v2"), before + 3);
  EXPECT_EQ(device_->make_semaphore().value()->value(), 0u);
  // The other slices' semaphores come from the same pool.
  const auto other = machine_->open({.name = "other", .physical_device = 1}).value();
  EXPECT_TRUE(other->make_semaphore().ok());
  EXPECT_EQ(driver_->calls_of("cuMemHostRegister_v2"), before + 3);
}

TEST_F(CudaMachineTest, SemaphoreCallsThatFailFailTheStream) {
  set_up();
  const auto counter = device_->make_semaphore().value();
  {
    const auto s = device_->make_stream("s").value();
    driver_->fail_next("cuStreamWriteValue32_v2", 1);
    EXPECT_EQ(s->signal(*counter, 1).error().code, ErrorCode::kDevice);
    EXPECT_TRUE(s->signal(*counter, 2).ok());  // skipped
    EXPECT_EQ(s->synchronize(kPatience).error().code, ErrorCode::kDevice);
  }
  const auto s = device_->make_stream("s").value();
  driver_->fail_next("cuStreamWaitValue32_v2", kCudaNotSupported);
  EXPECT_EQ(s->wait(*counter, 1).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(s->synchronize(kPatience).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(counter->value(), 0u);
  driver_->lose(700);
  EXPECT_EQ(counter->wait(1, kPatience).error().code, ErrorCode::kDevice);
  EXPECT_FALSE(device_->make_semaphore().ok());
}

TEST_F(CudaMachineTest, WhereStreamsCannotWaitForMemoryThereAreNoSemaphores) {
  set_up({.memory_operations = false});
  EXPECT_FALSE(device_->capabilities().semaphores);
  EXPECT_EQ(device_->make_semaphore().error().code, ErrorCode::kUnsupported);
}

// The owner raises first. An owner that does not loses the GPU, and nothing hangs.
TEST_F(CudaMachineTest, AStreamDestroyedWhileItWaitsEndsAfterDrainMax) {
  set_up();
  auto counter = device_->make_semaphore().value();
  auto s = device_->make_stream("waiting").value();
  ASSERT_TRUE(s->wait(*counter, 1).ok());
  s.reset();
  EXPECT_NE(device_->health().error().message.find("d/waiting"), std::string::npos);
  counter.reset();
  extents_ = Extents();
  device_.reset();
  machine_.reset();
  driver_.reset();  // hanging work is kept until the process ends
}

// Every operation once; the faults below are planted in it. ok() when all of them worked.
Status use_everything(const CudaApi& api, const Clock& clock, HostMemory& memory, RegionId region) {
  CAUSEWAY_ASSIGN(
      const auto machine,
      CudaMachine::create(api, {.extent_bytes = kExtent, .drain_max = millis(50)}, clock, memory));
  CAUSEWAY_TRY(machine->describe(0));
  CAUSEWAY_TRY(machine->free_memory(1));
  CAUSEWAY_ASSIGN(const auto whole, machine->open({.name = "w", .arena_bytes = kExtent * 4}));
  CAUSEWAY_ASSIGN(
      const auto part,
      machine->open(
          {.name = "p", .physical_device = 1, .processors = 33, .arena_bytes = kExtent * 2}));
  CAUSEWAY_ASSIGN(const Extents low, whole->arena().allocate(2, Arena::End::kLow));
  CAUSEWAY_TRY(use_ranges(whole->arena()));
  CAUSEWAY_ASSIGN(const Extents high, part->arena().allocate(2, Arena::End::kHigh));
  CAUSEWAY_ASSIGN(const auto in, whole->make_stream("in"));
  CAUSEWAY_ASSIGN(const auto out, make_cuda_stream(*part, "out", CopyPriority::kTwin));
  CAUSEWAY_ASSIGN(const auto mark, whole->make_event());
  const MemoryAddress here = MemoryAddress::in_arena(whole->id(), Bytes(0));
  const MemoryAddress there = MemoryAddress::in_arena(part->id(), Bytes(0));
  CAUSEWAY_TRY(whole->make_reachable({region, Bytes(0)}, kib(512)));
  CAUSEWAY_TRY(part->make_reachable({region, kib(512)}, kib(512)));
  // Across the border of the two pieces.
  const MemoryAddress home = MemoryAddress::in_host({region, kib(511)});
  const std::vector<Copy> two = {{here, home, kib(2)}, {there, home, kib(1)}};
  const std::vector<Copy> one = {{there, here, kib(1)}};
  CAUSEWAY_TRY(in->copy(two, CopyPriority::kStep));
  CAUSEWAY_TRY(in->record(*mark));
  CAUSEWAY_TRY(out->wait(*mark));
  CAUSEWAY_TRY(out->copy(one, CopyPriority::kStep));
  CAUSEWAY_TRY(out->run([]() -> Status { return {}; }));
  CAUSEWAY_TRY(out->copy(one, CopyPriority::kStep));
  CAUSEWAY_TRY(cuda_enqueue(*out, [](CUstream_st*) -> Status { return {}; }));
  CAUSEWAY_TRY(out->synchronize(kPatience));
  CAUSEWAY_TRY(mark->wait(kPatience));
  CAUSEWAY_TRY(mark->completed_at());
  CAUSEWAY_TRY(in->synchronize(kPatience));
  CAUSEWAY_ASSIGN(const auto counter, part->make_semaphore());
  const Status waits = out->wait(*counter, 1);
  counter->raise(1);
  CAUSEWAY_TRY(waits);
  CAUSEWAY_TRY(in->signal(*counter, 2));
  CAUSEWAY_TRY(counter->wait(2, kPatience));
  CAUSEWAY_TRY(out->synchronize(kPatience));
  const auto current = CudaCurrent::enter(*part);
  return current.ok() ? Status() : Status(current.error());
}

// Each call of the driver fails once, with an ordinary error, with "out of memory" and with one
// that kills the context: a clear Status or none, nothing leaks, nothing hangs.
TEST(CudaFaults, EveryCallMayFail) {
  const RealClock clock;
  HostMemory memory;
  const RegionId region = memory.allocate({.name = "test", .bytes = mib(1)}).value();
  for (const int result : {1, kCudaOutOfMemory, 700}) {
    int failed = 0;
    int survived = 0;
    for (std::int64_t n = 1;; n += kSanitized ? 5 : 1) {
      FakeCuda driver;
      const std::int64_t calls_before = driver.calls();
      driver.fail_call(n, result);
      const Status status = use_everything(driver.api(), clock, memory, region);
      ASSERT_EQ(driver.leaks(), "") << "call " << n << " failed with " << result;
      if (!status.ok()) {
        ++failed;
        EXPECT_NE(status.error().message.find(std::to_string(result)), std::string::npos)
            << "call " << n << ": " << status.error().message;
      } else {
        ++survived;  // a call that gives something back
      }
      if (driver.calls() - calls_before < n) break;  // no call was left to fail
      ASSERT_LT(n, 5'000);
    }
    EXPECT_GT(failed, rounds(100)) << result;
    EXPECT_GT(survived, rounds(10)) << result;
  }
}

}  // namespace
}  // namespace causeway::device::cuda_machine_test
