#include "schedule/scheduler.h"

#include <gtest/gtest.h>

#include <map>

#include "schedule/testing/harness.h"

namespace causeway::schedule::scheduler_test {
namespace {

constexpr ModelId kA(1), kB(2), kC(3);

// One model, blocks of four tokens.
class Small : public Harness {
 public:
  Small(std::int64_t frames, std::int64_t budget, std::int64_t running,
        PolicyKind policy = PolicyKind::kFcfs)
      : Harness(
            {.schedule = {.policy = policy, .tokens_per_step_max = budget, .running_max = running},
             .frames = frames}) {
    add_model(kA, 4);
  }
};

std::int64_t tokens_in(const Decision& decision) {
  std::int64_t tokens = 0;
  for (const auto& run : decision.runs) tokens += run.tokens.count;
  return tokens;
}

void expect_intact(Harness& harness) {
  const Status intact = harness.scheduler().check_integrity(harness.kv());
  EXPECT_TRUE(intact.ok()) << intact.error().message;
}

TEST(Scheduler, HasNothingToDoAtFirst) {
  Small harness(8, 8, 8);
  harness.decide(Nanos(0));
  EXPECT_FALSE(harness.decision().model.valid());
  EXPECT_TRUE(harness.decision().runs.empty());
}

TEST(Scheduler, CutsAPromptIntoChunksAndMixesThemWithDecodes) {
  Small harness(64, 10, 8);
  harness.add(1, kA, 6, 8);
  harness.step(Nanos(1));
  ASSERT_NE(harness.run_of(1), nullptr);
  EXPECT_EQ(harness.run_of(1)->tokens, Tokens(6));
  EXPECT_TRUE(harness.run_of(1)->samples);

  harness.add(2, kA, 25, 4);
  harness.step(Nanos(2));  // one decode and nine tokens of the prompt
  EXPECT_EQ(harness.run_of(1)->tokens, Tokens(1));
  EXPECT_EQ(harness.run_of(2)->tokens, Tokens(9));
  EXPECT_FALSE(harness.run_of(2)->samples);
  EXPECT_EQ(tokens_in(harness.decision()), 10);
  harness.step(Nanos(3));
  EXPECT_EQ(harness.run_of(2)->context, Tokens(9));
  harness.step(Nanos(4));
  EXPECT_EQ(harness.run_of(2)->tokens, Tokens(7));
  EXPECT_TRUE(harness.run_of(2)->samples);
  expect_intact(harness);
}

// One of 8 rows of logits is the decode's; half of the other places are lent.
TEST(Scheduler, ScoredPromptsHaveHalfOfTheRowsThatNobodyNeeds) {
  Small harness(64, 64, 8);
  harness.add(1, kA, 4, 20);
  harness.step(Nanos(1));
  harness.add(2, kA, 25, 4, 0, 0, true);
  harness.add(3, kA, 9, 4);
  harness.step(Nanos(2));  // decided with one running
  EXPECT_EQ(harness.run_of(2)->tokens, Tokens(1 + 7 / 2));
  EXPECT_EQ(harness.run_of(3)->tokens, Tokens(9)) << "others come in beside it";
  harness.step(Nanos(3));
  EXPECT_EQ(harness.run_of(2)->tokens, Tokens(1 + 5 / 2)) << "three run";
  for (int id = 4; id < 12; ++id) harness.add(id, kA, 4, 20);
  for (int step = 4; harness.has(2) && step < 40; ++step) {
    harness.step(Nanos(step));
    std::int64_t rows = 0;
    for (const auto& run : harness.decision().runs) {
      rows += run.request == RequestId(2) ? run.tokens.count : 1;
    }
    EXPECT_LE(rows, 8);
    expect_intact(harness);
  }
  EXPECT_FALSE(harness.has(2)) << "it ends all the same";
}

TEST(Scheduler, ScoredPromptsAreNotLookedUp) {
  Small harness(64, 64, 8);
  harness.add(1, kA, 24, 4, 0, /*family=*/5);
  harness.step(Nanos(1));
  harness.add(2, kA, 24, 4, 0, /*family=*/5, /*scores=*/true);
  harness.add(3, kA, 24, 4, 0, /*family=*/5);
  harness.step(Nanos(2));
  EXPECT_EQ(harness.run_of(2)->context, Tokens(0));
  EXPECT_EQ(harness.run_of(3)->context, Tokens(20));
  expect_intact(harness);
}

TEST(Scheduler, SaysHowManyFramesItsSequencesWant) {
  Small harness(16, 6, 2);
  harness.add(1, kA, 10, 8);
  harness.add(2, kA, 5, 4);
  harness.add(3, kA, 40, 4);
  FramesWanted wanted = harness.scheduler().frames_wanted(harness.kv());
  EXPECT_EQ(wanted.more, 3 + 2) << "two may run";
  EXPECT_EQ(wanted.largest, 10);
  harness.step(Nanos(1));  // six tokens of the first
  wanted = harness.scheduler().frames_wanted(harness.kv());
  EXPECT_EQ(wanted.more, 1 + 2 + 1) << "one it still needs, and one an admission leaves free";
  EXPECT_EQ(wanted.largest, 10);
}

TEST(Scheduler, EveryRunningSequenceGetsATokenOfTheBudget) {
  Small harness(64, 4, 100);
  for (int id = 0; id < 9; ++id) harness.add(id, kA, 3, 20);
  for (int step = 1; step < 40; ++step) {
    harness.step(Nanos(step));
    EXPECT_LE(tokens_in(harness.decision()), 4);
    EXPECT_LE(harness.scheduler().running(), 4);
    // Sequences that ended with the step had their token, too.
    EXPECT_GE(static_cast<std::int64_t>(harness.decision().runs.size()),
              harness.scheduler().running());
  }
}

TEST(Scheduler, AdmitsMoreThanFitsAndPreemptsTheLatest) {
  Small harness(8, 64, 8);  // 32 tokens in all
  harness.add(1, kA, 8, 20);
  harness.add(2, kA, 8, 20);
  harness.step(Nanos(1));
  EXPECT_EQ(harness.scheduler().running(), 2);  // 56 tokens to come in room for 32
  bool preempted = false;
  for (int step = 2; step < 60 && harness.left() > 0; ++step) {
    harness.step(Nanos(step));
    for (const Preemption& preemption : harness.decision().preempted) {
      preempted = true;
      EXPECT_EQ(preemption.request, RequestId(2));
    }
    expect_intact(harness);
  }
  EXPECT_TRUE(preempted);
  EXPECT_EQ(harness.left(), 0);
}

TEST(Scheduler, APreemptedSequenceFindsPartOfItsWorkInTheCache) {
  Small harness(8, 64, 8);
  harness.add(1, kA, 8, 20);
  harness.add(2, kA, 8, 20);
  std::int64_t cached = 0;
  for (int step = 1; step < 60 && harness.left() > 0; ++step) {
    harness.step(Nanos(step));
    for (const Admission& admission : harness.decision().admitted) cached += admission.cached.count;
  }
  EXPECT_GT(cached, 0);
}

TEST(Scheduler, PriorityRunsFirstAndDisplacesTheLower) {
  Small harness(64, 64, 2, PolicyKind::kPriority);
  harness.add(1, kA, 4, 50, 0);
  harness.add(2, kA, 4, 50, 1);
  harness.step(Nanos(1));
  EXPECT_EQ(harness.decision().runs.front().request, RequestId(2));
  harness.add(3, kA, 4, 50, 5);
  harness.step(Nanos(2));
  ASSERT_EQ(harness.decision().preempted.size(), 1u);
  EXPECT_EQ(harness.decision().preempted.front().request, RequestId(1));
  EXPECT_EQ(harness.decision().runs.front().request, RequestId(3));
  expect_intact(harness);
}

TEST(Scheduler, PriorityDisplacesForFramesToo) {
  Small harness(8, 64, 8, PolicyKind::kPriority);
  harness.add(1, kA, 28, 4, 0);
  harness.step(Nanos(1));
  harness.add(2, kA, 20, 4, 0);  // no room, and not more urgent
  harness.step(Nanos(2));
  EXPECT_TRUE(harness.decision().preempted.empty());
  EXPECT_EQ(harness.run_of(2), nullptr);
  harness.add(3, kA, 20, 4, 1);
  harness.step(Nanos(3));
  ASSERT_EQ(harness.decision().preempted.size(), 1u);
  EXPECT_NE(harness.run_of(3), nullptr);
  expect_intact(harness);
}

TEST(Scheduler, FcfsDoesNotDisplaceForAdmission) {
  Small harness(64, 64, 1);
  harness.add(5, kA, 4, 50, 0);
  harness.step(Nanos(1));
  harness.add(1, kA, 4, 50, 9);  // earlier, but not there when it was decided
  harness.step(Nanos(2));
  EXPECT_TRUE(harness.decision().preempted.empty());
}

TEST(Scheduler, ModelsTakeTurnsAndNoneWaitsLongerThanTheOthersTakeTogether) {
  Small harness(64, 64, 16);
  harness.add_model(kB, 2);
  harness.add_model(kC, 7);
  for (int id = 0; id < 9; ++id) harness.add(id, ModelId(1 + id % 3), 3, 30);
  std::map<ModelId, int> last;
  for (int step = 1; step <= 60; ++step) {
    const ModelId model = harness.step(Nanos(step * 1000)).model;
    for (const auto& run : harness.decision().runs) {
      EXPECT_EQ(ModelId(1 + run.request.value % 3), model);
    }
    if (last.contains(model)) {
      EXPECT_LE(step - last[model], 3) << "model " << model.value;
    }
    last[model] = step;
  }
  EXPECT_EQ(last.size(), 3u);
}

TEST(Scheduler, ALargeRequestIsNotOvertakenByLaterOnesOfOtherModels) {
  Small harness(16, 64, 16);
  harness.add_model(kB, 4);
  harness.add(1, kA, 36, 12);  // nine frames, twelve at the end
  harness.step(Nanos(1));
  harness.add(2, kB, 40, 4);  // ten frames: must wait
  for (int id = 3; id < 8; ++id) harness.add(id, kA, 4, 4);
  for (int step = 2; step < 100 && harness.has(2); ++step) {
    harness.step(Nanos(step));
    if (harness.scheduler().waiting(kB) == 1) {
      EXPECT_EQ(harness.scheduler().running(kA), harness.has(1) ? 1 : 0);
    }
  }
  EXPECT_FALSE(harness.has(2));
}

TEST(Scheduler, SharedPrefixesCostNothing) {
  Small harness(8, 64, 16);
  harness.add(1, kA, 17, 12, 0, 5);
  harness.step(Nanos(1));
  // Sixteen tokens are shared: another 21 fit, which they would not without sharing.
  harness.add(2, kA, 21, 2, 0, 5);
  harness.step(Nanos(2));
  ASSERT_NE(harness.run_of(2), nullptr);
  EXPECT_EQ(harness.run_of(2)->context, Tokens(16));
  expect_intact(harness);
}

TEST(Scheduler, FramesThatOthersShareAreNotGainedByPreempting) {
  Small harness(9, 64, 16);
  harness.add(1, kA, 17, 18, 0, 5);
  harness.step(Nanos(1));
  for (int id = 2; id < 5; ++id) harness.add(id, kA, 18, 17, 0, 5);
  for (int step = 2; step < 200 && harness.left() > 0; ++step) {
    harness.step(Nanos(step));  // execute() checks that every grow() succeeds
    expect_intact(harness);
  }
  EXPECT_EQ(harness.left(), 0);
}

TEST(Scheduler, WhatIsRemovedInFlightIsForgottenOnlyThen) {
  Scheduler scheduler({.tokens_per_step_max = 8, .running_max = 4});
  kv::KvCache kv({.frames = 8});
  kv.add_model(kA, Tokens(4));
  scheduler.add_model(kA, Tokens(4));
  const std::vector<TokenId> tokens = {1, 2, 3};
  const Handle first = scheduler.add(
      {.request = RequestId(1), .model = kA, .tokens = &tokens, .slo = {}, .arrival = Nanos(1)});
  Decision decision;
  scheduler.schedule(Nanos(1), kv, decision);
  ASSERT_EQ(decision.runs.size(), 1u);
  scheduler.remove(first);
  EXPECT_EQ(scheduler.running(), 0);
  // A new sequence must not be taken for the one whose step is in flight.
  const Handle second = scheduler.add(
      {.request = RequestId(2), .model = kA, .tokens = &tokens, .slo = {}, .arrival = Nanos(2)});
  EXPECT_NE(first, second);
  scheduler.step_done(decision, Nanos(3));
  scheduler.schedule(Nanos(4), kv, decision);
  ASSERT_EQ(decision.runs.size(), 1u);
  EXPECT_EQ(decision.runs.front().request, RequestId(2));
  EXPECT_EQ(decision.runs.front().tokens, Tokens(3));
}

// As with virtual lag time: the sequence that has waited longest is the most urgent, running or
// not.
class LongestLag final : public Policy {
 public:
  std::string_view name() const override { return "longest lag"; }
  Traits traits() const override { return {.varies_with_time = true, .admission_preempts = true}; }
  double urgency(const SequenceFacts& sequence, Nanos now) const override {
    const double lag = static_cast<double>((now - sequence.last_progress).count);
    return sequence.running ? lag - 50 : lag;
  }
};

TEST(Scheduler, AsksAPolicyThatVariesWithTimeInEveryIteration) {
  Harness harness({.schedule = {.tokens_per_step_max = 16, .running_max = 1}, .frames = 16},
                  std::make_unique<LongestLag>());
  harness.add_model(kA, 4);
  harness.add(1, kA, 4, 1000);
  harness.add(2, kA, 4, 1000);
  std::map<std::int64_t, int> tokens;
  int rotations = 0;
  for (int step = 1; step < 200; ++step) {
    harness.step(Nanos(step * 20));
    rotations += static_cast<int>(harness.decision().preempted.size());
    for (const auto& run : harness.decision().runs) ++tokens[run.request.value];
    expect_intact(harness);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(rotations, 10);
  EXPECT_GT(tokens[1], 50);
  EXPECT_GT(tokens[2], 50);
}

TEST(Policy, IsFoundByItsName) {
  for (const PolicyKind kind : {PolicyKind::kFcfs, PolicyKind::kPriority}) {
    const auto found = parse_policy(make_policy(kind)->name());
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found.value(), kind);
  }
  EXPECT_FALSE(parse_policy("lottery").ok());
}

}  // namespace
}  // namespace causeway::schedule::scheduler_test
