// What of a FleetCore goes on by itself: models that are asked for find their places.
#include <algorithm>
#include <tuple>
#include <utility>

#include "fleet/fleet_core_state.h"

#include "base/dcheck.h"

namespace causeway::fleet {
namespace {

std::string in_mib(Bytes bytes) {
  if (bytes < mib(10)) return std::to_string(bytes.count / kib(1).count) + " KiB";
  return std::to_string(bytes.count / mib(1).count) + " MiB";
}

// The text of a limit: in seconds where these are whole, else in milliseconds.
std::string in_words(Nanos time) {
  const bool whole = time.count % seconds(1).count == 0;
  return whole ? std::to_string(time / seconds(1)) + " s"
               : std::to_string(time / millis(1)) + " ms";
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
  const auto load = [this] {
    // While slices change the loader is kept for that.
    return !resizing && (start_loads() || place_next() || start_measures());
  };
  while (give_up_resumed() || drop_unwanted() || finish_drains() || finish_closing() ||
         finish_migrations() || load()) {
  }
}

bool FleetCore::State::give_up_resumed() {
  if (!any_resumes) return false;
  bool any = false;
  for (Model* model : in_motion()) {
    if (!model->resume_until || now < *model->resume_until) continue;
    end_resumed(*model, unavailable("no slice could go on with it within " +
                                    in_words(options.resume_timeout) + "; try again later"));
    any = true;
  }
  return any;
}

// Drops the loads that no request and no ask waits for any more.
bool FleetCore::State::drop_unwanted() {
  if (!any_in(ModelPhase::kQueued, ModelPhase::kPlaced)) return false;
  bool any = false;
  for (Model* one : in_motion()) {
    Model& model = *one;
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
  if (!any_in(ModelPhase::kDraining, ModelPhase::kDraining)) return false;
  bool any = false;
  for (Model* model : in_motion()) {
    if (model->phase != ModelPhase::kDraining || model->running > 0) continue;
    start_leaving(*model);
    any = true;
  }
  return any;
}

// Placed models are loaded in the order in which places are given: after a slice was lost, most of
// its models have places at once, and wait for the loader.
bool FleetCore::State::start_loads() {
  if (!any_in(ModelPhase::kPlaced, ModelPhase::kPlaced)) return false;
  bool any = false;
  std::vector<Model*> placed;
  for (Model* model : in_motion()) {
    if (model->phase != ModelPhase::kPlaced) continue;
    if (model->there.contains(model->slice)) {
      serve_on(*model, model->slice);
      any = true;
    } else if (loads_under_way < options.loads_max) {
      placed.push_back(model);
    }
  }
  std::sort(placed.begin(), placed.end(), wanted_before);
  for (Model* model : placed) {
    if (!may_load(*model)) continue;
    CAUSEWAY_DCHECK(model->slice.valid(), "a model that has a place has a slice");
    enter(*model, ModelPhase::kLoading);
    model->epoch = slice_of(model->slice).epoch;
    model->no_room_since.reset();
    counters.loads += 1;
    actions.emplace_back(Load{model->id, model->slice});
    any = true;
  }
  return any;
}

bool FleetCore::State::may_load(const Model& model) {
  if (loads_under_way >= options.loads_max) return false;
  for (const ModelId id : moving) {
    const Model& other = model_of(id);
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
    } else if (loads_under_way < options.loads_max) {
      enter(*model, ModelPhase::kMeasuring);
      actions.emplace_back(Measure{model->id});
    } else {
      continue;
    }
    any = true;
  }
  return any;
}

std::vector<FleetCore::State::Model*> FleetCore::State::in_motion() {
  std::vector<Model*> all;
  all.reserve(moving.size());
  for (const ModelId id : moving) all.push_back(&model_of(id));
  return all;
}

// Those that requests wait for, by the lag of the first, before those that are wanted ahead.
bool FleetCore::State::wanted_before(const Model* a, const Model* b) {
  if (a->held.empty() != b->held.empty()) return b->held.empty();
  if (!a->held.empty()) return std::tuple(a->onset, a->id) < std::tuple(b->onset, b->id);
  return std::tuple(!a->spec.pinned, -a->spec.rate, a->id) <
         std::tuple(!b->spec.pinned, -b->spec.rate, b->id);
}

// In their order; those that are wanted ahead only where no request waits.
std::vector<FleetCore::State::Model*> FleetCore::State::wanted() {
  std::vector<Model*> asked, ahead;
  if (!any_in(ModelPhase::kQueued, ModelPhase::kWaiting)) return asked;
  for (Model* model : in_motion()) {
    if (model->phase < ModelPhase::kQueued || model->phase > ModelPhase::kWaiting) continue;
    (model->held.empty() ? ahead : asked).push_back(model);
  }
  std::vector<Model*>& first = asked.empty() ? ahead : asked;
  std::sort(first.begin(), first.end(), wanted_before);
  return std::move(first);
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
  if (!any_up()) return await_return(model);
  if (place(model, /*evicts=*/true, /*drains=*/false, why)) return true;
  return model.phase != ModelPhase::kWaiting || no_room(model, why);
}

// The same instant is all models' limit: a later request waits no longer than the first one.
bool FleetCore::State::await_return(Model& model) {
  if (now < down_since + options.return_timeout) return false;
  const bool none_returns = options.return_timeout == Nanos(0);
  const std::string waited = ", and none has come back within " + in_words(options.return_timeout);
  fail(model,
       unavailable("all slices were lost" + (none_returns ? "" : waited) + "; try again later"));
  return true;
}

// Whether something else can be done about it.
bool FleetCore::State::no_room(Model& model, const NoRoom& why) {
  CAUSEWAY_DCHECK(!why.host || host_budget, "host memory lacks where it has a limit");
  // While nothing could be loaded it has not been refused a place yet.
  if (!model.no_room_since || loads_under_way >= options.loads_max) model.no_room_since = now;
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
    const auto open =
        std::count_if(slices.begin(), slices.end(), [](const Slice& s) { return s.open; });
    const auto up =
        std::count_if(slices.begin(), slices.end(), [](const Slice& s) { return s.up; });
    fail(model, unavailable("no slice has a place for it: of " + std::to_string(open) + ", " +
                            std::to_string(up) +
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
  const std::vector<SliceId> unfit(model.unfit.begin(), model.unfit.end());
  const Candidate candidate{.model = model.id,
                            .spec = model.spec,
                            .evicts = evicts,
                            .drains = drains,
                            .last = model.last,
                            .time_shared = options.moves,
                            .unfit = unfit,
                            .draw = random.bits(),
                            .now = now};
  add_up();
  // Those are gone by then.
  for (const ModelId gone : dropped->models) {
    if (model_of(gone).shown.valid()) view.remove(model_of(gone).shown, gone);
  }
  std::optional<FleetView> ahead;
  if (options.moves && model.held.empty()) ahead = view_ahead();
  const auto placement = policy->choose(ahead ? *ahead : view, candidate);
  for (const ModelId gone : dropped->models) show(model_of(gone));
  if (!placement) return false;
  for (const ModelId victim : dropped->models) leave(model_of(victim), model.id, /*drops=*/true);
  for (const ModelId victim : placement->victims) leave(model_of(victim), model.id, false);
  for (const Migration& migration : placement->migrations) migrate(migration);
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
  CAUSEWAY_DCHECK(model.held.empty(), "a model that serves holds no requests");
  const Candidate candidate{.model = model.id,
                            .spec = model.spec,
                            .evicts = true,
                            .last = model.slice,
                            .time_shared = options.moves,
                            .draw = random.bits(),
                            .now = now};
  add_up();
  const auto placement = policy->choose(view, candidate);
  if (!placement) return false;
  CAUSEWAY_CHECK(placement->victims.empty(), "nothing gives way that takes nothing");
  for (const Migration& migration : placement->migrations) migrate(migration);
  if (placement->slice == model.slice) return false;
  const bool attached = model.there.contains(placement->slice);
  // While something else is loaded it is served sooner where it is.
  const bool later = stalled || resizing || loads_under_way >= options.loads_max;
  if (!attached && later) return false;
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
                                                         bool drains, NoRoom& why) {
  if (model.home || !host_budget) return UnloadChoice();
  const Bytes free = std::max(Bytes(0), *host_budget - host_reserved());
  if (model.needed <= free) return UnloadChoice();
  UnloadChoice choice;
  if (evicts) choice = choose_host_victims(drains, model.needed - free);
  CAUSEWAY_DCHECK(choice.models.empty() || choice.freed >= model.needed - free,
                  "models give way where that suffices");
  if (!choice.models.empty()) return choice;
  why = {.free = free, .could_go = choice.freed, .host = true};
  return std::nullopt;
}

// Those that would have to be drained are seldom looked for, and only then does it look at all.
UnloadChoice FleetCore::State::choose_host_victims(bool drains, Bytes wanted) {
  add_up();
  rank_unloadable();
  if (!drains && unloadable_sum < wanted) return {.models = {}, .freed = unloadable_sum};
  if (!drains) return choose_unloads_in_order(unloadable, wanted);
  std::vector<UnloadCandidate> candidates;
  for (const Model& other : models) {
    if (other.home && may_give_way(other, drains)) candidates.push_back(unload_candidate(other));
  }
  return choose_unloads(std::move(candidates), wanted);
}

bool FleetCore::State::may_give_way(const Model& model, bool drains) const {
  if (model.spec.pinned) return false;
  if (model.phase == ModelPhase::kHome) return true;
  return model.phase == ModelPhase::kReady && (drains || model.running == 0);
}

void FleetCore::State::leave(Model& model, ModelId taker, bool drops) {
  CAUSEWAY_DCHECK(model.phase == ModelPhase::kHome || model.phase == ModelPhase::kReady,
                  "only what rests at home or serves can be told to go");
  model.taker = taker;
  model.drops = drops;
  touch(model);
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
  CAUSEWAY_DCHECK(model.slice.valid(), "a model leaves the slice that it serves on");
  enter(model, ModelPhase::kLeaving);
  std::vector<SliceId> leaves;
  for (const auto& [slice, crosses] : model.there) {
    if ((model.drops || model.told) && slice != model.slice) leaves.push_back(slice);
  }
  leaves.push_back(model.slice);
  actions.emplace_back(Unload{model.id, std::move(leaves), model.drops, model.taker});
}

// The slice of which it takes something, or comes to; none: it takes nothing of any.
SliceId FleetCore::State::takes_of(const Model& model) const {
  if (model.phase == ModelPhase::kMigrating) return model.to;
  if (!on_slice(model.phase)) return {};
  const bool idle = model.phase == ModelPhase::kReady && model.running == 0;
  return options.moves && idle ? SliceId() : model.slice;
}

PlacedModel FleetCore::State::placed(const Model& model) const {
  return {.model = model.id,
          .demand = model.demand,
          .may_go = may_give_way(model, /*drains=*/false),
          .may_drain = may_give_way(model, /*drains=*/true),
          .bytes = std::max(model.needed, model.spec.weights),
          .rate = model.rate,
          .last = model.last,
          .requests = model.running + std::ssize(model.held)};
}

// In the view and in the sums of host memory, as it is now.
void FleetCore::State::show(Model& model) {
  const SliceId slice = takes_of(model);
  if (model.shown.valid() && model.shown != slice) view.remove(model.shown, model.id);
  if (slice.valid()) view.put(slice, placed(model));
  model.shown = slice;
  const bool loads = model.phase == ModelPhase::kLoading;
  const bool comes = loads || model.phase == ModelPhase::kPlaced;
  const bool goes = model.drops || model.phase == ModelPhase::kDropping;
  const Bytes there = model.home || loads ? model.needed : Bytes(0);
  const Bytes reserved = comes || (model.home && !goes) ? model.needed : Bytes(0);
  there_sum += there - std::exchange(model.host_there, there);
  reserved_sum += reserved - std::exchange(model.host_reserved, reserved);
  if (!std::exchange(model.unranked, true)) unranked.push_back(model.id);
}

// Most decisions need no host memory: models are ranked once one does.
void FleetCore::State::rank_unloadable() {
  for (const ModelId id : std::exchange(unranked, {})) {
    Model& model = model_of(id);
    model.unranked = false;
    if (model.unloadable) {
      unloadable.erase(*model.unloadable);
      unloadable_sum -= model.unloadable->bytes;
      model.unloadable.reset();
    }
    if (!gives_host_memory(model)) continue;
    model.unloadable = unload_candidate(model);
    CAUSEWAY_DCHECK(!unloadable.contains(*model.unloadable), "no two models rank alike");
    unloadable.insert(*model.unloadable);
    unloadable_sum += model.unloadable->bytes;
  }
}

void FleetCore::State::add_up() {
  const std::size_t count = changed.size();
  for (const ModelId id : changed) {
    model_of(id).changed = false;
    show(model_of(id));
  }
  CAUSEWAY_DCHECK(changed.size() == count, "to show a model changes none");
  changed.clear();
  CAUSEWAY_DCHECK(there_sum >= Bytes(0) && reserved_sum >= Bytes(0),
                  "a model takes what it took from the sums of host memory");
}

// The view for placing a model that has no requests yet. Idle models take nothing of their slices
// now; here they count with what they read and compute when they are asked for, so that models are
// spread.
FleetView FleetCore::State::view_ahead() const {
  FleetView seen = view;
  for (const Model& model : models) {
    if (!on_slice(model.phase) || takes_of(model).valid()) continue;
    PlacedModel idle = placed(model);
    idle.demand = work_of(model.demand);
    idle.may_go = idle.may_drain = false;
    seen.put(model.slice, idle);
  }
  return seen;
}

Bytes FleetCore::State::host_reserved() {
  add_up();
  return host_other + reserved_sum;
}

Bytes FleetCore::State::host_there() {
  add_up();
  return host_other + there_sum;
}

}  // namespace causeway::fleet
