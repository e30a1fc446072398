// How long models wait, and what moves over the link for it: a slice in virtual time, whose link
// copies one group after the other and whose steps run one after the other, two in flight.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "weights/residency.h"

namespace causeway::weights::residency_wait_test {
namespace {

using Kind = WeightCommand::Kind;

constexpr Bytes kExtent = mib(32);
constexpr Nanos kNever = Nanos(INT64_MAX);

struct SimulatedModel {
  std::vector<ResidentGroup> groups;
  Nanos step;  // what one computes
  // Requests come and go: on for about `on`, off for about `off` (0: never off).
  Nanos on, off;
  Nanos changes_at = kNever;
  std::int64_t requests = 0;
  std::int64_t arrived = 0;

  Nanos waits_since = kNever;  // with requests, and since its last step began
  Nanos waited_max;
  std::int64_t steps = 0;
  Nanos stepped_at;  // when its last step began
  int in_flight = 0;
};

class Slice {
 public:
  // `granted`: what the machine is told of the link, which gives `rate`.
  struct Link {
    double rate = 0;
    double granted = 0;
  };
  Slice(const ResidencyOptions& options, Link link, std::uint64_t seed)
      : residency(options),
        options_(options),
        rate_(link.rate),
        granted_(link.granted),
        random_(seed) {
    residency.grant(granted_, now);
  }

  void add(ModelId id, SimulatedModel model) {
    ASSERT_TRUE(residency.add_model(id, model.groups).ok());
    model.changes_at = model.off.count == 0 ? kNever : now;
    if (model.off.count == 0) ask(model);
    models[id] = std::move(model);
  }

  void run(Nanos until) {
    while (now < until && !::testing::Test::HasFailure()) {
      decide();
      begin_steps();
      next_event();
    }
    for (auto& [id, model] : models) end_wait(model);
  }

  Bytes bytes_of(const SimulatedModel& model) const {
    Bytes bytes;
    for (const ResidentGroup& group : model.groups) bytes += group.bytes;
    return bytes;
  }
  Nanos copies(Bytes bytes) const {
    return nanos_from_seconds(static_cast<double>(bytes.count) / rate_);
  }
  // At the slower of the rates that the machine may believe in.
  Nanos quantum(const SimulatedModel& model) const {
    const double rate = std::min(rate_, granted_);
    return std::max(options_.quantum_min,
                    nanos_from_seconds(options_.quantum_factor *
                                       static_cast<double>(bytes_of(model).count) / rate));
  }
  // The quanta of the others, n arrivals, and the steps between: two drain for each of n models, a
  // step in flight waits for copies as long as it computes, one delays the first of each model that
  // came, and n are stepped in turn.
  Nanos wait_bound(ModelId id) const {
    Nanos quanta, arrivals, step_max;
    for (const auto& [other, model] : models) {
      if (other != id) quanta += quantum(model);
      arrivals += copies(bytes_of(model));
      step_max = std::max(step_max, model.step);
    }
    return quanta + arrivals + step_max * (6 * std::ssize(models));
  }

  Residency residency;
  Nanos now = seconds(1);
  std::map<ModelId, SimulatedModel> models;

 private:
  struct Copy {
    WeightCommand command;
    Nanos takes;
  };
  struct Step {
    ModelId model;
    Nanos ends = kNever;  // unknown while it waits for copies
  };

  void ask(SimulatedModel& model) {
    model.requests = 1;
    model.arrived = 1;
    model.waits_since = now;
  }
  void end_wait(SimulatedModel& model) {
    if (model.waits_since == kNever) return;
    model.waited_max = std::max(model.waited_max, now - model.waits_since);
    model.waits_since = kNever;
  }

  void decide() {
    std::vector<ModelDemand> demands;
    for (auto& [id, model] : models) {
      if (model.requests == 0) continue;
      demands.push_back({.model = id, .requests = model.requests, .arrived = model.arrived});
      model.arrived = 0;
    }
    residency.demand(demands, now);
    std::vector<WeightCommand> commands;
    residency.decide(now, commands);
    for (const WeightCommand& command : commands) {
      if (command.kind != Kind::kBring) continue;
      if (link_.empty()) link_since_ = now;
      const auto& group = models.at(command.model).groups[static_cast<std::size_t>(command.group)];
      link_.push_back({command, copies(group.bytes)});
    }
  }

  // The model that may be stepped and was not for the longest, as the scheduler has it.
  void begin_steps() {
    asks_at_ = kNever;
    while (steps_.size() < 2) {
      SimulatedModel* next = nullptr;
      ModelId next_id;
      for (auto& [id, model] : models) {
        if (model.requests == 0) continue;
        const Residency::Readiness ready = residency.readiness(id, model.step, now);
        if (ready.at) asks_at_ = std::min(asks_at_, *ready.at);
        if (!ready.now || (next != nullptr && next->stepped_at <= model.stepped_at)) continue;
        next = &model;
        next_id = id;
      }
      if (next == nullptr) return;
      residency.step_begins(next_id);
      end_wait(*next);
      next->waits_since = now;
      next->stepped_at = now + Nanos(++order_);  // those begun at once stay in order
      next->steps += 1;
      steps_.push_back({next_id, kNever});
      if (steps_.size() == 1) step_since_ = now;
    }
  }

  // The front step runs when the groups that it needs are there.
  void set_step_end() {
    if (steps_.empty() || steps_.front().ends != kNever) return;
    const ModelId id = steps_.front().model;
    const SimulatedModel& model = models.at(id);
    for (int group = 0; group < static_cast<int>(model.groups.size()); ++group) {
      const bool needed = !model.groups[static_cast<std::size_t>(group)].readable_at_home;
      if (needed && residency.place(id, group) != GroupPlace::kCached) return;
    }
    // A step that waited computes behind the copies; that is the latest it could end.
    steps_.front().ends = std::max(step_since_, now) + model.step;
  }

  void next_event() {
    set_step_end();
    const Nanos copy = link_.empty() ? kNever : link_since_ + link_.front().takes;
    const Nanos step = steps_.empty() ? kNever : steps_.front().ends;
    Nanos change = kNever;
    for (const auto& [id, model] : models) change = std::min(change, model.changes_at);
    const Nanos quantum = residency.next_quantum_end(now).value_or(kNever);
    const Nanos next = std::min({copy, step, change, quantum, asks_at_});
    ASSERT_NE(next, kNever) << "models wait, but nothing will ever happen";
    now = std::max(now, next);
    if (next == copy) return end_copy();
    if (next == step) return end_step();
    if (next == change) change_demands();
  }

  void end_copy() {
    const WeightCommand done = link_.front().command;
    link_.pop_front();
    link_since_ = now;
    residency.arrived(done.model, done.group, done.arrival, now);
  }

  void end_step() {
    ASSERT_TRUE(residency.step_ended(steps_.front().model, now));
    steps_.pop_front();
    step_since_ = now;
  }

  void change_demands() {
    for (auto& [id, model] : models) {
      if (model.changes_at > now) continue;
      if (model.requests > 0) {
        model.requests = 0;
        model.waits_since = kNever;  // cancelled, or done
      } else {
        ask(model);
      }
      const Nanos mean = model.requests > 0 ? model.on : model.off;
      model.changes_at = now + Nanos(1 + static_cast<std::int64_t>(
                                             random_.exponential(static_cast<double>(mean.count))));
    }
  }

  const ResidencyOptions options_;
  const double rate_;
  const double granted_;
  Random random_;
  std::deque<Copy> link_;
  Nanos link_since_;
  std::deque<Step> steps_;
  Nanos step_since_;
  Nanos asks_at_ = kNever;
  std::int64_t order_ = 0;
};

std::vector<ResidentGroup> layers_of(int layers, Bytes bytes) {
  std::vector<ResidentGroup> groups;
  for (int i = 0; i < layers; ++i) groups.push_back({.offset = bytes * i, .bytes = bytes});
  return groups;
}

SimulatedModel random_model(Random& random) {
  SimulatedModel model;
  model.groups = layers_of(static_cast<int>(random.between(1, 8)),
                           Bytes(random.between(mib(4).count, mib(80).count)));
  if (random.chance(0.5)) {
    const ResidentGroup& last = model.groups.back();
    model.groups.push_back({.offset = last.offset + last.bytes,
                            .bytes = Bytes(random.between(1, mib(100).count)),
                            .readable_at_home = true});
  }
  model.step = Nanos(random.between(micros(100).count, millis(5).count));
  if (random.chance(0.3)) {
    model.on = millis(random.between(1, 500));
    model.off = millis(random.between(1, 500));
  }
  return model;
}

TEST(ResidencyWait, EveryModelIsServedWithinTheQuantaOfTheOthersAndAllArrivals) {
  double part_max = 0;
  std::int64_t evictions = 0;
  for (std::uint64_t seed = 1; seed <= rounds<std::uint64_t>(150); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<SimulatedModel> models;
    const auto count = random.between(2, 7);
    std::int64_t largest = 0, all = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      models.push_back(random_model(random));
      const ResidentGroup& last = models.back().groups.back();
      const auto extents = (last.offset + last.bytes - Bytes(1)) / kExtent + 1;
      largest = std::max(largest, extents);
      all += extents;
    }
    const double rate = 2e9 + random.uniform() * 50e9;
    ResidencyOptions options;
    options.extents = random.between(largest, std::max(largest, all - 1));
    options.quantum_min = millis(random.between(1, 300));
    options.quantum_factor = random.uniform() * 4;
    const double granted = rate * (0.5 + random.uniform() * 1.5);
    options.arrivals_max = static_cast<int>(random.between(1, 2));
    Slice slice(options, {.rate = rate, .granted = granted}, seed);
    for (std::int64_t i = 0; i < count; ++i) {
      slice.add(ModelId(i), models[static_cast<std::size_t>(i)]);
    }
    slice.run(seconds(11));
    if (::testing::Test::HasFailure()) return;
    for (const auto& [id, model] : slice.models) {
      const Nanos bound = slice.wait_bound(id);
      ASSERT_LE(model.waited_max, bound) << "model " << id.value;
      ASSERT_TRUE(model.off.count > 0 || model.steps > 10);
      part_max = std::max(part_max, to_seconds(model.waited_max) / to_seconds(bound));
    }
    evictions += slice.residency.counters().evictions;
  }
  EXPECT_GT(part_max, 0.8) << "the bound is too loose to say much";
  EXPECT_GT(evictions, rounds(1'000));
}

// The quantum is over when a model's weights are there. If it gave way then, two models would be
// brought for ever, and neither would be stepped.
TEST(ResidencyWait, AModelThatCameMayBeSteppedBeforeItsQuantumIsOver) {
  ResidencyOptions options;
  options.extents = 1;
  options.quantum_min = {};
  options.quantum_factor = 0;
  Residency residency(options);
  const std::vector<ModelDemand> both = {{.model = ModelId(0), .requests = 1},
                                         {.model = ModelId(1), .requests = 1}};
  for (const ModelDemand& one : both) {
    ASSERT_TRUE(residency.add_model(one.model, layers_of(1, kExtent)).ok());
  }
  Nanos now = seconds(1);
  std::vector<WeightCommand> commands;
  residency.demand(both, now);
  residency.decide(now, commands);
  for (std::uint32_t turn = 0; turn < 4; ++turn) {
    const ModelId there(turn % 2);
    ASSERT_EQ(residency.place(there, 0), GroupPlace::kArriving);
    residency.arrived(there, 0, turn / 2 + 1, now);
    // However long another's step holds the device meanwhile.
    for (int i = 0; i < 2; ++i, now += seconds(60)) residency.decide(now, commands);
    ASSERT_TRUE(residency.readiness(there, Nanos(0), now).now);
    EXPECT_TRUE(residency.offer(there, now));
    EXPECT_FALSE(residency.offer(there, now));  // once is enough
    residency.decide(now, commands);
    EXPECT_FALSE(residency.readiness(there, Nanos(0), now).now);
  }
}

TEST(ResidencyWait, ThreeModelsOnRoomForTwoTakeTurnsAndDoNotThrash) {
  ResidencyOptions options;
  options.extents = 16;
  Slice slice(options, {.rate = 10e9, .granted = 50e9}, 1);
  for (std::int64_t i = 0; i < 3; ++i) {
    SimulatedModel model;
    model.groups = layers_of(8, kExtent);
    model.step = millis(2);
    slice.add(ModelId(i), std::move(model));
  }
  const Nanos begin = slice.now;
  slice.run(begin + seconds(60));
  const Residency::Counters counters = slice.residency.counters();
  // One arrival a quantum of 500 ms, at most, beside the first two.
  EXPECT_LE(counters.arrivals, 60 * 2 + 3);
  EXPECT_GE(counters.arrivals, 60);
  EXPECT_LE(counters.brought.count, counters.arrivals * (kExtent * 8).count);
  std::int64_t steps = 0;
  for (const auto& [id, model] : slice.models) steps += model.steps;
  for (const auto& [id, model] : slice.models) {
    EXPECT_GT(model.steps * 4, steps) << "each gets about a third";
    EXPECT_LT(model.waited_max, millis(600)) << "about one quantum";
  }
}

}  // namespace
}  // namespace causeway::weights::residency_wait_test
