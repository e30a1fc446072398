// What of a FleetCore goes on by itself: models that are asked for find their places.
#include <algorithm>
#include <tuple>

#include "fleet/fleet_core_state.h"

namespace causeway::fleet {
namespace {

std::string in_mib(Bytes bytes) {
  if (bytes < mib(10)) return std::to_string(bytes.count / kib(1).count) + " KiB";
  return std::to_string(bytes.count / mib(1).count) + " MiB";
}

Demand work_of(const Demand& demand) {
  return {.crosses = {},
          .stays = {},
          .memory = {},
          .memory_bytes_per_second = demand.memory_bytes_per_second,
          .flops_per_second = demand.flops_per_second};
}

bool on_slice(ModelPhase phase) {
  return phase >= ModelPhase::kPlaced && phase <= ModelPhase::kReady;
}

}  // namespace

void FleetCore::State::advance() {
  while (drop_unwanted() || finish_drains() || start_loads() || place_next() || start_measures()) {
  }
}

// Everybody who asked has gone.
bool FleetCore::State::drop_unwanted() {
  bool any = false;
  for (Model& model : models) {
    const bool waits = model.phase == ModelPhase::kQueued || model.phase == ModelPhase::kWaiting ||
                       model.phase == ModelPhase::kPlaced;
    if (!waits || model.ahead || !model.held.empty()) continue;
    if (model.phase == ModelPhase::kPlaced) give_up(model);
    rest(model);
    any = true;
  }
  return any;
}

bool FleetCore::State::finish_drains() {
  bool any = false;
  for (Model& model : models) {
    if (model.phase != ModelPhase::kDraining || model.running > 0) continue;
    start_leaving(model);
    any = true;
  }
  return any;
}

bool FleetCore::State::start_loads() {
  bool any = false;
  for (Model& model : models) {
    if (model.phase != ModelPhase::kPlaced) continue;
    if (model.there.contains(model.slice)) {
      serve_on(model, model.slice);
      any = true;
      continue;
    }
    if (!may_load(model)) continue;
    enter(model, ModelPhase::kLoading);
    model.epoch = slice_of(model.slice).epoch;
    model.generation += 1;
    model.no_room_since.reset();
    counters.loads += 1;
    actions.emplace_back(Load{model.id, model.slice});
    any = true;
  }
  return any;
}

bool FleetCore::State::may_load(const Model& model) const {
  if (loads_under_way() >= options.loads_max) return false;
  for (const Model& other : models) {
    const bool goes = other.phase == ModelPhase::kDraining || other.phase == ModelPhase::kLeaving;
    if (goes && other.slice == model.slice) return false;
  }
  return model.home || !host_budget || host_there() + model.needed <= *host_budget;
}

bool FleetCore::State::start_measures() {
  bool any = false;
  const std::vector<Model*> all = wanted();
  for (Model* model : all) {
    if (model->phase != ModelPhase::kQueued) continue;
    if (model->home) {
      enter(*model, ModelPhase::kWaiting);
    } else if (loads_under_way() < options.loads_max) {
      enter(*model, ModelPhase::kMeasuring);
      actions.emplace_back(Measure{model->id});
    } else {
      continue;
    }
    any = true;
  }
  return any;
}

// Those that requests wait for, by the lag of the first; if there are none, those wanted ahead.
std::vector<FleetCore::State::Model*> FleetCore::State::wanted() {
  std::vector<Model*> asked, ahead;
  for (Model& model : models) {
    if (model.phase < ModelPhase::kQueued || model.phase > ModelPhase::kWaiting) continue;
    (model.held.empty() ? ahead : asked).push_back(&model);
  }
  if (asked.empty()) {
    std::sort(ahead.begin(), ahead.end(), [](const Model* a, const Model* b) {
      return std::tuple(!a->spec.pinned, -a->spec.rate, a->id) <
             std::tuple(!b->spec.pinned, -b->spec.rate, b->id);
    });
    return ahead;
  }
  std::sort(asked.begin(), asked.end(), [](const Model* a, const Model* b) {
    return std::tuple(a->onset, a->id) < std::tuple(b->onset, b->id);
  });
  return asked;
}

// The first that finds no place holds up those behind it.
bool FleetCore::State::place_next() {
  const std::vector<Model*> all = wanted();
  if (all.empty() || all.front()->phase != ModelPhase::kWaiting) return false;
  Model& model = *all.front();
  NoRoom why;
  if (model.held.empty()) {
    if (!place(model, /*evicts=*/false, /*drains=*/false, why)) {
      model.ahead = false;
      if (model.phase == ModelPhase::kWaiting) rest(model);
    }
    return true;
  }
  if (place(model, /*evicts=*/true, /*drains=*/false, why)) return true;
  return model.phase != ModelPhase::kWaiting || no_room(model, why);
}

// Whether something else can be done about it.
bool FleetCore::State::no_room(Model& model, const NoRoom& why) {
  // While nothing could be loaded it has not been refused a place yet.
  if (!model.no_room_since || loads_under_way() >= options.loads_max) model.no_room_since = now;
  const Nanos waited = now - *model.no_room_since;
  if (options.drain_after && waited >= *options.drain_after) {
    NoRoom ignored;
    if (place(model, /*evicts=*/true, /*drains=*/true, ignored)) return true;
  }
  if (waited < options.room_timeout) return false;
  if (why.host) {
    fail(model, unavailable("it needs " + in_mib(model.needed) + " of host memory; of the pool's " +
                            in_mib(*host_budget) + ", " + in_mib(why.free) +
                            " are free, and models that could give way hold " +
                            in_mib(why.could_go) + "; try again later, or make the pool larger"));
  } else {
    const auto up =
        std::count_if(slices.begin(), slices.end(), [](const Slice& s) { return s.up; });
    fail(model, unavailable("no slice has a place for it: of " + std::to_string(slices.size()) +
                            ", " + std::to_string(up) +
                            " are up, and the models on them have requests, are pinned or leave "
                            "too little memory; try again later"));
  }
  return true;
}

// False: nothing has changed, or the model can never be placed and has failed.
bool FleetCore::State::place(Model& model, bool evicts, bool drains, NoRoom& why) {
  if (!model.home && host_budget && model.needed > *host_budget) {
    fail(model, exhausted("it needs " + in_mib(model.needed) + " of host memory, more than the " +
                          "pool's " + in_mib(*host_budget) + "; make the pool larger"));
    return false;
  }
  const std::optional<UnloadChoice> dropped = clear_host(model, evicts, drains, why);
  if (!dropped) return false;
  const Candidate candidate{.model = model.id,
                            .spec = model.spec,
                            .evicts = evicts,
                            .last = model.last,
                            .draw = random.bits()};
  FleetView seen = view(dropped->models, drains, /*ahead=*/model.held.empty());
  for (const SliceId slice : model.unfit) {
    seen.slices[static_cast<std::size_t>(slice.value)].up = false;
  }
  const auto placement = policy->choose(seen, candidate);
  if (!placement) return false;
  for (const ModelId victim : dropped->models) leave(model_of(victim), model.id, /*drops=*/true);
  for (const ModelId victim : placement->victims) leave(model_of(victim), model.id, false);
  counters.best_effort += placement->excess > 1;
  enter(model, ModelPhase::kPlaced);
  model.no_room_since.reset();
  model.slice = placement->slice;
  model.demand = placement->demand;
  return true;
}

// Before a model without requests gets one: whether another slice is to serve it, so that the
// request is held. Where the model is attached there already it changes at once.
bool FleetCore::State::change_slice(Model& model) {
  const Candidate candidate{.model = model.id,
                            .spec = model.spec,
                            .evicts = true,
                            .last = model.slice,
                            .draw = random.bits()};
  const auto placement = policy->choose(view({}, /*drains=*/false), candidate);
  if (!placement || placement->slice == model.slice) return false;
  CAUSEWAY_CHECK(placement->victims.empty(), "nothing gives way that takes nothing");
  const bool attached = model.there.contains(placement->slice);
  // While something else is loaded it is served sooner where it is.
  if (!attached && loads_under_way() >= options.loads_max) return false;
  counters.moves += 1;
  model.last = model.slice;
  if (attached) {
    serve_on(model, placement->slice);
    return false;
  }
  enter(model, ModelPhase::kPlaced);
  model.slice = placement->slice;
  model.demand = placement->demand;
  return true;
}

// Which models give up host memory for it; none if there is enough. nullopt: there is not enough.
std::optional<UnloadChoice> FleetCore::State::clear_host(const Model& model, bool evicts,
                                                         bool drains, NoRoom& why) const {
  if (model.home || !host_budget) return UnloadChoice();
  const Bytes free = std::max(Bytes(0), *host_budget - host_reserved());
  if (model.needed <= free) return UnloadChoice();
  std::vector<UnloadCandidate> candidates;
  for (const Model& other : models) {
    if (!evicts || !other.home || !may_give_way(other, drains)) continue;
    candidates.push_back({other.id, other.needed, other.rate.at(now), other.rate.last()});
  }
  UnloadChoice choice = choose_unloads(std::move(candidates), model.needed - free);
  if (!choice.models.empty()) return choice;
  why = {.free = free, .could_go = choice.freed, .host = true};
  return std::nullopt;
}

bool FleetCore::State::may_give_way(const Model& model, bool drains) const {
  if (model.spec.pinned) return false;
  if (model.phase == ModelPhase::kHome) return true;
  return model.phase == ModelPhase::kReady && (drains || model.running == 0);
}

void FleetCore::State::leave(Model& model, ModelId taker, bool drops) {
  model.taker = taker;
  model.drops = drops;
  if (model.phase == ModelPhase::kHome) {
    enter(model, ModelPhase::kDropping);
    actions.emplace_back(Drop{model.id});
  } else if (model.running > 0) {
    enter(model, ModelPhase::kDraining);
    counters.drains += 1;
  } else {
    start_leaving(model);
  }
}

void FleetCore::State::start_leaving(Model& model) {
  enter(model, ModelPhase::kLeaving);
  std::vector<SliceId> leaves;
  for (const auto& [slice, crosses] : model.there) {
    if (model.drops && slice != model.slice) leaves.push_back(slice);
  }
  leaves.push_back(model.slice);
  actions.emplace_back(Unload{model.id, std::move(leaves), model.drops, model.taker});
}

bool FleetCore::State::takes_slice(const Model& model) const {
  if (!on_slice(model.phase)) return false;
  return !options.moves || model.phase != ModelPhase::kReady || model.running > 0;
}

// `ahead`: as a model sees it that nobody asks for yet. Of those that take nothing now it counts
// what they read and compute when they are asked for, so that they are spread.
FleetView FleetCore::State::view(const std::vector<ModelId>& gone, bool drains, bool ahead) const {
  FleetView seen{.slices = {}, .links = links};
  for (const Slice& slice : slices) {
    seen.slices.push_back({.spec = slice.spec, .up = slice.up, .models = {}});
  }
  for (const Model& model : models) {
    if (!on_slice(model.phase)) continue;
    const bool takes = takes_slice(model);
    if (!takes && !ahead) continue;
    if (std::find(gone.begin(), gone.end(), model.id) != gone.end()) continue;
    const double bytes = static_cast<double>(std::max(model.needed, model.spec.weights).count);
    // Those with requests go last, when nothing else helps.
    constexpr double kBusy = 1e30;
    const double busy = model.running > 0 ? kBusy : 0;
    seen.slices[static_cast<std::size_t>(model.slice.value)].models.push_back(
        {.model = model.id,
         .demand = takes ? model.demand : work_of(model.demand),
         .may_go = takes && may_give_way(model, drains),
         .cost = bytes * model.rate.at(now) + busy,
         .last_used = model.rate.last(),
         .requests = model.running + std::ssize(model.held)});
  }
  return seen;
}

std::int64_t FleetCore::State::loads_under_way() const {
  return std::count_if(models.begin(), models.end(), [](const Model& model) {
    return model.phase == ModelPhase::kMeasuring || model.phase == ModelPhase::kLoading;
  });
}

Bytes FleetCore::State::host_reserved() const {
  Bytes sum = host_other;
  for (const Model& model : models) {
    const bool comes = model.phase == ModelPhase::kPlaced || model.phase == ModelPhase::kLoading;
    const bool goes = model.drops || model.phase == ModelPhase::kDropping;
    if (comes || (model.home && !goes)) sum += model.needed;
  }
  return sum;
}

Bytes FleetCore::State::host_there() const {
  Bytes sum = host_other;
  for (const Model& model : models) {
    if (model.home || model.phase == ModelPhase::kLoading) sum += model.needed;
  }
  return sum;
}

}  // namespace causeway::fleet
