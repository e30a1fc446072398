#include "slice/host_slice.h"
#include "slice/testing/small_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "base/random.h"
#include "base/testing/must.h"
#include "base/testing/rounds.h"
#include "engine/testing/collecting_sink.h"

namespace causeway::slice::host_slice_test {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kFrame = kib(16);
constexpr Bytes kExtent = kib(64);

// A model of a few hundred kilobytes: layers of several extents.
model::ModelConfig small_model(bool tied) { return testing::small_model(3, tied); }

class HostSliceTest : public ::testing::Test {
 protected:
  ~HostSliceTest() override {
    for (const ModelId model : models_) remove(model);
  }

  // `cache`: zero: weights are read at home.
  void open(Bytes cache, double link = 0) {
    open({.kv = mib(4), .kv_frame = kFrame, .cache = cache}, link);
  }
  void open(HostSliceOptions options, double link) {
    slice_.reset();
    device::HostMachineOptions host{.extent_bytes = kExtent};
    if (link > 0) host.links = device::make_link_tree({.link = link, .link_duplex = 2 * link});
    machine_ = must(Machine::open_host(host, {}, home_, clock_), "the machine");
    options.residency.quantum_min = millis(20);
    slice_ = must(open_host_slice(options, *machine_, sink_), "the slice");
  }

  // `max_resident`: of the cache for its weights; zero: no limit.
  Status add(ModelId id, bool tied, Bytes max_resident = Bytes(0)) {
    CAUSEWAY_ASSIGN(const model::ModelCard card, slice_->card(config(id, tied)));
    const auto seed = static_cast<std::uint64_t>(id.value);
    CAUSEWAY_TRY(home_.pool.make(id, card.layout,
                                 [&](std::span<std::byte> memory) {
                                   testing::fill_random(memory, seed);
                                   return Status();
                                 },
                                 {}));
    CAUSEWAY_ASSIGN(auto home, home_.pool.pin(id));
    CAUSEWAY_ASSIGN(const engine::ModelFacts facts,
                    slice_->attach({id, card, std::move(home), Tokens(256), max_resident}));
    streamed_[id] = facts.weights.streamed_bytes();
    const Status added = slice_->engine().add_model(id, facts);
    if (!added.ok()) {
      slice_->detach(id);
      return added;
    }
    models_.push_back(id);
    return {};
  }

  virtual model::ModelConfig config(ModelId, bool tied) const { return small_model(tied); }

  void remove(ModelId id) {
    ASSERT_TRUE(slice_->engine().remove_model(id, seconds(10)).ok());
    slice_->detach(id);
    ASSERT_TRUE(home_.pool.unload(id).ok());
  }

  RequestId ask(ModelId model, std::int64_t prompt, std::int64_t output) {
    request::Request request;
    request.id = RequestId(next_request_++);
    request.model = model;
    for (std::int64_t i = 0; i < prompt; ++i) {
      request.prompt.push_back(static_cast<TokenId>((7 * i + prompt) % 500));
    }
    request.sampling.temperature = 0;
    request.max_tokens = Tokens(output);
    request.arrival = clock_.now();
    const RequestId id = request.id;
    EXPECT_TRUE(slice_->engine().submit(std::move(request)).ok());
    return id;
  }

  RealClock clock_;
  engine::CollectingSink sink_;
  ModelHome home_{clock_, mib(64)};
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Slice> slice_;
  std::vector<ModelId> models_;
  std::map<ModelId, Bytes> streamed_;  // at every step
  std::int64_t next_request_ = 0;
};

// The answers of five models to prompts of several lengths, one after the other.
class Answers : public HostSliceTest {
 protected:
  using Tokens = std::vector<TokenId>;
  // By model and prompt, so many tokens.
  std::map<std::pair<std::int64_t, std::int64_t>, Tokens> undisturbed(std::int64_t output = 8) {
    open(Bytes(0));
    std::map<std::pair<std::int64_t, std::int64_t>, Tokens> answers;
    for (std::int64_t m = 0; m < kModels; ++m) must(add(ModelId(m), m % 2 == 0), "a model");
    for (std::int64_t m = 0; m < kModels; ++m) {
      for (const std::int64_t prompt : kPrompts) {
        const RequestId id = ask(ModelId(m), prompt, output);
        EXPECT_TRUE(sink_.wait_for_ends(static_cast<int>(id.value) + 1));
        answers[{m, prompt}] = sink_.of(id).tokens;
        EXPECT_EQ(std::ssize(answers[std::pair(m, prompt)]), output);
      }
    }
    for (const ModelId model : std::exchange(models_, {})) remove(model);
    slice_.reset();
    return answers;
  }

  static constexpr std::int64_t kModels = 5;
  static constexpr std::int64_t kPrompts[] = {1, 7, 40};
};

TEST_F(Answers, AreTheSameHoweverOftenModelsTakeTurns) {
  const auto expected = undisturbed();
  const auto layout = must(model::make_card(small_model(false), DType::kF32, kFrame), "a card");
  // Room for two of five models, over a link on which a model takes some milliseconds.
  open(round_up(layout.layout.bytes, kExtent) * 2, 200e6);
  for (std::int64_t m = 0; m < kModels; ++m) must(add(ModelId(m), m % 2 == 0), "a model");
  Random random(17);
  for (int round = 0; round < rounds(200); ++round) {
    const auto m = static_cast<std::int64_t>(random.below(kModels));
    const std::int64_t prompt = kPrompts[random.below(std::size(kPrompts))];
    const RequestId id = ask(ModelId(m), prompt, 8);
    ASSERT_TRUE(sink_.wait_for_ends(static_cast<int>(id.value) + 1)) << "round " << round;
    ASSERT_EQ(sink_.of(id).tokens, expected.at({m, prompt})) << "round " << round;
  }
}

// Baselines: whole models come and go, and are copied out before they do.
TEST_F(Answers, AreTheSameWhenWholeModelsTakeTurns) {
  const auto expected = undisturbed();
  const auto layout = must(model::make_card(small_model(false), DType::kF32, kFrame), "a card");
  for (const Switching switching : {Switching::kReload, Switching::kSleep}) {
    HostSliceOptions options{.kv = mib(4), .kv_frame = kFrame, .switching = switching};
    options.cache = round_up(layout.layout.bytes, kExtent) * 2;
    open(options, 200e6);
    for (std::int64_t m = 0; m < kModels; ++m) must(add(ModelId(m), m % 2 == 0), "a model");
    const int before = sink_.ends();
    Random random(23);
    for (int round = 0; round < rounds(60); ++round) {
      const auto m = static_cast<std::int64_t>(random.below(kModels));
      const std::int64_t prompt = kPrompts[random.below(std::size(kPrompts))];
      const RequestId id = ask(ModelId(m), prompt, 8);
      ASSERT_TRUE(sink_.wait_for_ends(before + round + 1)) << "round " << round;
      ASSERT_EQ(sink_.of(id).tokens, expected.at({m, prompt})) << "round " << round;
    }
    for (const ModelId model : std::exchange(models_, {})) remove(model);
  }
}

// Three models whose weights pass through rings beside two that are cached, all larger together
// than the cache, asked one by one and many at once.
TEST_F(Answers, AreTheSameWhenWeightsAreStreamed) {
  const auto expected = undisturbed();
  const auto card = must(model::make_card(small_model(true), DType::kF32, kFrame), "a card");
  const Bytes whole = round_up(card.layout.bytes, kExtent);
  open(whole * 2, 400e6);
  const auto share = [&](std::int64_t m) {
    return m % 2 == 0 ? whole - kExtent * (1 + m / 2) : Bytes(0);
  };
  for (std::int64_t m = 0; m < kModels; ++m) {
    must(add(ModelId(m), m % 2 == 0, share(m)), "a model");
    EXPECT_EQ(streamed_[ModelId(m)] > Bytes(0), m % 2 == 0) << m;
  }
  Random random(19);
  int asked = 0;
  std::map<RequestId, std::pair<std::int64_t, std::int64_t>> requests;
  for (int round = 0; round < rounds(60); ++round) {
    for (auto more = random.between(1, 4); more > 0; --more, ++asked) {
      const auto m = static_cast<std::int64_t>(random.below(kModels));
      const std::int64_t prompt = kPrompts[random.below(std::size(kPrompts))];
      requests[ask(ModelId(m), prompt, 8)] = {m, prompt};
    }
    const int before = static_cast<int>(requests.begin()->first.value);
    ASSERT_TRUE(sink_.wait_for_ends(before + asked)) << "round " << round;
  }
  for (const auto& [id, what] : requests) {
    EXPECT_EQ(sink_.of(id).tokens, expected.at(what)) << "request " << id.value;
  }
}

// Every second model is a mixture of experts that are cached one by one.
class SparseAnswers : public Answers {
 protected:
  model::ModelConfig config(ModelId id, bool tied) const override {
    return id.value % 2 == 0 ? testing::small_sparse_model(4, tied) : small_model(tied);
  }

  // All of them in a cache that is smaller than one sparse model and one other.
  void open_small(weights::ExpertPolicy policy) {
    const auto dense = must(model::make_card(small_model(true), DType::kF32, kFrame), "a card");
    HostSliceOptions options{.kv = mib(4), .kv_frame = kFrame};
    options.cache = round_up(dense.layout.bytes, kExtent) + kSparse;
    options.experts = policy;
    open(options, 400e6);
    for (std::int64_t m = 0; m < kModels; ++m) {
      must(add(ModelId(m), m % 2 == 0, m % 2 == 0 ? kSparse : Bytes(0)), "a model");
    }
  }
  void ask_at_random(const std::map<std::pair<std::int64_t, std::int64_t>, Tokens>& expected) {
    Random random(29);
    std::map<RequestId, std::pair<std::int64_t, std::int64_t>> requests;
    int ended = sink_.ends();
    for (int round = 0; round < rounds(40); ++round) {
      for (auto more = random.between(1, 4); more > 0; --more, ++ended) {
        const auto m = static_cast<std::int64_t>(random.below(kModels));
        const std::int64_t prompt = kPrompts[random.below(std::size(kPrompts))];
        requests[ask(ModelId(m), prompt, 8)] = {m, prompt};
      }
      ASSERT_TRUE(sink_.wait_for_ends(ended)) << "round " << round;
    }
    for (const auto& [id, what] : requests) {
      EXPECT_EQ(sink_.of(id).end->error, "");
      EXPECT_EQ(sink_.of(id).tokens, expected.at(what)) << "request " << id.value;
    }
  }

  // The dense part and about half of the experts.
  static constexpr Bytes kSparse = kExtent * 20;
};

TEST_F(SparseAnswers, AreTheSameWhileExpertsComeAndGo) {
  const auto expected = undisturbed();
  for (const auto policy : {weights::ExpertPolicy::kFrequency, weights::ExpertPolicy::kLru,
                            weights::ExpertPolicy::kActivation, weights::ExpertPolicy::kMap,
                            weights::ExpertPolicy::kWhole}) {
    open_small(policy);
    ask_at_random(expected);
    request::Observation seen = slice_->engine().observe();
    const bool one_by_one = policy != weights::ExpertPolicy::kWhole;
    // How many are hit depends on when copies end.
    for (int more = 0; more < 10 && one_by_one && seen.expert_hits <= 20; ++more) {
      ask_at_random(expected);
      seen = slice_->engine().observe();
    }
    EXPECT_EQ(seen.expert_hits > 20, one_by_one) << seen.expert_hits;
    EXPECT_EQ(seen.expert_misses > 20, one_by_one) << seen.expert_misses;
    for (const ModelId model : std::exchange(models_, {})) remove(model);
  }
}

TEST_F(Answers, OfRequestsThatWaitForRoomAllCome) {
  const auto expected = undisturbed();
  const auto layout = must(model::make_card(small_model(false), DType::kF32, kFrame), "a card");
  open(round_up(layout.layout.bytes, kExtent) * 2, 500e6);
  for (std::int64_t m = 0; m < kModels; ++m) must(add(ModelId(m), m % 2 == 0), "a model");
  const int before = sink_.ends();
  std::map<RequestId, std::pair<std::int64_t, std::int64_t>> asked;
  for (int i = 0; i < 60; ++i) {
    const std::int64_t m = i % kModels;
    const std::int64_t prompt = kPrompts[static_cast<std::size_t>(i) % std::size(kPrompts)];
    asked[ask(ModelId(m), prompt, 8)] = {m, prompt};
  }
  ASSERT_TRUE(sink_.wait_for_ends(before + 60, 60));
  for (const auto& [id, of] : asked) {
    const auto collected = sink_.of(id);
    EXPECT_EQ(collected.ends, 1);
    EXPECT_EQ(collected.end->error, "");
    EXPECT_EQ(collected.tokens.size(), 8u);
  }
}

// Counts the steps that pass.
class CountingExecutor final : public engine::StepExecutor {
 public:
  CountingExecutor(engine::StepExecutor& inner, std::atomic<int>& steps)
      : inner_(inner), steps_(steps) {}
  const Capabilities& capabilities() const override { return inner_.capabilities(); }
  Status submit(request::Batch batch, weights::StepWeights weights) override {
    steps_ += 1;
    return inner_.submit(std::move(batch), weights);
  }
  std::optional<request::StepResult> wait(Nanos timeout) override { return inner_.wait(timeout); }

 private:
  engine::StepExecutor& inner_;
  std::atomic<int>& steps_;
};

TEST_F(HostSliceTest, WhatStandsInFrontOfTheExecutorSeesEveryStep) {
  std::atomic<int> steps{0};
  HostSliceOptions options{.kv = mib(4), .kv_frame = kFrame, .cache = mib(2)};
  options.executor_front = [&](engine::StepExecutor& inner) {
    return std::make_unique<CountingExecutor>(inner, steps);
  };
  open(options, 0);
  must(add(ModelId(0), true), "a model");
  ask(ModelId(0), 5, 6);
  ASSERT_TRUE(sink_.wait_for_ends(1));
  EXPECT_EQ(steps.load(), 6);
}

TEST_F(HostSliceTest, SwitchingMovesBytesInAndNoneOut) {
  const auto card = must(model::make_card(small_model(false), DType::kF32, kFrame), "a card");
  open(round_up(card.layout.bytes, kExtent));
  must(add(ModelId(0), true), "a model");
  must(add(ModelId(1), false), "a model");
  for (int i = 0; i < 4; ++i) {
    const Bytes before = slice_->link_bytes();
    ask(ModelId(i % 2), 5, 2);
    ASSERT_TRUE(sink_.wait_for_ends(i + 1));
    // Counted when the mover hears of a copy's end, which a step does not wait for.
    const Nanos patience = clock_.now() + seconds(20);
    while (slice_->link_bytes() <= before && clock_.now() < patience) {
    }
    EXPECT_GT(slice_->link_bytes(), before);
  }
  EXPECT_EQ(slice_->link_bytes_out(), Bytes(0));
}

// Room for all but the embeddings of two models, and for KV of 8 frames of 21 tokens each.
class Border : public Answers {
 protected:
  void open_with_border(double link) {
    const auto card = must(model::make_card(small_model(false), DType::kF32, kFrame), "a card");
    ASSERT_EQ(card.kv.tokens.count, 21);
    const Bytes embedding = card.layout.groups.at(0).bytes;
    cache_ = round_up(card.layout.bytes - embedding, kExtent) * 2;
    HostSliceOptions options{.kv = kKv, .kv_frame = kFrame, .cache = cache_};
    options.border = schedule::BorderRules{.kv_min = 1, .hold = millis(2)};
    open(options, link);
  }
  // The first tokens of what is expected.
  void expect_answer(RequestId id, const Tokens& whole, std::int64_t output) {
    ASSERT_TRUE(sink_.wait_for_ends(static_cast<int>(id.value) + 1, 60));
    const auto seen = sink_.of(id);
    ASSERT_EQ(seen.end->error, "");
    ASSERT_EQ(seen.tokens, Tokens(whole.begin(), whole.begin() + output));
    const std::int64_t frames = slice_->engine().observe().frames_total;
    frames_least_ = std::min(frames_least_, frames);
    frames_most_ = std::max(frames_most_, frames);
    EXPECT_LE(must(slice_->device_memory_used(), "memory"), kKv + cache_);
  }

  static constexpr Bytes kKv = kExtent * 2;
  Bytes cache_;
  std::int64_t frames_least_ = 1000;
  std::int64_t frames_most_ = 0;
};

TEST_F(Border, MovesToLongRequestsAndBackAndAnswersStayTheSame) {
  constexpr std::int64_t kLong = 200;
  const auto expected = undisturbed(kLong);
  open_with_border(2e9);
  for (std::int64_t m = 0; m < kModels; ++m) must(add(ModelId(m), m % 2 == 0), "a model");
  Random random(23);
  for (int round = 0; round < 8; ++round) {
    // 240 tokens take 12 frames: more than KV has beside two models.
    const auto m = static_cast<std::int64_t>(random.below(kModels));
    expect_answer(ask(ModelId(m), 40, kLong), expected.at({m, 40}), kLong);
    // Two models at once, again and again: they fit together only if KV gives back what it took.
    for (int turn = 0; turn < 4; ++turn) {
      const RequestId one = ask(ModelId(1), 7, 8);
      const RequestId two = ask(ModelId(3), 7, 8);
      ASSERT_TRUE(sink_.wait_for_ends(static_cast<int>(two.value) + 1, 60));
      expect_answer(one, expected.at({1, 7}), 8);
      expect_answer(two, expected.at({3, 7}), 8);
    }
  }
  EXPECT_LE(frames_least_, 8);
  EXPECT_GE(frames_most_, 12);
}

TEST_F(Border, ASliceThatStopsDuringAMoveLeavesNothing) {
  for (int i = 0; i < 12; ++i) {
    const int before = sink_.ends();
    open_with_border(50e6);  // a model takes some 20 ms
    for (std::int64_t m = 0; m < 3; ++m) must(add(ModelId(m), m % 2 == 0), "a model");
    for (int r = 0; r < 6; ++r) ask(ModelId(r % 3), 40, 200);
    slice_->engine().stop(millis(10 * i));
    EXPECT_TRUE(sink_.wait_for_ends(before + 6));
    slice_.reset();
    for (const ModelId model : std::exchange(models_, {})) {
      EXPECT_TRUE(home_.pool.unload(model).ok());
    }
  }
}

TEST_F(HostSliceTest, AModelLargerThanTheCacheIsRefusedWithTheNumbers) {
  open(kExtent * 2);
  const Status refused = add(ModelId(0), true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message,
              HasSubstr("may have " + std::to_string((kExtent * 2).count) + " bytes"));
  ASSERT_TRUE(home_.pool.unload(ModelId(0)).ok());
}

TEST_F(HostSliceTest, ASliceThatStopsDuringASwitchLeavesNothing) {
  open(mib(2), 5e6);  // a model takes a tenth of a second
  must(add(ModelId(0), true), "a model");
  const RequestId id = ask(ModelId(0), 5, 200);
  slice_->engine().stop(Nanos(0));
  EXPECT_TRUE(sink_.wait_for_ends(1));
  EXPECT_EQ(sink_.of(id).end->reason, request::FinishReason::kCancelled);
  models_.clear();
  slice_.reset();
  EXPECT_TRUE(home_.pool.unload(ModelId(0)).ok());
}

TEST_F(HostSliceTest, OptionsThatContradictEachOtherAreRefused) {
  const auto machine = must(Machine::open_host({.extent_bytes = kExtent}, {}, home_, clock_));
  HostSliceOptions options{.kv = kib(1), .kv_frame = kFrame};
  EXPECT_EQ(open_host_slice(options, *machine, sink_).error().code, ErrorCode::kInvalidArgument);
  options.kv = mib(1);
  options.cache = kib(4);
  EXPECT_EQ(open_host_slice(options, *machine, sink_).error().code, ErrorCode::kInvalidArgument);
  options.cache = kExtent * 8;
  options.kv = kExtent * 2 + kFrame;  // a part of an extent
  options.border = schedule::BorderRules{};
  EXPECT_EQ(open_host_slice(options, *machine, sink_).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace causeway::slice::host_slice_test
