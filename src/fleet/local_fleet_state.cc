#include "fleet/local_fleet_state.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace causeway::fleet {
namespace {

constexpr Nanos kUnloadPoll = seconds(1);  // a stop ends the wait for a model to go this soon
constexpr Nanos kLoaderPoll = seconds(60);

request::Output ended(RequestId request, request::FinishReason reason, const Error& error) {
  request::Output output;
  output.request = request;
  output.finished = true;
  output.reason = reason;
  output.error = error.message;
  output.code = error.code;
  return output;
}

double gigabytes(Bytes bytes) { return static_cast<double>(bytes.count) / 1e9; }

ModelState state_of(const ModelSeen& seen) {
  switch (seen.phase) {
    case ModelPhase::kReady:
    case ModelPhase::kDraining: return seen.running > 0 ? ModelState::kActive : ModelState::kReady;
    case ModelPhase::kQueued:
    case ModelPhase::kMeasuring:
    case ModelPhase::kWaiting:
    case ModelPhase::kPlaced:
    case ModelPhase::kLoading: return ModelState::kLoading;
    case ModelPhase::kCold:
    case ModelPhase::kHome:
    case ModelPhase::kLeaving:
    case ModelPhase::kDropping: break;
  }
  // What leaves while it is asked for is loaded again.
  return seen.held > 0 ? ModelState::kLoading : ModelState::kUnloaded;
}

std::vector<const CatalogueEntry*> entries_of(const std::vector<CatalogueModel>& models) {
  std::vector<const CatalogueEntry*> entries;
  for (const CatalogueModel& model : models) entries.push_back(model.entry.get());
  return entries;
}

// One slice whose places, memory and link nobody counts here: its residency divides them.
FleetSpec one_slice(const std::vector<CatalogueModel>& models) {
  FleetSpec spec;
  spec.slices.resize(1);
  for (const CatalogueModel& model : models) {
    ModelSpec& added = spec.models.emplace_back();
    added.name = model.entry->name;
    added.pinned = model.pinned;
  }
  return spec;
}

}  // namespace

LocalFleet::State::State(std::vector<CatalogueModel> models, const LocalFleetOptions& options,
                         engine::Engine& engine, SliceBackend& backend, SerialSink& sink)
    : options_(options),
      engine_(engine),
      backend_(backend),
      sink_(sink),
      entries_(entries_of(models)),
      core_(one_slice(models),
            {.waiting_max = options.waiting_for_load_max, .room_timeout = options.room_timeout},
            make_placement(PlacementKind::kBandwidth)) {
  for (CatalogueModel& model : models) slots_.emplace_back().model = std::move(model);
}

LocalFleet::State::~State() {
  (void)stop();
  if (loader_.joinable()) loader_.join();
  sink_.listen({});
}

Status LocalFleet::State::begin() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const CatalogueEntry& entry = *slots_[i].model.entry;
    CAUSEWAY_CHECK(entry.id == ModelId(static_cast<std::int64_t>(i)),
                   "catalogue entries are numbered in order");
    if (!by_name_.emplace(entry.name, i).second) {
      return invalid_argument("two models are named '" + entry.name + "'");
    }
  }
  sink_.listen([this](const std::vector<RequestId>& requests) { on_ended(requests); });
  const std::scoped_lock lock(mutex_);
  // Pinned models first, so that they find room.
  for (const bool pinned : {true, false}) {
    for (const Slot& slot : slots_) {
      if (!options_.load_ahead || slot.model.pinned != pinned) continue;
      (void)tell(ModelWanted{slot.model.entry->id});  // nothing is held: nothing ends
    }
  }
  try {
    loader_ended_ = false;
    loader_ = std::thread([this] { run_loader(); });
  } catch (const std::system_error& error) {
    loader_ended_ = true;
    return exhausted(std::string("cannot start the loader thread: ") + error.what());
  }
  return {};
}

const CatalogueEntry* LocalFleet::State::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : entries_[found->second];
}

std::size_t LocalFleet::State::index(ModelId model) const {
  const auto i = static_cast<std::size_t>(model.value);
  CAUSEWAY_CHECK(i < slots_.size(), "a model of this catalogue");
  return i;
}

ModelStatus LocalFleet::State::status(ModelId model) const {
  ModelStatus status;
  {
    const std::scoped_lock lock(mutex_);
    const Slot& slot = this->slot(model);
    const ModelSeen seen = core_.model(model);
    status.state = state_of(seen);
    status.host_bytes = seen.host;
    if (status.state == ModelState::kReady || status.state == ModelState::kActive) {
      status.streamed_bytes = slot.streamed_bytes;
      status.predicted_tpot = slot.predicted_tpot;
    }
    status.requests_waiting = seen.held;
    status.last_error = seen.last_error;
  }
  const request::Observation seen = engine_.observe(model);
  status.device_bytes = seen.weights_cached;
  status.requests_running = seen.requests_running;
  status.requests_waiting += seen.requests_waiting;
  status.requests_rotary = seen.requests_rotary;
  return status;
}

Status LocalFleet::State::submit(request::Request request) {
  const RequestId id = request.id;
  const RequestArrived event{id, request.model, request.slo, request.arrival};
  Outputs outputs;
  Status taken;
  bool routed = false;
  {
    const std::scoped_lock lock(mutex_);
    std::vector<Action> actions = core_.on_event(event, clock_.now());
    // What becomes of this one at once is the caller's to know; the rest is of others.
    const auto own = std::find_if(actions.begin(), actions.end(), [id](const Action& action) {
      const auto* route = std::get_if<Route>(&action);
      const auto* refuse = std::get_if<Refuse>(&action);
      return (route != nullptr && route->request == id) ||
             (refuse != nullptr && refuse->request == id);
    });
    if (own == actions.end()) {
      held_.emplace(id, std::move(request));
    } else {
      if (const auto* refuse = std::get_if<Refuse>(&*own)) taken = refuse->error;
      routed = taken.ok();
      actions.erase(own);
    }
    apply(std::move(actions), outputs);
  }
  // A model that a request enters does not go, so the engine knows it.
  if (routed) {
    taken = engine_.submit(std::move(request));
    if (!taken.ok()) on_ended({id});
  }
  deliver(std::move(outputs));
  return taken;
}

void LocalFleet::State::cancel(RequestId id) {
  std::unique_lock lock(mutex_);
  Outputs outputs = tell(RequestCancelled{id});
  lock.unlock();
  deliver(std::move(outputs));
}

request::Observation LocalFleet::State::observe() const {
  request::Observation all = engine_.observe();
  const std::scoped_lock lock(mutex_);
  all.requests_waiting += core_.waiting();
  all.link_bytes = backend_.link_bytes();
  return all;
}

std::vector<std::pair<ModelId, request::Observation>> LocalFleet::State::observe_models() const {
  std::vector<std::pair<ModelId, request::Observation>> models;
  for (const CatalogueEntry* entry : entries_) {
    models.emplace_back(entry->id, request::Observation());
  }
  for (auto& [id, seen] : engine_.observe_models()) models[index(id)].second = seen;
  const std::scoped_lock lock(mutex_);
  for (auto& [id, seen] : models) seen.requests_waiting += core_.model(id).held;
  return models;
}

bool LocalFleet::State::wait_until_loaded(Nanos timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count), [this] {
    return stopped_ || (!core_.loads_pending() && tasks_.empty() && !loading_);
  });
}

bool LocalFleet::State::stop() {
  std::unique_lock lock(mutex_);
  const bool first = !std::exchange(stopped_, true);
  const Nanos timeout = first ? options_.stop_timeout : Nanos(0);
  cancelled_ = true;
  changed_.notify_all();
  Outputs outputs = first ? tell(Stopped{}) : Outputs();
  lock.unlock();
  deliver(std::move(outputs));
  lock.lock();
  const bool loader_ended = changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count),
                                              [this] { return loader_ended_; });
  lock.unlock();
  if (loader_ended && loader_.joinable()) loader_.join();
  if (!loader_ended) {
    spdlog::error("the load of a model has not ended within {:.0f} s of being told to; it is left",
                  to_seconds(options_.stop_timeout));
  }
  return loader_ended;
}

LocalFleet::State::Outputs LocalFleet::State::tell(const Event& event) {
  Outputs outputs;
  apply(core_.on_event(event, clock_.now()), outputs);
  return outputs;
}

// Held requests enter the engine under the lock, so that none that came later overtakes them.
void LocalFleet::State::apply(std::vector<Action> actions, Outputs& outputs) {
  for (Action& action : actions) {
    if (const auto* one = std::get_if<Route>(&action)) {
      route(one->request, outputs);
    } else if (const auto* cancel = std::get_if<CancelOn>(&action)) {
      engine_.cancel(cancel->request);
    } else if (const auto* refuse = std::get_if<Refuse>(&action)) {
      held_.erase(refuse->request);
      outputs.push_back(ended(refuse->request, refuse->reason, refuse->error));
    } else if (const auto* failed = std::get_if<LoadFailed>(&action)) {
      if (!cancelled_) spdlog::error("{}", failed->error.message);
    } else {
      tasks_.push_back(std::move(action));
    }
  }
  report_left();
  changed_.notify_all();
}

// One that the engine refuses ends.
void LocalFleet::State::route(RequestId id, Outputs& outputs) {
  const auto body = held_.extract(id);
  CAUSEWAY_CHECK(!body.empty(), "a request is routed whose body is not here");
  const Status taken = engine_.submit(std::move(body.mapped()));
  if (taken.ok()) return;
  outputs.push_back(ended(id, request::FinishReason::kError, taken.error()));
  apply(core_.on_event(RequestEnded{id}, clock_.now()), outputs);
}

// Once: how many did not fit when all that did were there.
void LocalFleet::State::report_left() {
  if (left_reported_ || stopped_ || !options_.load_ahead || core_.loads_pending()) return;
  left_reported_ = true;
  const auto left = std::count_if(entries_.begin(), entries_.end(), [this](const auto* entry) {
    const ModelSeen seen = core_.model(entry->id);
    return seen.phase == ModelPhase::kCold && seen.last_error.empty();
  });
  if (left == 0) return;
  spdlog::info(
      "{} of {} models are loaded when asked for: of {:.1f} GB of host memory for "
      "weights, {:.1f} GB are taken",
      left, slots_.size(), gigabytes(core_.host_budget()), gigabytes(core_.host_used()));
}

// From the engine's thread.
void LocalFleet::State::on_ended(const std::vector<RequestId>& requests) {
  Outputs outputs;
  {
    const std::scoped_lock lock(mutex_);
    for (const RequestId id : requests) {
      Outputs more = tell(RequestEnded{id});
      std::move(more.begin(), more.end(), std::back_inserter(outputs));
    }
  }
  deliver(std::move(outputs));
}

void LocalFleet::State::deliver(Outputs outputs) {
  if (!outputs.empty()) sink_.deliver(std::move(outputs));
}

void LocalFleet::State::run_loader() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    const Nanos wakeup = core_.next_wakeup().value_or(clock_.now() + kLoaderPoll);
    const Nanos wait = std::max(Nanos(0), wakeup - clock_.now());
    changed_.wait_for(lock, std::chrono::nanoseconds(wait.count), [&] {
      return stopped_ || !tasks_.empty() ||
             core_.next_wakeup().value_or(clock_.now() + kLoaderPoll) < wakeup;
    });
    if (stopped_) break;
    Event event = Woken{};
    if (!tasks_.empty()) {
      const Action task = std::move(tasks_.front());
      tasks_.pop_front();
      loading_ = true;
      lock.unlock();
      event = execute(task);
      lock.lock();
    }
    Outputs outputs = tell(event);
    loading_ = false;
    changed_.notify_all();
    lock.unlock();
    deliver(std::move(outputs));
    lock.lock();
  }
  loader_ended_ = true;
  changed_.notify_all();
}

Event LocalFleet::State::execute(const Action& task) {
  if (const auto* measure = std::get_if<Measure>(&task)) {
    const CatalogueModel& model = slot(measure->model).model;
    return Measured{measure->model, backend_.room_for(*model.entry, model.source)};
  }
  if (const auto* one = std::get_if<Load>(&task)) return LoadEnded{one->model, load(one->model)};
  const auto* one = std::get_if<Unload>(&task);
  CAUSEWAY_CHECK(one != nullptr && one->drop, "models of the only slice are in host memory for it");
  return UnloadEnded{one->model, unload(*one)};
}

Result<Bytes> LocalFleet::State::load(ModelId id) {
  const auto attached = attach(slot(id).model);
  if (!attached.ok()) return attached.error();
  const std::scoped_lock lock(mutex_);
  slot(id).streamed_bytes = attached.value().facts.weights.streamed_bytes();
  slot(id).predicted_tpot = attached.value().predicted_tpot;
  return slot(id).streamed_bytes;
}

Result<AttachedModel> LocalFleet::State::attach(const CatalogueModel& model) {
  CAUSEWAY_ASSIGN(AttachedModel attached, backend_.attach(*model.entry, model.source,
                                                          [this] { return cancelled_.load(); }));
  attached.facts.pinned = model.pinned;
  const Status added = engine_.add_model(model.entry->id, attached.facts);
  if (!added.ok()) {
    backend_.detach(model.entry->id);
    return added.error();
  }
  return attached;
}

Status LocalFleet::State::unload(const Unload& unload) {
  const CatalogueEntry& entry = *entries_[index(unload.model)];
  Status removed = unavailable("the server is shutting down");
  for (Nanos waited; waited < options_.unload_timeout && !removed.ok() && !cancelled_;
       waited += kUnloadPoll) {
    removed = engine_.remove_model(entry.id, std::min(kUnloadPoll, options_.unload_timeout));
  }
  if (!removed.ok()) {
    if (!cancelled_) spdlog::warn("{} cannot be unloaded: {}", entry.name, removed.error().message);
    return removed;
  }
  backend_.detach(entry.id);
  spdlog::info("unloaded {} to make room for {}", entry.name, entries_[index(unload.taker)]->name);
  return {};
}

}  // namespace causeway::fleet
