// The machine's rules one by one; residency_model_test.cc has random histories.
#include "weights/residency.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace causeway::weights::residency_test {
namespace {

using Kind = WeightCommand::Kind;
constexpr Bytes kExtent = mib(32);
constexpr ModelId kA(0), kB(1), kC(2);

// `layers` groups of `extents` extents each, then perhaps an embedding of one extent.
std::vector<ResidentGroup> model_of(int layers, std::int64_t extents, bool embedding = false) {
  std::vector<ResidentGroup> groups;
  const Bytes bytes = kExtent * extents;
  for (int i = 0; i < layers; ++i) groups.push_back({.offset = bytes * i, .bytes = bytes});
  if (embedding) {
    groups.push_back(
        {.offset = kExtent * (extents * layers), .bytes = kExtent, .readable_at_home = true});
  }
  return groups;
}

ResidencyOptions options_of(std::int64_t extents) {
  ResidencyOptions options;
  options.extents = extents;
  options.optional_after = {};
  return options;
}

// A machine with what its tests do over and over.
class Cache {
 public:
  explicit Cache(const ResidencyOptions& options) : residency(options) {
    residency.grant(50e9, Nanos(0));
  }
  ~Cache() {
    const Status status = residency.check_integrity();
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  }

  void add(ModelId model, std::vector<ResidentGroup> groups) {
    ASSERT_TRUE(residency.add_model(model, std::move(groups)).ok());
  }
  std::vector<WeightCommand> decide() {
    std::vector<WeightCommand> commands;
    residency.decide(now, commands);
    for (const WeightCommand& command : commands) {
      if (command.kind == Kind::kBring) copies.push_back(command);
    }
    const Status status = residency.check_integrity();
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    // As an engine that decides a step.
    for (const auto& one : demanded) (void)(ready(one.model) && residency.offer(one.model, now));
    return commands;
  }
  void demand(std::vector<ModelDemand> demands) {
    residency.demand(demands, now);
    demanded = std::move(demands);
  }
  // Every copy that was issued ends, each after `each`.
  void copies_end(Nanos each = millis(1), bool well = true) {
    for (const WeightCommand& copy : std::exchange(copies, {})) {
      now += each;
      if (well) {
        residency.arrived(copy.model, copy.group, copy.arrival, now);
      } else {
        residency.failed(copy.model, copy.group, copy.arrival, now);
      }
    }
  }
  // Until nothing more comes.
  void bring_all() {
    for (decide(); !copies.empty(); decide()) copies_end();
  }
  // It gets a request, is brought, and its request ends.
  void use(ModelId model, std::int64_t arrived = 1) {
    demand({{.model = model, .requests = arrived, .arrived = arrived}});
    bring_all();
    EXPECT_TRUE(ready(model));
    demand({});
  }
  bool ready(ModelId model) const { return residency.readiness(model, Nanos(0), now).now; }
  std::int64_t arrivals() const { return residency.counters().arrivals; }

  Residency residency;
  Nanos now = seconds(1);
  std::vector<ModelDemand> demanded;
  std::vector<WeightCommand> copies;
};

TEST(Residency, AModelIsCommittedThenBroughtInReadingOrder) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(3, 1, true));
  EXPECT_FALSE(cache.ready(kA));
  cache.demand({{.model = kA, .requests = 1, .arrived = 1}});
  const auto commands = cache.decide();
  ASSERT_EQ(commands.size(), 4u);
  EXPECT_EQ(commands[0].kind, Kind::kCommit);
  EXPECT_EQ(commands[0].first_extent, 0);
  EXPECT_EQ(commands[0].extents, 3);
  for (int group = 0; group < 3; ++group) {
    const WeightCommand& bring = commands[static_cast<std::size_t>(group) + 1];
    EXPECT_EQ(bring.kind, Kind::kBring);
    EXPECT_EQ(bring.group, group);
    EXPECT_EQ(bring.arrival, 1u);
    EXPECT_EQ(cache.residency.place(kA, group), GroupPlace::kArriving);
  }
  EXPECT_TRUE(cache.decide().empty());
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kA));
  // The link has nothing else to do.
  EXPECT_EQ(cache.decide().size(), 2u);
  EXPECT_EQ(cache.residency.place(kA, 3), GroupPlace::kArriving);
  EXPECT_TRUE(cache.ready(kA));
  cache.copies_end();
  EXPECT_TRUE(cache.residency.all_cached(kA));
}

TEST(Residency, MovesNothingWhenBothFit) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(2, 1));
  cache.add(kB, model_of(2, 1));
  cache.use(kA);
  cache.use(kB);
  const Bytes brought = cache.residency.counters().brought;
  for (int i = 0; i < 5; ++i) {
    cache.now += seconds(20);
    cache.use(i % 2 == 0 ? kA : kB);
  }
  EXPECT_EQ(cache.residency.counters().brought, brought);
  EXPECT_EQ(cache.residency.counters().evictions, 0);
}

TEST(Residency, AModelIsKnownOnceAndFits) {
  Cache cache(options_of(3));
  cache.add(kA, model_of(2, 1));
  EXPECT_EQ(cache.residency.add_model(kA, model_of(1, 1)).error().code,
            ErrorCode::kInvalidArgument);
  const Status large = cache.residency.add_model(kB, model_of(2, 2));
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(large.error().message.find("4 extents"), std::string::npos) << large.error().message;
  EXPECT_NE(large.error().message.find('3'), std::string::npos);
  std::vector<WeightCommand> commands;
  EXPECT_EQ(cache.residency.remove_model(kB, commands).error().code, ErrorCode::kNotFound);
}

TEST(Residency, ARemovedModelGivesItsExtentsBackWhenNothingUsesThem) {
  Cache cache(options_of(3));
  cache.add(kA, model_of(2, 1));
  std::vector<WeightCommand> commands;
  cache.demand({{.model = kA, .requests = 1, .arrived = 1}});
  cache.decide();
  EXPECT_EQ(cache.residency.remove_model(kA, commands).error().code, ErrorCode::kUnavailable);
  cache.copies_end();
  cache.residency.step_begins(kA);
  EXPECT_EQ(cache.residency.remove_model(kA, commands).error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(cache.residency.step_ended(kA, cache.now));
  ASSERT_TRUE(cache.residency.remove_model(kA, commands).ok());
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].kind, Kind::kDecommit);
  EXPECT_EQ(commands[0].extents, 2);
  EXPECT_EQ(cache.residency.committed_extents(), 0);
  cache.add(kA, model_of(2, 1));
  cache.use(kA);
}

TEST(Residency, NeighboursShareAnExtent) {
  Cache cache(options_of(3));
  const Bytes half = kExtent / 2;
  // Extents:      0    0 and 1   1
  cache.add(kA, {{.offset = Bytes(0), .bytes = half},
                 {.offset = half, .bytes = kExtent},
                 {.offset = half * 3, .bytes = half}});
  cache.add(kB, model_of(2, 1));
  cache.use(kA);
  EXPECT_EQ(cache.residency.committed_extents(), 2);
  cache.use(kB);
  // One extent was lacking: the second is free without the last two groups.
  EXPECT_EQ(cache.residency.committed_extents(), 3);
  EXPECT_EQ(cache.residency.place(kA, 0), GroupPlace::kCached);
  EXPECT_EQ(cache.residency.place(kA, 1), GroupPlace::kHome);
  EXPECT_EQ(cache.residency.place(kA, 2), GroupPlace::kHome);
  EXPECT_EQ(cache.residency.cached_bytes(kA), half);
}

TEST(Residency, TheColdModelGivesWayThoughLarger) {
  Cache cache(options_of(6));
  cache.add(kA, model_of(4, 1));
  cache.add(kB, model_of(2, 1));
  cache.add(kC, model_of(2, 1));
  cache.use(kA, 1);
  cache.use(kB, 50);
  cache.use(kC, 1);
  EXPECT_EQ(cache.residency.cached_bytes(kA), kExtent * 2);  // the end is gone, no more
  EXPECT_EQ(cache.residency.place(kA, 1), GroupPlace::kCached);
  EXPECT_EQ(cache.residency.cached_bytes(kB), kExtent * 2);
}

TEST(Residency, TheHotModelStaysThoughSmaller) {
  Cache cache(options_of(6));
  cache.add(kA, model_of(4, 1));
  cache.add(kB, model_of(2, 1));
  cache.add(kC, model_of(2, 1));
  cache.use(kB, 1);
  cache.use(kA, 50);
  cache.use(kC, 1);
  EXPECT_EQ(cache.residency.cached_bytes(kA), kExtent * 4);
  EXPECT_EQ(cache.residency.cached_bytes(kB), Bytes(0));
}

TEST(Residency, AVictimThatTheOthersMakeNeedlessStays) {
  Cache cache(options_of(6));
  cache.add(kA, model_of(4, 1));
  cache.add(kB, model_of(2, 1));
  cache.add(kC, model_of(4, 1));
  cache.use(kA, 10);
  cache.use(kB, 11);  // cheaper than all of A, but A is needed anyway, and suffices
  cache.use(kC, 1);
  EXPECT_EQ(cache.residency.cached_bytes(kA), Bytes(0));
  EXPECT_EQ(cache.residency.cached_bytes(kB), kExtent * 2);
}

TEST(Residency, TheRateOfRequestsDecays) {
  Cache cache(options_of(4));
  for (const ModelId model : {kA, kB, kC}) cache.add(model, model_of(2, 1));
  cache.use(kA, 20);
  cache.now += seconds(300);
  cache.use(kB, 1);
  cache.use(kC, 1);
  EXPECT_EQ(cache.residency.cached_bytes(kA), Bytes(0));
  EXPECT_EQ(cache.residency.cached_bytes(kB), kExtent * 2);
}

TEST(Residency, AModelKeepsItsPlaceForItsQuantumAndLeavesWhenItsStepsHaveEnded) {
  Cache cache(options_of(2));
  cache.add(kA, model_of(2, 1));
  cache.add(kB, model_of(2, 1));
  cache.demand({{.model = kA, .requests = 1, .arrived = 1}});
  cache.decide();
  cache.copies_end();
  const Nanos quantum_end = cache.now + millis(500);
  cache.demand({{.model = kA, .requests = 1}, {.model = kB, .requests = 1, .arrived = 1}});
  EXPECT_TRUE(cache.decide().empty());
  EXPECT_EQ(cache.residency.next_quantum_end(cache.now), quantum_end);
  cache.residency.step_begins(kA);
  cache.now = quantum_end - Nanos(1);
  EXPECT_TRUE(cache.decide().empty());
  EXPECT_TRUE(cache.ready(kA));
  cache.now = quantum_end;
  EXPECT_TRUE(cache.decide().empty());
  EXPECT_TRUE(cache.residency.leaving(kA));
  EXPECT_FALSE(cache.ready(kA));
  EXPECT_TRUE(cache.residency.step_ended(kA, cache.now));
  EXPECT_EQ(cache.decide().size(), 4u);  // decommit, commit, two copies
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kB));
  // A waits now, at the end of the queue, and gets its quantum after B's.
  cache.now += millis(499);
  EXPECT_TRUE(cache.decide().empty());
  cache.now += millis(1);
  cache.decide();
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kA));
}

// When two models are served since the same moment and one must leave, it is always the same one:
// otherwise neither would ever drain.
TEST(Residency, TheModelThatLeavesStaysTheSameUntilItHasDrained) {
  Cache cache(options_of(2));
  for (const ModelId model : {kA, kB, kC}) cache.add(model, model_of(1, 1));
  cache.use(kA);
  cache.use(kB);
  const ModelDemand a{.model = kA, .requests = 9}, b{.model = kB, .requests = 9};
  cache.demand({a, b});
  cache.now += seconds(60);
  cache.residency.step_begins(kA);
  cache.residency.step_begins(kB);
  cache.demand({a, b, {.model = kC, .requests = 1, .arrived = 1}});
  cache.decide();
  ModelId oldest = kA, newest = kB;
  for (int steps = 0; steps < 3 && cache.copies.empty(); ++steps) {
    cache.now += millis(1);
    ASSERT_TRUE(cache.residency.step_ended(oldest, cache.now));
    cache.decide();
    const ModelId next = cache.ready(kA) ? kA : kB;
    cache.residency.step_begins(next);
    oldest = std::exchange(newest, next);
  }
  ASSERT_EQ(cache.copies.size(), 1u);
  EXPECT_EQ(cache.copies[0].model, kC);
}

TEST(Residency, AQuantumIsAtLeastSomeTimesTheArrival) {
  ResidencyOptions options = options_of(2);
  options.quantum_min = millis(1);
  Cache cache(options);
  cache.residency.grant(static_cast<double>(kExtent.count) / 0.1, cache.now);  // an extent: 100 ms
  cache.add(kA, model_of(2, 1));
  cache.add(kB, model_of(2, 1));
  cache.demand({{.model = kA, .requests = 1}, {.model = kB, .requests = 1}});
  cache.decide();
  cache.copies_end(millis(100));
  EXPECT_EQ(cache.residency.next_quantum_end(cache.now), cache.now + millis(800));
}

TEST(Residency, AllOrNothingIsEvicted) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(2, 1));
  cache.add(kB, model_of(2, 1));
  cache.add(kC, model_of(4, 1));
  cache.demand({{.model = kA, .requests = 1}});
  cache.decide();
  cache.copies_end();
  cache.now += seconds(1);
  cache.demand({{.model = kA, .requests = 1}, {.model = kB, .requests = 1}});
  cache.decide();
  cache.copies_end();
  // A's quantum is over, B's is not: C waits for both, and A is stepped meanwhile.
  cache.demand(
      {{.model = kA, .requests = 1}, {.model = kB, .requests = 1}, {.model = kC, .requests = 1}});
  EXPECT_TRUE(cache.decide().empty());
  EXPECT_TRUE(cache.ready(kA));
  EXPECT_TRUE(cache.ready(kB));
  cache.now += millis(500);
  EXPECT_EQ(cache.decide().size(), 7u);
  EXPECT_FALSE(cache.ready(kA));
  EXPECT_FALSE(cache.ready(kB));
}

TEST(Residency, AQuantumIsNotRenewedWhileAnotherModelWaits) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(2, 1));
  cache.add(kB, model_of(2, 1));
  cache.add(kC, model_of(4, 1));
  const std::vector<ModelDemand> first = {{.model = kA, .requests = 1},
                                          {.model = kB, .requests = 1}};
  cache.demand(first);
  cache.decide();
  cache.copies_end();
  const Nanos quantum_end = cache.now + millis(500);
  const std::vector<ModelDemand> all = {
      {.model = kA, .requests = 1}, {.model = kB, .requests = 1}, {.model = kC, .requests = 1}};
  cache.demand(all);
  EXPECT_TRUE(cache.decide().empty());
  cache.now += millis(400);
  cache.demand(std::vector<ModelDemand>(all.begin() + 1, all.end()));
  EXPECT_TRUE(cache.decide().empty());  // B is in its quantum, and A alone is not enough
  cache.demand(all);
  cache.now = quantum_end;
  ASSERT_EQ(cache.decide().size(), 7u);
  EXPECT_EQ(cache.copies.front().model, kC);
}

TEST(Residency, TheQueueIsServedInOrderByTwoArrivalsAtOnce) {
  Cache cache(options_of(6));
  for (const ModelId model : {kA, kB, kC}) cache.add(model, model_of(2, 1));
  cache.demand({{.model = kC, .requests = 1}});
  cache.demand(
      {{.model = kA, .requests = 1}, {.model = kB, .requests = 1}, {.model = kC, .requests = 1}});
  cache.decide();
  ASSERT_EQ(cache.copies.size(), 4u);
  EXPECT_EQ(cache.copies[0].model, kC);
  EXPECT_EQ(cache.copies[2].model, kA);
  cache.copies_end();
  cache.decide();
  ASSERT_EQ(cache.copies.size(), 2u);
  EXPECT_EQ(cache.copies[0].model, kB);
  cache.copies_end();
}

TEST(Residency, AStepMayBeginWhenWhatIsLeftToCopyTakesNoLonger) {
  Cache cache(options_of(8));
  cache.residency.grant(static_cast<double>(kExtent.count) / 0.01, cache.now);  // an extent: 10 ms
  cache.add(kA, model_of(2, 1, true));
  cache.add(kB, model_of(3, 1));
  cache.demand({{.model = kA, .requests = 1}, {.model = kB, .requests = 1}});
  cache.decide();
  const Nanos start = cache.now;
  const auto at = [&](ModelId model, Nanos computes, Nanos now) {
    return cache.residency.readiness(model, computes, now);
  };
  // A needs two copies. B waits, so that A's embedding does not come along; B ends with the fifth.
  EXPECT_EQ(at(kA, millis(5), start).at, start + millis(15));
  EXPECT_EQ(at(kB, millis(5), start).at, start + millis(45));
  EXPECT_FALSE(at(kB, millis(5), start + millis(45) - Nanos(1)).now);
  EXPECT_TRUE(at(kB, millis(5), start + millis(45)).now);
  EXPECT_TRUE(at(kB, millis(50), start).now);
  // A little late: never below 0. Long overdue: not before an event, unless the step takes longer.
  EXPECT_TRUE(at(kA, Nanos(0), start + millis(60)).now);
  EXPECT_FALSE(at(kA, Nanos(0), start + millis(61)).now);
  EXPECT_EQ(at(kA, Nanos(0), start + millis(61)).at, std::nullopt);
  EXPECT_TRUE(at(kA, seconds(2), start + seconds(1)).now);
  // A copy that ends early moves all others.
  cache.residency.arrived(kA, 0, 1, start + millis(4));
  EXPECT_EQ(at(kA, Nanos(0), start + millis(4)).at, start + millis(14));
  EXPECT_EQ(at(kB, Nanos(0), start + millis(4)).at, start + millis(44));
  // A model that is not on its way waits for an event.
  cache.add(kC, model_of(1, 1));
  EXPECT_FALSE(at(kC, seconds(1), start).now);
  EXPECT_EQ(at(kC, seconds(1), start).at, std::nullopt);
}

TEST(Residency, CountsTheBytesThatArrive) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(2, 1));
  EXPECT_EQ(cache.residency.arriving_bytes(), Bytes(0));
  cache.demand({{.model = kA, .requests = 1, .arrived = 1}});
  cache.decide();
  EXPECT_EQ(cache.residency.arriving_bytes(), kExtent * 2);
  cache.copies_end();
  EXPECT_EQ(cache.residency.arriving_bytes(), Bytes(0));
}

TEST(Residency, WhatIsGrantedIsCorrectedByWhatIsMeasured) {
  Cache cache(options_of(4));
  const auto extent = static_cast<double>(kExtent.count);
  cache.add(kA, model_of(4, 1));
  EXPECT_EQ(cache.residency.link_rate(), 50e9);
  cache.use(kA);  // 1 ms an extent
  EXPECT_NEAR(cache.residency.link_rate(), extent * 1e3, 1e6);
  // Half of the links: half of what they gave.
  cache.residency.grant(25e9, cache.now);
  EXPECT_NEAR(cache.residency.link_rate(), extent * 500, 1e6);
  // Nothing is granted: what they gave last.
  cache.residency.grant(0, cache.now);
  EXPECT_NEAR(cache.residency.link_rate(), extent * 1e3, 1e6);
}

// The links are the arrival's alone, then half of them, then alone again.
TEST(Residency, AGrantThatChangesOnTheWayCountsForItsTime) {
  const double rate = static_cast<double>(kExtent.count) / 0.001;  // an extent: 1 ms
  Cache cache(options_of(3));
  cache.residency.grant(rate, cache.now);
  cache.add(kA, model_of(3, 1));
  cache.demand({{.model = kA, .requests = 1}});
  cache.decide();
  const Nanos start = cache.now;
  EXPECT_EQ(cache.residency.readiness(kA, Nanos(0), start).at, start + millis(3));
  cache.residency.arrived(kA, 0, 1, start + millis(1));
  cache.residency.grant(rate / 2, start + millis(1));
  EXPECT_EQ(cache.residency.readiness(kA, Nanos(0), start + millis(1)).at, start + millis(5));
  cache.residency.arrived(kA, 1, 1, start + millis(3));
  // In the middle of a copy.
  cache.residency.grant(rate, start + millis(4));
  cache.residency.arrived(kA, 2, 1, start + millis(4) + micros(500));
  EXPECT_NEAR(cache.residency.link_rate(), rate, rate * 1e-6);
}

TEST(Residency, WithoutAGrantAStepWaitsForItsWeights) {
  Cache cache(options_of(2));
  cache.residency.grant(0, cache.now);
  cache.add(kA, model_of(2, 1));
  cache.demand({{.model = kA, .requests = 1}});
  EXPECT_EQ(cache.decide().size(), 3u);  // they come all the same
  EXPECT_EQ(cache.residency.link_rate(), 0);
  EXPECT_FALSE(cache.residency.readiness(kA, seconds(100), cache.now).now);
  EXPECT_EQ(cache.residency.readiness(kA, seconds(100), cache.now).at, std::nullopt);
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kA));
  // What was measured does not correct later grants, of which it knows nothing.
  EXPECT_NEAR(cache.residency.link_rate(), static_cast<double>(kExtent.count) * 1e3, 1e6);
  cache.residency.grant(7e9, cache.now);
  EXPECT_EQ(cache.residency.link_rate(), 7e9);
}

TEST(Residency, AFailedCopyPoisonsTheStepsInFlightWhoseExtentsStay) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(2, 1));
  cache.demand({{.model = kA, .requests = 1, .arrived = 1}});
  cache.decide();
  cache.residency.step_begins(kA);
  cache.residency.step_begins(kA);
  cache.residency.failed(kA, 0, 1, cache.now);
  cache.residency.arrived(kA, 1, 1, cache.now);
  EXPECT_FALSE(cache.ready(kA));
  EXPECT_EQ(cache.residency.counters().failures, 1);
  EXPECT_TRUE(cache.decide().empty());
  EXPECT_FALSE(cache.residency.step_ended(kA, cache.now));
  EXPECT_TRUE(cache.decide().empty());
  EXPECT_EQ(cache.residency.committed_extents(), 2);
  EXPECT_FALSE(cache.residency.step_ended(kA, cache.now));
  // The second attempt brings what is missing, into the extent that is still there.
  cache.copies.clear();
  const auto commands = cache.decide();
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].kind, Kind::kBring);
  EXPECT_EQ(commands[0].group, 0);
  EXPECT_EQ(commands[0].arrival, 2u);
  EXPECT_EQ(cache.residency.arrival(kA, 1), 1u);
  cache.copies_end();
  cache.residency.step_begins(kA);
  EXPECT_TRUE(cache.residency.step_ended(kA, cache.now));
}

TEST(Residency, TwoFailedArrivalsInARowAreGivenUpUntilTheNextRequest) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(2, 1));
  const std::vector<ModelDemand> one = {{.model = kA, .requests = 1}};
  cache.demand(one);
  cache.decide();
  cache.copies_end(millis(1), false);
  EXPECT_FALSE(cache.residency.gave_up(kA));
  cache.decide();
  EXPECT_EQ(cache.copies.size(), 2u);
  cache.copies_end(millis(1), false);
  EXPECT_TRUE(cache.residency.gave_up(kA));
  EXPECT_EQ(cache.residency.counters().failures, 2);
  cache.decide();
  EXPECT_EQ(cache.residency.committed_extents(), 0);
  EXPECT_TRUE(cache.copies.empty());
  cache.demand({{.model = kA, .requests = 2, .arrived = 1}});
  EXPECT_TRUE(cache.residency.gave_up(kA)) << "one of the two has waited";
  cache.demand({{.model = kA, .requests = 2, .arrived = 2}});  // both came later
  EXPECT_FALSE(cache.residency.gave_up(kA));
  cache.decide();
  cache.copies_end(millis(1), false);
  cache.decide();
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kA));
  EXPECT_FALSE(cache.residency.gave_up(kA));
}

TEST(Residency, FailuresCountInARow) {
  Cache cache(options_of(2));
  cache.add(kA, model_of(2, 1));
  cache.add(kB, model_of(2, 1));
  for (int i = 0; i < 3; ++i) {
    cache.demand({{.model = kA, .requests = 1, .arrived = 1}});
    cache.decide();
    cache.copies_end(millis(1), false);
    EXPECT_FALSE(cache.residency.gave_up(kA));
    cache.use(kA);
    cache.use(kB);  // takes A's place
  }
}

TEST(Residency, APinnedModelNeverLeaves) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(2, 1));
  cache.add(kB, model_of(2, 1));
  cache.add(kC, model_of(4, 1));
  cache.residency.set_pinned(kA, true);
  cache.use(kA);
  cache.demand({{.model = kC, .requests = 1}, {.model = kB, .requests = 1}});
  cache.decide();
  cache.copies_end();
  // C does not fit beside A: it is passed over, and its requests are to end.
  EXPECT_FALSE(cache.residency.fits(kC));
  EXPECT_TRUE(cache.residency.gave_up(kC));
  EXPECT_TRUE(cache.ready(kA));
  EXPECT_TRUE(cache.ready(kB));
  EXPECT_EQ(cache.residency.set_budget(1).error().code, ErrorCode::kResourceExhausted);
  ASSERT_TRUE(cache.residency.set_budget(2).ok());
  cache.decide();
  EXPECT_TRUE(cache.ready(kA));
  EXPECT_FALSE(cache.ready(kB));
  cache.residency.set_pinned(kA, false);
  ASSERT_TRUE(cache.residency.set_budget(4).ok());
  EXPECT_FALSE(cache.residency.gave_up(kC));
  cache.decide();
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kC));
}

TEST(Residency, ASmallerBudgetEvictsWhenStepsAndArrivalsHaveEnded) {
  Cache cache(options_of(6));
  for (const ModelId model : {kA, kB, kC}) cache.add(model, model_of(2, 1));
  cache.use(kA);
  cache.demand({{.model = kB, .requests = 1}});
  cache.decide();
  cache.copies_end();
  cache.demand({{.model = kB, .requests = 1}, {.model = kC, .requests = 1}});
  cache.decide();
  cache.residency.step_begins(kB);
  ASSERT_TRUE(cache.residency.set_budget(2).ok());
  cache.decide();
  EXPECT_EQ(cache.residency.committed_extents(), 4);  // A had neither
  EXPECT_FALSE(cache.ready(kB));
  EXPECT_TRUE(cache.residency.step_ended(kB, cache.now));
  cache.decide();
  EXPECT_EQ(cache.residency.committed_extents(), 2);
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kC));
}

TEST(Residency, AModelWaitsForABudgetThatMayGrow) {
  ResidencyOptions options = options_of(2);
  options.extents_max = 4;
  Cache cache(options);
  cache.add(kA, model_of(4, 1));
  cache.add(kB, model_of(2, 1));
  EXPECT_FALSE(cache.residency.add_model(kC, model_of(5, 1)).ok());
  cache.demand(
      {{.model = kA, .requests = 1, .arrived = 1}, {.model = kB, .requests = 1, .arrived = 1}});
  EXPECT_EQ(cache.decide().back().model, kB) << "it does not wait behind what cannot come";
  EXPECT_FALSE(cache.residency.gave_up(kA));
  cache.copies_end();
  cache.demand({{.model = kA, .requests = 1, .arrived = 0}});
  ASSERT_TRUE(cache.residency.set_budget(4).ok());
  cache.decide();
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kA));
}

TEST(Residency, TellsWhoNeedsHowManyExtents) {
  ResidencyOptions options = options_of(6);
  options.extents_max = 9;
  Cache cache(options);
  cache.add(kA, model_of(2, 1, true));
  cache.add(kB, model_of(4, 1));
  cache.add(kC, model_of(7, 1));
  cache.use(kA);
  cache.demand({{.model = kB, .requests = 1, .arrived = 1}});
  ExtentDemand demand = cache.residency.extent_demand();
  EXPECT_EQ(demand.used, 3);
  EXPECT_EQ(demand.idle, 3);
  EXPECT_EQ(demand.wanted, 4);
  EXPECT_EQ(demand.largest, 4);
  EXPECT_EQ(demand.least, 7);
  cache.residency.set_pinned(kA, true);
  demand = cache.residency.extent_demand();
  EXPECT_EQ(demand.idle, 0);
  EXPECT_EQ(demand.largest, 7) << "beside all of the pinned one";
  EXPECT_EQ(demand.least, 7) << "the third model does not fit beside it";
  cache.residency.set_pinned(kA, false);
  cache.demand(
      {{.model = kA, .requests = 1, .arrived = 1}, {.model = kB, .requests = 1, .arrived = 0}});
  EXPECT_EQ(cache.residency.extent_demand().idle, 1) << "the embedding";
  cache.decide();
  EXPECT_EQ(cache.residency.extent_demand().wanted, 0) << "it arrives, and the embedding went";
  cache.copies_end();
}

TEST(Residency, TheEmbeddingComesOnlyWhereThereIsRoom) {
  Cache cache(options_of(5));
  cache.add(kA, model_of(2, 1, true));
  cache.add(kB, model_of(2, 1, true));
  cache.use(kA);
  EXPECT_TRUE(cache.residency.all_cached(kA));
  // B's layers fit beside A, its embedding does not, and A is as hot.
  cache.demand({{.model = kB, .requests = 1, .arrived = 1}});
  cache.decide();
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kB));
  EXPECT_FALSE(cache.residency.all_cached(kB));
  EXPECT_TRUE(cache.residency.all_cached(kA));
  // Asked for more than twice as often, B takes it from A, who loses its embedding first.
  cache.demand({{.model = kB, .requests = 4, .arrived = 3}});
  cache.bring_all();
  EXPECT_TRUE(cache.residency.all_cached(kB));
  EXPECT_FALSE(cache.residency.all_cached(kA));
  EXPECT_TRUE(cache.ready(kA));
}

TEST(Residency, TheEmbeddingComesWhenTheModelHasBeenServedForAWhile) {
  ResidencyOptions options = options_of(6);
  options.optional_after = millis(100);
  Cache cache(options);
  cache.add(kA, model_of(2, 1, true));
  cache.demand({{.model = kA, .requests = 1, .arrived = 1}});
  cache.decide();
  cache.copies_end();
  const Nanos there = cache.now;
  cache.now = there + millis(99);
  cache.decide();
  EXPECT_TRUE(cache.copies.empty());
  cache.now = there + millis(100);
  cache.decide();
  EXPECT_EQ(cache.copies.size(), 1u);
  cache.copies_end();
  EXPECT_TRUE(cache.residency.all_cached(kA));
}

TEST(Residency, EmbeddingsAreDroppedFirst) {
  Cache cache(options_of(6));
  cache.add(kA, model_of(2, 1, true));
  cache.add(kB, model_of(2, 1, true));
  cache.add(kC, model_of(2, 1));
  cache.use(kA);
  cache.demand({{.model = kB, .requests = 1}});
  cache.decide();
  cache.copies_end();
  cache.demand({{.model = kB, .requests = 1}, {.model = kC, .requests = 1}});
  cache.decide();
  cache.copies_end();
  // B is in its quantum, and still loses the group that its steps can do without.
  for (const ModelId model : {kA, kB, kC}) EXPECT_TRUE(cache.ready(model));
  EXPECT_EQ(cache.residency.place(kA, 2), GroupPlace::kHome);
  EXPECT_EQ(cache.residency.place(kB, 2), GroupPlace::kHome);
}

TEST(Residency, AnEmbeddingThatFailsHurtsNoStep) {
  Cache cache(options_of(3));
  cache.add(kA, model_of(2, 1, true));
  cache.demand({{.model = kA, .requests = 1}});
  cache.decide();
  cache.residency.step_begins(kA);
  cache.copies_end();
  cache.decide();
  ASSERT_EQ(cache.copies.size(), 1u);
  cache.copies_end(millis(1), false);
  EXPECT_TRUE(cache.ready(kA));
  EXPECT_TRUE(cache.residency.step_ended(kA, cache.now));
  cache.decide();
  ASSERT_EQ(cache.copies.size(), 1u);
  EXPECT_EQ(cache.copies[0].arrival, 3u);
  cache.copies_end(millis(1), false);
  // Not a third time, and no reason to end requests.
  cache.decide();
  EXPECT_TRUE(cache.copies.empty());
  EXPECT_FALSE(cache.residency.gave_up(kA));
  EXPECT_TRUE(cache.ready(kA));
  EXPECT_EQ(cache.residency.committed_extents(), 2);
}

TEST(Residency, RoomThatAnEmbeddingOnItsWayWillGiveBackIsWaitedFor) {
  Cache cache(options_of(5));
  cache.add(kA, model_of(2, 1, true));
  cache.add(kB, model_of(2, 1));
  cache.add(kC, model_of(3, 1));
  cache.use(kB);
  cache.demand({{.model = kA, .requests = 1}, {.model = kB, .requests = 1}});
  cache.decide();
  cache.copies_end();
  cache.decide();
  ASSERT_EQ(cache.residency.place(kA, 2), GroupPlace::kArriving);
  // C needs all of A. B, whose quantum is over, is not asked for room that A is about to give.
  cache.now += seconds(60);
  cache.demand({{.model = kB, .requests = 1}, {.model = kC, .requests = 1}});
  EXPECT_TRUE(cache.decide().empty());
  EXPECT_FALSE(cache.residency.leaving(kB));
  EXPECT_TRUE(cache.ready(kB));
  cache.copies_end();
  cache.decide();
  EXPECT_EQ(cache.copies.size(), 3u);
  EXPECT_TRUE(cache.ready(kB));
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kC));
}

TEST(Residency, AModelThatLacksOnlyItsEmbeddingQueuesAndGivesWayAsIfItWereThere) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(2, 1, true));
  cache.add(kB, model_of(2, 1));
  cache.demand({{.model = kA, .requests = 1}});
  cache.decide();
  cache.copies_end();
  cache.decide();
  const auto embedding = std::exchange(cache.copies, {});
  ASSERT_EQ(embedding.size(), 1u);
  // B needs one extent of A's; the copy of A's embedding goes on.
  cache.demand({{.model = kB, .requests = 1}});
  cache.decide();
  EXPECT_EQ(cache.residency.place(kA, 1), GroupPlace::kHome);
  EXPECT_EQ(cache.residency.place(kA, 2), GroupPlace::kArriving);
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kB));
  // And A comes back before that copy has ended.
  cache.demand({{.model = kA, .requests = 1}});
  cache.decide();
  ASSERT_EQ(cache.copies.size(), 1u);
  EXPECT_EQ(cache.copies[0].group, 1);
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kA));
  cache.residency.arrived(kA, 2, embedding[0].arrival, cache.now);
  EXPECT_TRUE(cache.residency.all_cached(kA));
}

TEST(Residency, ACancelledRequestsArrivalIsFinished) {
  Cache cache(options_of(2));
  cache.add(kA, model_of(2, 1));
  cache.add(kB, model_of(2, 1));
  cache.demand({{.model = kA, .requests = 1}});
  cache.decide();
  cache.demand({{.model = kB, .requests = 1}});
  EXPECT_TRUE(cache.decide().empty());
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kA));
  cache.decide();
  cache.copies_end();
  EXPECT_TRUE(cache.ready(kB));
}

TEST(ResidencyDeathTest, WhatOnlyABugCanDoIsChecked) {
  Cache cache(options_of(4));
  cache.add(kA, model_of(2, 1));
  EXPECT_DEATH(cache.residency.step_begins(kA), "not on its way");
  EXPECT_DEATH(cache.residency.arrived(kA, 0, 1, cache.now), "not under way");
  EXPECT_DEATH((void)cache.residency.step_ended(kA, cache.now), "no step is in flight");
  EXPECT_DEATH((void)cache.residency.gave_up(kB), "not known");
}

}  // namespace
}  // namespace causeway::weights::residency_test
