// The state of a LocalFleet beside its core, and the bodies of its two threads. Internal to this
// room.
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

// Runs `work` and turns an exception into an error, so that it ends nothing else.
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

// What the core must know of the model.
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
    bool home = false;     // in host memory; used by the loader alone
    bool removed = false;  // not served any more
    Nanos effort_told;     // when the log last said that it is served by best effort
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

  // With the lock held. Tells the core of an event and executes the core's actions, or leaves them
  // to the loader. Returns the outputs that the caller must deliver.
  Outputs tell(const Event& event);
  void apply(std::vector<Action> actions, Outputs& outputs);
  void route(const Route& route, Outputs& outputs);
  void note_effort(ModelId model, const Route& route);
  Status give(SliceId to, request::Request request, bool again);
  void refuse(const Refuse& refuse, Outputs& outputs);
  void report_left();
  Outputs hear();  // looks for slices that are lost or back
  std::optional<Event> slice_news();
  Outputs look_after_loader();
  std::string in_words(const Action& task) const;

  // Changing slices; defined in local_fleet_resize.cc. begin_resize() needs the lock.
  Status begin_resize(LayoutChange change, Outputs& outputs);
  Outputs look_at_demand();
  Event reopen(const Resize& resize);
  void adopt(SlicesChanged& changed);

  // Tells the core once a second what the links were seen to give; defined in
  // local_fleet_links.cc. Needs the lock.
  Outputs look_at_links();

  // Reading the catalogue again; defined in local_fleet_reload.cc. The loader calls reread()
  // without the lock; the others need the lock.
  CatalogueRead reread();
  std::vector<ModelId> adopt(CatalogueRead& read);
  void take(CatalogueModel found, CatalogueNews& news);
  Outputs want_found(const std::vector<ModelId>& found);
  Outputs want(std::vector<ModelId> models);  // loads them ahead of requests
  void note(const ModelRemoved& removed);
  void note(const ModelKept& kept);

  void on_ended(const std::vector<RequestId>& ended, const std::vector<RequestId>& given_back);
  void deliver(Outputs outputs);

  Status start_threads();
  void run_watch();
  void check_at_idle() const;  // with the lock held

  // The loader's thread; without the lock.
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
  SliceOpener* const opener_;  // null: the slices never change
  const bool resumes_;         // requests of lost slices are routed again
  RoutedRequests routed_;      // the requests on slices, if resumes_

  mutable std::mutex mutex_;  // guards what follows
  // By ModelId. Only the loader changes them, so it may read them without the lock.
  std::vector<const CatalogueEntry*> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // keys live in the entries
  // Earlier entries of models that were removed and have come back.
  std::vector<std::unique_ptr<CatalogueEntry>> replaced_;
  CatalogueFound found_;  // the result of reread(); the loader's until the core is told
  ReloadReport report_;
  // By SliceId; null: closed. Only the loader changes them, so it may read them without the lock.
  std::vector<FleetSlice*> slices_;
  mutable std::condition_variable changed_;
  std::condition_variable tasks_changed_;  // wakes the loader
  std::condition_variable watch_changed_;  // wakes the watch
  std::vector<Slot> slots_;                // by ModelId
  FleetCore core_;
  std::unordered_map<RequestId, Held> held_;  // the bodies of the requests that the core holds
  std::deque<Action> tasks_;                  // the loader's actions
  std::vector<bool> lost_;                    // by SliceId: lost and not yet back
  // What has crossed the link of a slice, as of the last look.
  struct Carried {
    const FleetSlice* slice = nullptr;  // another one: it was opened since
    Bytes bytes;
    Nanos busy;
  };
  std::vector<Carried> carried_;              // by SliceId
  Nanos links_at_;                            // when links are looked at next
  Nanos watch_at_;                            // when the watch looks at slices again
  std::optional<std::pair<ModelId, int>> load_percent_;  // progress of the load into host memory
  std::string task_;                                     // the loader's present task, in words
  std::vector<DemandMeter> demand_;                      // by model; empty without an opener
  Nanos demand_at_;                                      // when demand_ is evaluated next
  std::optional<LayoutChange> change_;                   // the change of slices that is under way
  SlicesOpened opened_;        // the result of change_; the loader's until the core is told
  request::Observation past_;  // the counters of closed slices
  std::vector<request::Observation> past_of_;  // the counters of closed slices, by model
  std::string none_open_;                      // why no slice is open
  bool stall_told_ = false;                    // the core was told that the loader is stalled
  bool left_reported_ = false;
  bool loading_ = false;
  bool stopped_ = false;
  bool loader_ended_ = true;
  std::atomic<bool> cancelled_ = false;
  std::atomic<std::int64_t> alive_ = 0;  // the loader's last sign of life, in nanoseconds

  std::thread loader_, watch_;
};

}  // namespace causeway::fleet
