// The state of a LocalFleet beside its core, and its two threads. Internal to this room.
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
#include "fleet/routed_requests.h"
#include "fleet/steady_time.h"

namespace causeway::fleet {

// Runs `work`; an exception of it becomes an error as any other, so that nothing else goes down.
template <typename Work>
auto guarded(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    return Error{ErrorCode::kIo, std::string("an exception: ") + error.what()};
  } catch (...) {
    return Error{ErrorCode::kIo, "an exception without a name"};
  }
}

// What the core has to know of the model.
ModelSpec spec_of(const CatalogueModel& model);

class LocalFleet::State {
 public:
  State(std::vector<CatalogueModel> models, const LocalFleetOptions& options, FleetHome& home,
        FleetSlices slices, SerialSink& sink);
  ~State();  // waits for a loader that is held, however long

  Status begin();
  std::vector<const CatalogueEntry*> served() const;
  ReloadReport last_reload() const;
  const CatalogueEntry* find(std::string_view name) const;
  ModelStatus status(ModelId model) const;
  Status submit(request::Request request, bool only_ready = false);
  Status ask(const Ask& ask);
  bool asleep() const;
  void cancel(RequestId id);
  request::Observation observe() const;
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const;
  bool wait_until_loaded(Nanos timeout) const;
  Status resize(LayoutChange change);
  bool wait_until_resized(Nanos timeout) const;
  bool stop();

 private:
  struct Slot {
    CatalogueModel model;
    std::map<SliceId, AttachedModel> attached;
    bool home = false;     // in host memory; the loader's alone
    bool removed = false;  // served no longer
    Nanos effort_told;     // when the log said last that it is served by best effort
  };
  struct Held {
    request::Request request;
    Nanos since;
  };
  using Outputs = std::vector<request::Output>;

  Slot& slot(ModelId model) { return slots_[index(model)]; }
  const Slot& slot(ModelId model) const { return slots_[index(model)]; }
  FleetSlice& slice(SliceId id) const;
  std::size_t index(ModelId model) const;

  // Under the lock: what the core answers to the event is done, or left to the loader; what is to
  // be delivered comes back.
  Outputs tell(const Event& event);
  void apply(std::vector<Action> actions, Outputs& outputs);
  void route(const Route& route, Outputs& outputs);
  void note_effort(ModelId model, const Route& route);
  Status give(SliceId to, request::Request request, bool again);
  void refuse(const Refuse& refuse, Outputs& outputs);
  void report_left();
  Outputs hear();  // of slices that are lost, or back
  std::optional<Event> slice_news();
  Outputs look_after_loader();
  std::string in_words(const Action& task) const;

  // Slices that change (local_fleet_resize.cc); the first under the lock.
  Status begin_resize(LayoutChange change, Outputs& outputs);
  Outputs look_at_demand();
  Event reopen(const Resize& resize);
  void adopt(SlicesChanged& changed);

  // The catalogue that is read again (local_fleet_reload.cc); the first the loader's, without the
  // lock, the others under it.
  CatalogueRead reread();
  std::vector<ModelId> adopt(CatalogueRead& read);
  void take(CatalogueModel found, CatalogueNews& news);
  Outputs want_found(const std::vector<ModelId>& found);
  Outputs want(std::vector<ModelId> models);  // ahead of requests
  void note(const ModelRemoved& removed);
  void note(const ModelKept& kept);

  void on_ended(const std::vector<RequestId>& ended, const std::vector<RequestId>& given_back);
  void deliver(Outputs outputs);

  Status start_threads();
  void run_watch();
  void check_at_idle() const;  // under the lock

  // The loader's thread, without the lock.
  void run_loader();
  Event execute(const Action& task);
  Result<Bytes> load(const Load& load);
  Status unload(const Unload& unload);
  Status detach(ModelId model, SliceId slice);
  void forget(ModelId model);
  bool is_cancelled();
  void note_progress(ModelId model, int percent);

  const LocalFleetOptions options_;
  const RealClock machine_clock_;
  const SteadyClock clock_;
  FleetHome& home_;
  SerialSink& sink_;
  SliceOpener* const opener_;  // null: slices stay as they are
  const bool resumes_;         // requests of slices that are lost
  RoutedRequests routed_;      // where they do

  mutable std::mutex mutex_;  // guards what follows
  // The entries by ModelId. The loader changes them, and may look without the lock.
  std::vector<const CatalogueEntry*> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // keys live in the entries
  std::vector<std::unique_ptr<CatalogueEntry>> replaced_;      // of models that have come back
  CatalogueFound found_;  // by a read; the loader's until it is told
  ReloadReport report_;
  // The slices by SliceId; null: closed. The loader changes them, and may look without the lock.
  std::vector<FleetSlice*> slices_;
  mutable std::condition_variable changed_;
  std::condition_variable tasks_changed_;  // the loader
  std::condition_variable watch_changed_;  // the watch
  std::vector<Slot> slots_;                // as entries_
  FleetCore core_;
  std::unordered_map<RequestId, Held> held_;             // the bodies of those that the core holds
  std::deque<Action> tasks_;                             // for the loader
  std::vector<bool> lost_;                               // slices, until they return
  Nanos watch_at_;                                       // when the watch looks next
  std::optional<std::pair<ModelId, int>> load_percent_;  // of a load into host memory
  std::string task_;                                     // of the loader, that is under way
  std::vector<DemandMeter> demand_;                      // by model, where there is an opener
  Nanos demand_at_;                                      // when it is looked at next
  std::optional<LayoutChange> change_;                   // of slices, that is under way
  SlicesOpened opened_;                                  // by it; the loader's until it is told
  request::Observation past_;                            // what closed slices have counted
  std::vector<request::Observation> past_of_;            // likewise, by model
  std::string none_open_;                                // why there is no slice
  bool stall_told_ = false;                              // of it
  bool left_reported_ = false;
  bool loading_ = false;
  bool stopped_ = false;
  bool loader_ended_ = true;
  std::atomic<bool> cancelled_ = false;
  std::atomic<std::int64_t> alive_ = 0;  // the loader's last sign of life, in nanoseconds

  std::thread loader_, watch_;
};

}  // namespace causeway::fleet
