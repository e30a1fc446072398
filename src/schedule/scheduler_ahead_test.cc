// Decisions that are made while the step decided before is in flight.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "schedule/scheduler.h"

namespace causeway::schedule::scheduler_ahead_test {
namespace {

constexpr ModelId kA(1), kB(2);

// The smallest engine that keeps two steps in flight.
class Pipeline {
 public:
  Pipeline(const Options& options, std::int64_t frames)
      : kv_({.frames = frames}), scheduler_(options) {
    for (const ModelId model : {kA, kB}) {
      kv_.add_model(model, Tokens(4));
      scheduler_.add_model(model, Tokens(4));
    }
  }

  void add(std::int64_t id, ModelId model, std::int64_t prompt, std::int64_t output,
           std::int32_t priority = 0) {
    Sequence& sequence = sequences_[RequestId(id)];
    sequence.model = model;
    for (std::int64_t i = 0; i < prompt; ++i) {
      sequence.tokens.push_back(static_cast<TokenId>(1000 * id + i));
    }
    sequence.length_max = static_cast<std::size_t>(prompt + output);
    sequence.handle = scheduler_.add({.request = RequestId(id),
                                      .model = model,
                                      .tokens = &sequence.tokens,
                                      .slo = {},
                                      .priority = priority,
                                      .arrival = Nanos(id),
                                      .length_max = Tokens(prompt + output)});
  }

  // Decides and executes the next step; returns its runs, none when there is nothing to run now.
  const std::vector<Run>& start(Nanos now) {
    Decision& decision = in_flight_.emplace_back();
    scheduler_.schedule(now, kv_, decision);
    for (const Preemption& one : decision.preempted) kv_.release(one.request, StepId());
    for (const Admission& one : decision.admitted) {
      const Sequence& sequence = sequences_.at(one.request);
      EXPECT_EQ(kv_.open(one.request, sequence.model, sequence.tokens), one.cached);
    }
    for (const Run& run : decision.runs) {
      EXPECT_TRUE(kv_.grow(run.request, run.context + run.tokens));
    }
    last_ = decision;
    if (!decision.model.valid()) in_flight_.pop_back();
    const Status intact = scheduler_.check_integrity(kv_);
    EXPECT_TRUE(intact.ok()) << intact.error().message;
    return last_.runs;
  }

  // The oldest step ends; sequences that have all their tokens leave.
  void finish(Nanos now) {
    const Decision decision = in_flight_.front();
    in_flight_.pop_front();
    scheduler_.step_done(decision, now);
    for (const Run& run : decision.runs) {
      if (!run.samples) continue;
      Sequence& sequence = sequences_.at(run.request);
      sequence.tokens.push_back(1);
      if (sequence.tokens.size() < sequence.length_max) continue;
      scheduler_.remove(sequence.handle);
      kv_.release(run.request, StepId());
      sequences_.erase(run.request);
    }
  }

  const Decision& last() const { return last_; }
  std::size_t in_flight() const { return in_flight_.size(); }
  std::size_t left() const { return sequences_.size(); }

 private:
  struct Sequence {
    ModelId model;
    std::vector<TokenId> tokens;
    std::size_t length_max = 0;
    Handle handle;
  };
  kv::KvCache kv_;
  Scheduler scheduler_;
  std::map<RequestId, Sequence> sequences_;
  std::deque<Decision> in_flight_;
  Decision last_;
};

TEST(Ahead, GoesOnWhereTheStepInFlightWillHaveEnded) {
  Pipeline pipeline({.tokens_per_step_max = 6}, 64);
  pipeline.add(1, kA, 10, 3);
  EXPECT_EQ(pipeline.start(Nanos(20))[0].tokens, Tokens(6));
  const auto second = pipeline.start(Nanos(20))[0];
  EXPECT_EQ(second.context, Tokens(6));
  EXPECT_EQ(second.tokens, Tokens(4));
  EXPECT_TRUE(second.samples);
  pipeline.finish(Nanos(21));
  const auto third = pipeline.start(Nanos(21))[0];  // of the token that the second samples
  EXPECT_EQ(third.context, Tokens(10));
  EXPECT_EQ(third.tokens, Tokens(1));
  pipeline.finish(Nanos(22));
  EXPECT_EQ(pipeline.start(Nanos(22))[0].context, Tokens(11));
}

TEST(Ahead, WhoseLastTokenIsInFlightHasNothingToRun) {
  Pipeline pipeline({}, 64);
  pipeline.add(1, kA, 5, 1);
  EXPECT_EQ(pipeline.start(Nanos(9)).size(), 1u);
  EXPECT_TRUE(pipeline.start(Nanos(9)).empty());
  pipeline.add(2, kA, 5, 2);
  const auto& runs = pipeline.start(Nanos(9));
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].request, RequestId(2));
  pipeline.finish(Nanos(10));
  EXPECT_EQ(pipeline.left(), 1u);
}

TEST(Ahead, PutsOffWhatNeedsAPreemption) {
  Pipeline pipeline({}, 8);  // 32 tokens
  pipeline.add(1, kA, 12, 16);
  pipeline.add(2, kA, 12, 16);
  bool put_off = false, preempted = false;
  for (Nanos now(20); pipeline.left() > 0 && now < Nanos(500); now += Nanos(1)) {
    while (pipeline.in_flight() < 2) {
      const bool ahead = pipeline.in_flight() == 1;
      const bool runs = !pipeline.start(now).empty();
      if (ahead) {
        EXPECT_TRUE(pipeline.last().preempted.empty());
        put_off = put_off || !runs;
      }
      preempted = preempted || !pipeline.last().preempted.empty();
      if (!runs) break;
    }
    ASSERT_GT(pipeline.in_flight(), 0u);
    pipeline.finish(now);
  }
  EXPECT_EQ(pipeline.left(), 0u);
  EXPECT_TRUE(put_off);
  EXPECT_TRUE(preempted);
}

TEST(Ahead, AnUrgentRequestDisplacesWhenNothingIsInFlight) {
  Pipeline pipeline({.policy = PolicyKind::kPriority, .running_max = 1}, 64);
  pipeline.add(1, kA, 4, 50, 0);
  EXPECT_EQ(pipeline.start(Nanos(9)).size(), 1u);
  pipeline.add(2, kA, 4, 50, 5);
  EXPECT_EQ(pipeline.start(Nanos(9))[0].request, RequestId(1));  // goes on meanwhile
  pipeline.finish(Nanos(10));
  EXPECT_TRUE(pipeline.start(Nanos(10)).empty());  // put off
  pipeline.finish(Nanos(11));
  EXPECT_EQ(pipeline.start(Nanos(11))[0].request, RequestId(2));
  EXPECT_EQ(pipeline.last().preempted.size(), 1u);
}

TEST(Ahead, ModelsTakeTurns) {
  Pipeline pipeline({}, 64);
  pipeline.add(1, kA, 4, 20);
  pipeline.add(2, kB, 4, 20);
  ModelId before;
  pipeline.start(Nanos(9));
  before = pipeline.last().model;
  for (Nanos now(10); now < Nanos(20); now += Nanos(1)) {
    ASSERT_FALSE(pipeline.start(now).empty());
    EXPECT_NE(pipeline.last().model, before);
    before = pipeline.last().model;
    pipeline.finish(now);
  }
}

}  // namespace
}  // namespace causeway::schedule::scheduler_ahead_test
