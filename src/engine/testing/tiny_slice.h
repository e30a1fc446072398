// Shared by tests of executors: a small model of random weights in the caller's memory, random
// requests for it, and an engine's loop over an executor until they have ended.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "base/random.h"
#include "engine/engine_core.h"
#include "model/random_model.h"
#include "weights/weight_layout.h"

namespace causeway::engine {

inline constexpr ModelId kTinyModel(1);

// 3 layers of width 256 and a vocabulary of 1,000. In families whose computation depends on length
// it changes after 40 tokens.
inline model::ModelConfig tiny_config(model::Family family) {
  model::ModelConfig config = model::random_model_config(family);
  config.layers = 3;
  config.vocab = 1000;
  config.heads = 8;
  config.kv_heads = 2;
  config.head_dim = 64;
  if (config.sliding_window != model::kNoWindow) config.sliding_window = 40;
  if (config.logn_context > 0) config.logn_context = 40;
  return config;
}

// All weights, uniform in ±0.15 (f32 or bf16), as they are laid out.
inline std::vector<std::byte> tiny_weights(const weights::WeightLayout& layout,
                                           std::uint64_t seed) {
  std::vector<std::byte> bytes(to_size(layout.bytes));
  Random random(seed);
  const auto width = to_size(size_of(layout.dtype));
  for (std::size_t i = 0; i + width <= bytes.size(); i += width) {
    const auto value = static_cast<float>(random.uniform() - 0.5) * 0.3f;
    const BFloat16 narrow = to_bfloat16(value);
    std::memcpy(&bytes[i], width == 2 ? static_cast<const void*>(&narrow) : &value, width);
  }
  return bytes;
}

struct RandomRequests {
  std::int64_t count = 16;
  std::int64_t prompt_max = 60;
  std::int64_t output_max = 24;
  std::int64_t vocab = 1000;
  bool sampled = true;  // some with seeds; else all greedy
  bool stops = true;    // some with stop tokens, that a random model comes upon
  bool penalised = true;
  bool edited = false;  // some with biases, allowed tokens and least lengths
  bool narrow = false;  // few candidates, so rounding seldom changes a draw
  std::int32_t top_logprobs = -1;  // of all; -1: of some
  bool scored = false;             // some with log-probabilities of their prompts
  bool embedded = false;           // some embedded instead of answered
};

inline request::SamplingParams random_sampling(const RandomRequests& wanted, Random& random) {
  request::SamplingParams sampling;
  sampling.temperature = 0;
  if (wanted.sampled && random.chance(0.6)) {
    sampling.temperature = static_cast<float>(0.5 + random.uniform());
    if (random.chance(0.3)) sampling.top_p = 0.9f;
    if (random.chance(0.3)) sampling.top_k = 40;
    if (wanted.narrow) sampling.top_k = static_cast<std::int32_t>(random.between(2, 8));
    if (random.chance(0.3)) sampling.min_p = 0.02f;
  }
  sampling.seed = random.bits();
  if (wanted.penalised && random.chance(0.4)) {
    sampling.presence_penalty = 0.7f;
    sampling.frequency_penalty = 0.4f;
    if (random.chance(0.5)) sampling.repetition_penalty = 1.2f;
  }
  sampling.top_logprobs = wanted.top_logprobs;
  if (sampling.top_logprobs < 0 && random.chance(0.3)) sampling.top_logprobs = 3;
  return sampling;
}

inline void add_edits(std::int64_t vocab, Random& random, request::Request& request) {
  const std::int64_t first = random.below(vocab);
  if (random.chance(0.5)) {
    for (std::int64_t i = 0; i < random.between(1, 30); ++i) {
      const auto bias = static_cast<float>(random.chance(0.3) ? -100 : 6 * random.uniform() - 3);
      request.logit_bias.push_back({static_cast<TokenId>((first + 7 * i) % vocab), bias});
    }
  }
  const bool restricted = random.chance(0.5);
  for (std::int64_t i = 0; restricted && i < random.between(20, 200); ++i) {
    request.allowed_tokens.push_back(static_cast<TokenId>(random.below(vocab)));
  }
  if (random.chance(0.5)) request.min_tokens = Tokens(random.between(1, request.max_tokens.count));
}

inline std::vector<request::Request> random_requests(const RandomRequests& wanted, Random& random) {
  std::vector<request::Request> requests;
  for (std::int64_t id = 0; id < wanted.count; ++id) {
    request::Request request;
    request.id = RequestId(id);
    request.model = kTinyModel;
    const std::int64_t prompt = random.between(1, wanted.prompt_max);
    for (std::int64_t i = 0; i < prompt; ++i) {
      request.prompt.push_back(static_cast<TokenId>(random.below(wanted.vocab)));
    }
    request.max_tokens = Tokens(random.between(1, wanted.output_max));
    request.sampling = random_sampling(wanted, random);
    for (int i = 0; wanted.stops && i < 40; ++i) {
      request.stop_tokens.push_back(static_cast<TokenId>(random.below(wanted.vocab)));
    }
    if (wanted.edited && random.chance(0.5)) add_edits(wanted.vocab, random, request);
    if (wanted.scored && random.chance(0.5)) {
      request.sampling.prompt_logprobs = static_cast<std::int32_t>(random.between(0, 4));
    }
    if (wanted.embedded && random.chance(0.3)) {
      request.pooling = random.chance(0.5) ? request::Pooling::kMean : request::Pooling::kLast;
      request.max_tokens = Tokens(1);
      request.min_tokens = Tokens(0);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Answer {
  std::vector<request::OutputToken> tokens;
  std::vector<request::OutputToken> prompt;  // as Output::prompt
  std::vector<float> embedding;              // as Output::embedding
  request::FinishReason reason = request::FinishReason::kError;
  std::string error;

  std::vector<TokenId> ids() const {
    std::vector<TokenId> all;
    for (const request::OutputToken& token : tokens) all.push_back(token.token);
    return all;
  }
};
using Answers = std::map<std::int64_t, Answer>;

struct TinyRun {
  CoreOptions options;
  Tokens tokens_per_block{1};
  std::int64_t vocab = 1000;
  std::int64_t arrive_each_step = 1 << 20;  // requests that arrive before each step
};

struct TinyReport {
  Answers answers;
  std::int64_t preemptions = 0;
  std::int64_t steps = 0;
  std::string broken;  // an invariant, or a step that did not end
};

inline void collect(EngineCore& core, TinyReport& report) {
  const Status intact = core.check_integrity();
  if (!intact.ok()) report.broken = intact.error().message;
  for (request::Output& output : core.take_outputs()) {
    Answer& answer = report.answers[output.request.value];
    for (auto& token : output.tokens) answer.tokens.push_back(std::move(token));
    for (auto& token : output.prompt) answer.prompt.push_back(std::move(token));
    if (!output.finished) continue;
    answer.embedding = std::move(output.embedding);
    answer.reason = output.reason;
    answer.error = output.error;
  }
}

// Runs all requests through an engine of its own, which comes and goes with the call.
inline TinyReport run_requests(const TinyRun& run, StepExecutor& executor,
                               const std::vector<request::Request>& requests) {
  TinyReport report;
  EngineCore core(run.options, executor);
  const Status added = core.add_model(kTinyModel, {.tokens_per_block = run.tokens_per_block,
                                                   .max_model_len = Tokens(4096),
                                                   .vocab = run.vocab});
  if (!added.ok()) report.broken = added.error().message;
  std::size_t arrived = 0;
  Nanos now(1);
  while (report.broken.empty()) {
    for (std::int64_t i = 0; i < run.arrive_each_step && arrived < requests.size(); ++i) {
      const Status taken = core.submit(requests[arrived++], now);
      if (!taken.ok()) report.broken = taken.error().message;
    }
    now += millis(1);
    if (core.start_step(now)) {
      const auto result = executor.wait(seconds(60));
      if (!result) {
        report.broken = "a step did not end";
        break;
      }
      core.finish_step(*result, now);
    } else if (arrived == requests.size()) {
      break;
    }
    collect(core, report);
  }
  collect(core, report);  // of a step that was refused
  report.preemptions = core.observe().preemptions;
  report.steps = core.observe().steps;
  return report;
}

}  // namespace causeway::engine
