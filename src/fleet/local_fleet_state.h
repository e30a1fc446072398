// What a LocalFleet remembers, and its loader thread. Internal to this room.
//
//   unloaded ── request, or ahead ──▶ loading ──▶ ready ──▶ unloaded (gives way to another)
//
// A model that gives way is marked first, under the lock, when it has no requests: what arrives for
// it from then on is held, and has it loaded again once it has gone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fleet/local_fleet.h"
#include "fleet/unload.h"

namespace causeway::fleet {

class LocalFleet::State {
 public:
  State(std::vector<CatalogueModel> models, const LocalFleetOptions& options,
        engine::Engine& engine, SliceBackend& backend, SerialSink& sink);
  ~State();  // waits for a loader that is held, however long

  Status begin();
  const std::vector<const CatalogueEntry*>& entries() const { return entries_; }
  const CatalogueEntry* find(std::string_view name) const;
  ModelStatus status(ModelId model) const;
  Status submit(request::Request request);
  void cancel(RequestId id);
  request::Observation observe() const;
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const;
  bool wait_until_loaded(Nanos timeout) const;
  bool stop();

 private:
  struct Slot {
    CatalogueModel model;
    ModelState state = ModelState::kUnloaded;
    Bytes bytes;  // at home, until it has gone
    Bytes streamed_bytes;
    Nanos predicted_tpot{0};
    std::string last_error;
    std::deque<request::Request> held;  // wait for the model to be ready
    DecayedCount rate;                  // of its requests
    std::int64_t entering = 0;          // requests that are being handed to the engine
  };
  // Of loading a model: done, failed, or left for a request to ask for (nullopt).
  using Outcome = std::optional<Result<AttachedModel>>;

  Slot& slot(ModelId model) { return slots_[index(model)]; }
  const Slot& slot(ModelId model) const { return slots_[index(model)]; }
  std::size_t index(ModelId model) const;

  // Under the lock.
  Status hold(Slot& slot, request::Request request);
  bool drop_held(RequestId id);
  void want(Slot& slot);
  std::vector<request::Output> settle(Slot& slot, const Outcome& outcome);
  std::vector<request::Output> admit_held(Slot& slot);
  std::vector<request::Output> end_held(Slot& slot, request::FinishReason why, const Error& error);
  std::vector<UnloadCandidate> candidates(const Slot& taker) const;
  bool queued() const { return !wanted_.empty() || !ahead_.empty(); }

  // The loader's thread, without the lock.
  void load_queued();
  Outcome load(Slot& slot);
  Result<bool> make_room(Slot& slot);
  Result<AttachedModel> attach(Slot& slot);
  bool unload(Slot& slot, const Slot& taker);
  void report_left();
  void deliver(std::vector<request::Output> outputs);

  const LocalFleetOptions options_;
  engine::Engine& engine_;
  SliceBackend& backend_;
  SerialSink& sink_;
  std::vector<const CatalogueEntry*> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // keys live in the entries

  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  std::vector<Slot> slots_;         // fixed in number
  std::deque<std::size_t> wanted_;  // to be loaded: requests wait for them
  std::deque<std::size_t> ahead_;   // to be loaded after those
  std::int64_t held_ = 0;
  Nanos latest_;  // arrival of a request
  bool loading_ = false;
  bool stopped_ = false;
  bool loader_ended_ = true;
  std::atomic<bool> cancelled_ = false;

  // The loader's own.
  std::int64_t left_ = 0;  // models that did not fit ahead of requests
  HostRoom last_room_{};

  std::thread loader_;
};

}  // namespace causeway::fleet
