// Random histories against a naive shadow that executes each command by itself, as a mover would,
// and knows what each step in flight reads. Checked throughout: no extent is committed twice, none
// is taken from under a step, a copy or a cached group, the budget holds after every command, a
// copy goes to committed extents only, and both sides count the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "weights/residency.h"

namespace causeway::weights::residency_model_test {
namespace {

using Kind = WeightCommand::Kind;

constexpr Bytes kExtent = mib(32);

struct NaiveStep {
  std::set<int> reads;  // in the cache
  bool poisoned = false;
};

struct NaiveModel {
  std::vector<ResidentGroup> groups;
  std::vector<GroupPlace> places;
  std::vector<std::uint32_t> last_arrival;
  std::set<std::int64_t> committed;
  std::deque<NaiveStep> steps;
  std::uint32_t arrivals = 0;
  bool pinned = false;
  std::int64_t requests = 0;

  std::int64_t first(int group) const { return groups[index(group)].offset / kExtent; }
  std::int64_t last(int group) const {
    const ResidentGroup& one = groups[index(group)];
    return (one.offset + one.bytes - Bytes(1)) / kExtent;
  }
  static std::size_t index(int group) { return static_cast<std::size_t>(group); }
  int size() const { return static_cast<int>(groups.size()); }
  GroupPlace& place(int group) { return places[index(group)]; }
  bool required(int group) const { return !groups[index(group)].readable_at_home; }
  bool serves() const {
    for (int group = 0; group < size(); ++group) {
      if (required(group) && places[index(group)] != GroupPlace::kCached) return false;
    }
    return true;
  }
  bool arrives() const {
    return std::count(places.begin(), places.end(), GroupPlace::kArriving) > 0;
  }
  bool required_arrives() const {
    for (int group = 0; group < size(); ++group) {
      if (required(group) && places[index(group)] == GroupPlace::kArriving) return true;
    }
    return false;
  }
};

struct NaiveCopy {
  ModelId model;
  int group = 0;
  std::uint32_t arrival = 0;
  bool fails = false;
};

// How often the histories came to what they are for.
struct Reached {
  std::int64_t steps = 0, poisoned = 0, gave_up = 0, removed = 0;
  std::int64_t shrunk = 0, over_budget = 0;  // the budget was lowered below; after decide()
  std::int64_t lost_all = 0, lost_some = 0;  // of a model's groups
  std::int64_t optional_brought = 0;
};

class History {
 public:
  History(std::uint64_t seed, Reached& reached)
      : reached_(reached),
        random_(seed),
        budget_(random_.between(3, 24)),
        failure_rate_(random_.chance(0.5) ? 0 : random_.uniform() * 0.4),
        residency_(options()) {}

  void step() {
    now_ += Nanos(random_.below(random_.chance(0.1) ? 2'000'000'000 : 20'000'000));
    switch (random_.below(16)) {
      case 0: return add_or_remove();
      case 1: return pin();
      case 2: return change_budget();
      case 3:
      case 4: return demand();
      case 5: return clear_failure();
      case 6:
      case 7:
      case 8: return decide();
      case 9:
      case 10:
      case 11: return end_copy();
      case 12:
      case 13: return begin_step();
      default: return end_step();
    }
  }

  void check() {
    const Status status = residency_.check_integrity();
    ASSERT_TRUE(status.ok()) << status.error().message;
    ASSERT_EQ(residency_.committed_extents(), committed_);
    ASSERT_EQ(residency_.counters().brought, brought_);
    for (auto& [id, model] : models_) {
      Bytes cached;
      bool all = true;
      for (int group = 0; group < model.size(); ++group) {
        ASSERT_EQ(residency_.place(id, group), model.place(group));
        ASSERT_EQ(residency_.arrival(id, group), model.last_arrival[NaiveModel::index(group)]);
        const bool there = model.place(group) == GroupPlace::kCached;
        cached += there ? model.groups[NaiveModel::index(group)].bytes : Bytes(0);
        all = all && there;
      }
      ASSERT_EQ(residency_.cached_bytes(id), cached);
      ASSERT_EQ(residency_.all_cached(id), all);
      if (residency_.readiness(id, seconds(1'000'000), now_).now) {
        ASSERT_TRUE(may_step(model));
        ASSERT_FALSE(residency_.leaving(id));
      }
    }
  }

 private:
  ResidencyOptions options() {
    ResidencyOptions options;
    options.extent = kExtent;
    options.extents = budget_;
    options.quantum_min = millis(random_.between(1, 200));
    options.quantum_factor = random_.uniform() * 4;
    if (random_.chance(0.5)) options.optional_after = millis(random_.between(0, 20));
    options.arrivals_max = static_cast<int>(random_.between(1, 3));
    options.attempts_max = static_cast<int>(random_.between(1, 3));
    return options;
  }

  std::optional<ModelId> any_model() {
    if (models_.empty()) return std::nullopt;
    return std::next(models_.begin(), random_.below(std::ssize(models_)))->first;
  }

  std::vector<ResidentGroup> random_groups() {
    std::vector<ResidentGroup> groups;
    const bool embedding = random_.chance(0.5);
    const auto layers = random_.between(1, 6);
    // The embedding lies first, as in a layout, and is read last.
    Bytes at;
    const auto next = [&](bool readable) {
      const Bytes bytes = random_.chance(0.3) ? kExtent * random_.between(1, 2)
                                              : Bytes(random_.between(1, kExtent.count * 5 / 2));
      ResidentGroup group{.offset = at, .bytes = bytes, .readable_at_home = readable};
      at += bytes + Bytes(random_.chance(0.5) ? 0 : random_.below(kib(64).count));
      return group;
    };
    std::optional<ResidentGroup> last;
    if (embedding) last = next(true);
    for (std::int64_t i = 0; i < layers; ++i) groups.push_back(next(false));
    if (last) groups.push_back(*last);
    return groups;
  }

  void add_or_remove() {
    const ModelId id(random_.below(5));
    const auto found = models_.find(id);
    if (found == models_.end()) return add(id);
    if (random_.chance(0.6)) return;
    NaiveModel& model = found->second;
    std::vector<WeightCommand> commands;
    const Status status = residency_.remove_model(id, commands);
    const bool possible = model.steps.empty() && !model.arrives();
    ASSERT_EQ(status.ok(), possible);
    if (!possible) {
      ASSERT_EQ(status.error().code, ErrorCode::kUnavailable);
      return;
    }
    for (auto& place : model.places) place = GroupPlace::kHome;
    execute(commands);
    ASSERT_TRUE(model.committed.empty());
    models_.erase(found);
    ++reached_.removed;
  }

  void add(ModelId id) {
    NaiveModel model;
    model.groups = random_groups();
    model.places.resize(model.groups.size(), GroupPlace::kHome);
    model.last_arrival.resize(model.groups.size());
    std::set<std::int64_t> extents;
    for (int group = 0; group < model.size(); ++group) {
      for (auto i = model.first(group); i <= model.last(group); ++i) extents.insert(i);
    }
    const Status status = residency_.add_model(id, model.groups);
    ASSERT_EQ(status.ok(), std::ssize(extents) <= budget_);
    if (status.ok()) models_[id] = std::move(model);
  }

  void pin() {
    const auto id = any_model();
    if (!id) return;
    models_[*id].pinned = random_.chance(0.3);
    residency_.set_pinned(*id, models_[*id].pinned);
  }

  void change_budget() {
    if (random_.chance(0.7)) return;
    const std::int64_t budget = random_.between(3, 24);
    if (!residency_.set_budget(budget).ok()) {
      ASSERT_TRUE(std::any_of(models_.begin(), models_.end(),
                              [](const auto& entry) { return entry.second.pinned; }));
      return;
    }
    reached_.shrunk += budget < committed_ ? 1 : 0;
    budget_ = budget;
  }

  void demand() {
    residency_.grant(random_.chance(0.1) ? 0 : 50e9 * random_.uniform(), now_);
    std::vector<ModelDemand> demands;
    for (auto& [id, model] : models_) {
      model.requests = random_.chance(0.5) ? random_.between(1, 5) : 0;
      if (model.requests == 0 && random_.chance(0.8)) continue;
      demands.push_back({.model = id, .requests = model.requests, .arrived = random_.below(4)});
    }
    residency_.demand(demands, now_);
  }

  void clear_failure() {
    const auto id = any_model();
    if (!id) return;
    reached_.gave_up += residency_.gave_up(*id) ? 1 : 0;
    if (random_.chance(0.3)) residency_.clear_failure(*id);
  }

  void decide() {
    std::vector<WeightCommand> commands;
    residency_.decide(now_, commands);
    take_drops(commands);
    execute(commands);
    ASSERT_LE(committed_, std::max(budget_, committed_before_));
    reached_.over_budget += committed_ > budget_ ? 1 : 0;
  }

  // What the machine says is at home without a failure was dropped.
  void take_drops(const std::vector<WeightCommand>& commands) {
    const bool pinned = std::any_of(models_.begin(), models_.end(),
                                    [](const auto& entry) { return entry.second.pinned; });
    std::set<std::pair<ModelId, int>> brings;
    for (const WeightCommand& command : commands) {
      if (command.kind == Kind::kBring) brings.insert({command.model, command.group});
    }
    for (auto& [id, model] : models_) {
      const bool served = model.serves();
      int dropped = 0;
      for (int group = 0; group < model.size(); ++group) {
        if (model.place(group) != GroupPlace::kCached) continue;
        if (residency_.place(id, group) == GroupPlace::kCached) continue;
        // A model that leaves comes back at once, in another's place, only where the budget forced
        // it out, or where a pinned arrival has just made another model useless.
        const bool back = brings.contains({id, group});
        ASSERT_EQ(residency_.place(id, group), back ? GroupPlace::kArriving : GroupPlace::kHome);
        ASSERT_TRUE(!back || committed_ > budget_ || pinned) << "dropped and brought at once";
        ASSERT_TRUE(model.steps.empty()) << "dropped under a step";
        ASSERT_FALSE(model.required_arrives()) << "dropped while its model arrives";
        ASSERT_FALSE(model.pinned && served) << "a pinned model left";
        model.place(group) = GroupPlace::kHome;
        ++dropped;
        for (int later = group + 1; later < model.size(); ++later) {
          ASSERT_NE(residency_.place(id, later), GroupPlace::kCached) << "not from the end";
        }
      }
      if (dropped == 0) continue;
      (residency_.cached_bytes(id).count > 0 ? reached_.lost_some : reached_.lost_all) += 1;
    }
  }

  void execute(const std::vector<WeightCommand>& commands) {
    committed_before_ = committed_;
    Kind kind = Kind::kDecommit;
    std::map<ModelId, int> last_group;
    for (const WeightCommand& command : commands) {
      ASSERT_GE(command.kind, kind) << "decommits, commits, brings";
      kind = command.kind;
      NaiveModel& model = models_.at(command.model);
      if (kind == Kind::kBring) {
        bring(model, command, last_group);
      } else {
        for (std::int64_t i = 0; i < command.extents; ++i) {
          change(model, command.first_extent + i, kind);
        }
      }
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_LE(committed_, std::max(budget_, committed_before_)) << "over the budget";
    }
  }

  void change(NaiveModel& model, std::int64_t extent, Kind kind) {
    if (kind == Kind::kCommit) {
      ASSERT_TRUE(model.committed.insert(extent).second) << "committed twice";
      ++committed_;
      return;
    }
    ASSERT_EQ(model.committed.erase(extent), 1u) << "decommitted what was not committed";
    --committed_;
    for (int group = 0; group < model.size(); ++group) {
      if (extent < model.first(group) || extent > model.last(group)) continue;
      ASSERT_EQ(model.place(group), GroupPlace::kHome) << "decommitted under a group";
      for (const NaiveStep& step : model.steps) {
        ASSERT_FALSE(step.reads.contains(group)) << "decommitted under a step";
      }
    }
  }

  void bring(NaiveModel& model, const WeightCommand& command, std::map<ModelId, int>& last_group) {
    ASSERT_EQ(model.place(command.group), GroupPlace::kHome);
    for (auto i = model.first(command.group); i <= model.last(command.group); ++i) {
      ASSERT_TRUE(model.committed.contains(i)) << "copied to where nothing is";
    }
    for (const NaiveStep& step : model.steps) ASSERT_FALSE(step.reads.contains(command.group));
    const auto last = last_group.find(command.model);
    if (last == last_group.end()) {
      ASSERT_FALSE(model.required_arrives()) << "two arrivals of one model";
      ASSERT_EQ(command.arrival, ++model.arrivals);
    } else {
      ASSERT_EQ(command.arrival, model.arrivals);
      ASSERT_GT(command.group, last->second) << "not in reading order";
    }
    last_group[command.model] = command.group;
    reached_.optional_brought += model.required(command.group) ? 0 : 1;
    model.place(command.group) = GroupPlace::kArriving;
    model.last_arrival[NaiveModel::index(command.group)] = command.arrival;
    link_.push_back({.model = command.model,
                     .group = command.group,
                     .arrival = command.arrival,
                     .fails = random_.chance(failure_rate_)});
  }

  // Mostly the first; sometimes the first of another model.
  void end_copy() {
    if (link_.empty()) return;
    auto copy = link_.begin();
    if (random_.chance(0.1)) {
      const ModelId other = std::next(link_.begin(), random_.below(std::ssize(link_)))->model;
      copy = std::find_if(link_.begin(), link_.end(),
                          [&](const NaiveCopy& one) { return one.model == other; });
    }
    const NaiveCopy ended = *copy;
    link_.erase(copy);
    NaiveModel& model = models_.at(ended.model);
    if (!ended.fails) {
      model.place(ended.group) = GroupPlace::kCached;
      brought_ += model.groups[NaiveModel::index(ended.group)].bytes;
      residency_.arrived(ended.model, ended.group, ended.arrival, now_);
      if (model.required(ended.group)) {
        take_lost_optional(ended.model, model);
      } else if (!may_step(model)) {
        model.place(ended.group) = GroupPlace::kHome;  // its model has given way meanwhile
      }
      return;
    }
    model.place(ended.group) = GroupPlace::kHome;
    for (NaiveStep& step : model.steps) {
      step.poisoned = step.poisoned || step.reads.contains(ended.group);
    }
    residency_.failed(ended.model, ended.group, ended.arrival, now_);
    if (model.required(ended.group)) take_lost_optional(ended.model, model);
  }

  // When a required group of an arrival failed, its model keeps none that a step can do without.
  void take_lost_optional(ModelId id, NaiveModel& model) {
    if (model.required_arrives() || model.serves()) return;
    for (int group = 0; group < model.size(); ++group) {
      if (model.required(group) || model.place(group) != GroupPlace::kCached) continue;
      ASSERT_EQ(residency_.place(id, group), GroupPlace::kHome);
      model.place(group) = GroupPlace::kHome;
    }
  }

  bool may_step(const NaiveModel& model) const {
    for (int group = 0; group < model.size(); ++group) {
      if (model.required(group) && model.places[NaiveModel::index(group)] == GroupPlace::kHome) {
        return false;
      }
    }
    return true;
  }

  // Two in flight at most, all models together.
  void begin_step() {
    if (in_flight_.size() >= 2) return;
    const Nanos computes = random_.chance(0.7) ? seconds(10) : millis(random_.below(20));
    std::vector<ModelId> ready;
    for (const auto& [id, model] : models_) {
      const Residency::Readiness readiness = residency_.readiness(id, computes, now_);
      if (readiness.now) ready.push_back(id);
      if (readiness.now && random_.chance(0.5)) (void)residency_.offer(id, now_);
      if (!readiness.at) continue;
      ASSERT_GT(*readiness.at, now_);
      ASSERT_TRUE(residency_.readiness(id, computes, *readiness.at).now);
      ASSERT_FALSE(residency_.readiness(id, computes, *readiness.at - Nanos(1)).now);
    }
    if (ready.empty()) return;
    const ModelId id = ready[static_cast<std::size_t>(random_.below(std::ssize(ready)))];
    NaiveModel& model = models_[id];
    NaiveStep step;
    for (int group = 0; group < model.size(); ++group) {
      const bool there = model.place(group) == GroupPlace::kCached;
      if (there || model.required(group)) step.reads.insert(group);
    }
    model.steps.push_back(step);
    in_flight_.push_back(id);
    residency_.step_begins(id);
    ++reached_.steps;
  }

  // The oldest of the slice, once every copy that it waits for has ended; that a copy ended well
  // may be told later.
  void end_step() {
    if (in_flight_.empty()) return;
    const ModelId id = in_flight_.front();
    NaiveModel& model = models_.at(id);
    const NaiveStep step = model.steps.front();
    const bool early = random_.chance(0.2);
    for (const NaiveCopy& copy : link_) {
      if (copy.model != id || !step.reads.contains(copy.group)) continue;
      if (copy.fails || !early) return;
    }
    in_flight_.pop_front();
    model.steps.pop_front();
    ASSERT_EQ(residency_.step_ended(id, now_), !step.poisoned);
    reached_.poisoned += step.poisoned ? 1 : 0;
  }

  Reached& reached_;
  Random random_;
  std::int64_t budget_;
  const double failure_rate_;
  Residency residency_;
  Nanos now_;
  std::map<ModelId, NaiveModel> models_;
  std::vector<NaiveCopy> link_;
  std::deque<ModelId> in_flight_;
  std::int64_t committed_ = 0;
  std::int64_t committed_before_ = 0;
  Bytes brought_;
};

TEST(ResidencyModel, RandomHistoriesAgreeWithTheNaiveModel) {
  constexpr std::uint64_t kHistories = rounds(1'000u);
  constexpr int kSteps = 800;
  Reached reached;
  for (std::uint64_t seed = 1; seed <= kHistories; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed, reached);
    for (int i = 0; i < kSteps; ++i) {
      history.step();
      if (!::testing::Test::HasFailure()) history.check();
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(reached.steps, rounds(10'000));
  EXPECT_GT(reached.poisoned, rounds(1'000));
  EXPECT_GT(reached.gave_up, rounds(1'000));
  EXPECT_GT(reached.removed, rounds(1'000));
  EXPECT_GT(reached.shrunk, rounds(1'000));
  EXPECT_GT(reached.over_budget, rounds(1'000));
  EXPECT_GT(reached.lost_all, rounds(1'000));
  EXPECT_GT(reached.lost_some, rounds(1'000));
  EXPECT_GT(reached.optional_brought, rounds(1'000));
}

}  // namespace
}  // namespace causeway::weights::residency_model_test
