// A host slice whose copies of weights fail or hang: who notices, and that everything goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/testing/must.h"
#include "engine/testing/collecting_sink.h"
#include "slice/host_slice.h"
#include "slice/testing/small_model.h"
#include "slice/testing/stress.h"
#include "transfer/testing/faulty_device.h"

namespace causeway::slice::slice_faults_test {
namespace {

using ::testing::HasSubstr;
using transfer::testing::FaultPlan;
using transfer::testing::FaultyDevice;

constexpr Bytes kExtent = kib(64);
constexpr Bytes kFrame = kib(16);
constexpr ModelId kFaulty(0), kOther(1);
constexpr int kEver = 1'000'000;
constexpr int kGroups = 5;  // the embedding, layers, the head

// The head is the embedding.
model::ModelConfig small_model(ModelId /*model*/) { return testing::small_model(4, true); }

void fill(std::span<std::byte> memory, ModelId model) {
  testing::fill_random(memory, static_cast<std::uint64_t>(model.value));
}

request::Request make_request(std::int64_t id, ModelId model, std::int64_t output) {
  request::Request request;
  request.id = RequestId(id);
  request.model = model;
  request.prompt = {5, 6, 7};
  request.sampling.temperature = 0;
  request.max_tokens = Tokens(output);
  return request;
}

class SliceFaultsTest : public ::testing::Test {
 protected:
  struct Opened {
    std::unique_ptr<Machine> machine;
    std::unique_ptr<Slice> slice;
    std::unique_ptr<testing::Crowd> crowd;  // ends first
  };
  // Two models and a cache for both, behind a link over which each takes some 10 ms.
  Opened open(engine::StepStart start = engine::StepStart::kJustInTime, double rate = 100e6) {
    HostSliceOptions options{.kv = mib(4), .kv_frame = kFrame, .cache = mib(4)};
    options.engine.core.step_start = start;
    options.link_front = [this](device::Device& device) {
      return std::make_unique<FaultyDevice>(device, faults_);
    };
    Opened opened;
    opened.machine =
        must(Machine::open_host(
                 {.links = device::make_link_tree({.link = rate, .link_duplex = 2 * rate}),
                  .extent_bytes = kExtent},
                 {}, home_, clock_),
             "the machine");
    opened.slice = must(open_host_slice(options, *opened.machine, sink_), "the slice");
    opened.crowd = std::make_unique<testing::Crowd>(
        testing::Catalogue{.models = 2, .config = small_model, .fill = fill},
        testing::Crowd::Parts{home_, clock_, *opened.slice});
    return opened;
  }
  RequestId ask(const Opened& opened, ModelId model, std::int64_t output = 8) {
    const RequestId id(next_request_++);
    must(opened.slice->engine().submit(make_request(id.value, model, output)), "a request");
    return id;
  }
  engine::Collected ended(RequestId id) {
    EXPECT_TRUE(sink_.wait_for_ends(static_cast<int>(next_request_), 60));
    return sink_.of(id);
  }
  engine::Collected answer(const Opened& opened, ModelId model, std::int64_t output = 8) {
    return ended(ask(opened, model, output));
  }
  std::vector<TokenId> undisturbed(ModelId model, std::int64_t output = 8) {
    const Opened opened = open();
    const auto whole = answer(opened, model, output);
    EXPECT_EQ(std::ssize(whole.tokens), output);
    return whole.tokens;
  }
  // Until `what`, of the engine or the faults; it takes a while.
  void wait_until(const std::function<bool()>& what) {
    for (int i = 0; i < 5000 && !what(); ++i) pause(millis(2));
    EXPECT_TRUE(what());
  }
  void pause(Nanos length) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable never;
    never.wait_for(lock, std::chrono::nanoseconds(length.count));
  }

  RealClock clock_;
  FaultPlan faults_;
  engine::CollectingSink sink_;
  ModelHome home_{clock_, mib(64)};
  std::int64_t next_request_ = 0;
};

// Once: the transfer engine moves it again. Twice: so does the next arrival, if it was the same
// copy.
TEST_F(SliceFaultsTest, ACopyThatFailsIsBroughtAgain) {
  const auto expected = undisturbed(kFaulty);
  for (const auto kind : {FaultPlan::Kind::kFail, FaultPlan::Kind::kRefuse}) {
    for (const int skip : {0, 2, kGroups - 1}) {
      const int count = skip == 2 ? 1 : 2;
      const Opened opened = open(engine::StepStart::kAllCached);
      const int before = faults_.happened();
      faults_.next(kind, count, skip);
      const auto got = answer(opened, kFaulty);
      EXPECT_EQ(faults_.happened(), before + count) << "skip " << skip;
      EXPECT_EQ(got.end->error, "") << "skip " << skip;
      EXPECT_EQ(got.tokens, expected) << "skip " << skip;
    }
  }
}

TEST_F(SliceFaultsTest, CopiesThatFailForGoodEndTheRequestsOfTheirModelAlone) {
  const auto expected = undisturbed(kFaulty);
  const auto expected_other = undisturbed(kOther, 40);
  for (const int skip : {0, 2, kGroups - 1}) {
    const Opened opened = open(engine::StepStart::kAllCached);
    EXPECT_EQ(answer(opened, kOther).end->error, "");
    const RequestId other = ask(opened, kOther, 40);
    faults_.next(FaultPlan::Kind::kFail, kEver, skip);
    const RequestId lost = ask(opened, kFaulty);
    wait_until([&] { return sink_.of(lost).ends == 1; });
    EXPECT_THAT(sink_.of(lost).end->error, HasSubstr("weights of the model could not be brought"));
    EXPECT_THAT(sink_.of(lost).end->error, HasSubstr("a fault of the test"));
    faults_.next(FaultPlan::Kind::kNone, 0);
    EXPECT_EQ(answer(opened, kFaulty).tokens, expected) << "skip " << skip;
    EXPECT_EQ(ended(other).end->error, "");
    EXPECT_EQ(ended(other).tokens, expected_other) << "skip " << skip;
  }
}

// The step is in flight and waits for the copy on its stream when that fails.
TEST_F(SliceFaultsTest, AStepThatWaitsForACopyThatHangsAndFailsEndsWithTheReason) {
  const auto expected = undisturbed(kFaulty);
  const auto expected_other = undisturbed(kOther);
  for (const int skip : {0, 2, kGroups - 1}) {
    const Opened opened = open(engine::StepStart::kAtOnce);
    EXPECT_EQ(answer(opened, kOther).tokens, expected_other);
    const int before = faults_.happened();
    faults_.next(FaultPlan::Kind::kHangThenFail, 1, skip);
    const RequestId lost = ask(opened, kFaulty);
    wait_until([&] { return faults_.happened() > before; });
    wait_until([&] { return opened.slice->engine().observe().requests_running == 1; });
    pause(millis(50));
    EXPECT_EQ(sink_.of(lost).ends, 0) << "skip " << skip;
    faults_.next(FaultPlan::Kind::kFail, kEver);
    faults_.release();
    EXPECT_THAT(ended(lost).end->error, HasSubstr("a fault of the test")) << "skip " << skip;
    EXPECT_TRUE(ended(lost).tokens.empty());
    faults_.next(FaultPlan::Kind::kNone, 0);
    faults_.reopen();
    EXPECT_EQ(answer(opened, kFaulty).tokens, expected) << "skip " << skip;
    EXPECT_EQ(answer(opened, kOther).tokens, expected_other) << "skip " << skip;
  }
}

// Steps of others run meanwhile: none that waits for a copy holds the device. Copies of 25 ms; the
// transfer engine gives up after some seconds.
TEST_F(SliceFaultsTest, CopiesThatHangHoldUpTheirModelAlone) {
  const auto expected = undisturbed(kFaulty);
  const Opened opened = open(engine::StepStart::kJustInTime, 10e6);
  EXPECT_EQ(answer(opened, kOther).end->error, "");
  faults_.next(FaultPlan::Kind::kHang, kEver);
  const RequestId held = ask(opened, kFaulty);
  wait_until([&] { return faults_.happened() > 0; });
  pause(millis(300));  // past when all copies were to end
  for (int i = 0; i < 2; ++i) {
    const RequestId other = ask(opened, kOther, 2);
    wait_until([&] { return sink_.of(other).ends == 1; });
    EXPECT_EQ(sink_.of(held).ends, 0);
  }
  faults_.release();
  EXPECT_EQ(ended(held).tokens, expected);
}

TEST_F(SliceFaultsTest, ASliceThatEndsWhileACopyHangsLeavesNothing) {
  Opened opened = open();
  faults_.next(FaultPlan::Kind::kHang, 1, 2);
  const RequestId held = ask(opened, kFaulty);
  wait_until([&] { return faults_.happened() == 1; });
  opened.slice->engine().cancel(held);
  EXPECT_EQ(ended(held).end->reason, request::FinishReason::kCancelled);
  std::thread releaser([&] { faults_.release_after(millis(100)); });
  opened.crowd.reset();
  opened.slice.reset();
  releaser.join();
  EXPECT_EQ(home_.pool.use().models, 0);
  EXPECT_EQ(home_.memory.total_bytes(), Bytes(0));
}

}  // namespace
}  // namespace causeway::slice::slice_faults_test
