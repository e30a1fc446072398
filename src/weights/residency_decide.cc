// Residency::decide(): which groups come, and which models give way.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "weights/residency_state.h"

namespace causeway::weights {

using Victims = Residency::State::Victims;

void Residency::State::decide(Nanos now, std::vector<WeightCommand>& out) {
  if (settled || (quiet && now < quiet_until)) return;
  quiet = false;
  brings_.clear();
  for (Model* model : active) model->leaving = model->gave_room = false;
  shrink(now);
  start_arrivals(now);
  bring_optional(now);
  for (Model* model : active) model->groups.append_decommits(model->id, out);
  for (Model* model : active) model->groups.append_commits(model->id, out);
  out.insert(out.end(), brings_.begin(), brings_.end());
  const std::int64_t held = committed();
  CAUSEWAY_CHECK(held <= std::max(budget, committed_max), "committed more than the budget");
  committed_max = held;
  quiet = is_quiet(now);
  settled = !link.empty() && all_rest();
  deactivate();
}

void Residency::State::activate(Model& model) {
  if (std::exchange(model.active, true)) return;
  const auto later = [](const Model* a, const Model* b) { return a->id < b->id; };
  active.insert(std::upper_bound(active.begin(), active.end(), &model, later), &model);
}

void Residency::State::deactivate() {
  std::erase_if(active, [](Model* model) {
    const ResidentGroups& groups = model->groups;
    const bool holds = groups.used() > 0 || groups.committed() > 0 || groups.arriving() > 0;
    model->active = model->requests > 0 || holds || model->leaving || model->gave_room;
    return !model->active;
  });
}

bool Residency::State::all_rest() const {
  if (first_waiting() != nullptr || used() > budget) return false;
  return std::all_of(active.begin(), active.end(), [](const Model* entry) {
    const Model& model = *entry;
    return !model.leaving && !model.gave_room && !model.gave_up && !model.groups.holds() &&
           model.groups.committed() == model.groups.used();
  });
}

bool Residency::State::is_quiet(Nanos now) {
  if (!link.empty()) return false;
  quiet_until = Nanos(std::numeric_limits<std::int64_t>::max());
  for (const Model* model : asked) {
    if (!model->groups.serves()) return false;
    if (model->groups.all_cached() || model->optional_attempts >= options.attempts_max) continue;
    quiet_until = std::min(quiet_until, model->brought_at + options.optional_after);
  }
  return quiet_until > now && all_rest();
}

// Gives up what a smaller budget has no room for, as far as steps and arrivals let it.
void Residency::State::shrink(Nanos now) {
  RoomWanted wanted;
  wanted.extents = used() - budget;
  wanted.last = Victims::kInQuantum;
  if (wanted.extents <= 0) return;
  plan_room(wanted, now);
  for (Model* const one : active) {
    Model& model = *one;
    if (model.planned == 0) continue;
    if (model.steps > 0) {
      model.leaving = true;
    } else {
      model.planned = std::min(model.planned, model.groups.cached_used());
      if (model.planned > 0) evict(model, now);
    }
  }
}

void Residency::State::start_arrivals(Nanos now) {
  while (arrivals_under_way() < options.arrivals_max) {
    Model* front = first_waiting();
    // What has just been dropped is not brought again in the same breath: the arrival that it was
    // dropped for ends before.
    if (front == nullptr || front->gave_room) return;
    RoomWanted wanted;
    wanted.extents = front->groups.lacks_required() - (budget - used());
    wanted.taker = front;
    if (wanted.extents > 0 && !(plan_room(wanted, now) && execute_plan(now))) return;
    begin_arrival(*front, now);
  }
}

void Residency::State::begin_arrival(Model& model, Nanos now) {
  model.arrivals += 1;
  model.offered = false;
  counters.arrivals += 1;
  for (int group = 0; group < model.groups.size(); ++group) {
    const ResidentGroups::Group& missing = model.groups.at(group);
    if (!missing.required || missing.place != GroupPlace::kHome) continue;
    bring(model, group, now);
    model.optional_attempts = 0;
  }
}

void Residency::State::bring(Model& model, int group, Nanos now) {
  model.groups.bring(group, model.arrivals);
  if (link.empty()) {
    link_event = now;
    use = {};
  }
  link.push_back({&model, group, model.groups.at(group).copied});
  WeightCommand command;
  command.model = model.id;
  command.group = group;
  command.arrival = model.arrivals;
  brings_.push_back(command);
}

// When the link has nothing else to do: one group that a step can do without.
void Residency::State::bring_optional(Nanos now) {
  if (!link.empty() || first_waiting() != nullptr) return;
  for (Model* const one : active) {
    Model& model = *one;
    if (model.requests == 0 || model.gave_up || model.leaving || !model.groups.serves()) continue;
    if (model.groups.all_cached() || model.optional_attempts >= options.attempts_max) continue;
    if (now < model.brought_at + options.optional_after) continue;
    if (bring_optional(model, now)) return;
  }
}

// False: there is no room.
bool Residency::State::bring_optional(Model& model, Nanos now) {
  int group = 0;
  while (model.groups.at(group).place != GroupPlace::kHome) ++group;
  RoomWanted wanted;
  wanted.extents = model.groups.lacks(group) - (budget - used());
  wanted.taker = &model;
  wanted.last = Victims::kIdle;
  wanted.optional = true;
  if (wanted.extents > 0 && !(plan_room(wanted, now) && execute_plan(now))) return false;
  model.arrivals += 1;
  counters.arrivals += 1;
  bring(model, group, now);
  return true;
}

// Sets Model::planned of those whose room would be taken. False: not all that is wanted.
bool Residency::State::plan_room(const RoomWanted& wanted, Nanos now) {
  const std::int64_t pinned = pinned_extents();
  for (Model* const one : active) {
    Model& model = *one;
    model.planned = 0;
    model.plan_leaves = false;
    model.idle = model.requests == 0 || model.gave_up || !fits(model, pinned, budget);
  }
  std::int64_t left = wanted.extents;
  for (int i = 0; i <= static_cast<int>(wanted.last) && left > 0; ++i) {
    const auto kind = static_cast<Victims>(i);
    candidates_.clear();
    for (Model* const one : active) {
      Model& model = *one;
      const std::int64_t extents = room_of(model, kind, wanted, now);
      if (extents > 0) candidates_.push_back({.model = &model, .extents = extents});
    }
    left -= take_from(kind, left, now);
  }
  return left <= 0;
}

// What could be taken from a model as a victim of this kind, beside what is planned already.
std::int64_t Residency::State::room_of(const Model& model, Victims kind, const RoomWanted& wanted,
                                       Nanos now) const {
  if (&model == wanted.taker || pinned_down(model) || model.groups.required_arriving() > 0)
    return 0;
  if (wanted.optional) {
    const bool rarer = 2 * heat(model, now) < heat(*wanted.taker, now);
    if (!model.idle || !rarer || model.steps > 0 || kind != Victims::kIdle) return 0;
  }
  if (kind == Victims::kOptional) return model.steps > 0 ? 0 : model.groups.optional_used();
  Victims own = Victims::kInQuantum;
  if (wanted.taker != nullptr && model.offered && now >= quantum_end(model, *wanted.taker)) {
    own = Victims::kQuantumOver;
  }
  if (!model.groups.serves()) own = Victims::kQueued;
  if (model.idle) own = Victims::kIdle;
  return kind == own ? model.groups.used() - model.planned : 0;
}

double Residency::State::rank_of(const Model& model, Victims kind, std::int64_t extents,
                                 Nanos now) const {
  switch (kind) {
    case Victims::kOptional:
    case Victims::kIdle: return static_cast<double>(extents) * heat(model, now);
    case Victims::kQueued: return -static_cast<double>(model.ticket);
    case Victims::kQuantumOver:
    case Victims::kInQuantum: return static_cast<double>(model.served_since.count);
  }
  return 0;
}

// Plans to take from the candidates, and returns how much.
std::int64_t Residency::State::take_from(Victims kind, std::int64_t wanted, Nanos now) {
  std::int64_t all = 0;
  for (const Candidate& candidate : candidates_) all += candidate.extents;
  if (all > wanted) {
    choose(kind, wanted, now);
  } else {
    chosen_ = candidates_;
  }
  std::int64_t taken = 0;
  for (const Candidate& victim : chosen_) {
    const std::int64_t extents = std::min(victim.extents, wanted - taken);
    victim.model->planned += extents;
    victim.model->plan_leaves = victim.model->plan_leaves || kind != Victims::kOptional;
    taken += extents;
  }
  return taken;
}

// The candidates that together have what is wanted: lowest rank first, and none that the others
// can do without. Ranks count no more of a model than is still wanted.
void Residency::State::choose(Victims kind, std::int64_t wanted, Nanos now) {
  // Those that are stepped keep their order until they have drained: their use changes it.
  const bool stepped = kind == Victims::kQuantumOver || kind == Victims::kInQuantum;
  const auto used = [stepped](const Candidate& candidate) {
    return stepped ? Nanos(0) : candidate.model->last_used;
  };
  chosen_.clear();
  std::int64_t sum = 0;
  while (sum < wanted) {
    for (Candidate& candidate : candidates_) {
      const std::int64_t useful = std::min(candidate.extents, wanted - sum);
      candidate.rank = rank_of(*candidate.model, kind, useful, now);
    }
    const auto best = std::min_element(candidates_.begin(), candidates_.end(),
                                       [&](const Candidate& a, const Candidate& b) {
                                         return std::tuple(a.rank, used(a), a.model->id) <
                                                std::tuple(b.rank, used(b), b.model->id);
                                       });
    sum += best->extents;
    chosen_.push_back(*best);
    candidates_.erase(best);
  }
  for (std::size_t i = chosen_.size(); i-- > 0;) {
    if (sum - chosen_[i].extents < wanted) continue;
    sum -= chosen_[i].extents;
    chosen_.erase(chosen_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// All or nothing. False: steps must end first, or a group arrive that is on its way; the victims
// are marked as leaving.
bool Residency::State::execute_plan(Nanos now) {
  bool drained = true;
  for (Model* const one : active) {
    Model& model = *one;
    if (model.planned == 0) continue;
    if (model.plan_leaves) model.leaving = true;
    if (model.steps > 0 || model.planned > model.groups.cached_used()) drained = false;
  }
  if (!drained) return false;
  for (Model* const one : active) {
    Model& model = *one;
    if (model.planned == 0) continue;
    evict(model, now);
    model.gave_room = true;
  }
  return true;
}

void Residency::State::evict(Model& model, Nanos now) {
  const bool served = model.groups.serves();
  model.groups.drop_from_end(model.planned);
  model.planned = 0;
  model.leaving = false;
  counters.evictions += 1;
  if (!served || model.groups.serves() || model.requests == 0) return;
  model.ticket = ++tickets;
  model.left_at = now;
}

}  // namespace causeway::weights
