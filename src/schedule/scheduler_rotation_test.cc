// Rotation through the scheduler's interface.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "schedule/testing/rotary_harness.h"

namespace causeway::schedule::scheduler_rotation_test {
namespace {

constexpr ModelId kA(1), kB(2);

RotaryOptions options_for(PolicyKind policy, std::int64_t frames) {
  RotaryOptions options;
  options.schedule.policy = policy;
  options.schedule.preemption = PreemptionKind::kRotate;
  options.frames = frames;
  return options;
}

// Runs until no request is left; false: it got stuck or took too long.
bool drain(RotaryHarness& harness, Nanos& now, int rounds_max = 5'000) {
  for (int round = 0; round < rounds_max && harness.left() > 0; ++round) {
    now += millis(20);
    if (!harness.round(now)) return false;
    const Status intact = harness.check();
    EXPECT_TRUE(intact.ok()) << intact.error().message;
    if (!intact.ok()) return false;
  }
  return harness.left() == 0;
}

TEST(Rotation, WithRoomForAllNobodyRotatesOut) {
  RotaryHarness harness(options_for(PolicyKind::kRotary, 64));
  harness.add_model(kA, 4);
  for (int id = 0; id < 6; ++id) harness.add({.id = id, .model = kA, .prompt = 8, .output = 8});
  Nanos now = seconds(1);
  EXPECT_TRUE(drain(harness, now));
  EXPECT_EQ(harness.counters().rotations, 0);
}

TEST(Rotation, RotatesTheLongestRunningOutForTheMostUrgent) {
  RotaryHarness harness(options_for(PolicyKind::kRotary, 64));  // 256 tokens
  harness.add_model(kA, 4);
  for (int id = 0; id < 10; ++id) harness.add({.id = id, .model = kA, .prompt = 20, .output = 40});
  std::set<std::int64_t> out;
  Nanos now = seconds(10);
  for (int round = 0; round < 60 && out.size() < 2; ++round, now += millis(20)) {
    ASSERT_TRUE(harness.round(now));
    for (const Rotation& one : harness.decision().rotated_out) out.insert(one.request.value);
  }
  ASSERT_GE(out.size(), 2u);
  EXPECT_EQ(harness.scheduler().rotary() > 0, true);
  EXPECT_TRUE(drain(harness, now));
  EXPECT_EQ(harness.counters().recomputed, 0);
  EXPECT_EQ(harness.ended(), 10);
}

TEST(Rotation, WhatWasComputedStaysComputed) {
  RotaryHarness harness(options_for(PolicyKind::kRotary, 32));
  harness.add_model(kA, 4);
  for (int id = 0; id < 8; ++id) harness.add({.id = id, .model = kA, .prompt = 16, .output = 30});
  std::map<std::int64_t, std::int64_t> computed;
  Nanos now = seconds(10);
  for (int round = 0; round < 2'000 && harness.left() > 0; ++round, now += millis(20)) {
    while (harness.in_flight() < 2 && harness.start(now)) {
      for (const auto& run : harness.decision().runs) {
        EXPECT_EQ(run.context.count, computed[run.request.value]);
        computed[run.request.value] += run.tokens.count;
      }
    }
    ASSERT_GT(harness.in_flight(), 0u);
    harness.finish(now);
  }
  EXPECT_EQ(harness.left(), 0);
  EXPECT_GT(harness.counters().rotations, 0);
  // All but the last token, each once.
  for (const auto& [id, tokens] : computed) EXPECT_EQ(tokens, 45) << id;
}

TEST(Rotation, KeepsTwoStepsInFlight) {
  RotaryOptions options = options_for(PolicyKind::kRotary, 200);
  options.budget = {.out = 40, .in = 40, .exchange = 10};
  RotaryHarness harness(options);
  harness.add_model(kA, 4);
  for (int id = 0; id < 60; ++id) harness.add({.id = id, .model = kA, .prompt = 20, .output = 80});
  Nanos now = seconds(10);
  int rounds = 0, full = 0;
  while (harness.left() > 20 && rounds < 3'000) {
    now += millis(20);
    while (harness.in_flight() < 2 && harness.start(now)) {
    }
    full += harness.in_flight() == 2 ? 1 : 0;
    ++rounds;
    harness.finish(now);
  }
  EXPECT_GT(harness.counters().rotations, 100);
  EXPECT_EQ(full, rounds) << "a step was put off";
}

TEST(Rotation, NeverExceedsItsAccounts) {
  for (const bool eager : {true, false}) {
    RotaryOptions options = options_for(PolicyKind::kRotary, 100);
    options.eager = eager;
    options.budget = {.out = 3, .in = 2, .exchange = 2};
    RotaryHarness harness(options);
    harness.add_model(kA, 4);
    for (int id = 0; id < 20; ++id) {
      harness.add({.id = id, .model = kA, .prompt = 10 + 7 * (id % 5), .output = 40});
    }
    Nanos now = seconds(10);
    for (int round = 0; round < 3'000 && harness.left() > 0; ++round, now += millis(20)) {
      ASSERT_TRUE(harness.round(now));
      const auto& counters = harness.counters();
      EXPECT_LE(counters.copies_in, 2 * counters.steps);
      EXPECT_LE(counters.copies_out, 3 * counters.steps);
    }
    EXPECT_EQ(harness.left(), 0);
    EXPECT_GT(harness.counters().rotations, 0);
  }
}

TEST(Rotation, ALargeRequestComesInThoughSmallOnesKeepComing) {
  RotaryOptions options = options_for(PolicyKind::kRotary, 64);
  options.budget = {.out = 8, .in = 8, .exchange = 2};
  RotaryHarness harness(options);
  harness.add_model(kA, 4);
  Nanos now = seconds(10);
  for (int id = 0; id < 16; ++id) {
    harness.add({.id = id, .model = kA, .prompt = 12, .output = 400, .arrival = now});
  }
  harness.add({.id = 99, .model = kA, .prompt = 160, .output = 4, .arrival = now});  // 41 frames
  int id = 100;
  for (int round = 0; round < 2'000 && harness.has(99); ++round, now += millis(20)) {
    if (round % 4 == 0) {
      harness.add({.id = id++, .model = kA, .prompt = 8, .output = 8, .arrival = now});
    }
    ASSERT_TRUE(harness.round(now));
  }
  EXPECT_FALSE(harness.has(99));
}

TEST(Rotation, FallsBackToRecomputingWithoutRoomInHostMemory) {
  RotaryOptions options = options_for(PolicyKind::kFcfs, 32);
  options.twins = 4;
  RotaryHarness harness(options);
  harness.add_model(kA, 4);
  for (int id = 0; id < 8; ++id) harness.add({.id = id, .model = kA, .prompt = 16, .output = 40});
  Nanos now = seconds(10);
  EXPECT_TRUE(drain(harness, now));
  EXPECT_GT(harness.counters().recomputed, 0);
}

// Ids are in the order of arrival. Records which run, and whether the first of them ever lost KV.
class Losers {
 public:
  void decided(const Decision& decision) {
    for (const Rotation& one : decision.rotated_in) running_.insert(one.request.value);
    for (const Admission& one : decision.admitted) running_.insert(one.request.value);
    for (const Preemption& one : decision.preempted) {
      ++lost_;
      EXPECT_GT(one.request.value, *running_.begin()) << "the first lost what it had computed";
    }
    for (const Preemption& one : decision.preempted) running_.erase(one.request.value);
    for (const Rotation& one : decision.rotated_out) running_.erase(one.request.value);
  }
  void forget_ended(const RotaryHarness& harness) {
    std::erase_if(running_, [&](std::int64_t id) { return !harness.has(id); });
  }
  int lost() const { return lost_; }

 private:
  std::set<std::int64_t> running_;
  int lost_ = 0;
};

// Without a fixed order, two that do not fit together would displace each other for ever.
TEST(Rotation, TheFirstOfThoseThatRunNeverLosesWhatItHasComputed) {
  struct Case {
    PreemptionKind preemption;
    std::int64_t twins;
  };
  for (const PolicyKind policy : {PolicyKind::kRotary, PolicyKind::kArtifact, PolicyKind::kFcfs}) {
    for (const Case& how :
         {Case{PreemptionKind::kRecompute, 0}, Case{PreemptionKind::kRecompute, 50},
          Case{PreemptionKind::kRotate, 3}, Case{PreemptionKind::kAuto, 50}}) {
      RotaryOptions options = options_for(policy, 11);
      options.schedule.preemption = how.preemption;
      options.twins = how.twins;
      options.budget = {.out = 4, .in = 4, .exchange = 2};
      if (!options.schedule.rotates()) continue;
      SCOPED_TRACE(std::string(name_of(policy)) + " " + std::string(name_of(how.preemption)));
      RotaryHarness harness(options);
      harness.rates = {.out_rate = 1e9, .in_rate = 1e9, .frame = mib(4)};
      harness.set_prefill_rate(kA, 1e12);
      harness.add_model(kA, 4);
      for (int id = 0; id < 6; ++id) {  // of 11 frames each takes 10 at its end
        harness.add({.id = id, .model = kA, .prompt = 4, .output = 36, .arrival = millis(id)});
      }
      Losers losers;
      Nanos now = seconds(10);
      int steps = 0;
      for (; steps < 1'000 && harness.left() > 0; ++steps, now += millis(20)) {
        while (harness.in_flight() < 2) {
          const bool runs = harness.start(now);
          losers.decided(harness.decision());
          if (!runs && harness.decision().empty()) break;
        }
        ASSERT_GT(harness.in_flight(), 0u);
        harness.finish(now);
        losers.forget_ended(harness);
      }
      EXPECT_EQ(harness.left(), 0);
      EXPECT_LT(steps, 2 * 6 * 36) << "each alone, twice";
      EXPECT_GT(losers.lost(), 0);
    }
  }
}

// No sequence outside displaces, so nothing is kept free for an exchange.
TEST(Rotation, WhereVictimsAreRecomputedAllFramesAreInUse) {
  for (const PreemptionKind how : {PreemptionKind::kRecompute, PreemptionKind::kRotate}) {
    RotaryOptions options = options_for(PolicyKind::kRotary, 64);
    options.schedule.preemption = how;
    options.schedule.rotation.lag.early = DisplacesEarly::kAll;
    options.budget = {.out = 10, .in = 10, .exchange = 10};
    RotaryHarness harness(options);
    harness.add_model(kA, 4);
    Nanos now = seconds(10);
    for (int id = 0; id < 4; ++id) {  // three of 20 frames have room
      harness.add({.id = id, .model = kA, .prompt = 80, .output = 4, .arrival = now});
      if (id > 0) continue;
      ASSERT_TRUE(harness.start(now));
    }
    ASSERT_TRUE(harness.start(now += millis(20)));
    EXPECT_EQ(harness.decision().admitted.size(), how == PreemptionKind::kRecompute ? 2u : 1u);
    EXPECT_TRUE(drain(harness, now));
  }
}

TEST(Rotation, RecomputesWhereThatIsFaster) {
  RotaryOptions options = options_for(PolicyKind::kFcfs, 32);
  options.schedule.preemption = PreemptionKind::kAuto;
  for (const double prefill_rate : {1e9, 1.0}) {
    RotaryHarness harness(options);
    harness.rates = {.out_rate = 1e9, .in_rate = 1e9, .frame = mib(4)};
    harness.set_prefill_rate(kA, prefill_rate);
    harness.add_model(kA, 4);
    for (int id = 0; id < 8; ++id) harness.add({.id = id, .model = kA, .prompt = 16, .output = 40});
    Nanos now = seconds(10);
    EXPECT_TRUE(drain(harness, now));
    EXPECT_EQ(harness.counters().recomputed > 0, prefill_rate > 1);
    EXPECT_EQ(harness.counters().rotations > 0, prefill_rate == 1.0);
  }
}

// Both models wait for frames; computing is cheap for one of them only.
TEST(Rotation, AVictimIsJudgedByTheRateOfItsOwnModel) {
  RotaryOptions options = options_for(PolicyKind::kFcfs, 32);
  options.schedule.preemption = PreemptionKind::kAuto;
  RotaryHarness harness(options);
  harness.rates = {.out_rate = 1e9, .in_rate = 1e9, .frame = mib(4)};
  for (const ModelId model : {kA, kB}) harness.add_model(model, 4);
  harness.set_prefill_rate(kA, 1e9);
  harness.set_prefill_rate(kB, 1.0);
  for (int id = 0; id < 8; ++id) {
    harness.add({.id = id, .model = id % 2 == 0 ? kA : kB, .prompt = 16, .output = 40});
  }
  std::map<ModelId, int> recomputed, rotated;
  Nanos now = seconds(10);
  for (int round = 0; round < 2'000 && harness.left() > 0; ++round, now += millis(20)) {
    while (harness.in_flight() < 2) {
      const bool runs = harness.start(now);
      for (const Preemption& one : harness.decision().preempted) {
        ++recomputed[one.request.value % 2 == 0 ? kA : kB];
      }
      for (const Rotation& one : harness.decision().rotated_out) {
        ++rotated[one.request.value % 2 == 0 ? kA : kB];
      }
      if (!runs) break;
    }
    ASSERT_GT(harness.in_flight(), 0u);
    harness.finish(now);
  }
  EXPECT_EQ(harness.left(), 0);
  EXPECT_GT(recomputed[kA], 0);
  EXPECT_EQ(recomputed[kB], 0);
  EXPECT_GT(rotated[kB], 0);
}

TEST(Rotation, EveryPolicyEndsEverybodyUnderEveryPreemption) {
  for (const PolicyKind policy :
       {PolicyKind::kFcfs, PolicyKind::kPriority, PolicyKind::kRotary, PolicyKind::kWaitingFirst,
        PolicyKind::kSwappedFirst, PolicyKind::kArtifact, PolicyKind::kSjfOracle,
        PolicyKind::kRanked, PolicyKind::kPastFuture}) {
    for (const PreemptionKind preemption :
         {PreemptionKind::kRecompute, PreemptionKind::kRotate, PreemptionKind::kAuto}) {
      SCOPED_TRACE(std::string(name_of(policy)) + " " + std::string(name_of(preemption)));
      RotaryOptions options = options_for(policy, 40);
      options.schedule.preemption = preemption;
      if (!options.schedule.rotates()) continue;
      // Without host memory at all, too.
      options.twins = preemption == PreemptionKind::kRecompute ? 0 : 1'000;
      RotaryHarness harness(options);
      harness.add_model(kA, 4);
      harness.add_model(kB, 7);
      for (int id = 0; id < 24; ++id) {
        harness.add({.id = id,
                     .model = id % 3 == 0 ? kB : kA,
                     .prompt = 5 + 11 * (id % 4),
                     .output = 10 + 13 * (id % 5),
                     .arrival = millis(9'000 + id),
                     .priority = id % 3});
      }
      Nanos now = seconds(10);
      ASSERT_TRUE(drain(harness, now)) << harness.left() << " left";
    }
  }
}

TEST(Rotation, WhoIsRemovedInAnyStateIsForgotten) {
  RotaryHarness harness(options_for(PolicyKind::kRotary, 32));
  harness.add_model(kA, 4);
  for (int id = 0; id < 12; ++id) harness.add({.id = id, .model = kA, .prompt = 16, .output = 60});
  Nanos now = seconds(10);
  for (int round = 0; round < 30; ++round, now += millis(20)) ASSERT_TRUE(harness.round(now));
  ASSERT_GT(harness.scheduler().rotary(), 0);
  for (int id = 0; id < 12; id += 2) {
    harness.remove(id);
    const Status intact = harness.check();
    ASSERT_TRUE(intact.ok()) << intact.error().message;
  }
  EXPECT_TRUE(drain(harness, now));
  EXPECT_EQ(harness.ended(), 6);
}

TEST(Rotation, WhatIsLostIsComputedAgain) {
  RotaryHarness harness(options_for(PolicyKind::kRotary, 32));
  harness.add_model(kA, 4);
  for (int id = 0; id < 12; ++id) harness.add({.id = id, .model = kA, .prompt = 16, .output = 40});
  Nanos now = seconds(10);
  int lost = 0;
  for (int round = 0; round < 400 && harness.left() > 0; ++round, now += millis(20)) {
    ASSERT_TRUE(harness.round(now));
    const auto& in = harness.decision().rotated_in;
    if (!in.empty() && harness.in_flight() > 0 && round % 3 == 0 &&
        harness.has(in.front().request.value)) {
      harness.lose(in.front().request.value);  // while its copies come in
      ++lost;
    }
    const Status intact = harness.check();
    ASSERT_TRUE(intact.ok()) << intact.error().message;
  }
  EXPECT_GT(lost, 2);
  EXPECT_TRUE(drain(harness, now));
}

TEST(Rotation, TheSameHistoryGivesTheSameDecisions) {
  std::vector<std::int64_t> first;
  for (int repeat = 0; repeat < 2; ++repeat) {
    RotaryHarness harness(options_for(PolicyKind::kRotary, 48));
    harness.add_model(kA, 4);
    std::vector<std::int64_t> history;
    Nanos now = seconds(10);
    for (int round = 0; round < 300; ++round, now += millis(20)) {
      if (round % 5 == 0) {
        harness.add({.id = round, .model = kA, .prompt = 20, .output = 30, .arrival = now});
      }
      ASSERT_TRUE(harness.round(now));
      const Decision& decision = harness.decision();
      for (const Rotation& one : decision.rotated_out) history.push_back(one.request.value);
      for (const Rotation& one : decision.rotated_in) history.push_back(-one.request.value);
      for (const auto& run : decision.runs) history.push_back(1'000 + run.request.value);
    }
    if (repeat == 0) first = history;
    EXPECT_EQ(history, first);
  }
}

// Endless overload: all requests get tokens, and the longest wait for the next one is bounded.
TEST(Rotation, StarvesNobodyUnderOverload) {
  RotaryOptions options = options_for(PolicyKind::kRotary, 600);
  options.budget = {.out = 60, .in = 60, .exchange = 30};
  options.twins = 20'000;
  RotaryHarness harness(options);
  harness.add_model(kA, 4);
  Nanos now = seconds(10);
  for (int id = 0; id < 60; ++id) {  // about three times what fits, at first
    harness.add({.id = id, .model = kA, .prompt = 100 + id, .output = 2'000, .arrival = now});
  }
  constexpr int kRounds = 1'000;
  std::map<std::int64_t, int> last;
  int longest = 0;
  for (int round = 0; round < kRounds; ++round, now += millis(20)) {
    ASSERT_TRUE(harness.round(now));
    for (const auto& run : harness.decision().runs) {
      if (last.contains(run.request.value)) {
        longest = std::max(longest, round - last[run.request.value]);
      }
      last[run.request.value] = round;
    }
  }
  EXPECT_EQ(last.size(), 60u);
  for (const auto& [id, round] : last) longest = std::max(longest, kRounds - round);
  EXPECT_LT(longest, 300);
}

TEST(Rotation, FcfsRotatesTheLatestAndOnlyForGrowth) {
  RotaryHarness harness(options_for(PolicyKind::kFcfs, 32));
  harness.add_model(kA, 4);
  for (int id = 0; id < 8; ++id) {
    harness.add({.id = id, .model = kA, .prompt = 20, .output = 60, .arrival = Nanos(id)});
  }
  Nanos now = seconds(10);
  std::int64_t rotations = 0;
  while (harness.left() > 0) {
    std::int64_t latest = -1;
    ASSERT_TRUE(harness.round(now += millis(20)));
    for (const auto& run : harness.decision().runs) latest = std::max(latest, run.request.value);
    for (const Rotation& one : harness.decision().rotated_out) {
      EXPECT_GT(one.request.value, latest);
      ++rotations;
    }
  }
  EXPECT_GT(rotations, 0);
  EXPECT_EQ(harness.counters().recomputed, 0);
}

TEST(Rotation, WaitingFirstDisplacesForNewcomersAndRotaryFirstDoesNot) {
  for (const PolicyKind policy : {PolicyKind::kWaitingFirst, PolicyKind::kSwappedFirst}) {
    RotaryHarness harness(options_for(policy, 32));
    harness.add_model(kA, 4);
    for (int id = 0; id < 4; ++id) {
      harness.add({.id = id, .model = kA, .prompt = 36, .output = 2, .arrival = Nanos(id)});
    }
    Nanos now = seconds(10);
    ASSERT_TRUE(harness.start(now));
    const auto running = harness.scheduler().running();
    ASSERT_GT(running, 1);
    ASSERT_LT(running, 4);
    ASSERT_TRUE(harness.start(now));
    EXPECT_EQ(harness.decision().rotated_out.empty(), policy == PolicyKind::kSwappedFirst);
  }
}

TEST(Rotation, PriorityDisplacesTheStrictlyLower) {
  RotaryHarness harness(options_for(PolicyKind::kPriority, 32));
  harness.add_model(kA, 4);
  Nanos now = seconds(10);
  for (int id = 0; id < 6; ++id) {
    harness.add({.id = id, .model = kA, .prompt = 16, .output = 400, .priority = id % 2});
  }
  for (int round = 0; round < 10; ++round) ASSERT_TRUE(harness.round(now += millis(20)));
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(harness.round(now += millis(20)));
    std::int32_t least = 2;
    for (const auto& run : harness.decision().runs) {
      least = std::min(least, static_cast<std::int32_t>(run.request.value % 2));
    }
    for (const Rotation& one : harness.decision().rotated_out)
      EXPECT_LE(one.request.value % 2, least);
  }
  harness.add({.id = 99, .model = kA, .prompt = 16, .output = 4, .priority = 9});
  for (int round = 0; round < 40 && harness.has(99); ++round) {
    ASSERT_TRUE(harness.round(now += millis(20)));
  }
  EXPECT_FALSE(harness.has(99));
}

TEST(Rotation, SeveralModelsTakeTurnsAndDisplaceEachOther) {
  RotaryOptions options = options_for(PolicyKind::kRotary, 64);
  RotaryHarness harness(options);
  harness.add_model(kA, 4);
  harness.add_model(kB, 7);
  Nanos now = seconds(10);
  for (int id = 0; id < 12; ++id) {
    harness.add({.id = id, .model = kA, .prompt = 20, .output = 2'000, .arrival = now});
  }
  for (int round = 0; round < 20; ++round) ASSERT_TRUE(harness.round(now += millis(20)));
  // The newcomers' model has nothing in HBM, which the other fills.
  for (int id = 100; id < 106; ++id) {
    harness.add({.id = id, .model = kB, .prompt = 30, .output = 50, .arrival = now});
  }
  std::map<std::int64_t, int> steps;
  for (int round = 0; round < 1'500 && steps[kB.value] < 60; ++round) {
    ASSERT_TRUE(harness.round(now += millis(20)));
    const Status intact = harness.check();
    ASSERT_TRUE(intact.ok()) << intact.error().message;
    steps[harness.decision().model.value] += 1;
  }
  EXPECT_GE(steps[kB.value], 60);
  EXPECT_GE(steps[kA.value], 30);
}

// The one of two models in HBM whose requests may wait longer for a token is stepped less often.
TEST(Rotation, AModelIsSteppedByTheLagOfItsRequests) {
  RotaryOptions options = options_for(PolicyKind::kRotary, 64);
  options.steps_in_flight = 1;
  RotaryHarness harness(options);
  harness.add_model(kA, 4);
  harness.add_model(kB, 4);
  constexpr ModelId kC(3);
  harness.add_model(kC, 4);
  Nanos now = seconds(10);
  const request::Slo patient{.tpot = seconds(1), .tpot_slack = 1};
  harness.add({.id = 1, .model = kA, .prompt = 4, .output = 90, .arrival = now});
  harness.add({.id = 2, .model = kB, .prompt = 4, .output = 90, .arrival = now, .slo = patient});
  harness.add({.id = 3, .model = kC, .prompt = 4, .output = 90, .arrival = now});
  std::map<std::int64_t, int> steps;
  for (int round = 0; round < 120; ++round) {
    ASSERT_TRUE(harness.round(now += millis(60)));
    steps[harness.decision().model.value] += 1;
  }
  EXPECT_GT(steps[kA.value], 3 * steps[kB.value]);
  EXPECT_GT(steps[kB.value], 1);
}

}  // namespace
}  // namespace causeway::schedule::scheduler_rotation_test
