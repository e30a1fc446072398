// What the chunk controller does with the scheduler's steps.
#include <gtest/gtest.h>

#include "schedule/testing/harness.h"

namespace causeway::schedule::step_budget_test {
namespace {

constexpr ModelId kA(1), kB(2);
// A hundred microseconds a token: 1,000 tokens fill a gap of the default target.
constexpr StepCost kCost{.min = millis(8), .seconds_per_token = 1e-4};

class TwoModels : public Harness {
 public:
  explicit TwoModels(bool automatic) : Harness(options_for(automatic)) {
    for (const ModelId model : {kA, kB}) {
      add_model(model, 64);
      scheduler().set_step_cost(model, kCost);
    }
  }

  // Steps until the request has answered, each as long as it is expected to be.
  void answer(std::int64_t id) {
    while (run_of(id) == nullptr || !run_of(id)->samples) pass();
  }
  // A step, which delays the request by as much as it takes. Returns its prompt tokens.
  std::int64_t pass() {
    decide(now_);
    execute();
    Tokens tokens(0);
    std::int64_t decodes = 0;
    for (const Run& run : decision().runs) {
      tokens += run.tokens;
      decodes += run.tokens.count == 1 ? 1 : 0;
    }
    now_ += kCost.of(tokens);
    complete(now_);
    return tokens.count - decodes;
  }
  Nanos now() const { return now_; }

 private:
  static HarnessOptions options_for(bool automatic) {
    HarnessOptions options{.schedule = {.tokens_per_step_max = 4096}, .frames = 1000};
    options.schedule.chunk.automatic = automatic;
    return options;
  }

  Nanos now_ = millis(1);
};

TEST(StepBudgets, WithoutTheControllerAPromptTakesTheWholeStep) {
  TwoModels harness(false);
  harness.add(1, kA, 16, 50);
  harness.answer(1);
  harness.add(2, kA, 4000, 10);
  EXPECT_EQ(harness.pass(), 4000);
}

TEST(StepBudgets, AModelWhoseCostsAreNotKnownHasFixedChunks) {
  TwoModels harness(true);
  harness.scheduler().set_step_cost(kA, {});
  harness.add(1, kA, 16, 50);
  harness.answer(1);
  harness.add(2, kA, 4000, 10);
  EXPECT_EQ(harness.pass(), 4000);
}

TEST(StepBudgets, ATableAloneMakesChunksAutomatic) {
  TwoModels harness(true);
  // Half a target for 192 tokens, more than one for 256.
  StepTable table{.decodes = 8};
  for (const Tokens tokens : table_sizes(Tokens(4096))) {
    const double seconds = tokens <= Tokens(192) ? 0.05 : 0.2;
    table.times.push_back({.tokens = tokens, .alone = seconds, .beside = seconds});
  }
  harness.scheduler().set_step_cost(kA, {.table = table});
  harness.add(1, kA, 16, 50);
  harness.answer(1);
  harness.add(2, kA, 4000, 10);
  EXPECT_EQ(harness.pass(), 192);
}

// More prompt tokens arrive than can be computed by their target: as many are computed as the
// targets of decoding sequences allow.
TEST(StepBudgets, ThoseWhoDecodeKeepTheirTargets) {
  TwoModels harness(true);
  harness.add(1, kA, 16, 50);
  harness.answer(1);
  harness.add(2, kA, 60'000, 2);
  const Nanos began = harness.now();
  std::int64_t prompt_tokens = 0;
  for (int gaps = 1; gaps <= 40; ++gaps) {
    prompt_tokens += harness.pass();
    ASSERT_NE(harness.run_of(1), nullptr);
    EXPECT_LE(harness.now() - began, millis(100) * gaps);
  }
  EXPECT_GE(prompt_tokens, 40 * 600);
  EXPECT_TRUE(harness.scheduler().check_integrity(harness.kv()).ok());
}

TEST(StepBudgets, SoDoThoseOfAnotherModel) {
  TwoModels harness(true);
  harness.add(1, kA, 16, 600);
  harness.answer(1);
  harness.add(2, kB, 50'000, 2);
  const Nanos began = harness.now();
  std::int64_t prompt_tokens = 0;
  for (int gaps = 0; gaps < 40;) {
    const std::int64_t tokens = harness.pass();
    if (harness.run_of(1) == nullptr) {
      prompt_tokens += tokens;
      continue;
    }
    ++gaps;
    EXPECT_LE(harness.now() - began, millis(100) * gaps) << "with the other's step in between";
  }
  EXPECT_GE(prompt_tokens, 40 * 500);
}

TEST(StepBudgets, MeasuredContentionMakesStepsSmaller) {
  TwoModels harness(true);
  harness.add(1, kA, 16, 2000);
  harness.answer(1);
  // The device turns out to be four times as slow as expected.
  Nanos now = harness.now();
  const auto slow_step = [&] {
    harness.decide(now);
    harness.execute();
    Tokens tokens(0);
    for (const auto& run : harness.decision().runs) tokens += run.tokens;
    const Nanos took = kCost.of(tokens) * 4;
    now += took;
    harness.complete(now, took);
    return took;
  };
  for (int id = 2; id < 8; ++id) harness.add(id, kA, 4000, 2);
  for (int step = 0; step < 10; ++step) slow_step();
  for (int step = 0; step < 20; ++step) EXPECT_LE(slow_step(), millis(110));
}

TEST(StepBudgets, AllRunningSequencesHaveAToken) {
  TwoModels harness(true);
  for (int id = 1; id <= 200; ++id) harness.add(id, kA, 70, 30);
  for (int step = 0; step < 2000 && harness.left() > 0; ++step) {
    const std::int64_t running = harness.scheduler().running();
    harness.pass();
    EXPECT_GE(std::ssize(harness.decision().runs), running);
    ASSERT_TRUE(harness.scheduler().check_integrity(harness.kv()).ok());
  }
  EXPECT_EQ(harness.left(), 0);
}

}  // namespace
}  // namespace causeway::schedule::step_budget_test
