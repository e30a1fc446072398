// The bytes of KV that rotates between HBM and host memory, over modelled links: they go out, are
// overwritten, and come back; copies that fail, hang and never end; what is claimed of the links.
#include "kv/transfer_kv_mover.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "base/testing/must.h"
#include "device/host/host_machine.h"
#include "transfer/testing/faulty_device.h"

namespace causeway::kv::transfer_kv_mover_test {
namespace {

using Direction = KvCopy::Direction;
using Reason = KvCopy::Reason;
using Outcome = KvCopyEnd::Outcome;
using transfer::testing::FaultPlan;

constexpr Bytes kExtent = kib(64);
constexpr Bytes kFrame = kib(16);
constexpr std::int64_t kFrames = 32;
constexpr std::int64_t kTwins = 24;
constexpr double kLink = 2e6;  // a frame takes 8 ms

class ForwardingDevice : public device::Device {
 public:
  explicit ForwardingDevice(device::Device& inner) : inner_(inner) {}
  device::DeviceId id() const override { return inner_.id(); }
  const device::Capabilities& capabilities() const override { return inner_.capabilities(); }
  device::Arena& arena() override { return inner_.arena(); }
  Result<std::unique_ptr<device::Stream>> make_stream(const std::string& name) override {
    return inner_.make_stream(name);
  }
  Result<std::unique_ptr<device::Event>> make_event() override { return inner_.make_event(); }

 private:
  device::Device& inner_;
};

class KvMoverTest : public ::testing::Test {
 protected:
  KvMoverTest() { open({.late_max = seconds(30)}); }

  void open(const KvMoverOptions& options, transfer::TransferEngineOptions engine = {}) {
    mover_.reset();
    in_.reset(), out_.reset();
    engine_.reset();
    links_ = device::make_link_tree({.link = kLink, .link_duplex = 2 * kLink});
    if (!device_) {
      machine_ = must(
          device::HostMachine::create({.links = links_, .extent_bytes = kExtent}, clock_, memory_));
      device_ = must(machine_->open({.name = "mover", .arena_bytes = kFrame * kFrames}));
      frames_.emplace(must(FrameArena::create(*device_, {.frame = kFrame, .frames = kFrames})));
      twins_ = must(TwinMemory::create(memory_, {.frame = kFrame, .bytes = kFrame * kTwins}));
      gates_ = std::make_unique<CopyGates>(*device_);
      faulty_ = std::make_unique<transfer::testing::FaultyDevice>(*device_, faults_);
    }
    engine.staging_bytes_max = Bytes(0);
    engine_ = must(transfer::TransferEngine::create(engine, {{.slices = {faulty_.get()}}},
                                                    transfer::assume_all_links(1), clock_));
    shares_ = std::make_unique<transfer::LinkShares>(links_);
    const transfer::LinkShares::RoutesWanted routes{.target = 0, .links = transfer::LinkSet::of(0)};
    in_ = shares_->claim(device::CopyPriority::kKvIn, must(shares_->routes_in(routes)));
    out_ = shares_->claim(device::CopyPriority::kKvOut, must(shares_->routes_out(routes)));
    mover_ = std::make_unique<TransferKvMover>(options, TransferKvMover::Parts{.device = *device_,
                                                                               .engine = *engine_,
                                                                               .claim_in = *in_,
                                                                               .claim_out = *out_,
                                                                               .frames = *frames_,
                                                                               .twins = *twins_,
                                                                               .gates = *gates_,
                                                                               .clock = clock_});
    mover_->set_notify([this] { ++notified_; });
  }

  KvCopy copy(Direction direction, std::int64_t frame, std::int64_t twin,
              Reason reason = Reason::kRotation) {
    return {.id = CopyId(next_++),
            .direction = direction,
            .reason = reason,
            .frame = FrameId(frame),
            .twin = TwinId(twin)};
  }
  std::vector<KvCopy> copies(Direction direction, std::int64_t count,
                             Reason reason = Reason::kRotation) {
    std::vector<KvCopy> all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(copy(direction, i, i, reason));
    return all;
  }
  void poll() {
    for (const KvCopyEnd& end : mover_->poll()) ends_[end.copy].push_back(end.outcome);
  }
  bool wait_until(const std::function<bool()>& what) {
    const Nanos end = clock_.now() + seconds(20);
    while (!what()) {
      if (clock_.now() > end) return false;
      poll();
      std::this_thread::yield();
    }
    return true;
  }
  // Polls until all copies have an outcome.
  std::vector<Outcome> last_of(const std::vector<KvCopy>& all) {
    EXPECT_TRUE(wait_until([&] {
      return std::all_of(all.begin(), all.end(),
                         [&](const KvCopy& one) { return ends_.contains(one.id); });
    }));
    std::vector<Outcome> outcomes;
    for (const KvCopy& one : all) outcomes.push_back(ends_[one.id].back());
    return outcomes;
  }
  void fill(std::int64_t frame, int with) {
    const auto bytes = frames_->bytes_of(FrameId(frame));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(static_cast<std::size_t>(with) * 31 + i % 251);
    }
  }
  bool holds(std::int64_t frame, int with) {
    const auto bytes = frames_->bytes_of(FrameId(frame));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] != static_cast<std::byte>(static_cast<std::size_t>(with) * 31 + i % 251)) {
        return false;
      }
    }
    return true;
  }
  std::vector<CopyGate> gates(CopyId until) {
    std::vector<CopyGate> all;
    mover_->gates(until, all);
    return all;
  }
  double reserved() const {
    double sum = 0;
    for (int r = 0; r < std::ssize(shares_->resources()); ++r) sum += shares_->reserved(r);
    return sum;
  }
  static std::vector<Outcome> all_of(std::int64_t count, Outcome outcome) {
    return std::vector<Outcome>(static_cast<std::size_t>(count), outcome);
  }

  RealClock clock_;
  device::HostMemory memory_;
  device::LinkProfile links_;
  std::unique_ptr<device::HostMachine> machine_;
  std::unique_ptr<device::Device> device_;
  std::optional<FrameArena> frames_;
  std::unique_ptr<TwinMemory> twins_;
  std::unique_ptr<CopyGates> gates_;
  FaultPlan faults_;
  std::unique_ptr<transfer::testing::FaultyDevice> faulty_;
  std::unique_ptr<transfer::TransferEngine> engine_;
  std::unique_ptr<transfer::LinkShares> shares_;
  std::unique_ptr<transfer::LinkClaim> in_, out_;
  std::atomic<int> notified_{0};
  std::unique_ptr<TransferKvMover> mover_;
  std::map<CopyId, std::vector<Outcome>> ends_;
  std::int64_t next_ = 0;
};

TEST_F(KvMoverTest, BytesGoOutAndComeBackToOtherFrames) {
  for (int f = 0; f < 8; ++f) fill(f, f);
  auto out = copies(Direction::kOut, 8);
  out[3].reason = Reason::kEager;
  mover_->submit(out);
  EXPECT_EQ(last_of(out), all_of(8, Outcome::kOk));
  for (int f = 0; f < 8; ++f) fill(f, 100);
  std::vector<KvCopy> in;
  for (std::int64_t t = 0; t < 8; ++t) in.push_back(copy(Direction::kIn, 20 - t, t));
  mover_->submit(in);
  EXPECT_EQ(last_of(in), all_of(8, Outcome::kOk));
  for (int f = 0; f < 8; ++f) EXPECT_TRUE(holds(20 - f, f)) << f;
  EXPECT_GT(notified_, 0);
  const auto& moved = engine_->stats().by_purpose;
  const auto moved_out = [&](device::CopyPriority p) {
    return moved[static_cast<std::size_t>(p)][index_of(transfer::Direction::kOut)];
  };
  EXPECT_EQ(moved_out(device::CopyPriority::kKvOut), kFrame * 7);
  EXPECT_EQ(moved_out(device::CopyPriority::kTwin), kFrame);
}

TEST_F(KvMoverTest, GatesOpenWhenTheCopiesInHaveEnded) {
  const auto first = copies(Direction::kIn, 4);
  mover_->submit(first);
  mover_->submit(std::vector{copy(Direction::kOut, 20, 20), copy(Direction::kOut, 21, 21)});
  const std::vector<KvCopy> second = {copy(Direction::kIn, 10, 10)};
  mover_->submit(second);
  EXPECT_TRUE(gates(CopyId()).empty());
  EXPECT_EQ(gates(first.back().id).size(), 1u);
  const auto both = gates(second.front().id);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_FALSE(both[0].open());
  for (const CopyGate& gate : both) {
    EXPECT_TRUE(gate.semaphore->wait(gate.value, seconds(20)).ok());
  }
  EXPECT_EQ(last_of(first), all_of(4, Outcome::kOk));
  EXPECT_EQ(last_of(second), all_of(1, Outcome::kOk));
  EXPECT_TRUE(gates(second.front().id).empty());
  EXPECT_EQ(gates_->size(), 2);
  faults_.next(FaultPlan::Kind::kHang, 1);
  const auto third = copies(Direction::kIn, 1);
  mover_->submit(third);
  EXPECT_FALSE(gates(third.front().id).front().open());  // lent again, and closed
  faults_.release();
  EXPECT_EQ(last_of(third), all_of(1, Outcome::kOk));
  EXPECT_EQ(gates_->size(), 2);
}

// Both directions run at their full rate: swap-in does not wait for swap-out.
TEST_F(KvMoverTest, BothWaysGoAtOnce) {
  const Nanos began = clock_.now();
  std::vector<KvCopy> both = copies(Direction::kOut, 12);
  for (std::int64_t t = 0; t < 12; ++t) both.push_back(copy(Direction::kIn, 12 + t, 12 + t));
  mover_->submit(both);
  EXPECT_NEAR(reserved(), 4 * kLink, 1);  // each way, and twice of both ways together
  EXPECT_EQ(last_of(both), all_of(24, Outcome::kOk));
  const double one_way = static_cast<double>((kFrame * 12).count) / kLink;
  EXPECT_GE(to_seconds(clock_.now() - began), 0.95 * one_way);
  EXPECT_LT(to_seconds(clock_.now() - began), 1.8 * one_way);
  EXPECT_EQ(reserved(), 0);
  shares_->check_integrity();
}

// Copies that a step waits for overtake eager copies, except those that have started.
TEST_F(KvMoverTest, CopiesThatMustGoPassEagerOnesThatAreQueued) {
  open({.late_max = seconds(30)}, {.dispatch = {.chunk_bytes = {kFrame, kFrame},
                                                .chunk_bytes_min = kFrame,
                                                .chunk_bytes_direct = kFrame,
                                                .multipath_bytes_min = kFrame}});
  const auto eager = copies(Direction::kOut, 16, Reason::kEager);
  mover_->submit(eager);
  std::vector<KvCopy> out;
  for (std::int64_t i = 16; i < 19; ++i) out.push_back(copy(Direction::kOut, i, i));
  mover_->submit(out);
  std::vector<CopyId> order;
  const Nanos end = clock_.now() + seconds(20);
  while (order.size() < eager.size() + out.size() && clock_.now() < end) {
    for (const KvCopyEnd& ended : mover_->poll()) order.push_back(ended.copy);
    std::this_thread::yield();
  }
  ASSERT_EQ(order.size(), 19u);
  EXPECT_EQ(order.front(), out.front().id) << "eager copies were first in the queue";
  EXPECT_EQ(order.back(), eager.back().id);
}

// The transfer engine tries failed copies again, and so does the mover, copy by copy: one that
// fails for good fails no other.
TEST_F(KvMoverTest, ACopyThatFailsForGoodFailsAlone) {
  for (int f = 0; f < 4; ++f) fill(f, f);
  const auto out = copies(Direction::kOut, 4);
  faults_.next(FaultPlan::Kind::kFail, 1'000'000);
  mover_->submit(out);
  ASSERT_TRUE(wait_until([&] { return ends_.contains(out.front().id); }));
  faults_.next(FaultPlan::Kind::kNone, 0);
  const auto outcomes = last_of(out);
  EXPECT_EQ(outcomes.front(), Outcome::kFailed);
  EXPECT_EQ(reserved(), 0);
  // A single failure has no effect.
  for (const auto kind : {FaultPlan::Kind::kFail, FaultPlan::Kind::kRefuse}) {
    faults_.next(kind, 3);
    const auto again = copies(Direction::kOut, 4);
    mover_->submit(again);
    EXPECT_EQ(last_of(again), all_of(4, Outcome::kOk));
  }
}

TEST_F(KvMoverTest, TheGateOfCopiesThatFailOpensAfterTheyAreTold) {
  faults_.next(FaultPlan::Kind::kFail, 1'000'000);
  const auto in = copies(Direction::kIn, 3);
  mover_->submit(in);
  const CopyGate gate = gates(in.back().id).front();
  while (!gate.open()) poll();
  EXPECT_EQ(ends_.size(), 3u);
  EXPECT_EQ(last_of(in), all_of(3, Outcome::kFailed));
  faults_.next(FaultPlan::Kind::kNone, 0);
}

TEST_F(KvMoverTest, CopiesThatAreLateAreGivenUpAndEndLater) {
  fill(0, 5);
  const auto out = copies(Direction::kOut, 1);
  mover_->submit(out);
  ASSERT_EQ(last_of(out), all_of(1, Outcome::kOk));
  fill(0, 6);
  open({.late_max = millis(20)});
  faults_.next(FaultPlan::Kind::kHang, 1);
  const auto in = copies(Direction::kIn, 2);
  mover_->submit(in);
  const CopyGate gate = gates(in.back().id).front();
  EXPECT_EQ(last_of(in), all_of(2, Outcome::kGivenUp));
  EXPECT_TRUE(gate.open());
  EXPECT_EQ(gates(in.back().id).size(), 1u);  // open; it is not lent meanwhile
  faults_.release();
  ASSERT_TRUE(
      wait_until([&] { return ends_[in[0].id].size() == 2 && ends_[in[1].id].size() == 2; }));
  EXPECT_EQ(ends_[in[0].id].back(), Outcome::kOk);
  EXPECT_TRUE(holds(0, 5));
  EXPECT_EQ(gates_->size(), 1);
  EXPECT_EQ(reserved(), 0);
}

TEST_F(KvMoverTest, EagerCopiesMayBeLate) {
  open({.late_max = millis(20)});
  faults_.next(FaultPlan::Kind::kHang, 1);
  const auto out = copies(Direction::kOut, 2, Reason::kEager);
  mover_->submit(out);
  const Nanos begin = clock_.now();
  ASSERT_TRUE(wait_until([&] { return clock_.now() > begin + millis(200); }));
  EXPECT_TRUE(ends_.empty());
  faults_.release();
  EXPECT_EQ(last_of(out), all_of(2, Outcome::kOk));
}

// The transfer engine has tried twice by then, but nothing writes any more when it says so.
TEST_F(KvMoverTest, CopiesThatAreLateTwiceEndAllTheSame) {
  open({.late_max = millis(20)}, {.chunk_time_max = millis(100), .poll_pause_max = millis(1)});
  faults_.next(FaultPlan::Kind::kHang, 1'000'000);
  const auto in = copies(Direction::kIn, 1);
  mover_->submit(in);
  EXPECT_EQ(last_of(in), all_of(1, Outcome::kGivenUp));
  ASSERT_TRUE(wait_until([&] { return faults_.happened() == 2; }));
  const Nanos second = clock_.now();
  ASSERT_TRUE(wait_until([&] { return clock_.now() > second + millis(400); }));
  faults_.release();
  ASSERT_TRUE(wait_until([&] { return ends_[in[0].id].size() == 2; }));
  EXPECT_EQ(ends_[in[0].id].back(), Outcome::kFailed);
  EXPECT_EQ(reserved(), 0);
  must(gates_->take());
  EXPECT_EQ(gates_->size(), 1) << "its gate was not given back";
}

// The transfer engine says that it will never end: frame and twin are never used again.
TEST_F(KvMoverTest, ACopyThatNeverEndsIsGivenUpOnce) {
  open({.late_max = millis(20)},
       {.chunk_time_max = millis(100), .drain_max = millis(100), .poll_pause_max = millis(1)});
  faults_.next(FaultPlan::Kind::kHang, 1'000'000);
  const auto in = copies(Direction::kIn, 2);
  mover_->submit(in);
  const CopyGate gate = gates(in.back().id).front();
  EXPECT_EQ(last_of(in), all_of(2, Outcome::kGivenUp));
  ASSERT_TRUE(wait_until([&] { return gates(in.back().id).empty(); }));
  EXPECT_TRUE(gate.open());
  EXPECT_EQ(ends_[in[0].id].size(), 1u);
  EXPECT_EQ(reserved(), 0);
  // Its gate is never lent again: the copy that hangs may still raise it.
  EXPECT_NE(must(gates_->take()).semaphore, gate.semaphore);
  mover_.reset();
  faults_.release();
  engine_.reset();
}

TEST_F(KvMoverTest, GoesWhileACopyHangs) {
  faults_.next(FaultPlan::Kind::kHang, 1);
  const auto in = copies(Direction::kIn, 2);
  mover_->submit(in);
  const CopyGate gate = gates(in.back().id).front();
  std::thread step([&] { EXPECT_TRUE(gate.semaphore->wait(gate.value, seconds(20)).ok()); });
  std::thread releaser([&] { faults_.release_after(millis(100)); });
  mover_.reset();
  step.join();
  releaser.join();
  EXPECT_EQ(reserved(), 0);
}

// No gate can be had, so a step could not wait: the copies fail, and are reported.
TEST_F(KvMoverTest, WithoutSemaphoresCopiesInFail) {
  class NoSemaphores final : public ForwardingDevice {
   public:
    using ForwardingDevice::ForwardingDevice;
    Result<std::unique_ptr<device::Semaphore>> make_semaphore() override {
      return unsupported("no semaphores");
    }
  };
  NoSemaphores without(*device_);
  gates_ = std::make_unique<CopyGates>(without);
  open({.late_max = seconds(30)});
  auto both = copies(Direction::kIn, 2);
  both.push_back(copy(Direction::kOut, 5, 5));
  mover_->submit(both);
  EXPECT_TRUE(gates(both.back().id).empty());
  EXPECT_EQ(last_of(both), (std::vector{Outcome::kFailed, Outcome::kFailed, Outcome::kOk}));
  mover_.reset();
}

}  // namespace
}  // namespace causeway::kv::transfer_kv_mover_test
