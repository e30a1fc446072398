#include "fleet/local_fleet_state.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace causeway::fleet {
namespace {

constexpr Nanos kRoomPoll = millis(10);
constexpr Nanos kUnloadPoll = seconds(1);  // a stop ends the wait for a model to go this soon

request::Output ended(RequestId request, request::FinishReason reason, const Error& error) {
  request::Output output;
  output.request = request;
  output.finished = true;
  output.reason = reason;
  output.error = error.message;
  output.code = error.code;
  return output;
}

std::string in_mib(Bytes bytes) {
  if (bytes < mib(10)) return std::to_string(bytes.count / kib(1).count) + " KiB";
  return std::to_string(bytes.count / mib(1).count) + " MiB";
}

double gigabytes(Bytes bytes) { return static_cast<double>(bytes.count) / 1e9; }

// What the requests of a model that could not be loaded end with: they are not to blame.
Error load_error(const std::string& name, const Error& error) {
  const bool later = error.code == ErrorCode::kUnavailable;
  return Error{later ? error.code : ErrorCode::kDevice, error.message}.with_context(
      "the model '" + name + "' could not be loaded");
}

}  // namespace

LocalFleet::State::State(std::vector<CatalogueModel> models, const LocalFleetOptions& options,
                         engine::Engine& engine, SliceBackend& backend, SerialSink& sink)
    : options_(options), engine_(engine), backend_(backend), sink_(sink) {
  slots_.resize(models.size());
  for (std::size_t i = 0; i < models.size(); ++i) {
    entries_.push_back(models[i].entry.get());
    slots_[i].model = std::move(models[i]);
  }
}

LocalFleet::State::~State() {
  (void)stop();
  if (loader_.joinable()) loader_.join();
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
  // Pinned models first, so that they find room.
  for (const bool pinned : {true, false}) {
    for (std::size_t i = 0; i < slots_.size() && options_.load_ahead; ++i) {
      if (slots_[i].model.pinned != pinned) continue;
      slots_[i].state = ModelState::kLoading;
      ahead_.push_back(i);
    }
  }
  try {
    loader_ended_ = false;
    loader_ = std::thread([this] { load_queued(); });
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
    status.state = slot.state;
    status.host_bytes = slot.bytes;
    if (slot.state == ModelState::kReady) {
      status.streamed_bytes = slot.streamed_bytes;
      status.predicted_tpot = slot.predicted_tpot;
    }
    status.requests_waiting = std::ssize(slot.held);
    status.last_error = slot.last_error;
  }
  const request::Observation seen = engine_.observe(model);
  status.device_bytes = seen.weights_cached;
  status.requests_running = seen.requests_running;
  status.requests_waiting += seen.requests_waiting;
  status.requests_rotary = seen.requests_rotary;
  // What was observed is from the end of a step; what is unfinished is of now.
  const bool asked = seen.requests() + status.requests_waiting > 0 || engine_.unfinished(model) > 0;
  if (status.state == ModelState::kReady && asked) status.state = ModelState::kActive;
  return status;
}

Status LocalFleet::State::submit(request::Request request) {
  const ModelId model = request.model;
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_) return unavailable("the server is shutting down");
    Slot& slot = this->slot(model);
    slot.rate.add(request.arrival);
    latest_ = std::max(latest_, request.arrival);
    if (slot.state != ModelState::kReady) return hold(slot, std::move(request));
    slot.entering += 1;
  }
  // A model that a request enters does not go, so the engine knows it.
  Status taken = engine_.submit(std::move(request));
  const std::scoped_lock lock(mutex_);
  slot(model).entering -= 1;
  return taken;
}

void LocalFleet::State::cancel(RequestId id) {
  {
    const std::scoped_lock lock(mutex_);
    if (!drop_held(id)) {
      engine_.cancel(id);
      return;
    }
  }
  deliver({ended(id, request::FinishReason::kCancelled, {})});
}

request::Observation LocalFleet::State::observe() const {
  request::Observation all = engine_.observe();
  const std::scoped_lock lock(mutex_);
  all.requests_waiting += held_;
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
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    models[i].second.requests_waiting += std::ssize(slots_[i].held);
  }
  return models;
}

bool LocalFleet::State::wait_until_loaded(Nanos timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count),
                           [this] { return stopped_ || (!queued() && !loading_); });
}

bool LocalFleet::State::stop() {
  bool loader_ended = false;
  std::vector<request::Output> outputs;
  {
    std::unique_lock lock(mutex_);
    const Nanos timeout = std::exchange(stopped_, true) ? Nanos(0) : options_.stop_timeout;
    cancelled_ = true;
    changed_.notify_all();
    loader_ended = changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count),
                                     [this] { return loader_ended_; });
    for (Slot& slot : slots_) {
      auto cancelled = end_held(slot, request::FinishReason::kCancelled, {});
      std::move(cancelled.begin(), cancelled.end(), std::back_inserter(outputs));
    }
  }
  if (loader_ended && loader_.joinable()) loader_.join();
  if (!loader_ended) {
    spdlog::error("the load of a model has not ended within {:.0f} s of being told to; it is left",
                  to_seconds(options_.stop_timeout));
  }
  deliver(std::move(outputs));
  return loader_ended;
}

Status LocalFleet::State::hold(Slot& slot, request::Request request) {
  if (held_ >= options_.waiting_for_load_max) {
    return exhausted("too many requests wait for models to be loaded; try again later");
  }
  want(slot);
  slot.held.push_back(std::move(request));
  ++held_;
  return {};
}

// Has it loaded, before those that only are loaded ahead of their requests.
void LocalFleet::State::want(Slot& slot) {
  const std::size_t i = index(slot.model.entry->id);
  if (slot.state == ModelState::kUnloaded || std::erase(ahead_, i) > 0) {
    slot.state = ModelState::kLoading;
    wanted_.push_back(i);
    changed_.notify_all();
  }
}

bool LocalFleet::State::drop_held(RequestId id) {
  for (Slot& slot : slots_) {
    const auto found = std::find_if(slot.held.begin(), slot.held.end(),
                                    [id](const auto& request) { return request.id == id; });
    if (found == slot.held.end()) continue;
    slot.held.erase(found);
    --held_;
    return true;
  }
  return false;
}

void LocalFleet::State::load_queued() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopped_ || queued(); });
    if (stopped_) break;
    const bool ahead = wanted_.empty();
    std::deque<std::size_t>& queue = ahead ? ahead_ : wanted_;
    Slot& slot = slots_[queue.front()];
    queue.pop_front();
    loading_ = true;
    lock.unlock();
    const Outcome outcome = load(slot);
    lock.lock();
    std::vector<request::Output> outputs = settle(slot, outcome);
    loading_ = false;
    if (ahead && slot.state == ModelState::kUnloaded && !outcome) ++left_;
    if (ahead_.empty()) report_left();
    changed_.notify_all();
    lock.unlock();
    deliver(std::move(outputs));
    lock.lock();
  }
  loader_ended_ = true;
  changed_.notify_all();
}

LocalFleet::State::Outcome LocalFleet::State::load(Slot& slot) {
  const Result<bool> room = make_room(slot);
  if (!room.ok()) return room.error();
  if (!*room) return std::nullopt;
  return attach(slot);
}

// False: there is no room, and no request asks for the model, so that nothing gives way to it.
Result<bool> LocalFleet::State::make_room(Slot& slot) {
  for (Nanos waited;;) {
    CAUSEWAY_ASSIGN(last_room_, backend_.room_for(*slot.model.entry, slot.model.source));
    const Bytes needed = last_room_.needed;
    const Bytes free = last_room_.budget - last_room_.used;
    if (needed <= free) return true;
    if (needed > last_room_.budget) {
      return exhausted("it needs " + in_mib(needed) + " of host memory, more than the pool's " +
                       in_mib(last_room_.budget) + "; make the pool larger");
    }
    std::vector<Slot*> victims;
    {
      std::unique_lock lock(mutex_);
      if (slot.held.empty()) return false;
      const UnloadChoice choice = choose_unloads(candidates(slot), needed - free);
      if (choice.models.empty() && waited < options_.room_timeout && !stopped_) {
        changed_.wait_for(lock, std::chrono::nanoseconds(kRoomPoll.count),
                          [this] { return stopped_; });
        waited += kRoomPoll;
        continue;
      }
      if (choice.models.empty()) {
        return unavailable("it needs " + in_mib(needed) + " of host memory; of the pool's " +
                           in_mib(last_room_.budget) + ", " + in_mib(free) +
                           " are free, and models that could give way hold " +
                           in_mib(choice.freed) + "; try again later, or make the pool larger");
      }
      for (const ModelId model : choice.models) {
        victims.push_back(&this->slot(model));
        victims.back()->state = ModelState::kUnloaded;
      }
    }
    bool all = true;
    for (Slot* victim : victims) all = unload(*victim, slot) && all;
    if (cancelled_) return Error{ErrorCode::kCancelled, "the server is shutting down"};
    if (!all) return unavailable("models that are to give way have not let go; try again later");
  }
}

std::vector<UnloadCandidate> LocalFleet::State::candidates(const Slot& taker) const {
  std::vector<UnloadCandidate> all;
  for (const Slot& slot : slots_) {
    const ModelId id = slot.model.entry->id;
    if (&slot == &taker || slot.state != ModelState::kReady || slot.model.pinned) continue;
    if (slot.entering > 0 || engine_.unfinished(id) > 0) continue;
    all.push_back({id, slot.bytes, slot.rate.at(latest_), slot.rate.last()});
  }
  return all;
}

// Of one that is marked: its requests are held. False: it is ready again.
bool LocalFleet::State::unload(Slot& slot, const Slot& taker) {
  const CatalogueEntry& entry = *slot.model.entry;
  Status removed = unavailable("the server is shutting down");
  for (Nanos waited; waited < options_.unload_timeout && !removed.ok() && !cancelled_;
       waited += kUnloadPoll) {
    removed = engine_.remove_model(entry.id, std::min(kUnloadPoll, options_.unload_timeout));
  }
  if (removed.ok()) {
    backend_.detach(entry.id);
    spdlog::info("unloaded {} ({:.2f} GB) to make room for {}", entry.name, gigabytes(slot.bytes),
                 taker.model.entry->name);
    const std::scoped_lock lock(mutex_);
    slot.bytes = Bytes(0);
    return true;
  }
  if (!cancelled_) spdlog::warn("{} cannot be unloaded: {}", entry.name, removed.error().message);
  std::vector<request::Output> outputs;
  {
    const std::scoped_lock lock(mutex_);
    std::erase(wanted_, index(entry.id));
    outputs = admit_held(slot);
  }
  deliver(std::move(outputs));
  return false;
}

Result<AttachedModel> LocalFleet::State::attach(Slot& slot) {
  const CatalogueModel& model = slot.model;
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

// The state after a load, and the outputs of held requests that ended with it.
std::vector<request::Output> LocalFleet::State::settle(Slot& slot, const Outcome& outcome) {
  if (!outcome) {
    slot.state = ModelState::kUnloaded;
    if (!slot.held.empty()) want(slot);
    return {};
  }
  if (outcome->ok()) {
    const AttachedModel& attached = outcome->value();
    slot.bytes = attached.bytes;
    slot.streamed_bytes = attached.facts.weights.streamed_bytes();
    slot.predicted_tpot = attached.predicted_tpot;
    slot.last_error.clear();
    return admit_held(slot);
  }
  slot.state = ModelState::kUnloaded;
  slot.last_error = outcome->error().message;
  const Error error = load_error(slot.model.entry->name, outcome->error());
  if (!cancelled_) spdlog::error("{}", error.message);
  return end_held(slot, request::FinishReason::kError, error);
}

// The model is ready. Held requests enter the engine before the lock is released, so that none that
// came later overtakes them; those that it refuses end.
std::vector<request::Output> LocalFleet::State::admit_held(Slot& slot) {
  slot.state = ModelState::kReady;
  std::vector<request::Output> outputs;
  for (auto& request : slot.held) {
    const RequestId id = request.id;
    const Status taken = engine_.submit(std::move(request));
    if (!taken.ok()) outputs.push_back(ended(id, request::FinishReason::kError, taken.error()));
  }
  held_ -= std::ssize(slot.held);
  slot.held.clear();
  return outputs;
}

std::vector<request::Output> LocalFleet::State::end_held(Slot& slot, request::FinishReason why,
                                                         const Error& error) {
  std::vector<request::Output> outputs;
  for (const auto& request : slot.held) outputs.push_back(ended(request.id, why, error));
  held_ -= std::ssize(slot.held);
  slot.held.clear();
  return outputs;
}

void LocalFleet::State::report_left() {
  if (left_ == 0) return;
  spdlog::info(
      "{} of {} models are loaded when asked for: of {:.1f} GB of host memory for "
      "weights, {:.1f} GB are taken",
      left_, slots_.size(), gigabytes(last_room_.budget), gigabytes(last_room_.used));
  left_ = 0;
}

void LocalFleet::State::deliver(std::vector<request::Output> outputs) {
  if (!outputs.empty()) sink_.on_outputs(std::move(outputs));
}

}  // namespace causeway::fleet
