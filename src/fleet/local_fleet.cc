#include "fleet/local_fleet.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "base/log.h"

namespace causeway::fleet {
namespace {

request::Output ended(RequestId request, request::FinishReason reason, std::string error) {
  request::Output output;
  output.request = request;
  output.finished = true;
  output.reason = reason;
  output.error = std::move(error);
  return output;
}

}  // namespace

void SerialSink::on_outputs(std::vector<request::Output> outputs) {
  const std::scoped_lock lock(mutex_);
  target_.on_outputs(std::move(outputs));
}

class LocalFleet::State {
 public:
  State(std::vector<CatalogueModel> models, const LocalFleetOptions& options,
        engine::Engine& engine, SliceBackend& backend, SerialSink& sink)
      : options_(options), engine_(engine), backend_(backend), sink_(sink) {
    for (CatalogueModel& model : models) {
      entries_.push_back(model.entry.get());
      slots_.push_back({std::move(model), {}, {}});
    }
  }

  Status begin() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const CatalogueEntry& entry = *slots_[i].model.entry;
      CAUSEWAY_CHECK(entry.id == ModelId(static_cast<std::int64_t>(i)),
                     "catalogue entries are numbered in order");
      if (!by_name_.emplace(entry.name, i).second) {
        return invalid_argument("two models are named '" + entry.name + "'");
      }
    }
    if (options_.load_ahead) {
      for (std::size_t i = 0; i < slots_.size(); ++i) enqueue(i);
    }
    try {
      loader_ = std::thread([this] { load_queued(); });
    } catch (const std::system_error& error) {
      return exhausted(std::string("cannot start the loader thread: ") + error.what());
    }
    return {};
  }

  const std::vector<const CatalogueEntry*>& entries() const { return entries_; }

  const CatalogueEntry* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : entries_[found->second];
  }

  ModelStatus status(ModelId model) const {
    const std::scoped_lock lock(mutex_);
    return slot(model).status;
  }

  Status submit(request::Request request) {
    {
      const std::scoped_lock lock(mutex_);
      if (stopped_) return unavailable("the server is shutting down");
      Slot& slot = this->slot(request.model);
      if (slot.status.state != ModelState::kReady) return hold(slot, std::move(request));
    }
    // A ready model stays ready, so the engine knows it.
    return engine_.submit(std::move(request));
  }

  void cancel(RequestId id) {
    {
      const std::scoped_lock lock(mutex_);
      if (!drop_held(id)) {
        engine_.cancel(id);
        return;
      }
    }
    deliver({ended(id, request::FinishReason::kCancelled, "")});
  }

  bool wait_until_loaded(Nanos timeout) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(timeout.count),
                             [this] { return stopped_ || (queue_.empty() && !loading_); });
  }

  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
      cancelled_ = true;
    }
    changed_.notify_all();
    if (loader_.joinable()) loader_.join();
    std::vector<request::Output> outputs;
    {
      const std::scoped_lock lock(mutex_);
      for (Slot& slot : slots_) {
        for (const auto& request : slot.held) {
          outputs.push_back(ended(request.id, request::FinishReason::kCancelled, ""));
        }
        slot.held.clear();
      }
      held_ = 0;
    }
    deliver(std::move(outputs));
  }

  std::int64_t held(ModelId model) const {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::int64_t>(slot(model).held.size());
  }

  engine::Engine& engine() const { return engine_; }

 private:
  struct Slot {
    CatalogueModel model;
    ModelStatus status;
    std::deque<request::Request> held;  // wait for the model to be ready
  };

  Slot& slot(ModelId model) { return slots_[index(model)]; }
  const Slot& slot(ModelId model) const { return slots_[index(model)]; }
  std::size_t index(ModelId model) const {
    const auto i = static_cast<std::size_t>(model.value);
    CAUSEWAY_CHECK(i < slots_.size(), "a model of this catalogue");
    return i;
  }

  // Under the lock, or before the loader runs.
  void enqueue(std::size_t i) {
    slots_[i].status.state = ModelState::kLoading;
    queue_.push_back(i);
  }

  Status hold(Slot& slot, request::Request request) {
    if (held_ >= options_.waiting_for_load_max) {
      return exhausted("too many requests wait for models to be loaded; try again later");
    }
    if (slot.status.state == ModelState::kUnloaded) {
      enqueue(index(request.model));
      changed_.notify_all();
    }
    slot.held.push_back(std::move(request));
    ++held_;
    return {};
  }

  bool drop_held(RequestId id) {
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

  void load_queued() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
      if (stopped_) return;
      const std::size_t i = queue_.front();
      queue_.pop_front();
      loading_ = true;
      lock.unlock();
      const Result<AttachedModel> attached = attach(i);
      lock.lock();
      std::vector<request::Output> outputs = settle(slots_[i], attached);
      loading_ = false;
      changed_.notify_all();
      lock.unlock();
      deliver(std::move(outputs));
      lock.lock();
    }
  }

  Result<AttachedModel> attach(std::size_t i) {
    const CatalogueModel& model = slots_[i].model;
    CAUSEWAY_ASSIGN(
        const AttachedModel attached,
        backend_.attach(*model.entry, model.source, [this] { return cancelled_.load(); }));
    const Status added = engine_.add_model(model.entry->id, attached.facts);
    if (!added.ok()) {
      backend_.detach(model.entry->id);
      return added.error();
    }
    return attached;
  }

  // Under the lock: the state after a load, and the outputs of held requests that ended with it.
  // Held requests enter the engine before the lock is released, so that none that came later
  // overtakes them.
  std::vector<request::Output> settle(Slot& slot, const Result<AttachedModel>& attached) {
    std::vector<request::Output> outputs;
    std::string error;
    if (attached.ok()) {
      slot.status = {ModelState::kReady, attached->bytes, ""};
    } else {
      error = attached.error().message;
      slot.status = {ModelState::kUnloaded, Bytes(0), error};
      error = "the model '" + slot.model.entry->name + "' could not be loaded: " + error;
      if (!cancelled_) spdlog::error("{}", error);
    }
    for (auto& request : slot.held) {
      const RequestId id = request.id;
      if (attached.ok()) {
        const Status submitted = engine_.submit(std::move(request));
        if (submitted.ok()) continue;
        error = submitted.error().message;
      }
      outputs.push_back(ended(id, request::FinishReason::kError, error));
    }
    held_ -= static_cast<std::int64_t>(slot.held.size());
    slot.held.clear();
    return outputs;
  }

  void deliver(std::vector<request::Output> outputs) {
    if (!outputs.empty()) sink_.on_outputs(std::move(outputs));
  }

  const LocalFleetOptions options_;
  engine::Engine& engine_;
  SliceBackend& backend_;
  SerialSink& sink_;
  std::vector<const CatalogueEntry*> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // keys live in the entries

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::deque<std::size_t> queue_;
  std::int64_t held_ = 0;
  bool loading_ = false;
  bool stopped_ = false;
  std::atomic<bool> cancelled_ = false;
  std::thread loader_;
};

Result<std::unique_ptr<LocalFleet>> LocalFleet::start(std::vector<CatalogueModel> models,
                                                      const LocalFleetOptions& options,
                                                      engine::Engine& engine, SliceBackend& backend,
                                                      SerialSink& sink) {
  auto state = std::make_unique<State>(std::move(models), options, engine, backend, sink);
  CAUSEWAY_TRY(state->begin());
  return std::make_unique<LocalFleet>(std::move(state));
}

LocalFleet::LocalFleet(std::unique_ptr<State> state) : state_(std::move(state)) {}

LocalFleet::~LocalFleet() { stop(); }

const std::vector<const CatalogueEntry*>& LocalFleet::catalogue() const {
  return state_->entries();
}

const CatalogueEntry* LocalFleet::find(std::string_view name) const { return state_->find(name); }

ModelStatus LocalFleet::status(ModelId model) const {
  ModelStatus status = state_->status(model);
  if (status.state != ModelState::kReady) return status;
  for (const auto& [id, seen] : state_->engine().observe_models()) {
    if (id == model && seen.requests_running + seen.requests_waiting > 0) {
      status.state = ModelState::kActive;
    }
  }
  return status;
}

Status LocalFleet::submit(request::Request request) { return state_->submit(std::move(request)); }

void LocalFleet::cancel(RequestId request) { state_->cancel(request); }

request::Observation LocalFleet::observe() const {
  request::Observation all = state_->engine().observe();
  for (const CatalogueEntry* entry : state_->entries()) {
    all.requests_waiting += state_->held(entry->id);
  }
  return all;
}

std::vector<std::pair<ModelId, request::Observation>> LocalFleet::observe_models() const {
  std::vector<std::pair<ModelId, request::Observation>> models;
  for (const CatalogueEntry* entry : state_->entries()) {
    request::Observation held;
    held.requests_waiting = state_->held(entry->id);
    models.emplace_back(entry->id, held);
  }
  for (const auto& [id, seen] : state_->engine().observe_models()) {
    auto& mine = models[static_cast<std::size_t>(id.value)].second;
    const std::int64_t waiting = mine.requests_waiting;
    mine = seen;
    mine.requests_waiting += waiting;
  }
  return models;
}

bool LocalFleet::wait_until_loaded(Nanos timeout) const {
  return state_->wait_until_loaded(timeout);
}

void LocalFleet::stop() { state_->stop(); }

}  // namespace causeway::fleet
