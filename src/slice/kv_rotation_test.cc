// KV that rotates between a host slice's frames and host memory, over modelled links: before every
// step all KV that it reads has gone to its twins, is overwritten in its frames, and comes back
// with the step. Answers are those of a slice where nothing moves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>

#include "base/testing/must.h"
#include "engine/testing/collecting_sink.h"
#include "slice/host_slice.h"
#include "slice/testing/rotating_executor.h"
#include "slice/testing/small_model.h"
#include "transfer/testing/faulty_device.h"

namespace causeway::slice::kv_rotation_test {
namespace {

using ::testing::HasSubstr;
using testing::RotatingExecutor;
using transfer::testing::FaultPlan;

constexpr Bytes kFrame = kib(16);
constexpr Bytes kExtent = kib(64);
constexpr Bytes kKv = mib(1);  // 64 frames
constexpr ModelId kModel(0);

// How far f32 rounding lets a token's values depend on others in its batch.
constexpr float kRounding = 1e-4f;

// Keeps log-probabilities, too: a small model's best token is often the same whatever it reads.
class KeepingSink final : public engine::OutputSink {
 public:
  struct Answer {
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;
  };
  void on_outputs(std::vector<request::Output> outputs) override {
    {
      const std::lock_guard lock(mutex_);
      for (const request::Output& output : outputs) {
        Answer& answer = answers_[output.request];
        for (const request::OutputToken& token : output.tokens) {
          answer.tokens.push_back(token.token);
          answer.logprobs.push_back(token.logprob);
        }
      }
    }
    ends_.on_outputs(std::move(outputs));
  }
  bool wait_for_ends(int count, int patience) { return ends_.wait_for_ends(count, patience); }
  std::string error_of(RequestId request) { return ends_.of(request).end->error; }
  Answer answer(RequestId request) {
    const std::lock_guard lock(mutex_);
    return answers_[request];
  }

 private:
  std::mutex mutex_;  // guards the next
  std::map<RequestId, Answer> answers_;
  engine::CollectingSink ends_;
};

class KvRotationTest : public ::testing::Test {
 protected:
  ~KvRotationTest() override { close(); }

  // `link`: bytes per second each way. `rotates`: KV does, at every step.
  void open(double link, bool rotates, Nanos late_max = seconds(30), Bytes cache = Bytes(0)) {
    close();
    seen_.out = seen_.in = seen_.failed = seen_.given_up = 0;
    seen_.told_first = true;
    HostSliceOptions options{.kv = kKv, .kv_frame = kFrame, .cache = cache};
    options.link_front = [this](device::Device& device) {
      return std::make_unique<transfer::testing::FaultyDevice>(device, faults_);
    };
    if (rotates) {
      options.kv_host.bytes = kKv + kFrame;
      options.kv_host.late_max = late_max;
      options.executor_front = [&](engine::StepExecutor& inner) {
        EXPECT_TRUE(inner.capabilities().rotates);
        EXPECT_GT(inner.copy_rates().in, 0);
        return std::make_unique<RotatingExecutor>(inner, TwinId(kKv / kFrame), seen_);
      };
    }
    machine_ = must(Machine::open_host(
                        {.links = device::make_link_tree({.link = link, .link_duplex = 2 * link}),
                         .extent_bytes = kExtent},
                        {}, home_, clock_),
                    "the machine");
    slice_ = must(open_host_slice(options, *machine_, sink_), "the slice");
    add();
  }
  void add() {
    const auto card = must(slice_->card(testing::small_model(3, true)), "a card");
    must(home_.pool.make(kModel, card.layout,
                         [&](std::span<std::byte> memory) {
                           testing::fill_random(memory, 1);
                           return Status();
                         },
                         {}),
         "a home");
    const auto facts =
        must(slice_->attach({kModel, card, must(home_.pool.pin(kModel), "a pin"), Tokens(256), {}}),
             "the model");
    must(slice_->engine().add_model(kModel, facts), "the model");
  }
  void close() {
    if (slice_ == nullptr) return;
    EXPECT_TRUE(slice_->engine().remove_model(kModel, seconds(60)).ok());
    slice_->detach(kModel);
    EXPECT_TRUE(home_.pool.unload(kModel).ok());
    slice_.reset();
    machine_.reset();
    EXPECT_EQ(home_.memory.total_bytes(), Bytes(0));
  }
  RequestId ask(std::int64_t prompt, std::int64_t output) {
    request::Request request;
    request.id = RequestId(next_request_++);
    request.model = kModel;
    for (std::int64_t i = 0; i < prompt; ++i) {
      request.prompt.push_back(static_cast<TokenId>((7 * i + prompt) % 500));
    }
    request.sampling.temperature = 0;
    request.sampling.top_logprobs = 0;
    request.max_tokens = Tokens(output);
    request.arrival = clock_.now();
    const RequestId id = request.id;
    EXPECT_TRUE(slice_->engine().submit(std::move(request)).ok());
    return id;
  }
  using Answer = KeepingSink::Answer;
  Answer answer(RequestId id) {
    EXPECT_TRUE(sink_.wait_for_ends(static_cast<int>(next_request_), 120));
    EXPECT_EQ(sink_.error_of(id), "");
    return sink_.answer(id);
  }
  // To prompts of several lengths, asked at once.
  std::vector<Answer> answers() {
    std::vector<RequestId> ids;
    for (const std::int64_t prompt : {3, 30, 70}) ids.push_back(ask(prompt, 12));
    std::vector<Answer> all;
    for (const RequestId id : ids) all.push_back(answer(id));
    return all;
  }
  static void expect_same(const Answer& got, const Answer& expected) {
    EXPECT_EQ(got.tokens, expected.tokens);
    ASSERT_EQ(got.logprobs.size(), expected.logprobs.size());
    for (std::size_t i = 0; i < got.logprobs.size(); ++i) {
      EXPECT_NEAR(got.logprobs[i], expected.logprobs[i], kRounding) << i;
    }
  }

  RealClock clock_;
  FaultPlan faults_;
  KeepingSink sink_;
  ModelHome home_{clock_, mib(64)};
  RotatingExecutor::Seen seen_;
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Slice> slice_;
  std::int64_t next_request_ = 0;
};

TEST_F(KvRotationTest, AnswersAreTheSameWhenAllKvRotatesAtEveryStep) {
  open(1e9, false);
  EXPECT_EQ(slice_->link_bytes_out(), Bytes(0));
  const auto expected = answers();
  // Weights at home, or cached, so that they share the links.
  for (const Bytes cache : {Bytes(0), mib(2)}) {
    open(50e6, true, seconds(30), cache);
    const auto got = answers();
    for (std::size_t i = 0; i < expected.size(); ++i) expect_same(got[i], expected[i]);
    EXPECT_GT(seen_.in, 12);
    EXPECT_EQ(seen_.in, 2 * seen_.out);
    EXPECT_EQ(seen_.failed + seen_.given_up, 0);
    EXPECT_EQ(slice_->link_bytes_out(), kFrame * seen_.out);
    machine_->shares().check_integrity();
  }
}

// What comes back is late: who did not wait would read zeros meanwhile.
TEST_F(KvRotationTest, AStepWaitsForWhatComesBackToIt) {
  open(1e9, false);
  const Answer undisturbed = answer(ask(70, 4));
  open(50e6, true);
  faults_.next(FaultPlan::Kind::kHang, 1, 5);  // of the second step: out, zeros in, back in
  const RequestId held = ask(70, 4);
  while (faults_.happened() == 0) std::this_thread::yield();
  std::thread releaser([&] { faults_.release_after(millis(300)); });
  expect_same(answer(held), undisturbed);
  releaser.join();
  EXPECT_EQ(seen_.failed + seen_.given_up, 0);
}

// A batch is tried again by the transfer engine, and then by the mover, copy by copy.
TEST_F(KvRotationTest, CopiesThatFailAreTriedAgain) {
  open(1e9, false);
  const Answer undisturbed = answer(ask(70, 12));
  open(50e6, true);
  faults_.next(FaultPlan::Kind::kFail, 3, 2);
  expect_same(answer(ask(70, 12)), undisturbed);
  EXPECT_EQ(faults_.happened(), 3);
  EXPECT_EQ(seen_.failed, 0);
}

TEST_F(KvRotationTest, CopiesInThatFailForGoodAreToldBeforeTheStepEnds) {
  open(50e6, true);
  faults_.next(FaultPlan::Kind::kFail, 1'000'000, 2);  // of the last copies in
  const RequestId lost = ask(3, 2);
  ASSERT_TRUE(sink_.wait_for_ends(1, 60));
  EXPECT_THAT(sink_.error_of(lost), HasSubstr("KV of the step is void"));
  EXPECT_GT(seen_.failed, 0);
  EXPECT_TRUE(seen_.told_first);
  faults_.next(FaultPlan::Kind::kNone, 0);
  (void)answers();
}

TEST_F(KvRotationTest, CopiesInThatHangHoldUpAStepNoLongerThanTheyMay) {
  open(50e6, true, millis(50));
  faults_.next(FaultPlan::Kind::kHang, 1, 2);
  const RequestId lost = ask(3, 2);
  ASSERT_TRUE(sink_.wait_for_ends(1, 60));
  EXPECT_THAT(sink_.error_of(lost), HasSubstr("KV of the step is void"));
  EXPECT_GT(seen_.given_up, 0);
  EXPECT_TRUE(seen_.told_first);
  faults_.release();
  // The copy that hung goes on to read its twin. An engine does not use that twin until it has;
  // RotatingExecutor, which uses the same twins at every step, would write to it.
  EXPECT_FALSE(sink_.wait_for_ends(2, 1));
  (void)ask(30, 4);
  EXPECT_TRUE(sink_.wait_for_ends(2, 60));  // well or, late by chance, not
}

TEST_F(KvRotationTest, ASliceThatEndsWhileCopiesHangLeavesNothing) {
  open(50e6, true, seconds(60));
  faults_.next(FaultPlan::Kind::kHang, 1, 2);
  const RequestId held = ask(3, 2);
  while (faults_.happened() == 0) std::this_thread::yield();
  slice_->engine().cancel(held);
  std::thread releaser([&] { faults_.release_after(millis(200)); });
  slice_.reset();
  releaser.join();
  machine_.reset();
  EXPECT_TRUE(home_.pool.unload(kModel).ok());
  EXPECT_EQ(home_.memory.total_bytes(), Bytes(0));
}

TEST_F(KvRotationTest, HostMemoryThatCannotBeIsRefusedWithTheNumbers) {
  machine_ = must(Machine::open_host({.extent_bytes = kExtent}, {}, home_, clock_), "the machine");
  HostSliceOptions options{.kv = kKv, .kv_frame = kFrame, .kv_host = {.bytes = kFrame - Bytes(1)}};
  const auto small = open_host_slice(options, *machine_, sink_);
  ASSERT_FALSE(small.ok());
  EXPECT_EQ(small.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(small.error().message, HasSubstr("less than one block of 16384"));
  options.kv_host.bytes = gib(1 << 18);
  const auto large = open_host_slice(options, *machine_, sink_);
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(large.error().message, HasSubstr("needs 268435456 MiB"));
  EXPECT_EQ(home_.memory.total_bytes(), Bytes(0));
}

}  // namespace
}  // namespace causeway::slice::kv_rotation_test
