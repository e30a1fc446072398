#include "fleet/fleet_core.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"
#include "fleet/fleet_core_state.h"
#include "request/onset.h"

namespace causeway::fleet {
namespace {

// What the requests of a model that could not be loaded end with: they are not to blame.
Error load_error(const std::string& name, const Error& error) {
  const bool later = error.code == ErrorCode::kUnavailable;
  return Error{later ? error.code : ErrorCode::kDevice, error.message}.with_context(
      "the model '" + name + "' could not be loaded");
}

// How much a request that ends counts in the mean of what requests take of their slices.
constexpr double kWorkOfLast = 1.0 / 64;

bool settled(ModelPhase phase) {
  return phase == ModelPhase::kCold || phase == ModelPhase::kHome || phase == ModelPhase::kReady;
}

}  // namespace

std::string_view name_of(ModelPhase phase) {
  switch (phase) {
    case ModelPhase::kCold: return "cold";
    case ModelPhase::kHome: return "home";
    case ModelPhase::kQueued: return "queued";
    case ModelPhase::kMeasuring: return "measuring";
    case ModelPhase::kWaiting: return "waiting";
    case ModelPhase::kPlaced: return "placed";
    case ModelPhase::kLoading: return "loading";
    case ModelPhase::kReady: return "ready";
    case ModelPhase::kClosing: return "closing";
    case ModelPhase::kMigrating: return "migrating";
    case ModelPhase::kDraining: return "draining";
    case ModelPhase::kLeaving: return "leaving";
    case ModelPhase::kDropping: return "dropping";
  }
  return "unknown";
}

FleetCore::State::State(FleetSpec spec, const FleetOptions& options_in,
                        std::unique_ptr<PlacementPolicy> policy_in)
    : options(options_in),
      policy(std::move(policy_in)),
      view(spec.slices, std::move(spec.links)),
      random(options_in.seed) {
  CAUSEWAY_CHECK(policy != nullptr && !spec.slices.empty(), "a fleet without slices or a policy");
  for (ModelSpec& model : spec.models) {
    const ModelId id(std::ssize(models));
    Model& added = models.emplace_back();
    added.id = id;
    added.spec = std::move(model);
  }
  for (const SliceSpec& slice : spec.slices) {
    CAUSEWAY_CHECK(slice.link.value < std::ssize(view.links()),
                   "a slice's link is not one of the fleet's");
    CAUSEWAY_CHECK(!options.moves || slice.models_max == 0,
                   "idle models that take nothing of a slice have no places to count");
    slices.emplace_back().spec = slice;
  }
  for (const LinkSpec& link : view.links()) meters.emplace_back(link.bytes_per_second);
}

Nanos FleetCore::State::onset_of(const RequestArrived& event) const {
  return request::lags_from(event.arrival + time.skew(), event.slo.ttft, event.slo.ttft_slack);
}

void FleetCore::State::enter(Model& model, ModelPhase phase) {
  loads_under_way += is_under_way(phase) - is_under_way(model.phase);
  CAUSEWAY_DCHECK(loads_under_way >= 0, "more loads end than begin");
  if (!may_follow(model.phase, phase) && wrong_change.empty()) {
    wrong_change = "model " + std::to_string(model.id.value) + " goes from " +
                   std::string(name_of(model.phase)) + " to " + std::string(name_of(phase));
  }
  in_phase[static_cast<std::size_t>(model.phase)] -= 1;
  in_phase[static_cast<std::size_t>(phase)] += 1;
  model.phase = phase;
  settled(phase) ? (void)moving.erase(model.id) : (void)moving.insert(model.id);
  touch(model);
}

bool FleetCore::State::any_in(ModelPhase first, ModelPhase last) const {
  const auto begin = in_phase.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = in_phase.begin() + static_cast<std::ptrdiff_t>(last) + 1;
  return std::any_of(begin, end, [](std::int64_t models_in) { return models_in > 0; });
}

void FleetCore::State::touch(Model& model) {
  if (!std::exchange(model.changed, true)) changed.push_back(model.id);
}

FleetCore::State::Model& FleetCore::State::model_of(ModelId id) {
  CAUSEWAY_CHECK(id.valid() && id.value < std::ssize(models), "a model that is not of this fleet");
  return models[static_cast<std::size_t>(id.value)];
}

FleetCore::State::Slice& FleetCore::State::slice_of(SliceId id) {
  CAUSEWAY_CHECK(id.valid() && id.value < std::ssize(slices), "a slice that is not of this fleet");
  return slices[static_cast<std::size_t>(id.value)];
}

bool FleetCore::State::slice_was_lost(const Model& model) const {
  CAUSEWAY_DCHECK(model.slice.valid(), "a model that is on no slice cannot lose it");
  const Slice& slice = slices[static_cast<std::size_t>(model.slice.value)];
  return !slice.up || slice.epoch != model.epoch;
}

bool FleetCore::State::any_up() const {
  return std::any_of(slices.begin(), slices.end(),
                     [](const Slice& slice) { return slice.takes(); });
}

// A slice that has not refused it yet.
bool FleetCore::State::another_may_fit(const Model& model) const {
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].takes() && !model.unfit.contains(SliceId(static_cast<std::int64_t>(i))))
      return true;
  }
  return false;
}

void FleetCore::State::on(const RequestArrived& event) {
  if (stopped) return refuse(event.request, unavailable("the server is shutting down"));
  Model& model = model_of(event.model);
  if (requests.contains(event.request)) {
    return refuse(event.request, invalid_argument("request " + std::to_string(event.request.value) +
                                                  " is in the fleet already"));
  }
  if (is_removed(model)) return refuse(event.request, removed_error(model));
  if (event.only_ready && model.phase != ModelPhase::kReady) {
    return refuse(event.request, unavailable("the model is not loaded"));
  }
  model.rate.add(now);
  touch(model);
  const bool may_change =
      options.moves && !event.only_ready && model.running == 0 && held < options.waiting_max;
  if (model.phase == ModelPhase::kReady && !(may_change && change_slice(model))) {
    requests[event.request] = {.model = model.id, .onset = onset_of(event), .slice = {}};
    return route(model, event.request);
  }
  if (stalled) return refuse(event.request, *stalled);
  if (held >= options.waiting_max) {
    return refuse(event.request,
                  exhausted("too many requests wait for models to be loaded; try again later"));
  }
  hold(model, event);
}

void FleetCore::State::on(const RequestCancelled& event) {
  if (cancel_leaving(event.request)) return;
  const auto at = requests.find(event.request);
  if (at == requests.end()) return;
  if (at->second.slice.valid()) {
    at->second.cancelled = true;
    actions.emplace_back(CancelOn{event.request, at->second.slice});
    return;
  }
  Model& model = model_of(at->second.model);
  std::erase(model.held, event.request);
  touch(model);
  refuse_held(event.request, request::FinishReason::kCancelled, {});
}

void FleetCore::State::on(const RequestEnded& event) {
  const auto at = requests.find(event.request);
  if (at == requests.end()) return;
  const bool was_held = !at->second.slice.valid();
  CAUSEWAY_CHECK(!was_held || at->second.again, "a request ends that was never routed");
  Model& model = model_of(at->second.model);
  if (was_held) std::erase(model.held, event.request);
  if (!was_held) leaves_slice(at->second, /*served=*/!at->second.cancelled);
  was_held ? held -= 1 : model.running -= 1;
  touch(model);
  forget(event.request);
}

// Small changes are left out, since a change has the index renew all slices of the link.
void FleetCore::State::on(const LinkSeen& event) {
  constexpr double kNoticed = 0.02;
  CAUSEWAY_CHECK(event.link.valid() && event.link.value < std::ssize(meters),
                 "a link that is not of this fleet");
  RateMeter& meter = meters[static_cast<std::size_t>(event.link.value)];
  meter.see(event.moved, event.busy, now);
  const double counted = view.links()[static_cast<std::size_t>(event.link.value)].bytes_per_second;
  const bool whole = meter.rate() == meter.profile() && counted != meter.profile();
  if (whole || std::abs(meter.rate() - counted) > kNoticed * counted) {
    view.set_link_rate(event.link, meter.rate());
  }
}

void FleetCore::State::on(const ModelWanted& event) {
  Model& model = model_of(event.model);
  if (stopped || model.removed) return;
  if (model.phase == ModelPhase::kReady || model.phase == ModelPhase::kLoading) return;
  model.ahead = true;
  if (model.phase == ModelPhase::kCold || model.phase == ModelPhase::kHome) rest(model);
}

void FleetCore::State::on(const Measured& event) {
  stalled.reset();
  Model& model = model_of(event.model);
  CAUSEWAY_CHECK(model.phase == ModelPhase::kMeasuring, "a size is told that was not asked for");
  if (!event.room.ok()) return fail(model, event.room.error());
  const HostRoom& room = *event.room;
  model.needed = room.needed;
  touch(model);
  host_budget = room.budget;
  host_other = Bytes(0);
  host_other = std::max(Bytes(0), room.used - host_there());
  enter(model, ModelPhase::kWaiting);
}

void FleetCore::State::on(const LoadEnded& event) {
  stalled.reset();
  Model& model = model_of(event.model);
  CAUSEWAY_CHECK(model.phase == ModelPhase::kLoading, "a load ends that was not asked for");
  const bool lost = slice_was_lost(model);
  if (event.crosses.ok()) model.home = true;
  touch(model);
  if (lost) {
    counters.loads_lost += 1;
    return rest(model);
  }
  if (!event.crosses.ok()) {
    counters.loads_failed += 1;
    const ErrorCode code = event.crosses.error().code;
    const bool slice = code == ErrorCode::kResourceExhausted || code == ErrorCode::kUnsupported;
    if (slice) model.unfit.insert(model.slice);
    return slice && another_may_fit(model) ? rest(model) : fail(model, event.crosses.error());
  }
  model.there.erase(model.slice);
  model.there.emplace(model.slice, *event.crosses);
  model.last_error.clear();
  serve_on(model, model.slice);
}

void FleetCore::State::on(const UnloadEnded& event) {
  stalled.reset();
  Model& model = model_of(event.model);
  CAUSEWAY_CHECK(model.phase == ModelPhase::kLeaving, "a model has left that was not told to");
  if (!event.gone.ok()) give_up_all();  // it keeps what they counted on
  // One that was to leave all, and has not let go, has left the others before, as far as it could.
  erase_if(model.there, [&](const auto& one) {
    const bool everywhere = model.drops || model.told, serves = one.first == model.slice;
    return event.gone.ok() ? everywhere || serves : everywhere && !serves;
  });
  if (event.gone.ok() || slice_was_lost(model)) {
    if (event.gone.ok() && model.drops) model.home = false;
    counters.unloads += event.gone.ok();
    has_left(model, event.gone);
    return rest(model);
  }
  const ModelId taker = std::exchange(model.taker, {});
  enter(model, ModelPhase::kReady);
  model.drops = model.told = false;
  has_left(model, event.gone);
  route_held(model);
  if (taker.valid() && model_of(taker).phase == ModelPhase::kWaiting) {
    fail(model_of(taker),
         unavailable("models that are to give way have not let go; try again later"));
  }
}

void FleetCore::State::on(const DropEnded& event) {
  stalled.reset();
  Model& model = model_of(event.model);
  CAUSEWAY_CHECK(model.phase == ModelPhase::kDropping, "a model is gone that was not told to go");
  model.home = false;
  has_left(model, {});
  rest(model);
}

void FleetCore::State::on(const SliceLost& event) {
  Slice& slice = slice_of(event.slice);
  if (!slice.up) return;  // it may have been closed since
  slice.up = false;
  slice.epoch += 1;
  view.set_up(event.slice, false);
  if (!any_up()) down_since = now;
  stay_all(event.slice);
  resume_all(event.slice, {event.suspects.begin(), event.suspects.end()});
  for (Model& model : models) {
    model.there.erase(event.slice);
    if (model.slice != event.slice) continue;
    const bool serves = model.phase == ModelPhase::kReady || model.phase == ModelPhase::kDraining ||
                        model.phase == ModelPhase::kClosing ||
                        model.phase == ModelPhase::kMigrating;
    if (!serves) continue;
    counters.loads_lost += 1;
    model.ahead = model.spec.pinned && !stopped;
    rest(model);
  }
  give_up_all();  // places there are gone, and what was to leave host memory may stay
  if (stalled) end_all_held(*stalled);
}

void FleetCore::State::on(const SliceReturned& event) {
  Slice& slice = slice_of(event.slice);
  CAUSEWAY_CHECK(slice.open, "a slice returns that was closed");
  slice.up = true;
  view.set_up(event.slice, slice.takes());
}

// What waits for it would wait for as long as it does: for ever, maybe.
void FleetCore::State::on(const LoaderStalled& event) {
  stay_all({});
  stalled = event.why;
  end_all_held(event.why);
  answer_leaving(event.why);
}

void FleetCore::State::on(const Stopped&) {
  stopped = true;
  for (Model& model : models) {
    model.ahead = false;
    end_held(model, request::FinishReason::kCancelled, {});
  }
  answer_leaving(unavailable("the server is shutting down"));
}

void FleetCore::State::on(const Woken&) {}

void FleetCore::State::hold(Model& model, const RequestArrived& event) {
  CAUSEWAY_DCHECK(!requests.contains(event.request), "a request is held twice");
  const Nanos onset = onset_of(event);
  model.onset = model.held.empty() ? onset : std::min(model.onset, onset);
  model.held.push_back(event.request);
  touch(model);
  requests[event.request] = {.model = model.id, .onset = onset, .slice = {}};
  held += 1;
  if (model.phase == ModelPhase::kCold || model.phase == ModelPhase::kHome) rest(model);
}

void FleetCore::State::route(Model& model, RequestId request) {
  Asked& asked = requests.at(request);
  if (asked.loads) {
    requests.erase(request);
    return answer(request, {});
  }
  CAUSEWAY_DCHECK(!asked.slice.valid(), "one slice at a time has a request");
  asked.slice = model.slice;
  asked.withdrawn = false;
  Slice& slice = slice_of(model.slice);
  if (slice.running++ == 0) slice.since = now;
  model.running += 1;
  touch(model);
  counters.routed += 1;
  counters.resumed += asked.again;
  actions.emplace_back(Route{request, model.slice});
}

Nanos FleetCore::State::predicted_tpot(const Model& model) const {
  if (model.phase != ModelPhase::kReady) return {};
  return nanos_from_seconds(to_seconds(model.spec.slo.tpot) * view.excess(model.slice, {}, {}));
}

// Once the sums have what is routed.
void FleetCore::State::predict_tpots() {
  for (Action& action : actions) {
    auto* const route = std::get_if<Route>(&action);
    if (route == nullptr) continue;
    const Model& model = model_of(requests.at(route->request).model);
    const Nanos tpot = predicted_tpot(model);
    if (tpot > model.spec.slo.tpot) route->predicted_tpot = tpot;
  }
}

// What is between the ends of two requests while a slice has some is what one takes of it. One mean
// for all slices: by its own, one that stands still would look as good as before, and one that has
// just ended many would draw all that come.
void FleetCore::State::leaves_slice(const Asked& asked, bool served) {
  Slice& slice = slice_of(asked.slice);
  CAUSEWAY_DCHECK(slice.running > 0, "a slice counts the requests that it has");
  slice.running -= 1;
  if (!served) return;
  const double took = to_seconds(now - std::exchange(slice.since, now));
  const double work = took * view.slice(asked.slice).speed(), mean = view.request_work();
  view.set_request_work(mean > 0 ? mean + kWorkOfLast * (work - mean) : work);
}

void FleetCore::State::route_held(Model& model) {
  held -= std::ssize(model.held);
  CAUSEWAY_DCHECK(held >= 0, "as many are held as models hold");
  model.resume_until.reset();
  touch(model);
  if (model.held.empty()) return;
  for (const RequestId request : std::exchange(model.held, {})) route(model, request);
}

void FleetCore::State::end_held(Model& model, request::FinishReason reason, const Error& error) {
  model.resume_until.reset();
  touch(model);
  for (const RequestId request : std::exchange(model.held, {})) refuse_held(request, reason, error);
}

void FleetCore::State::end_all_held(const Error& error) {
  for (Model& model : models) end_held(model, request::FinishReason::kError, error);
}

// It is off its model's list.
void FleetCore::State::refuse_held(RequestId request, request::FinishReason reason,
                                   const Error& error) {
  CAUSEWAY_DCHECK(held > 0, "a request that is refused was counted as held");
  held -= 1;
  const bool loads = requests.at(request).loads;
  forget(request);
  if (loads) {
    if (reason == request::FinishReason::kError) return answer(request, error);
    return answer(request, stopped ? unavailable("the server is shutting down")
                                   : Error{ErrorCode::kCancelled, "it was cancelled"});
  }
  counters.refused += reason == request::FinishReason::kError;
  actions.emplace_back(Refuse{request, reason, error});
}

void FleetCore::State::refuse(RequestId request, const Error& error) {
  counters.refused += 1;
  actions.emplace_back(Refuse{request, request::FinishReason::kError, error});
}

// The model is attached to the slice, and serves.
void FleetCore::State::serve_on(Model& model, SliceId slice) {
  CAUSEWAY_DCHECK(model.there.contains(slice), "a model serves where it is attached");
  enter(model, ModelPhase::kReady);
  model.slice = slice;
  model.epoch = slice_of(slice).epoch;
  model.ahead = model.sleeps = false;
  model.no_room_since.reset();
  model.unfit.clear();
  if (model.spec.weights > Bytes(0)) {
    model.demand = demand_of(model.spec, model.spec.weights - model.there.at(slice));
  }
  route_held(model);
}

// What waits for the model ends, unless another slice serves it; the next request tries again.
void FleetCore::State::fail(Model& model, const Error& error) {
  model.last_error = error.message;
  ++model.loads_failed;
  model.ahead = false;
  model.unfit.clear();
  const Error named = load_error(model.spec.name, error);
  actions.emplace_back(LoadFailed{model.id, named});
  if (model.there.empty()) end_held(model, request::FinishReason::kError, named);
  rest(model);
}

void FleetCore::State::rest(Model& model) {
  if (model.slice.valid()) model.last = std::exchange(model.slice, {});
  model.demand = {};
  model.taker = {};
  model.to = {};
  model.drops = model.told = false;
  model.no_room_since.reset();
  if (model.held.empty()) model.resume_until.reset();
  if (!model.there.empty()) {
    const bool back = model.there.contains(model.last);
    return serve_on(model, back ? model.last : model.there.begin()->first);
  }
  const bool wanted = model.ahead || !model.held.empty();
  enter(model, wanted ? ModelPhase::kQueued : model.home ? ModelPhase::kHome : ModelPhase::kCold);
}

// Its place is another's again. Where something was to drain for it, that serves on, and what else
// had a place by now looks for one anew.
void FleetCore::State::give_up(Model& model) {
  CAUSEWAY_DCHECK(model.phase == ModelPhase::kPlaced, "only a place is given up");
  const bool drained = std::any_of(moving.begin(), moving.end(), [&](ModelId id) {
    const Model& other = model_of(id);
    return other.phase == ModelPhase::kDraining && other.taker == model.id;
  });
  if (drained) return give_up_all();
  enter(model, ModelPhase::kWaiting);
  model.slice = {};
  model.demand = {};
}

void FleetCore::State::give_up_all() {
  for (Model* model : in_motion()) {
    if (model->phase != ModelPhase::kPlaced) continue;
    enter(*model, ModelPhase::kWaiting);
    model->slice = {};
    model->demand = {};
  }
  for (Model* model : in_motion()) {
    if (model->phase != ModelPhase::kDraining) continue;
    enter(*model, ModelPhase::kReady);
    model->taker = {};
    model->drops = false;
    route_held(*model);
  }
}

FleetCore::FleetCore(FleetSpec spec, const FleetOptions& options,
                     std::unique_ptr<PlacementPolicy> policy)
    : state_(std::make_unique<State>(std::move(spec), options, std::move(policy))) {}
FleetCore::~FleetCore() = default;

std::vector<Action> FleetCore::on_event(const Event& event, Nanos now) {
  state_->now = state_->time.at(now);
  std::visit([this](const auto& one) { state_->on(one); }, event);
  // What is placed, or finds no place, may end requests that an ask to sleep waits for.
  state_->fall_asleep();
  do {
    if (!state_->moving.empty() || state_->resizing) state_->advance();
  } while (state_->fall_asleep());
  state_->add_up();
  state_->predict_tpots();
  return std::exchange(state_->actions, {});
}

std::optional<Nanos> FleetCore::next_wakeup() const {
  std::optional<Nanos> next;
  const auto consider = [&](Nanos at) {
    const Nanos of_clock = at - state_->time.skew();
    if (at > state_->now) next = std::min(next.value_or(of_clock), of_clock);
  };
  if (state_->resizing && !state_->resizing->asked) consider(state_->resizing->until);
  const bool up = state_->any_up() || state_->resizing;
  for (const ModelId id : state_->moving) {
    const State::Model& model = state_->model_of(id);
    if (model.resume_until) consider(*model.resume_until);
    if (!up && !model.held.empty()) consider(state_->down_since + state_->options.return_timeout);
    if (model.phase != ModelPhase::kWaiting || !model.no_room_since) continue;
    consider(*model.no_room_since + state_->options.room_timeout);
    if (state_->options.drain_after) consider(*model.no_room_since + *state_->options.drain_after);
  }
  return next;
}

ModelSeen FleetCore::model(ModelId id) const {
  const State::Model& model = state_->model_of(id);
  ModelSeen seen{.phase = model.phase,
                 .slice = model.slice,
                 .host = model.home ? model.needed : Bytes(0),
                 .demand = model.demand,
                 .held = std::ssize(model.held),
                 .running = model.running,
                 .last_error = model.last_error,
                 .loads_failed = model.loads_failed,
                 .pinned = model.spec.pinned,
                 .attached = !model.there.empty(),
                 .removed = model.removed};
  return seen;
}

Nanos FleetCore::predicted_tpot(ModelId id) const {
  return state_->predicted_tpot(state_->model_of(id));
}

std::int64_t FleetCore::models() const { return std::ssize(state_->models); }
std::int64_t FleetCore::waiting() const { return state_->held; }
bool FleetCore::resizing() const { return state_->resizing.has_value(); }
bool FleetCore::loads_pending() const {
  return std::any_of(state_->moving.begin(), state_->moving.end(), [&](ModelId id) {
    const ModelPhase phase = state_->model_of(id).phase;
    return phase >= ModelPhase::kQueued && phase <= ModelPhase::kLoading;
  });
}
bool FleetCore::load_is_undone(ModelId id) const {
  const State::Model& model = state_->model_of(id);
  return model.phase == ModelPhase::kLoading && state_->slice_was_lost(model);
}
bool FleetCore::asleep() const {
  return state_->asleep && std::all_of(state_->models.begin(), state_->models.end(),
                                       [](const auto& model) { return model.there.empty(); });
}
Bytes FleetCore::host_used() const { return state_->host_there(); }
Bytes FleetCore::host_budget() const { return state_->host_budget.value_or(Bytes(0)); }
double FleetCore::link_rate(LinkId link) const {
  return state_->view.links().at(static_cast<std::size_t>(link.value)).bytes_per_second;
}

LinkId FleetCore::link_of(SliceId slice) const { return state_->slice_of(slice).spec.link; }

const FleetCounters& FleetCore::counters() const { return state_->counters; }

}  // namespace causeway::fleet
