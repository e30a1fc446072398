// One and two steps in flight give the same answers: the CPU's executor alone, and with a second
// step queued behind the first, over random requests: greedy, with seeds, penalties, edits of
// logits, least lengths, log-probabilities and stop tokens, in chunks, with preemption.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "device/host_memory.h"
#include "engine/host_executor.h"
#include "engine/testing/ahead_executor.h"
#include "engine/testing/tiny_slice.h"

namespace causeway::engine::ahead_test {
namespace {

constexpr Bytes kFrame = kib(24);  // 8 tokens of the tiny model in f32
constexpr std::int64_t kFrames = 64;

class HostSlice {
 public:
  explicit HostSlice(std::uint64_t seed) {
    const model::ModelConfig config = tiny_config(model::Family::kLlama);
    // In f32 the rest of a batch changes a sequence's logits only by a rounding of 2^-24.
    const auto placed = weights::lay_out(model::plan_weights(config, DType::kF32)).value();
    weights_ = tiny_weights(placed, seed);
    auto region = memory_.allocate({.name = "kv frames", .bytes = kFrame * kFrames});
    EXPECT_TRUE(region.ok());
    auto started = HostExecutor::start(
        {memory_.resolve({*region, Bytes(0)}, kFrame * kFrames).data(), kFrame, kFrames}, clock_);
    EXPECT_TRUE(started.ok());
    executor_ = std::move(started).value();
    auto layout = kv::plan_block(model::kv_shape(config, DType::kF32), kFrame);
    EXPECT_TRUE(layout.ok());
    tokens_per_block_ = layout->tokens;
    const Status added = executor_->add_model(
        kTinyModel, {.forward = std::make_unique<model::HostForward>(
                         config, weights::PlacedWeights{&placed, weights_.data()}),
                     .layout = *layout,
                     .kv_dtype = DType::kF32});
    EXPECT_TRUE(added.ok()) << added.error().message;
  }

  HostExecutor& executor() { return *executor_; }
  Tokens tokens_per_block() const { return tokens_per_block_; }

 private:
  RealClock clock_;
  device::HostMemory memory_;
  std::vector<std::byte> weights_;
  std::unique_ptr<HostExecutor> executor_;
  Tokens tokens_per_block_{0};
};

void expect_same(const std::vector<request::OutputToken>& one,
                 const std::vector<request::OutputToken>& two) {
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].token, two[i].token);
    EXPECT_NEAR(one[i].logprob, two[i].logprob, 1e-3);
    EXPECT_EQ(one[i].top.size(), two[i].top.size());
  }
}

void expect_same(const Answers& one, const Answers& two) {
  ASSERT_EQ(one.size(), two.size());
  for (const auto& [id, answer] : one) {
    const Answer& other = two.at(id);
    EXPECT_EQ(answer.error, "") << "request " << id;
    EXPECT_EQ(answer.reason, other.reason) << "request " << id;
    ASSERT_EQ(answer.ids(), other.ids()) << "request " << id;
    expect_same(answer.tokens, other.tokens);
    expect_same(answer.prompt, other.prompt);
  }
}

// No answer contains what its request forbids.
void expect_obeyed(const request::Request& request, const Answer& answer) {
  const auto has = [](const auto& list, TokenId token) {
    return std::find(list.begin(), list.end(), token) != list.end();
  };
  for (const TokenId token : answer.ids()) {
    EXPECT_TRUE(request.allowed_tokens.empty() || has(request.allowed_tokens, token)) << token;
    EXPECT_FALSE(has(request.stop_tokens, token)) << token;
  }
  EXPECT_GE(std::ssize(answer.tokens), request.min_tokens.count) << "request " << request.id.value;
}

struct Shape {
  const char* name;
  std::int64_t frames, tokens_per_step, arrive_each_step;
};

class OneAndTwo : public ::testing::TestWithParam<Shape> {};

TEST_P(OneAndTwo, StepsInFlightGiveTheSameAnswers) {
  const Shape shape = GetParam();
  HostSlice slice(7);
  Random random(20260101);
  const auto requests = random_requests({.count = 16, .edited = true, .scored = true}, random);
  TinyRun run;
  run.options.frames = shape.frames;
  run.tokens_per_block = slice.tokens_per_block();
  run.arrive_each_step = shape.arrive_each_step;
  run.options.schedule.tokens_per_step_max = shape.tokens_per_step;
  const TinyReport one = run_requests(run, slice.executor(), requests);
  AheadExecutor ahead(slice.executor());
  const TinyReport two = run_requests(run, ahead, requests);
  ASSERT_EQ(one.broken, "");
  ASSERT_EQ(two.broken, "");
  ASSERT_EQ(one.answers.size(), requests.size());
  expect_same(one.answers, two.answers);
  for (const request::Request& request : requests) {
    expect_obeyed(request, one.answers.at(request.id.value));
  }
  EXPECT_GT(ahead.steps_ahead(), two.steps / 4);
  if (shape.frames < kFrames) {
    EXPECT_GT(one.preemptions, 0);
    EXPECT_GT(two.preemptions, 0);
  }
}

// Cuts an answer anywhere, and asks for the rest of it in a request whose first tokens were
// delivered.
TEST(ARequestThatGoesOn, AnswersAsIfItHadNotStopped) {
  HostSlice slice(7);
  Random random(20260102);
  const auto requests =
      random_requests({.count = 16, .edited = true, .top_logprobs = 2, .scored = true}, random);
  TinyRun run;
  run.options.frames = kFrames;
  run.tokens_per_block = slice.tokens_per_block();
  const TinyReport whole = run_requests(run, slice.executor(), requests);
  ASSERT_EQ(whole.broken, "");
  std::vector<request::Request> cut;
  Answers left;
  for (request::Request request : requests) {
    const Answer& answer = whole.answers.at(request.id.value);
    const std::int64_t most = std::min(std::ssize(answer.tokens), request.max_tokens.count - 1);
    const std::int64_t before = random.between(0, most);
    Answer& rest = left[request.id.value] = answer;
    // They came with the first token.
    if (before > 0) rest.prompt.clear();
    rest.tokens.erase(rest.tokens.begin(), rest.tokens.begin() + before);
    for (std::int64_t i = 0; i < before; ++i) {
      request.output.push_back(answer.tokens[static_cast<std::size_t>(i)].token);
    }
    request.attempt = 1;
    cut.push_back(std::move(request));
  }
  const TinyReport again = run_requests(run, slice.executor(), cut);
  ASSERT_EQ(again.broken, "");
  expect_same(left, again.answers);
}

// The log-probability of each prompt token, asked for one by one: it is the only token that is
// allowed after the tokens before it.
std::vector<request::OutputToken> one_by_one(const TinyRun& run, StepExecutor& executor,
                                             const request::Request& asked) {
  std::vector<request::Request> requests;
  for (std::size_t i = 1; i < asked.prompt.size(); ++i) {
    request::Request request;
    request.id = RequestId(static_cast<std::int64_t>(i));
    request.model = asked.model;
    request.prompt.assign(asked.prompt.begin(),
                          asked.prompt.begin() + static_cast<std::ptrdiff_t>(i));
    request.max_tokens = Tokens(1);
    request.allowed_tokens = {asked.prompt[i]};
    request.sampling.top_logprobs = asked.sampling.prompt_logprobs;
    requests.push_back(std::move(request));
  }
  std::vector<request::OutputToken> tokens;
  for (const auto& [id, answer] : run_requests(run, executor, requests).answers) {
    if (!answer.tokens.empty()) tokens.push_back(answer.tokens.front());
  }
  return tokens;
}

// Whatever the chunks, with and without a cached prefix, and after preemption.
TEST(LogprobsOfPrompts, AreThoseOfGeneratingTheSameTokens) {
  HostSlice slice(7);
  Random random(20260103);
  auto requests = random_requests({.count = 8, .prompt_max = 40}, random);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling.prompt_logprobs = static_cast<std::int32_t>(i % 4);
    if (i % 2 == 1) requests[i].prompt = requests[i - 1].prompt;  // found in the prefix cache
  }
  TinyRun run;
  run.options.frames = kFrames;
  run.tokens_per_block = slice.tokens_per_block();
  std::vector<std::vector<request::OutputToken>> wanted;
  for (const request::Request& request : requests) {
    wanted.push_back(one_by_one(run, slice.executor(), request));
  }
  for (const Shape& shape : {Shape{"whole", kFrames, 512, 1000}, Shape{"chunks", kFrames, 20, 1},
                             Shape{"little memory", 11, 48, 4}}) {
    run.options.frames = shape.frames;
    run.arrive_each_step = shape.arrive_each_step;
    run.options.schedule.tokens_per_step_max = shape.tokens_per_step;
    const TinyReport report = run_requests(run, slice.executor(), requests);
    ASSERT_EQ(report.broken, "") << shape.name;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Answer& answer = report.answers.at(static_cast<std::int64_t>(i));
      EXPECT_EQ(answer.error, "");
      expect_same(wanted[i], answer.prompt);
      for (const request::OutputToken& token : answer.prompt) {
        EXPECT_EQ(std::ssize(token.top), requests[i].sampling.prompt_logprobs);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, OneAndTwo,
                         ::testing::Values(Shape{"all at once", kFrames, 512, 1000},
                                           Shape{"one by one, in chunks", kFrames, 20, 1},
                                           Shape{"little memory", 11, 48, 4}),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::erase_if(name, [](char c) { return c == ' ' || c == ','; });
                           return name;
                         });

}  // namespace
}  // namespace causeway::engine::ahead_test
