#include "weights/residency_state.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/check.h"

namespace causeway::weights {

// Sums over arrivals lose a quarter with each: the rate is that of the last few.
constexpr double kRateKept = 0.75;

Residency::State::Model& Residency::State::at(ModelId model) {
  const auto found = models.find(model);
  CAUSEWAY_CHECK(found != models.end(), "the model is not known");
  return found->second;
}

std::int64_t Residency::State::used() const {
  std::int64_t sum = 0;
  for (const Model* model : active) sum += model->groups.used();
  return sum;
}

std::int64_t Residency::State::committed() const {
  std::int64_t sum = 0;
  for (const Model* model : active) sum += model->groups.committed();
  return sum;
}

int Residency::State::arrivals_under_way() const {
  return static_cast<int>(std::count_if(active.begin(), active.end(), [](const Model* model) {
    return model->groups.required_arriving() > 0;
  }));
}

std::int64_t Residency::State::pinned_extents() const {
  std::int64_t sum = 0;
  if (pinned_count == 0) return sum;
  for (const Model* model : active) {
    if (pinned_down(*model) || (model->pinned && model->groups.arriving() > 0)) {
      sum += model->groups.used();
    }
  }
  return sum;
}

std::int64_t Residency::State::extents_of_pinned() const {
  std::int64_t sum = 0;
  for (const auto& [id, model] : models) {
    if (model.pinned) sum += model.groups.extents();
  }
  return sum;
}

bool Residency::State::fits(const Model& model, std::int64_t pinned, std::int64_t extents) const {
  const bool counted = pinned_down(model) || (model.pinned && model.groups.arriving() > 0);
  const std::int64_t others = pinned - (counted ? model.groups.used() : 0);
  return model.groups.required_extents() + others <= extents;
}

// The model that the next arrival is for.
Residency::State::Model* Residency::State::first_waiting() const {
  if (quiet) return nullptr;
  const std::int64_t pinned = pinned_extents();
  Model* first = nullptr;
  for (Model* model : asked) {
    if (model->gave_up || model->groups.serves()) continue;
    if (model->groups.required_arriving() > 0 || model->groups.holds()) continue;
    if (first != nullptr && first->ticket < model->ticket) continue;
    if (fits(*model, pinned, budget)) first = model;
  }
  return first;
}

double Residency::State::heat(const Model& model, Nanos now) const {
  const double age = to_seconds(now - model.heat_at) / to_seconds(options.rate_decay);
  return model.heat * std::exp(-std::max(age, 0.0));
}

void Residency::State::grant(double bytes_per_second, Nanos now) {
  if (bytes_per_second == granted) return;
  if (!link.empty()) use_link(now);
  granted = bytes_per_second;
}

void Residency::State::use_link(Nanos now) {
  const Nanos time = now - link_event - use.time;
  use.time += time;
  use.granted += granted * to_seconds(time);
  use.always = use.always && granted > 0;
}

double Residency::State::link_rate() const {
  if (granted > 0) return share_granted > 0 ? granted * share_bytes / share_granted : granted;
  return rate_seconds > 0 ? rate_bytes / rate_seconds : 0;
}

std::optional<Nanos> Residency::State::copy_time(Bytes bytes) const {
  const double rate = link_rate();
  if (rate <= 0) return std::nullopt;
  return nanos_from_seconds(static_cast<double>(bytes.count) / rate);
}

Bytes Residency::State::needed(const Model& model) const {
  Bytes before, needed;
  for (const Copy& copy : link) {
    if (!copy.model->groups.at(copy.group).required) continue;  // overtaken
    before += copy.bytes;
    if (copy.model == &model) needed = before;
  }
  return needed;
}

Residency::Readiness Residency::State::readiness(const LinkAhead& ahead, Nanos computes,
                                                 Nanos begins) const {
  constexpr Nanos kStall = millis(50);  // a copy that is later than this may hang
  const std::optional<Nanos> takes = copy_time(ahead.needed);
  const std::optional<Nanos> first = copy_time(ahead.first);
  if (!takes || !first) return {};
  const Nanos at = std::max(ahead.event + *takes, begins) - computes;
  // The copy that is under way ends before that, which is an event. While it is long overdue it may
  // hang, and a step that waited for it would hold the device for as long.
  const Nanos due = ahead.event + *first;
  if (std::max(at, begins) - due > std::max(computes, kStall)) return {};
  if (at <= begins) return {.now = true, .at = {}};
  return {.now = false, .at = at};
}

Nanos Residency::State::quantum_end(const Model& model, const Model& waiting) const {
  const double brings = to_seconds(copy_time(model.groups.required_bytes()).value_or(Nanos(0)));
  return std::max(model.served_since, waiting.left_at) +
         std::max(options.quantum_min, nanos_from_seconds(options.quantum_factor * brings));
}

Residency::State::LinkUse Residency::State::end_copy(const Model& model, int group,
                                                     std::uint32_t arrival, Nanos now) {
  const auto copy = std::find_if(link.begin(), link.end(), [&](const Copy& one) {
    return one.model == &model && one.group == group;
  });
  CAUSEWAY_CHECK(copy != link.end() && model.groups.at(group).arrival == arrival,
                 "the end of a copy that is not under way");
  link.erase(copy);
  use_link(now);
  link_event = now;
  return std::exchange(use, {});
}

void Residency::State::end_arrival(Model& model, bool required) {
  Arrival& ended = model.under_way;
  const auto bytes = static_cast<double>(ended.bytes.count);
  if (bytes > 0 && ended.use.time.count > 0) {
    rate_bytes = rate_bytes * kRateKept + bytes;
    rate_seconds = rate_seconds * kRateKept + to_seconds(ended.use.time);
  }
  // What came while nothing was granted says nothing of grants.
  if (bytes > 0 && ended.use.granted > 0 && ended.use.always) {
    share_bytes = share_bytes * kRateKept + bytes;
    share_granted = share_granted * kRateKept + ended.use.granted;
  }
  ended.bytes = Bytes(0);
  ended.use = {};
  const bool failed =
      std::exchange(required ? ended.required_failed : ended.optional_failed, false);
  if (failed) counters.failures += 1;
  int& attempts = required ? model.attempts : model.optional_attempts;
  attempts = failed ? attempts + 1 : 0;
  if (!required || !failed) return;
  model.gave_up = model.attempts >= options.attempts_max;
  // What a step can do without is not kept by a model that cannot be stepped.
  for (int group = 0; group < model.groups.size(); ++group) {
    const ResidentGroups::Group& kept = model.groups.at(group);
    if (!kept.required && kept.place == GroupPlace::kCached) {
      model.groups.lose(group, model.steps > 0);
    }
  }
}

Status Residency::check_integrity() const {
  std::int64_t committed = 0;
  std::size_t arriving = 0;
  for (const auto& [id, model] : state_->models) {
    const std::string name = "residency: model " + std::to_string(id.value) + ": ";
    if (const std::string wrong = model.groups.check(); !wrong.empty())
      return corrupt(name + wrong);
    if (model.poisoned > model.steps) return corrupt(name + "more steps poisoned than in flight");
    if (model.groups.holds() && model.steps == 0) return corrupt(name + "holds for no step");
    if (model.steps > model.poisoned && !model.groups.steppable()) {
      return corrupt(name + "a step reads a group that is not on its way");
    }
    const bool holds = model.groups.committed() > 0 || model.groups.used() > 0;
    const auto& active = state_->active;
    const bool listed = std::find(active.begin(), active.end(), &model) != active.end();
    if (listed != model.active) return corrupt(name + "is listed as it is not");
    if ((holds || model.requests > 0) && !listed) return corrupt(name + "is not looked at");
    committed += model.groups.committed();
    arriving += static_cast<std::size_t>(model.groups.arriving());
  }
  if (committed > std::max(state_->budget, state_->committed_max)) {
    return corrupt("residency: more committed than the budget");
  }
  if (arriving != state_->link.size()) return corrupt("residency: copies are miscounted");
  for (const State::Copy& copy : state_->link) {
    if (copy.model->groups.at(copy.group).place != GroupPlace::kArriving) {
      return corrupt("residency: a copy of a group that does not arrive");
    }
  }
  return {};
}

}  // namespace causeway::weights
