// What a LocalFleet remembers beside its core, and its loader thread. Internal to this room.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fleet/fleet_core.h"
#include "fleet/local_fleet.h"

namespace causeway::fleet {

class LocalFleet::State {
 public:
  State(std::vector<CatalogueModel> models, const LocalFleetOptions& options, FleetHome& home,
        FleetSlices slices, SerialSink& sink);
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
    std::map<SliceId, AttachedModel> attached;
    bool home = false;  // in host memory; the loader's alone
  };
  using Outputs = std::vector<request::Output>;

  Slot& slot(ModelId model) { return slots_[index(model)]; }
  const Slot& slot(ModelId model) const { return slots_[index(model)]; }
  FleetSlice& slice(SliceId id) const { return *slices_[static_cast<std::size_t>(id.value)]; }
  std::size_t index(ModelId model) const;

  // Under the lock: what the core answers to the event is done, or left to the loader; what is to
  // be delivered comes back.
  Outputs tell(const Event& event);
  void apply(std::vector<Action> actions, Outputs& outputs);
  void route(const Route& route, Outputs& outputs);
  void report_left();

  void on_ended(const std::vector<RequestId>& ended);
  void deliver(Outputs outputs);

  // The loader's thread, without the lock.
  void run_loader();
  Event execute(const Action& task);
  Result<Bytes> load(const Load& load);
  Status unload(const Unload& unload);
  Status detach(ModelId model, SliceId slice);
  void forget(ModelId model);
  std::optional<Event> slice_news();

  const LocalFleetOptions options_;
  const RealClock clock_;
  FleetHome& home_;
  const std::vector<FleetSlice*> slices_;  // by SliceId
  SerialSink& sink_;
  std::vector<const CatalogueEntry*> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // keys live in the entries

  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  std::vector<Slot> slots_;  // fixed in number
  FleetCore core_;
  std::unordered_map<RequestId, request::Request> held_;  // the bodies of those that the core holds
  std::deque<Action> tasks_;                              // for the loader
  std::vector<bool> lost_;                                // slices, until they return
  bool left_reported_ = false;
  bool loading_ = false;
  bool stopped_ = false;
  bool loader_ended_ = true;
  std::atomic<bool> cancelled_ = false;

  std::thread loader_;
};

}  // namespace causeway::fleet
