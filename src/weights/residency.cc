#include "weights/residency.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/check.h"
#include "weights/residency_state.h"

namespace causeway::weights {
namespace {

std::string name_of(ModelId model) { return "model " + std::to_string(model.value); }

}  // namespace

Residency::Residency(const ResidencyOptions& options) : state_(std::make_unique<State>(options)) {
  CAUSEWAY_CHECK(options.extent.count > 0 && options.extents >= 0, "a cache without extents");
  CAUSEWAY_CHECK(options.rate_decay.count > 0);
  CAUSEWAY_CHECK(options.arrivals_max > 0 && options.attempts_max > 0);
}

Residency::~Residency() = default;

Status Residency::add_model(ModelId model, std::vector<ResidentGroup> groups) {
  if (state_->models.contains(model)) return invalid_argument(name_of(model) + " is known already");
  State::Model added{.id = model, .groups = ResidentGroups(groups, state_->options.extent)};
  const std::int64_t extents = added.groups.extents();
  if (extents > state_->budget_max()) {
    return exhausted("the weights of " + name_of(model) + " take " + std::to_string(extents) +
                     " extents, the cache has " + std::to_string(state_->budget_max()));
  }
  state_->models.emplace(model, std::move(added));
  state_->unsettle();
  return {};
}

Status Residency::remove_model(ModelId model, std::vector<WeightCommand>& out) {
  const auto found = state_->models.find(model);
  if (found == state_->models.end()) return not_found(name_of(model) + " is not known");
  State::Model& removed = found->second;
  if (removed.steps > 0) return unavailable("a step of " + name_of(model) + " is in flight");
  if (removed.groups.arriving() > 0) return unavailable(name_of(model) + " arrives");
  removed.groups.drop_from_end(removed.groups.used());
  removed.groups.append_decommits(model, out);
  state_->unsettle();
  state_->pinned_count -= removed.pinned;
  std::erase(state_->asked, &removed);
  std::erase(state_->active, &removed);
  state_->models.erase(model);
  return {};
}

void Residency::set_pinned(ModelId model, bool pinned) {
  State::Model& changed = state_->at(model);
  state_->pinned_count += static_cast<int>(pinned) - static_cast<int>(changed.pinned);
  state_->unsettle();
  changed.pinned = pinned;
}

Status Residency::set_budget(std::int64_t extents) {
  CAUSEWAY_CHECK(extents >= 0, "a negative budget");
  const std::int64_t pinned = state_->extents_of_pinned();
  if (extents < state_->budget && pinned > extents) {
    return exhausted("the pinned models take " + std::to_string(pinned) +
                     " extents, the budget would be " + std::to_string(extents));
  }
  state_->budget = extents;
  state_->unsettle();
  return {};
}

std::int64_t Residency::budget() const { return state_->budget; }

ExtentDemand Residency::extent_demand() const {
  ExtentDemand demand{.used = state_->used()};
  const std::int64_t pinned = state_->extents_of_pinned();
  const std::int64_t pinned_there = state_->pinned_extents();
  for (const auto& [id, model] : state_->models) {
    const bool fits = state_->fits(model, pinned_there, state_->budget_max());
    const bool served = fits && model.requests > 0 && !model.gave_up;
    if (served) demand.wanted += model.groups.lacks_required();
    if (!model.pinned) {
      demand.idle += served ? model.groups.optional_used() : model.groups.used();
    }
    if (!fits) continue;
    const std::int64_t own = model.pinned ? 0 : model.groups.required_extents();
    const std::int64_t needs = std::min(pinned + own, state_->budget_max());
    demand.least = std::max(demand.least, needs);
    if (served) demand.largest = std::max(demand.largest, needs);
  }
  return demand;
}

void Residency::demand(std::span<const ModelDemand> demands, Nanos now) {
  // A model that is asked again gets a new quantum, unless another waits for its place already.
  const bool contended = state_->first_waiting() != nullptr;
  const std::uint64_t call = ++state_->demand_calls;
  for (const ModelDemand& demand : demands) {
    State::Model& model = state_->at(demand.model);
    if (demand.arrived > 0) {
      model.heat = state_->heat(model, now) + static_cast<double>(demand.arrived);
      model.heat_at = now;
      model.last_used = now;
    }
    // Those that waited may have ended with their step, before they were told.
    const bool all_new = demand.requests > 0 && demand.arrived >= demand.requests;
    if (model.gave_up && all_new) clear_failure(demand.model);
    if (model.requests == 0 && demand.requests > 0) {
      state_->asked.push_back(&model);
      state_->activate(model);
      if (!model.groups.all_cached()) state_->unsettle();
      model.ticket = ++state_->tickets;
      model.left_at = State::kNever;
      if (!contended && model.groups.serves()) {
        model.served_since = now;
        model.offered = false;
      }
    }
    model.requests = demand.requests;
    model.demand_call = call;
  }
  std::erase_if(state_->asked, [call](State::Model* model) {
    if (model->demand_call != call) model->requests = 0;
    return model->requests == 0;
  });
}

void Residency::decide(Nanos now, std::vector<WeightCommand>& out) { state_->decide(now, out); }

bool Residency::offer(ModelId model, Nanos now) {
  State::Model& offered = state_->at(model);
  // A step that might begin while weights arrive says nothing of when they are there.
  if (!offered.groups.serves() || std::exchange(offered.offered, true)) return false;
  const State::Model* waiting = state_->first_waiting();
  return waiting != nullptr && now >= state_->quantum_end(offered, *waiting);
}

void Residency::step_begins(ModelId model) {
  State::Model& stepped = state_->at(model);
  CAUSEWAY_CHECK(!stepped.leaving && !stepped.gave_up, "the model is not to be stepped");
  CAUSEWAY_CHECK(stepped.groups.steppable(), "a group that the step reads is not on its way");
  stepped.steps += 1;
  stepped.offered = true;
}

void Residency::copies_begin(ModelId model) {
  State::Model& held = state_->at(model);
  CAUSEWAY_CHECK(held.groups.serves(), "a ring is filled that is not there");
  held.steps += 1;
}

bool Residency::step_ended(ModelId model, Nanos now) {
  State::Model& stepped = state_->at(model);
  CAUSEWAY_CHECK(stepped.steps > 0, "no step is in flight");
  stepped.steps -= 1;
  stepped.last_used = now;
  if (stepped.steps == 0) stepped.groups.release_held();
  if (stepped.poisoned == 0) return true;
  stepped.poisoned -= 1;
  return false;
}

void Residency::arrived(ModelId model, int group, std::uint32_t arrival, Nanos now) {
  State::Model& there = state_->at(model);
  state_->unsettle();
  there.under_way.add(state_->end_copy(there, group, arrival, now));
  there.under_way.bytes += there.groups.at(group).copied;
  state_->counters.brought += there.groups.at(group).copied;
  const bool served = there.groups.serves();
  there.groups.arrived(group);
  if (!served && there.groups.serves()) there.served_since = there.brought_at = now;
  const bool required = there.groups.at(group).required;
  // Its model gave way while this came, and would only have to make room for what it lacks.
  if (!required && !there.groups.steppable()) there.groups.lose(group, false);
  if (there.groups.arriving(required) == 0) state_->end_arrival(there, required);
}

void Residency::failed(ModelId model, int group, std::uint32_t arrival, Nanos now) {
  State::Model& lacking = state_->at(model);
  state_->unsettle();
  (void)state_->end_copy(lacking, group, arrival, now);
  const bool required = lacking.groups.at(group).required;
  // All steps in flight were begun while a required group was on its way: it was at home before.
  if (required) lacking.poisoned = lacking.steps;
  lacking.groups.lose(group, required && lacking.steps > 0);
  (required ? lacking.under_way.required_failed : lacking.under_way.optional_failed) = true;
  if (lacking.groups.arriving(required) == 0) state_->end_arrival(lacking, required);
}

void Residency::grant(double bytes_per_second, Nanos now) { state_->grant(bytes_per_second, now); }

Residency::Readiness Residency::readiness(ModelId model, Nanos computes, Nanos begins) const {
  const State::Model& asked = state_->at(model);
  if (asked.leaving || asked.gave_up || !asked.groups.steppable()) return {};
  if (asked.groups.serves()) return {.now = true, .at = {}};
  const State::LinkAhead ahead{.event = state_->link_event,
                               .needed = state_->needed(asked),
                               .first = state_->link.front().bytes};
  return state_->readiness(ahead, computes, begins);
}

std::int64_t Residency::calm_arrivals() const {
  if (state_->first_waiting() != nullptr || state_->used() > state_->budget) return 0;
  for (const State::Model* model : state_->active) {
    const ResidentGroups& groups = model->groups;
    if (model->leaving || model->gave_up || groups.holds()) return 0;
    if (groups.arriving() != groups.required_arriving()) return 0;
  }
  // The last copy of an arrival ends it: another may begin, and the rate is measured anew.
  std::int64_t calm = std::ssize(state_->link);
  for (const State::Model* model : state_->active) {
    const auto last = std::find_if(state_->link.rbegin(), state_->link.rend(),
                                   [&](const State::Copy& copy) { return copy.model == model; });
    if (last == state_->link.rend()) continue;
    calm = std::min<std::int64_t>(calm, state_->link.rend() - last - 1);
  }
  return calm;
}

Nanos Residency::await_arrivals(ModelId model, Nanos computes, std::optional<Nanos> look,
                                std::span<const Nanos> ends) const {
  const State::Model& asked = state_->at(model);
  CAUSEWAY_CHECK(!ends.empty() && ends.size() <= state_->link.size(),
                 "ends of copies that are not");
  State::LinkAhead ahead{.event = {}, .needed = state_->needed(asked), .first = {}};
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    if (look && *look <= ends[i]) return *look;
    ahead.event = ends[i];
    ahead.needed -= state_->link[i].bytes;
    ahead.first = state_->link[i + 1].bytes;
    const Readiness readiness = state_->readiness(ahead, computes, ends[i]);
    if (readiness.now) return ends[i];
    look = readiness.at;
  }
  return std::min(look.value_or(ends.back()), ends.back());
}

Residency::Readiness Residency::readiness_behind(ModelId model, std::int64_t ended, Nanos told,
                                                 Nanos computes, Nanos begins) const {
  const auto& link = state_->link;
  CAUSEWAY_CHECK(ended >= 0 && ended <= std::ssize(link), "more copies end than there are");
  if (ended == std::ssize(link)) return {.now = true, .at = {}};
  State::LinkAhead ahead{.event = ended > 0 ? told : state_->link_event,
                         .needed = state_->needed(state_->at(model)),
                         .first = link[static_cast<std::size_t>(ended)].bytes};
  for (std::int64_t i = 0; i < ended; ++i) ahead.needed -= link[static_cast<std::size_t>(i)].bytes;
  return state_->readiness(ahead, computes, begins);
}

bool Residency::gave_up(ModelId model) const { return state_->at(model).gave_up || !fits(model); }

std::optional<Nanos> Residency::quiet_until() const {
  return state_->quiet ? std::optional(state_->quiet_until) : std::nullopt;
}

bool Residency::rests(ModelId model) const {
  const State::Model& asked = state_->at(model);
  return !asked.gave_up && asked.groups.arriving() == 0;
}

void Residency::clear_failure(ModelId model) {
  State::Model& cleared = state_->at(model);
  state_->unsettle();
  if (cleared.gave_up) cleared.ticket = ++state_->tickets;
  cleared.gave_up = false;
  cleared.attempts = cleared.optional_attempts = 0;
}

bool Residency::fits(ModelId model) const {
  return state_->fits(state_->at(model), state_->pinned_extents(), state_->budget_max());
}

GroupPlace Residency::place(ModelId model, int group) const {
  return state_->at(model).groups.at(group).place;
}

std::uint32_t Residency::arrival(ModelId model, int group) const {
  return state_->at(model).groups.at(group).arrival;
}

bool Residency::all_cached(ModelId model) const { return state_->at(model).groups.all_cached(); }
bool Residency::leaving(ModelId model) const { return state_->at(model).leaving; }
Bytes Residency::cached_bytes(ModelId model) const {
  return state_->at(model).groups.cached_bytes();
}
Bytes Residency::arriving_bytes() const {
  Bytes sum;
  if (state_->quiet) return sum;
  for (const State::Model* model : state_->active) {
    if (model->groups.arriving() == 0) continue;
    for (int g = 0; g < model->groups.size(); ++g) {
      const ResidentGroups::Group& group = model->groups.at(g);
      if (group.place == GroupPlace::kArriving) sum += group.copied;
    }
  }
  return sum;
}
std::int64_t Residency::committed_extents() const { return state_->committed(); }
double Residency::link_rate() const { return state_->link_rate(); }
Residency::Counters Residency::counters() const { return state_->counters; }

std::optional<Nanos> Residency::next_quantum_end(Nanos now) const {
  const State::Model* waiting = state_->first_waiting();
  if (waiting == nullptr) return std::nullopt;
  std::optional<Nanos> next;
  for (const State::Model* model : state_->asked) {
    if (!model->groups.serves() || model->pinned) continue;
    const Nanos end = state_->quantum_end(*model, *waiting);
    if (end > now && (!next || end < *next)) next = end;
  }
  return next;
}

}  // namespace causeway::weights
