// Embeddings on the CPU: the hidden states that the head reads, of the last token or of all,
// whatever the chunks and whatever is in the prefix cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "device/host_memory.h"
#include "engine/host_executor.h"
#include "engine/testing/tiny_slice.h"
#include "model/layers.h"

namespace causeway::engine::embedding_test {
namespace {

using request::Pooling;

constexpr Bytes kFrame = kib(24);  // 8 tokens of the tiny model in f32
constexpr std::int64_t kFrames = 64;

class Embeddings : public ::testing::Test {
 protected:
  void SetUp() override {
    placed_ = weights::lay_out(model::plan_weights(config_, DType::kF32)).value();
    weights_ = tiny_weights(placed_, 7);
    const RegionId region = memory_.allocate({.name = "kv", .bytes = kFrame * kFrames}).value();
    std::byte* const base = memory_.resolve({region, Bytes(0)}, kFrame * kFrames).data();
    executor_ = HostExecutor::start({base, kFrame, kFrames}, clock_).value();
    const auto layout = kv::plan_block(model::kv_shape(config_, DType::kF32), kFrame).value();
    run_.tokens_per_block = layout.tokens;
    run_.options.frames = kFrames;
    auto forward = std::make_unique<model::HostForward>(config_, where());
    ASSERT_TRUE(
        executor_
            ->add_model(kTinyModel,
                        {.forward = std::move(forward), .layout = layout, .kv_dtype = DType::kF32})
            .ok());
  }
  weights::PlacedWeights where() const { return {&placed_, weights_.data()}; }

  static request::Request embed(std::int64_t id, std::vector<TokenId> prompt, Pooling pooling) {
    request::Request request;
    request.id = RequestId(id);
    request.model = kTinyModel;
    request.prompt = std::move(prompt);
    request.max_tokens = Tokens(1);
    request.sampling.temperature = 0;
    request.pooling = pooling;
    return request;
  }
  std::vector<Answer> answers(const std::vector<request::Request>& requests) {
    const TinyReport report = run_requests(run_, *executor_, requests);
    EXPECT_EQ(report.broken, "");
    std::vector<Answer> all;
    for (const auto& [id, answer] : report.answers) all.push_back(answer);
    return all;
  }
  std::vector<TokenId> random_prompt(std::int64_t tokens) {
    std::vector<TokenId> prompt;
    while (std::ssize(prompt) < tokens) prompt.push_back(static_cast<TokenId>(random_.below(1000)));
    return prompt;
  }

  const model::ModelConfig config_ = tiny_config(model::Family::kLlama);
  Random random_{5};
  RealClock clock_;
  device::HostMemory memory_;
  weights::WeightLayout placed_;
  std::vector<std::byte> weights_;
  std::unique_ptr<HostExecutor> executor_;
  TinyRun run_;
};

// They are the hidden states that the head's logits, and its log-probabilities, are computed from.
TEST_F(Embeddings, OfTheLastTokenAreWhatTheHeadReads) {
  request::Request request = embed(0, random_prompt(30), Pooling::kLast);
  request.sampling.top_logprobs = 5;
  const Answer answer = answers({request}).at(0);
  ASSERT_EQ(std::ssize(answer.embedding), config_.hidden);
  const auto head = model::find_weights(config_, where()).lm_head;
  ASSERT_EQ(head.dtype, DType::kF32);
  const float* const rows = head.f32();
  std::vector<double> logits;
  for (std::int64_t v = 0; v < config_.vocab; ++v) {
    double sum = 0;
    for (std::int64_t i = 0; i < config_.hidden; ++i) {
      sum += static_cast<double>(answer.embedding[static_cast<std::size_t>(i)]) *
             static_cast<double>(rows[v * config_.hidden + i]);
    }
    logits.push_back(sum);
  }
  double total = 0;
  for (const double logit : logits) total += std::exp(logit);
  ASSERT_EQ(answer.tokens.at(0).top.size(), 5u);
  for (const request::TokenLogprob& one : answer.tokens[0].top) {
    EXPECT_NEAR(one.logprob, logits[static_cast<std::size_t>(one.token)] - std::log(total), 1e-3);
  }
}

TEST_F(Embeddings, OfAllTokensAreTheMeanOfThoseOfEach) {
  const std::vector<TokenId> prompt = random_prompt(40);
  std::vector<request::Request> each;
  for (std::int64_t i = 1; i <= std::ssize(prompt); ++i) {
    each.push_back(embed(i, {prompt.begin(), prompt.begin() + i}, Pooling::kLast));
  }
  std::vector<double> mean(static_cast<std::size_t>(config_.hidden));
  for (const Answer& answer : answers(each)) {
    ASSERT_EQ(answer.embedding.size(), mean.size());
    for (std::size_t i = 0; i < mean.size(); ++i) {
      mean[i] += static_cast<double>(answer.embedding[i]) / static_cast<double>(prompt.size());
    }
  }
  // The second would find the first's prefix in the cache, and must not use it.
  for (const std::int64_t tokens : {512, 7}) {
    run_.options.schedule.tokens_per_step_max = tokens;
    run_.arrive_each_step = 1;
    for (const Answer& answer :
         answers({embed(1, prompt, Pooling::kMean), embed(2, prompt, Pooling::kMean)})) {
      ASSERT_EQ(answer.embedding.size(), mean.size());
      for (std::size_t i = 0; i < mean.size(); ++i) {
        EXPECT_NEAR(answer.embedding[i], mean[i], 1e-4) << i;
      }
    }
  }
}

TEST_F(Embeddings, AreTheSameInCompanyChunksAndWithLittleMemory) {
  std::vector<request::Request> requests;
  for (std::int64_t id = 0; id < 12; ++id) {
    requests.push_back(embed(id, random_prompt(random_.between(1, 60)),
                             id % 2 == 0 ? Pooling::kLast : Pooling::kMean));
    if (id % 3 != 0) continue;
    requests.back().pooling = Pooling::kNone;  // one that generates
    requests.back().max_tokens = Tokens(24);
  }
  const std::vector<Answer> wanted = answers(requests);
  run_.options.frames = 11;
  run_.options.schedule.tokens_per_step_max = 20;
  run_.arrive_each_step = 2;
  const std::vector<Answer> got = answers(requests);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t id = 0; id < got.size(); ++id) {
    EXPECT_EQ(got[id].ids(), wanted[id].ids());
    ASSERT_EQ(got[id].embedding.size(), wanted[id].embedding.size());
    EXPECT_EQ(got[id].embedding.empty(), requests[id].pooling == Pooling::kNone);
    for (std::size_t i = 0; i < got[id].embedding.size(); ++i) {
      EXPECT_NEAR(got[id].embedding[i], wanted[id].embedding[i], 1e-3);
    }
  }
}

TEST_F(Embeddings, HaveAnAnswerOfOneToken) {
  request::Request request = embed(0, {1, 2}, Pooling::kLast);
  request.max_tokens = Tokens(2);
  EXPECT_NE(run_requests(run_, *executor_, {request}).broken, "");
}

}  // namespace
}  // namespace causeway::engine::embedding_test
