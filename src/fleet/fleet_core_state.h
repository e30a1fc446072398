// The state of a FleetCore. Internal to this room.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/random.h"
#include "fleet/fleet_core.h"
#include "fleet/fleet_view.h"
#include "fleet/steady_time.h"
#include "fleet/unload.h"

namespace causeway::fleet {

// Whether the loader has it: reads its size, or brings it.
inline bool is_under_way(ModelPhase phase) {
  return phase == ModelPhase::kMeasuring || phase == ModelPhase::kLoading;
}

// Whether a model may go from one phase to another (fleet_core_integrity.cc); the design page draws
// it. One that serves may come to serve elsewhere, without another phase between.
bool may_follow(ModelPhase from, ModelPhase to);

class FleetCore::State {
 public:
  struct Model {
    ModelId id;
    ModelSpec spec;
    ModelPhase phase = ModelPhase::kCold;
    bool home = false;   // in host memory, as a whole
    bool ahead = false;  // wanted without requests
    Bytes needed;        // of host memory, once it is measured
    SliceId slice;       // from kPlaced to kLeaving
    SliceId last;        // the one before
    SliceId to;          // where it migrates
    // The slices that are up where it is attached, and how many bytes cross there at every step.
    std::map<SliceId, Bytes> there;
    std::set<SliceId> unfit;  // slices that could not take it, while its requests wait
    std::int64_t epoch = 0;   // of the slice, when it was loaded there
    Demand demand;
    ModelId taker;                    // for which it drains or leaves
    bool drops = false;               // leaves host memory as well
    bool told = false;                // leaves because it was asked to, for no taker
    bool removed = false;             // its folder is gone: it leaves, or has left
    bool sleeps = false;              // has left so that it is woken together with others
    std::vector<RequestId> awaiting;  // asks that are answered once it has left
    std::deque<RequestId> held;
    Nanos onset;  // from which the first of them lags
    std::int64_t running = 0;
    std::optional<Nanos> no_room_since;
    std::optional<Nanos> resume_until;  // when those of the held that go on are given up
    DecayedCount rate;
    std::string last_error;
    std::int64_t loads_failed = 0;
    // The figures that the view and the sums count for the model; out of date while `changed`.
    SliceId shown;  // on which slice of the view
    Bytes host_there, host_reserved;
    bool changed = false;
    std::optional<UnloadCandidate> unloadable;  // its entry among those; out of date while
    bool unranked = false;                      // this is set
  };
  struct Slice {
    SliceSpec spec;
    bool up = true;  // open, and not lost
    bool open = true;
    bool closing = false;  // takes nothing new
    std::int64_t epoch = 0;
    std::int64_t running = 0;  // routed to it, and not ended
    Nanos since;               // when the last of these ended; or the first came

    bool takes() const { return up && !closing; }
  };
  // Slices that are being changed.
  struct Resizing {
    std::vector<SliceId> closing;
    Nanos until;         // when what still runs there is withdrawn
    bool asked = false;  // Resize is under way: they are closed
  };
  struct Asked {
    ModelId model;
    Nanos onset;               // from which it lags
    SliceId slice;             // to which it was routed; none: it is held
    std::int64_t resumes = 0;  // after losses of slices in a step of which it was
    bool again = false;        // it was routed before
    bool cancelled = false;
    bool withdrawn = false;  // its slice was told to give it back
    bool loads = false;  // it asks for the model alone: answered instead of routed
  };
  // An ask whose models leave.
  struct Leaving {
    std::int64_t left = 0;  // of them
    Status result;          // the first that failed
  };
  // An ask for all to sleep that waits for requests.
  struct Sleeping {
    bool keeps_home = false;
    std::unordered_set<RequestId> until;  // these have ended
  };
  // Why the first model finds no place.
  struct NoRoom {
    Bytes free, could_go;  // of host memory
    bool host = false;     // it is host memory that lacks
  };

  State(FleetSpec spec, const FleetOptions& options, std::unique_ptr<PlacementPolicy> policy);

  // Events (fleet_core.cc).
  void on(const RequestArrived& event);
  void on(const RequestCancelled& event);
  void on(const RequestEnded& event);
  void on(const RequestWithdrawn& event);
  void on(const ModelWanted& event);
  void on(const Measured& event);
  void on(const LoadEnded& event);
  void on(const UnloadEnded& event);
  void on(const DropEnded& event);
  void on(const SliceLost& event);
  void on(const SliceReturned& event);
  void on(const ResizeWanted& event);
  void on(const SlicesChanged& event);
  void on(const LoaderStalled& event);
  void on(const Stopped& event);
  void on(const Woken& event);

  // Asks of the operator (fleet_core_admin.cc).
  void on(const LoadAsked& event);
  void on(const UnloadAsked& event);
  void on(const PinAsked& event);
  void on(const SleepAsked& event);
  void on(const WakeAsked& event);
  void forget(RequestId request);
  bool fall_asleep();  // false: no ask was to
  void send_to_sleep(RequestId ask, bool keeps_home);
  bool takes_ask(RequestId ask);
  void answer(RequestId ask, Status result);
  void answer_leaving(const Status& result);
  bool cancel_leaving(RequestId ask);
  Status may_unload(const Model& model, bool keeps_home) const;
  void unload(Model& model, RequestId ask, bool keeps_home);
  void has_left(Model& model, const Status& gone);
  void one_left(RequestId ask, const Status& gone);

  // The catalogue that is read again (fleet_core_catalogue.cc).
  void on(const ReloadAsked& event);
  void on(const CatalogueRead& event);
  bool is_removed(const Model& model) const;
  static Error removed_error(const Model& model);
  void add(const FoundModel& found);
  void remove(Model& model, RequestId ask);
  void keep(Model& model, const Error& why);

  void enter(Model& model, ModelPhase phase);
  // Whether a model is in one of these phases, which are not the first.
  bool any_in(ModelPhase first, ModelPhase last) const;
  Model& model_of(ModelId id);
  Slice& slice_of(SliceId id);
  bool slice_was_lost(const Model& model) const;
  // Every change of what a model takes is told by this; sums are brought up before they are used.
  void touch(Model& model);
  void add_up();
  Nanos predicted_tpot(const Model& model) const;
  void predict_tpots();  // of what is routed
  void show(Model& model);
  void rank_unloadable();
  bool another_may_fit(const Model& model) const;
  bool any_up() const;
  Nanos onset_of(const RequestArrived& event) const;
  void hold(Model& model, const RequestArrived& event);
  void route(Model& model, RequestId request);
  void route_held(Model& model);
  void leaves_slice(const Asked& asked, bool served);
  void resume_all(SliceId from, const std::unordered_set<RequestId>& suspects);
  bool may_resume(RequestId id, Asked& asked, bool suspect);
  void hold_again(Model& model, const std::vector<RequestId>& requests);
  void end_resumed(Model& model, const Error& error);
  void refuse_held(RequestId request, request::FinishReason reason, const Error& error);
  void end_held(Model& model, request::FinishReason reason, const Error& error);
  void end_all_held(const Error& error);
  void refuse(RequestId request, const Error& error);
  void fail(Model& model, const Error& error);
  void rest(Model& model);  // not on a slice: cold or at home, or asked for
  void give_up(Model& model);
  void give_up_all();

  // Slices that change (fleet_core_resize.cc).
  bool loader_works() const;
  void start_closing(Model& model);
  void leave_closing(Model& model);
  bool finish_closing();
  void open(const OpenedSlice& opened);

  // Models that go on elsewhere with what they run (fleet_core_migrate.cc).
  void migrate(const Migration& migration);
  bool finish_migrations();
  void stay(Model& model);
  void stay_all(SliceId to);

  // Placing (fleet_core_place.cc).
  void advance();
  bool give_up_resumed();
  bool drop_unwanted();
  bool finish_drains();
  bool start_loads();
  bool start_measures();
  bool place_next();
  bool change_slice(Model& model);
  void serve_on(Model& model, SliceId slice);
  bool place(Model& model, bool evicts, bool drains, NoRoom& why);
  std::optional<UnloadChoice> clear_host(const Model& model, bool evicts, bool drains, NoRoom& why);
  UnloadChoice choose_host_victims(bool drains, Bytes wanted);
  bool no_room(Model& model, const NoRoom& why);
  bool await_return(Model& model);
  bool may_give_way(const Model& model, bool drains) const;
  bool gives_host_memory(const Model& model) const {
    return model.home && may_give_way(model, /*drains=*/false);
  }
  static UnloadCandidate unload_candidate(const Model& model) {
    const double cost = log_cost(model.needed, model.rate.log_rate());
    return {model.id, model.needed, cost, model.rate.last()};
  }
  void leave(Model& model, ModelId taker, bool drops);
  void start_leaving(Model& model);
  bool may_load(const Model& model);
  SliceId takes_of(const Model& model) const;
  PlacedModel placed(const Model& model) const;
  FleetView view_ahead() const;
  std::vector<Model*> in_motion();
  std::vector<Model*> wanted();
  Bytes host_reserved();  // by what is there to stay, or is to come
  Bytes host_there();     // in use until loads, drops and unloads under way have ended

  Status check_model(const Model& model) const;
  Status check_slice(std::size_t index) const;
  Status check_resizing() const;
  Status check_requests() const;
  Status check_asks() const;
  Status check_removed(const Model& model) const;
  Status check_migrating(const Model& model) const;
  Status check_sums();

  const FleetOptions options;
  const std::unique_ptr<PlacementPolicy> policy;
  std::vector<Model> models;
  std::vector<Slice> slices;
  std::unordered_map<RequestId, Asked> requests;
  std::unordered_map<RequestId, Leaving> leaving;  // asks for models to leave, not answered yet
  std::unordered_map<RequestId, Sleeping> sleeping;  // asks that have not begun
  bool asleep = false;                             // models were sent to sleep, and not woken
  std::int64_t held = 0;
  bool any_resumes = false;  // requests were held to go on, some time
  std::optional<Bytes> host_budget;
  Bytes host_other;              // in host memory, taken by others than these models
  Nanos down_since;              // when the last slice that was up was lost
  std::optional<Error> stalled;  // the loader, and why that is thought
  std::optional<Resizing> resizing;
  // The ask for the catalogue that is being read. One that has been answered since is not in
  // `leaving` any more.
  std::optional<RequestId> rereading;
  std::set<ModelId> moving;          // models that neither rest nor serve
  std::int64_t loads_under_way = 0;  // how many of them the loader has
  std::string wrong_change;          // the first that may_follow() refuses; empty: there was none
  // How many models have entered each phase and not left it.
  std::array<std::int64_t, static_cast<std::size_t>(ModelPhase::kDropping) + 1> in_phase = {};
  FleetView view;                    // of models that take something of their slice
  std::vector<ModelId> changed;      // since the sums were brought up
  Bytes there_sum, reserved_sum;     // of host memory, by all models
  // Models that may leave host memory without draining, the cheapest to bring back first; as of the
  // last rank_unloadable(). Those that were shown since.
  std::set<UnloadCandidate> unloadable;
  Bytes unloadable_sum;
  std::vector<ModelId> unranked;
  bool stopped = false;
  SteadyTime time;
  Nanos now;  // by it
  Random random;
  FleetCounters counters;
  std::vector<Action> actions;
};

}  // namespace causeway::fleet
