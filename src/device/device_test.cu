// The CUDA backend on a real GPU: the conformance suite, and what only a GPU can show: kernels on
// slices, zero-copy reads, capture, time-outs behind real work, exhausted memory, and a faulting
// kernel. One GPU is enough; peers are used when there are two.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/quantile.h"
#include "base/random.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_machine.h"
#include "device/testing/device_conformance.h"
#include "device/testing/kernels.cuh"

namespace causeway::device {
namespace {

using testing::DeviceConformance;

constexpr Nanos kPatience = seconds(60);

class Conforming final : public testing::ConformanceMachine {
 public:
  static Result<std::unique_ptr<testing::ConformanceMachine>> make(const Clock& clock,
                                                                   HostMemory& memory) {
    CAUSEWAY_ASSIGN(const CudaApi api, load_cuda_api());
    auto made = std::make_unique<Conforming>();
    CAUSEWAY_ASSIGN(
        made->machine_,
        CudaMachine::create(api, {.extent_bytes = testing::kConformanceExtent}, clock, memory));
    return std::unique_ptr<testing::ConformanceMachine>(std::move(made));
  }
  Result<std::unique_ptr<Device>> open(const SliceSpec& slice) override {
    return machine_->open(slice);
  }
  int physical_devices() const override { return machine_->gpus(); }

 private:
  std::unique_ptr<CudaMachine> machine_;
};

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceConformance,
                         ::testing::Values(testing::conformance("cuda", Conforming::make)),
                         testing::conformance_name);

Status launched() {
  const cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) return {};
  return Error{ErrorCode::kDevice, std::string("launch: ") + cudaGetErrorString(code)};
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto api = load_cuda_api();
    if (!api.ok()) GTEST_SKIP() << api.error().message;
    auto made = CudaMachine::create(*api, {}, clock_, memory_);
    if (!made.ok()) GTEST_SKIP() << made.error().message;
    machine_ = std::move(made).value();
    device_ = machine_->open({.name = "whole", .arena_bytes = gib(200)}).value();
    region_ = memory_.allocate({.name = "test", .bytes = mib(64)}).value();
    host_ = memory_.resolve({region_, Bytes(0)}, mib(64));
  }
  void TearDown() override {
    device_.reset();
    machine_.reset();
  }

  RealClock clock_;
  HostMemory memory_;
  std::unique_ptr<CudaMachine> machine_;
  std::unique_ptr<Device> device_;
  RegionId region_;
  std::span<std::byte> host_;
};

TEST_F(GpuTest, SlicesRunOnSmsOfTheirOwn) {
  std::vector<std::unique_ptr<Device>> slices;
  for (const int sms : {16, 32, 56}) {
    slices.push_back(
        machine_
            ->open(
                {.name = "slice" + std::to_string(sms), .processors = sms, .arena_bytes = mib(32)})
            .value());
    EXPECT_EQ(slices.back()->capabilities().processors, sms);
  }
  std::vector<int> owner(256, -1);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    Device& slice = *slices[i];
    const Extents extent = slice.arena().allocate(1, Arena::End::kLow).value();
    const auto stream = slice.make_stream("s").value();
    auto* seen = reinterpret_cast<unsigned*>(extent.data());
    ASSERT_TRUE(cuda_enqueue(*stream, [&](CUstream_st* s) {
                  testing::mark_sm(s, seen, 20'000);
                  return launched();
                }).ok());
    const Copy back{MemoryAddress::in_host({region_, Bytes(0)}),
                    MemoryAddress::in_arena(slice.id(), Bytes(0)), Bytes(1024)};
    ASSERT_TRUE(stream->copy({&back, 1}, CopyPriority::kStep).ok());
    ASSERT_TRUE(stream->synchronize(kPatience).ok());
    int used = 0;
    for (int sm = 0; sm < 256; ++sm) {
      unsigned mark = 0;
      std::memcpy(&mark, host_.data() + 4 * sm, 4);
      if (mark == 0) continue;
      ++used;
      EXPECT_EQ(owner[static_cast<std::size_t>(sm)], -1) << "SM " << sm << " in two slices";
      owner[static_cast<std::size_t>(sm)] = static_cast<int>(i);
    }
    EXPECT_EQ(used, slice.capabilities().processors);
  }
  const auto none = machine_->open({.name = "late", .processors = 56});
  EXPECT_EQ(none.error().code, ErrorCode::kResourceExhausted) << "104 of 128 SMs are taken";
}

TEST_F(GpuTest, KernelsReadHostMemoryInPlaceAndKeepTheirPlace) {
  const Extents extent = device_->arena().allocate(1, Arena::End::kLow).value();
  const auto stream = device_->make_stream("s").value();
  constexpr int kCount = 1 << 20;
  auto* words = reinterpret_cast<unsigned*>(host_.data());
  for (int i = 0; i < kCount; ++i) words[i] = static_cast<unsigned>(mix64(i));
  const auto seen = cuda_address_of(*device_, {region_, Bytes(0)}, mib(4)).value();
  const auto kernel = [&](CUstream_st* s) {
    testing::add_one(s, reinterpret_cast<const unsigned*>(seen),
                                reinterpret_cast<unsigned*>(extent.data()), kCount);
    return launched();
  };
  const Copy back{MemoryAddress::in_host({region_, mib(8)}),
                  MemoryAddress::in_arena(device_->id(), Bytes(0)), mib(4)};
  ASSERT_TRUE(cuda_enqueue(*stream, kernel).ok());
  ASSERT_TRUE(stream->copy({&back, 1}, CopyPriority::kStep).ok());
  int wrong = 0;
  ASSERT_TRUE(stream
                  ->run([&]() -> Status {  // on the host, between kernels
                    for (int i = 0; i < kCount; ++i) {
                      wrong += words[(8 << 18) + i] != words[i] + 1;
                      words[i] += 7;
                    }
                    return {};
                  })
                  .ok());
  ASSERT_TRUE(cuda_enqueue(*stream, kernel).ok());
  ASSERT_TRUE(stream->copy({&back, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->synchronize(kPatience).ok());
  for (int i = 0; i < kCount; ++i) wrong += words[(8 << 18) + i] != words[i] + 1;
  EXPECT_EQ(wrong, 0);
}

TEST_F(GpuTest, BatchesAreCapturedAsSingleCopies) {
  const Extents extent = device_->arena().allocate(1, Arena::End::kLow).value();
  const auto stream = device_->make_stream("s").value();
  std::vector<Copy> copies;
  for (int i = 0; i < 8; ++i) {
    copies.push_back({MemoryAddress::in_arena(device_->id(), kib(64) * i),
                      MemoryAddress::in_host({region_, kib(64) * (7 - i)}), kib(64)});
  }
  // Registered before, because registering is not possible while capturing.
  ASSERT_TRUE(cuda_address_of(*device_, {region_, Bytes(0)}, kib(64)).ok());
  cudaGraph_t graph = nullptr;
  {
    const auto current = CudaCurrent::enter(*device_);
    ASSERT_TRUE(current.ok());
    ASSERT_EQ(cudaStreamBeginCapture(cuda_stream_of(*stream), cudaStreamCaptureModeThreadLocal),
              cudaSuccess);
    EXPECT_TRUE(stream->copy(copies, CopyPriority::kStep).ok());
    ASSERT_EQ(cudaStreamEndCapture(cuda_stream_of(*stream), &graph), cudaSuccess);
    std::size_t nodes = 0;
    ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_EQ(nodes, copies.size());
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    for (std::size_t i = 0; i < (512u << 10); ++i) host_[i] = static_cast<std::byte>(mix64(i));
    ASSERT_EQ(cudaGraphLaunch(exec, cuda_stream_of(*stream)), cudaSuccess);
    ASSERT_TRUE(stream->synchronize(kPatience).ok());
    ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  const Copy back{MemoryAddress::in_host({region_, mib(1)}),
                  MemoryAddress::in_arena(device_->id(), Bytes(0)), kib(512)};
  ASSERT_TRUE(stream->copy({&back, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->synchronize(kPatience).ok());
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(
        std::memcmp(host_.data() + (1 << 20) + (i << 16), host_.data() + ((7 - i) << 16), 1 << 16),
        0);
  }
}

TEST_F(GpuTest, WaitsEndWhileTheGpuWorksOn) {
  auto stream = device_->make_stream("slow").value();
  const auto other = device_->make_stream("other").value();
  const auto mark = device_->make_event().value();
  const auto after = device_->make_event().value();
  const Nanos start = clock_.now();
  ASSERT_TRUE(cuda_enqueue(*stream, [](CUstream_st* s) {
                testing::spin(s, 600'000'000);  // about a third of a second
                return launched();
              }).ok());
  ASSERT_TRUE(stream->record(*mark).ok());
  ASSERT_TRUE(other->wait(*mark).ok());
  ASSERT_TRUE(other->record(*after).ok());
  EXPECT_FALSE(mark->done().value());
  EXPECT_EQ(mark->wait(millis(20)).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(other->synchronize(millis(20)).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(stream->record(*mark).error().code, ErrorCode::kInvalidArgument);
  EXPECT_LT(clock_.now() - start, millis(200));
  stream.reset();  // waits for the kernel
  EXPECT_TRUE(mark->wait(kPatience).ok());
  EXPECT_TRUE(after->wait(kPatience).ok());
  const Nanos took = mark->completed_at().value() - start;
  EXPECT_GT(took, millis(150));
  EXPECT_LE(took, clock_.now() - start);
  EXPECT_GE(after->completed_at().value(), mark->completed_at().value());
  EXPECT_TRUE(device_->health().ok());
}

// A kernel behind a semaphore sees the bytes of the copy before it, without a host thread in
// between.
TEST_F(GpuTest, KernelsWaitForCopiesBySemaphore) {
  ASSERT_TRUE(device_->capabilities().semaphores);
  const Extents extents = device_->arena().allocate(2, Arena::End::kLow).value();
  const auto gate = device_->make_semaphore().value();
  const auto arrived = device_->make_semaphore().value();
  const auto copies = device_->make_stream("copies").value();
  const auto kernels = device_->make_stream("kernels").value();
  constexpr int kCount = 4 << 20;
  auto* words = reinterpret_cast<unsigned*>(host_.data());
  auto* sums = words + kCount;
  auto* here = reinterpret_cast<unsigned*>(extents.data());
  auto* there = here + (kExtentBytes.count >> 2);
  const Copy in{MemoryAddress::in_arena(device_->id(), Bytes(0)),
                MemoryAddress::in_host({region_, Bytes(0)}), mib(16)};
  const Copy back{MemoryAddress::in_host({region_, mib(16)}),
                  MemoryAddress::in_arena(device_->id(), kExtentBytes), mib(16)};
  // Loading a kernel and registering memory may wait for all streams, so neither happens below.
  const auto kernel = [&](CUstream_st* s) {
    testing::add_one(s, here, there, kCount);
    return launched();
  };
  ASSERT_TRUE(cuda_enqueue(*kernels, kernel).ok());
  ASSERT_TRUE(kernels->copy({&back, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(kernels->synchronize(kPatience).ok());
  for (std::uint32_t round = 1; round <= 20; ++round) {
    for (int i = 0; i < kCount; ++i) words[i] = static_cast<unsigned>(mix64(i)) * round;
    std::fill_n(sums, kCount, 0u);
    // The kernel is enqueued first.
    ASSERT_TRUE(kernels->wait(*arrived, round).ok());
    ASSERT_TRUE(cuda_enqueue(*kernels, kernel).ok());
    ASSERT_TRUE(kernels->copy({&back, 1}, CopyPriority::kStep).ok());
    ASSERT_TRUE(copies->wait(*gate, round).ok());
    ASSERT_TRUE(copies->copy({&in, 1}, CopyPriority::kStep).ok());
    ASSERT_TRUE(copies->signal(*arrived, round).ok());
    EXPECT_EQ(kernels->synchronize(millis(2)).error().code, ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(arrived->value(), round - 1);
    gate->raise(round);
    ASSERT_TRUE(kernels->synchronize(kPatience).ok());
    EXPECT_EQ(arrived->value(), round);
    int wrong = 0;
    for (int i = 0; i < kCount; ++i) wrong += sums[i] != words[i] + 1;
    ASSERT_EQ(wrong, 0) << "round " << round;
  }
}

TEST_F(GpuTest, SemaphoresServeSlicesWithSmsOfTheirOwn) {
  const auto part =
      machine_->open({.name = "part", .processors = 32, .arena_bytes = mib(32)}).value();
  const auto there = part->make_semaphore().value();
  const auto back = device_->make_semaphore().value();
  const auto a = device_->make_stream("a").value();
  const auto b = part->make_stream("b").value();
  ASSERT_TRUE(b->wait(*there, 1).ok());
  ASSERT_TRUE(b->signal(*back, 1).ok());
  EXPECT_EQ(back->wait(1, millis(5)).error().code, ErrorCode::kDeadlineExceeded);
  ASSERT_TRUE(a->signal(*there, 1).ok());
  ASSERT_TRUE(a->wait(*back, 1).ok());
  EXPECT_TRUE(a->synchronize(kPatience).ok());
  EXPECT_TRUE(back->wait(1, kPatience).ok());
}

// The cost of a wait: to the caller where the value is reached, otherwise to the caller and the
// GPU. Fewer than a thousand stand in a stream at a time, because the driver blocks a thread that
// enqueues more.
TEST_F(GpuTest, SemaphoreWaitsCostLittle) {
  constexpr int kWaits = 250;
  const auto gate = device_->make_semaphore().value();
  const auto value = device_->make_semaphore().value();
  const auto stream = device_->make_stream("s").value();
  const auto begin = device_->make_event().value();
  const auto end = device_->make_event().value();
  std::vector<double> reached_ns, enqueue_us, gpu_us, signal_us;
  for (std::uint32_t round = 1; round <= 5; ++round) {
    ASSERT_TRUE(stream->wait(*gate, round).ok());
    ASSERT_TRUE(stream->record(*begin).ok());
    const Nanos start = clock_.now();
    for (int i = 0; i < kWaits; ++i) ASSERT_TRUE(stream->wait(*value, round).ok());
    enqueue_us.push_back(to_seconds(clock_.now() - start) * 1e6 / kWaits);
    ASSERT_TRUE(stream->record(*end).ok());
    value->raise(round);  // before the stream gets there
    gate->raise(round);
    ASSERT_TRUE(stream->synchronize(kPatience).ok());
    gpu_us.push_back(to_seconds(end->completed_at().value() - begin->completed_at().value()) * 1e6 /
                     kWaits);
    const Nanos again = clock_.now();
    for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(stream->wait(*value, round).ok());
    reached_ns.push_back(to_seconds(clock_.now() - again) * 1e6);
    const auto raised = device_->make_semaphore().value();
    ASSERT_TRUE(stream->record(*begin).ok());
    for (std::uint32_t i = 1; i <= kWaits; ++i) ASSERT_TRUE(stream->signal(*raised, i).ok());
    ASSERT_TRUE(stream->record(*end).ok());
    ASSERT_TRUE(stream->synchronize(kPatience).ok());
    signal_us.push_back(to_seconds(end->completed_at().value() - begin->completed_at().value()) *
                        1e6 / kWaits);
  }
  for (auto* times : {&reached_ns, &enqueue_us, &gpu_us, &signal_us}) {
    std::sort(times->begin(), times->end());
  }
  std::printf(
      "a wait for a semaphore (medians of 5): reached at the call %.0f ns; else %.2f us of the "
      "caller, and of the GPU, reached by then, %.2f us; a signal %.2f us\n",
      reached_ns[2], enqueue_us[2], gpu_us[2], signal_us[2]);
  EXPECT_LT(gpu_us[2], 20);
}

// A wait on the device ends as soon as the value is there, also when the host raises it.
TEST_F(GpuTest, AWaitEndsSoonAfterTheRaise) {
  const auto value = device_->make_semaphore().value();
  const auto answer = device_->make_semaphore().value();
  const auto stream = device_->make_stream("s").value();
  std::vector<double> us;
  for (std::uint32_t round = 1; round <= 50; ++round) {
    ASSERT_TRUE(stream->wait(*value, round).ok());
    ASSERT_TRUE(stream->signal(*answer, round).ok());
    EXPECT_EQ(stream->synchronize(micros(200)).error().code, ErrorCode::kDeadlineExceeded);
    const Nanos start = clock_.now();
    value->raise(round);
    while (!reached(answer->value(), round) && clock_.now() - start < kPatience) {
    }
    us.push_back(to_seconds(clock_.now() - start) * 1e6);
  }
  std::sort(us.begin(), us.end());
  std::printf("host raise to the stream's answer: %.1f us (median), %.1f us (worst)\n", us[25],
              us.back());
  EXPECT_TRUE(reached(answer->value(), 50));
}

// Events give GPU time on the machine's clock; it is compared with the host's readings.
TEST_F(GpuTest, EventTimesAgreeWithTheClock) {
  const auto stream = device_->make_stream("s").value();
  const auto first = device_->make_event().value();
  const auto last = device_->make_event().value();
  double worst_us = 0;
  for (int round = 0; round < 30; ++round) {
    ASSERT_TRUE(stream->record(*first).ok());
    ASSERT_TRUE(cuda_enqueue(*stream, [](CUstream_st* s) {
                  testing::spin(s, 100'000'000);
                  return launched();
                }).ok());
    ASSERT_TRUE(stream->record(*last).ok());
    while (!last->done().value()) {
    }
    const Nanos seen = clock_.now();
    const Nanos at = last->completed_at().value();
    worst_us = std::max(worst_us, std::abs(static_cast<double>((seen - at).count)) * 1e-3);
    EXPECT_GT(at, first->completed_at().value());
  }
  std::printf("event time against the host seeing it: at most %.1f us apart\n", worst_us);
  EXPECT_LT(worst_us, 500);
}

TEST_F(GpuTest, ExtentsRunOutWithTheNumbersAndComeBack) {
  const Bytes free_before = machine_->free_memory(0).value();
  const std::int64_t fit = free_before / kExtentBytes;
  auto most = device_->arena().allocate(fit - 16, Arena::End::kLow);
  ASSERT_TRUE(most.ok()) << most.error().message;
  const auto more = device_->arena().allocate(64, Arena::End::kHigh);
  ASSERT_EQ(more.error().code, ErrorCode::kResourceExhausted);
  std::printf("%s\n", more.error().message.c_str());
  EXPECT_NE(more.error().message.find("2048 MiB in all"), std::string::npos);
  EXPECT_NE(more.error().message.find("free"), std::string::npos);
  EXPECT_NE(more.error().message.find("whole"), std::string::npos);
  const auto few = device_->arena().allocate(1, Arena::End::kHigh);  // trying had no cost
  EXPECT_TRUE(few.ok());
  most = Extents();
  device_->arena().trim();
  EXPECT_GE(machine_->free_memory(0).value() + mib(64) + kExtentBytes, free_before);
}

TEST_F(GpuTest, MappingExtentsIsFast) {
  std::vector<double> map_ms, unmap_ms;
  for (int round = 0; round < 5; ++round) {
    const Nanos start = clock_.now();
    Extents extents = device_->arena().allocate(128, Arena::End::kLow).value();
    const Nanos mapped = clock_.now();
    extents = Extents();
    map_ms.push_back(to_millis(mapped - start));
    unmap_ms.push_back(to_millis(clock_.now() - mapped));
    device_->arena().trim();
  }
  std::printf("4 GiB in 128 extents: create, map and zero %.2f ms, unmap %.2f ms (medians of 5)\n",
              median(map_ms), median(unmap_ms));
  // 8 to 12 ms and 9 ms on H200s. Much more would mean that each extent waits for the device.
  constexpr double kMostMs = 250;
  EXPECT_LT(median(map_ms), kMostMs);
  EXPECT_LT(median(unmap_ms), kMostMs);
}

// Memory moves between two models' ranges.
TEST_F(GpuTest, CommittingRecycledExtentsIsFast) {
  constexpr int kExtents = 128;
  AddressRange a = device_->arena().reserve(kExtents).value();
  AddressRange b = device_->arena().reserve(kExtents).value();
  ASSERT_TRUE(a.commit(0, kExtents).ok());
  std::vector<double> commit_us, decommit_us;
  for (int round = 0; round < 11; ++round) {
    AddressRange& from = round % 2 == 0 ? a : b;
    AddressRange& to = round % 2 == 0 ? b : a;
    const Nanos start = clock_.now();
    from.decommit(0, kExtents);
    const Nanos unmapped = clock_.now();
    ASSERT_TRUE(to.commit(0, kExtents).ok());
    decommit_us.push_back(to_millis(unmapped - start) * 1e3 / kExtents);
    commit_us.push_back(to_millis(clock_.now() - unmapped) * 1e3 / kExtents);
  }
  std::printf("recycled extents of 32 MiB: decommit %.1f us, commit %.1f us each (medians of 11)\n",
              median(decommit_us), median(commit_us));
  constexpr double kMostUs = 2000;  // as above, of one extent
  EXPECT_LT(median(decommit_us), kMostUs);
  EXPECT_LT(median(commit_us), kMostUs);
}

TEST_F(GpuTest, RangesKeepWhatTheyHoldBesideDecommits) {
  AddressRange range = device_->arena().reserve(64).value();
  const auto stream = device_->make_stream("s").value();
  Random random(6);
  for (auto& byte : host_) byte = static_cast<std::byte>(random.bits());
  const std::vector<std::byte> sent(host_.begin(), host_.end());
  const MemoryAddress home = MemoryAddress::in_host({region_, Bytes(0)});
  const MemoryAddress held = MemoryAddress::in_arena(device_->id(), range.offset() + mib(32));
  ASSERT_TRUE(range.commit(0, 4).ok());
  const Copy in{held, home, mib(64)};
  ASSERT_TRUE(stream->copy({&in, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->synchronize(kPatience).ok());
  for (int round = 0; round < 20; ++round) {
    range.decommit(0, 1);
    range.decommit(3, 1);
    ASSERT_TRUE(range.commit(20, 2).ok());  // takes what the two gave
    ASSERT_TRUE(cuda_enqueue(*stream, [&](CUstream_st* s) {
                  testing::write_to(
                      s, reinterpret_cast<unsigned*>(range.data() + (kExtentBytes * 20).count));
                  return launched();
                }).ok());
    ASSERT_TRUE(stream->synchronize(kPatience).ok());
    range.decommit(20, 2);
    ASSERT_TRUE(range.commit(0, 1).ok());
    ASSERT_TRUE(range.commit(3, 1).ok());
  }
  std::fill(host_.begin(), host_.end(), std::byte{0});
  const Copy back{home, held, mib(64)};
  ASSERT_TRUE(stream->copy({&back, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->synchronize(kPatience).ok());
  EXPECT_EQ(std::memcmp(host_.data(), sent.data(), sent.size()), 0);
}

// Pieces of one region, neighbours and not: copies and kernels go across their borders.
TEST_F(GpuTest, CopiesAndKernelsCrossTheBordersOfPieces) {
  const Extents extents = device_->arena().allocate(2, Arena::End::kLow).value();
  const auto stream = device_->make_stream("s").value();
  Random random(8);
  for (auto& byte : host_) byte = static_cast<std::byte>(random.bits());
  for (const Bytes begin : {mib(8), Bytes(0), mib(12)}) {
    ASSERT_TRUE(device_->make_reachable({region_, begin}, mib(4)).ok());
  }
  ASSERT_TRUE(device_->make_reachable({region_, mib(2)}, mib(12)).ok());  // the gap
  ASSERT_TRUE(device_->make_reachable({region_, mib(16)}, mib(48)).ok());
  const Bytes odd = mib(14) - Bytes(6);
  const std::vector<Copy> in = {{MemoryAddress::in_arena(device_->id(), Bytes(3)),
                                 MemoryAddress::in_host({region_, Bytes(3)}), odd},
                                {MemoryAddress::in_arena(device_->id(), mib(16)),
                                 MemoryAddress::in_host({region_, mib(14)}), mib(4)}};
  const std::vector<Copy> back = {{MemoryAddress::in_host({region_, mib(32) + Bytes(3)}),
                                   MemoryAddress::in_arena(device_->id(), Bytes(3)), odd}};
  ASSERT_TRUE(stream->copy(in, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->copy(back, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->synchronize(kPatience).ok());
  EXPECT_EQ(std::memcmp(host_.data() + 3, host_.data() + (32 << 20) + 3, to_size(odd)), 0);

  constexpr int kCount = 4 << 20;  // words: 16 MiB
  const auto seen = cuda_address_of(*device_, {region_, Bytes(0)}, mib(16));
  ASSERT_TRUE(seen.ok()) << seen.error().message;
  EXPECT_EQ(*seen, reinterpret_cast<CudaDevicePointer>(host_.data())) << "not one address space";
  ASSERT_TRUE(cuda_enqueue(*stream, [&](CUstream_st* s) {
                testing::add_one(s, reinterpret_cast<const unsigned*>(*seen),
                                            reinterpret_cast<unsigned*>(extents.data()), kCount);
                return launched();
              }).ok());
  const Copy result{MemoryAddress::in_host({region_, mib(32)}),
                    MemoryAddress::in_arena(device_->id(), Bytes(0)), mib(16)};
  ASSERT_TRUE(stream->copy({&result, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->synchronize(kPatience).ok());
  const auto* words = reinterpret_cast<const unsigned*>(host_.data());
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) wrong += words[(8 << 20) + i] != words[i] + 1;
  EXPECT_EQ(wrong, 0);
}

// As a worker has models' homes: another's memory, mapped for reading, in pieces.
TEST_F(GpuTest, WhatIsRegisteredForReadingIsCopiedAndReadInPlace) {
  if (machine_->registered_access() != HostAccess::kRead) {
    GTEST_SKIP() << "needs CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, "
                    "which a GPU here lacks";
  }
  Random random(9);
  for (auto& byte : host_) byte = static_cast<std::byte>(random.bits());
  HostMemory reader;
  auto machine = CudaMachine::create(load_cuda_api().value(), {}, clock_, reader).value();
  auto device = machine->open({.name = "reader", .arena_bytes = gib(1)}).value();
  const RegionId home =
      reader.adopt(memory_.file_descriptor(region_), mib(64), HostAccess::kRead).value();
  for (Bytes at; at < mib(64); at += mib(4)) {
    ASSERT_TRUE(device->make_reachable({home, at}, mib(4)).ok());
  }
  {
    const Extents extents = device->arena().allocate(2, Arena::End::kLow).value();
    const auto stream = device->make_stream("s").value();
    const RegionId target = reader.allocate({.name = "target", .bytes = mib(64)}).value();
    const std::span<std::byte> result = reader.resolve({target, Bytes(0)}, mib(64));
    const Copy in{MemoryAddress::in_arena(device->id(), Bytes(0)),
                  MemoryAddress::in_host({home, Bytes(0)}), mib(32)};
    const Copy out{MemoryAddress::in_host({target, Bytes(0)}),
                   MemoryAddress::in_arena(device->id(), Bytes(0)), mib(32)};
    ASSERT_TRUE(stream->copy({&in, 1}, CopyPriority::kStep).ok());
    ASSERT_TRUE(stream->copy({&out, 1}, CopyPriority::kStep).ok());
    ASSERT_TRUE(stream->synchronize(kPatience).ok());
    EXPECT_EQ(std::memcmp(result.data(), host_.data(), 32 << 20), 0);

    constexpr int kCount = 8 << 20;  // words: 32 MiB, across the borders of pieces
    const auto seen = cuda_address_of(*device, {home, mib(32)}, mib(32));
    ASSERT_TRUE(seen.ok()) << seen.error().message;
    ASSERT_TRUE(cuda_enqueue(*stream, [&](CUstream_st* s) {
                  testing::add_one(s, reinterpret_cast<const unsigned*>(*seen),
                                   reinterpret_cast<unsigned*>(extents.data()), kCount);
                  return launched();
                }).ok());
    ASSERT_TRUE(stream->copy({&out, 1}, CopyPriority::kStep).ok());
    ASSERT_TRUE(stream->synchronize(kPatience).ok());
    const auto* had = reinterpret_cast<const unsigned*>(host_.data()) + (8 << 20);
    const auto* words = reinterpret_cast<const unsigned*>(result.data());
    int wrong = 0;
    for (int i = 0; i < kCount; ++i) wrong += words[i] != had[i] + 1;
    EXPECT_EQ(wrong, 0);
  }
  device.reset();
  ASSERT_TRUE(reader.release(home).ok());
}

TEST_F(GpuTest, RegistrationInPieces) {
  for (const Bytes piece : {mib(4), mib(64), mib(256)}) {
    std::vector<double> rates;
    for (int round = 0; round < 5; ++round) {
      const RegionId region = memory_.allocate({.name = "pool", .bytes = gib(1)}).value();
      const Nanos start = clock_.now();
      for (Bytes at; at < gib(1); at += piece) {
        ASSERT_TRUE(device_->make_reachable({region, at}, piece).ok());
      }
      rates.push_back(static_cast<double>(gib(1).count) * 1e-9 / to_seconds(clock_.now() - start));
      ASSERT_TRUE(memory_.release(region).ok());
    }
    std::printf("registering 1 GiB in pieces of %d MiB: %.1f GB/s (median of 5)\n",
                static_cast<int>(piece / mib(1)), median(rates));
  }
}

TEST_F(GpuTest, PeersCopyBothWays) {
  if (machine_->gpus() < 2) GTEST_SKIP() << "one GPU";
  const auto peer =
      machine_->open({.name = "peer", .physical_device = 1, .arena_bytes = mib(64)}).value();
  const Extents here = device_->arena().allocate(2, Arena::End::kLow).value();
  const Extents there = peer->arena().allocate(2, Arena::End::kLow).value();
  Random random(4);
  for (auto& byte : host_) byte = static_cast<std::byte>(random.bits());
  const auto stream = device_->make_stream("s").value();
  const auto far = peer->make_stream("s").value();
  const auto done = device_->make_event().value();
  const MemoryAddress home = MemoryAddress::in_host({region_, Bytes(0)});
  const MemoryAddress near0 = MemoryAddress::in_arena(device_->id(), Bytes(0));
  const MemoryAddress far0 = MemoryAddress::in_arena(peer->id(), Bytes(0));
  const Copy in{near0, home, mib(32)};
  const Copy over{far0, near0, mib(32)};  // pushed by its owner
  const Copy again{MemoryAddress::in_arena(device_->id(), mib(32)), far0, mib(32)};  // by the peer
  const Copy back{home, MemoryAddress::in_arena(device_->id(), mib(32)), mib(32)};
  const std::vector<std::byte> sent(host_.begin(), host_.begin() + (32 << 20));
  ASSERT_TRUE(stream->copy({&in, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->copy({&over, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->record(*done).ok());
  ASSERT_TRUE(far->wait(*done).ok());
  ASSERT_TRUE(far->copy({&again, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(far->synchronize(kPatience).ok());
  std::fill(host_.begin(), host_.end(), std::byte{0});
  ASSERT_TRUE(stream->copy({&back, 1}, CopyPriority::kStep).ok());
  ASSERT_TRUE(stream->synchronize(kPatience).ok());
  EXPECT_EQ(std::memcmp(host_.data(), sent.data(), sent.size()), 0);
  // A kernel of the peer writes here in place.
  ASSERT_TRUE(cuda_enqueue(*far, [&](CUstream_st* s) {
                testing::write_to(s, reinterpret_cast<unsigned*>(here.data()));
                return launched();
              }).ok());
  ASSERT_TRUE(far->synchronize(kPatience).ok());
}

// A kernel that faults kills the context for the whole process, so this runs in one of its own.
using GpuDeathTest = GpuTest;
TEST_F(GpuDeathTest, AFaultingKernelIsReportedAndNothingHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Extents extent = device_->arena().allocate(1, Arena::End::kLow).value();
        auto stream = device_->make_stream("s").value();
        const auto other = device_->make_stream("other").value();
        const auto mark = device_->make_event().value();
        (void)cuda_enqueue(*stream, [](CUstream_st* s) {
          testing::write_to(s, reinterpret_cast<unsigned*>(64));
          return launched();
        }).ok();
        (void)stream->record(*mark).ok();
        const Status waited = mark->wait(seconds(10));
        const Status synced = stream->synchronize(seconds(10));
        const Status others = other->synchronize(seconds(10));
        const Status health = device_->health();
        std::fprintf(stderr, "waited: %s\nhealth: %s\n",
                     waited.ok() ? "ok" : waited.error().message.c_str(),
                     health.ok() ? "ok" : health.error().message.c_str());
        const bool right = !waited.ok() && waited.error().code == ErrorCode::kDevice &&
                           !synced.ok() && synced.error().code == ErrorCode::kDevice &&
                           !others.ok() && !health.ok() &&
                           !device_->arena().allocate(1, Arena::End::kHigh).ok();
        stream.reset();
        std::exit(right ? 17 : 18);
      },
      ::testing::ExitedWithCode(17), "GPU 0 .* is lost to this process.*illegal");
}

}  // namespace
}  // namespace causeway::device
