// KV that rotates on the CUDA backend, over a fake driver: twins are registered in pieces and
// copied only where they are registered, a stream of steps waits for what comes back without a host
// thread in between, and nothing is left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/testing/must.h"
#include "device/cuda/cuda_machine.h"
#include "device/testing/fake_cuda.h"
#include "kv/transfer_kv_mover.h"

namespace causeway::kv::kv_mover_cuda_test {
namespace {

using device::testing::FakeCuda;
using Direction = KvCopy::Direction;
using Outcome = KvCopyEnd::Outcome;

constexpr Bytes kExtent = mib(2);
constexpr Bytes kFrame = kib(256);
constexpr std::int64_t kFrames = 8;

class KvMoverOnCuda : public ::testing::Test {
 protected:
  KvMoverOnCuda() {
    machine_ = must(device::CudaMachine::create(
        driver_.api(), {.extent_bytes = kExtent, .drain_max = millis(20)}, clock_, memory_));
    device_ = must(machine_->open({.name = "d", .arena_bytes = kExtent * 4}));
    frames_.emplace(must(FrameArena::create(*device_, {.frame = kFrame, .frames = kFrames})));
    twins_ = must(TwinMemory::create(memory_, {.frame = kFrame, .bytes = kFrame * kFrames}));
    const std::int64_t before = registrations();
    must(twins_->reach(*device_, {.piece = kFrame * 2,
                                  .busy = [] { return true; },
                                  .cancelled = [] { return false; },
                                  .pause = [this](Nanos) { ++pauses_; }}));
    registered_ = registrations();
    EXPECT_EQ(registered_ - before, 4);
    EXPECT_EQ(pauses_, 3);
    gates_.emplace(*device_);
    engine_ = must(transfer::TransferEngine::create({.staging_bytes_max = Bytes(0)},
                                                    {{.slices = {device_.get()}}},
                                                    transfer::assume_all_links(1), clock_));
    const transfer::LinkShares::RoutesWanted routes{.target = 0, .links = transfer::LinkSet::of(0)};
    in_ = shares_.claim(device::CopyPriority::kKvIn, must(shares_.routes_in(routes)));
    out_ = shares_.claim(device::CopyPriority::kKvOut, must(shares_.routes_out(routes)));
    mover_.emplace(KvMoverOptions{.late_max = seconds(30)},
                   TransferKvMover::Parts{.device = *device_,
                                          .engine = *engine_,
                                          .claim_in = *in_,
                                          .claim_out = *out_,
                                          .frames = *frames_,
                                          .twins = *twins_,
                                          .gates = *gates_,
                                          .clock = clock_});
    steps_ = must(device_->make_stream("steps"));
  }
  ~KvMoverOnCuda() override {
    mover_.reset();
    steps_.reset();
    engine_.reset();
    gates_.reset();
    twins_.reset();
    frames_.reset();
    device_.reset();
    machine_.reset();
    EXPECT_EQ(driver_.leaks(), "");
    EXPECT_EQ(memory_.total_bytes(), Bytes(0));
  }
  std::int64_t registrations() const { return driver_.calls_of("cuMemHostRegister_v2"); }
  std::vector<KvCopy> copies(Direction direction) {
    std::vector<KvCopy> all;
    for (std::int64_t i = 0; i < kFrames; ++i) {
      all.push_back({.id = CopyId(next_++),
                     .direction = direction,
                     .reason = KvCopy::Reason::kRotation,
                     .frame = FrameId(i),
                     .twin = TwinId(kFrames - 1 - i)});
    }
    return all;
  }
  // A submission of so many copies.
  bool all_end(std::int64_t count, Outcome outcome) {
    const Nanos end = clock_.now() + seconds(20);
    while (count > 0 && clock_.now() < end) {
      for (const KvCopyEnd& ended : mover_->poll()) {
        EXPECT_EQ(ended.outcome, outcome) << ended.why;
        --count;
      }
      std::this_thread::yield();
    }
    return count == 0;
  }
  // The GPU's memory is host memory here.
  void fill(int with) {
    for (std::int64_t f = 0; f < kFrames; ++f) {
      const auto bytes = frames_->bytes_of(FrameId(f));
      std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(with + f));
    }
  }
  bool holds(int with) {
    for (std::int64_t f = 0; f < kFrames; ++f) {
      const auto bytes = frames_->bytes_of(FrameId(f));
      const auto wanted = static_cast<std::byte>(with + f);
      if (!std::all_of(bytes.begin(), bytes.end(), [&](auto one) { return one == wanted; })) {
        return false;
      }
    }
    return true;
  }

  FakeCuda driver_;
  RealClock clock_;
  device::HostMemory memory_;
  std::unique_ptr<device::CudaMachine> machine_;
  std::unique_ptr<device::Device> device_;
  std::optional<FrameArena> frames_;
  std::unique_ptr<TwinMemory> twins_;
  std::optional<CopyGates> gates_;
  std::unique_ptr<transfer::TransferEngine> engine_;
  transfer::LinkShares shares_{device::make_link_tree({})};
  std::unique_ptr<transfer::LinkClaim> in_, out_;
  std::optional<TransferKvMover> mover_;
  std::unique_ptr<device::Stream> steps_;
  std::int64_t registered_ = 0;
  int pauses_ = 0;
  std::int64_t next_ = 0;
};

TEST_F(KvMoverOnCuda, AStreamOfStepsWaitsForWhatComesBack) {
  fill(10);
  const auto out = copies(Direction::kOut);
  mover_->submit(out);
  ASSERT_TRUE(all_end(kFrames, Outcome::kOk));
  EXPECT_EQ(registrations(), registered_);  // no copy had to
  fill(100);
  const auto in = copies(Direction::kIn);
  mover_->submit(in);
  std::vector<CopyGate> gates;
  mover_->gates(in.back().id, gates);
  ASSERT_EQ(gates.size(), 1u);
  ASSERT_TRUE(steps_->wait(*gates[0].semaphore, gates[0].value).ok());
  bool there = false;
  ASSERT_TRUE(steps_
                  ->run([&] {
                    there = holds(10);
                    return Status();
                  })
                  .ok());
  ASSERT_TRUE(steps_->synchronize(seconds(20)).ok());
  EXPECT_TRUE(there);
  EXPECT_TRUE(all_end(kFrames, Outcome::kOk));
}

// The stream was told to wait, and only the host can let it go on.
TEST_F(KvMoverOnCuda, AStreamThatWaitsForCopiesThatFailGoesOnWhenTheyAreTold) {
  for (const Direction direction : {Direction::kOut, Direction::kIn}) {
    mover_->submit(copies(direction));
    ASSERT_TRUE(all_end(kFrames, Outcome::kOk));
  }
  driver_.lose(719);
  const auto in = copies(Direction::kIn);
  mover_->submit(in);
  std::vector<CopyGate> gates;
  mover_->gates(in.back().id, gates);
  ASSERT_EQ(gates.size(), 1u);
  EXPECT_FALSE(gates[0].open());
  EXPECT_TRUE(all_end(kFrames, Outcome::kFailed));
  EXPECT_TRUE(gates[0].open());
}

}  // namespace
}  // namespace causeway::kv::kv_mover_cuda_test
