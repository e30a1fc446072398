// The state of a FleetCore. Internal to this room.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/id_map.h"
#include "base/random.h"
#include "fleet/fleet_core.h"
#include "fleet/fleet_view.h"
#include "fleet/rate_meter.h"
#include "fleet/steady_time.h"
#include "fleet/unload.h"

namespace causeway::fleet {

// Whether the loader is working on the model: reading its size, or loading it.
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
    bool home = false;   // all of its weights are in host memory
    bool ahead = false;  // it is wanted without requests
    Bytes needed;        // bytes of host memory; set when measured
    SliceId slice;       // its slice, from kPlaced to kLeaving
    SliceId last;        // the slice before that
    SliceId to;          // the slice that it migrates to
    // By slice that is up and where the model is attached: the bytes that cross the link at every
    // step.
    IdMap<SliceId, Bytes> there;
    std::set<SliceId> unfit;  // slices that could not take it, while its requests wait
    std::int64_t epoch = 0;   // of its slice, when it was loaded there
    Demand demand;
    ModelId taker;         // the model for which it drains or leaves
    bool drops = false;    // it leaves host memory as well
    bool told = false;     // it leaves because the operator asked, and not for a taker
    bool removed = false;  // its folder is gone: it leaves, or has left
    bool sleeps = false;   // it was sent to sleep, and is to be woken together with others
    std::vector<RequestId> awaiting;  // asks that are answered when it has left
    std::vector<RequestId> held;
    Nanos onset;  // when the first of the held requests begins to lag
    std::int64_t running = 0;
    std::optional<Nanos> no_room_since;
    // When held requests that continue after a loss are given up.
    std::optional<Nanos> resume_until;
    DecayedCount rate;
    std::string last_error;
    std::int64_t loads_failed = 0;
    // What the view and the sums count for the model; out of date while `changed`.
    SliceId shown;  // the slice of the view on which it is counted
    Bytes host_there, host_reserved;
    bool changed = false;
    // Its entry in `unloadable` below; out of date while `unranked`.
    std::optional<UnloadCandidate> unloadable;
    bool unranked = false;
  };
  struct Slice {
    SliceSpec spec;
    bool up = true;  // open and not lost
    bool open = true;
    bool closing = false;  // it takes no new models or requests
    std::int64_t epoch = 0;
    std::int64_t running = 0;  // requests that were routed to it and have not ended
    Nanos since;               // when the last request ended there; the first arrival before that

    bool takes() const { return up && !closing; }
  };
  // Slices that are being closed so that others can be opened.
  struct Resizing {
    std::vector<SliceId> closing;
    Nanos until;         // when requests that still run there are withdrawn
    bool asked = false;  // Resize has been issued: the slices are being closed
  };
  struct Asked {
    ModelId model;
    Nanos onset;               // when the request begins to lag
    SliceId slice;             // the slice that it was routed to; none: it is held
    std::int64_t resumes = 0;  // how often it was in a step of a slice that was lost
    bool again = false;        // it was routed before
    bool cancelled = false;
    bool withdrawn = false;  // its slice was told to give it back
    bool loads = false;      // a LoadAsked: it is answered instead of routed
  };
  // An ask that is answered when its models have left.
  struct Leaving {
    std::int64_t left = 0;  // models that have not left yet
    Status result;          // the first failure
  };
  // A SleepAsked that waits for requests to end.
  struct Sleeping {
    bool keeps_home = false;
    std::unordered_set<RequestId> until;  // the requests that have not ended yet
  };
  // Why the model that comes next finds no place.
  struct NoRoom {
    Bytes free, could_go;  // bytes of host memory: free, and held by models that could leave
    bool host = false;     // host memory is what is lacking
  };

  State(FleetSpec spec, const FleetOptions& options, std::unique_ptr<PlacementPolicy> policy);

  // Events; defined in fleet_core.cc.
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
  void on(const LinkSeen& event);
  void on(const Stopped& event);
  void on(const Woken& event);

  // Asks of the operator; defined in fleet_core_admin.cc.
  void on(const LoadAsked& event);
  void on(const UnloadAsked& event);
  void on(const PinAsked& event);
  void on(const SleepAsked& event);
  void on(const WakeAsked& event);
  void forget(RequestId request);
  bool fall_asleep();  // returns whether some ask to sleep could begin
  void send_to_sleep(RequestId ask, bool keeps_home);
  bool takes_ask(RequestId ask);
  void answer(RequestId ask, Status result);
  void answer_leaving(const Status& result);
  bool cancel_leaving(RequestId ask);
  Status may_unload(const Model& model, bool keeps_home) const;
  void unload(Model& model, RequestId ask, bool keeps_home);
  void has_left(Model& model, const Status& gone);
  void one_left(RequestId ask, const Status& gone);

  // Reading the catalogue again; defined in fleet_core_catalogue.cc.
  void on(const ReloadAsked& event);
  void on(const CatalogueRead& event);
  bool is_removed(const Model& model) const;
  static Error removed_error(const Model& model);
  void add(const FoundModel& found);
  void remove(Model& model, RequestId ask);
  void keep(Model& model, const Error& why);

  void enter(Model& model, ModelPhase phase);
  // Whether some model is in a phase from `first` to `last`. `first` must not be a phase in which
  // models rest.
  bool any_in(ModelPhase first, ModelPhase last) const;
  Model& model_of(ModelId id);
  Slice& slice_of(SliceId id);
  bool slice_was_lost(const Model& model) const;
  // Call it at every change of what a model takes. add_up() brings the sums up to date before they
  // are used.
  void touch(Model& model);
  void add_up();
  Nanos predicted_tpot(const Model& model) const;
  void predict_tpots();  // for models with routed requests
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
  void rest(Model& model);  // the model is on no slice any more: cold, at home, or queued again
  void give_up(Model& model);
  void give_up_all();

  // Changing slices; defined in fleet_core_resize.cc.
  bool loader_works() const;
  void start_closing(Model& model);
  void leave_closing(Model& model);
  bool finish_closing();
  void open(const OpenedSlice& opened);

  // Moving models to other slices together with their requests; defined in fleet_core_migrate.cc.
  void migrate(const Migration& migration);
  bool finish_migrations();
  void stay(Model& model);
  void stay_all(SliceId to);

  // Placing models; defined in fleet_core_place.cc.
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
  static bool wanted_before(const Model* a, const Model* b);
  std::vector<Model*> wanted();
  Bytes host_reserved();  // by models that stay there or are to come
  // By models that are there, until loads, drops and unloads under way have ended.
  Bytes host_there();

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
  std::unordered_map<RequestId, Leaving> leaving;    // asks that are answered when models have left
  std::unordered_map<RequestId, Sleeping> sleeping;  // asks to sleep that wait for requests
  bool asleep = false;                               // models were sent to sleep and not woken
  std::int64_t held = 0;
  bool any_resumes = false;  // some request was once held so that it continues elsewhere
  std::optional<Bytes> host_budget;
  Bytes host_other;              // in use for weights, but not by these models
  Nanos down_since;              // when the last slice that was up was lost
  std::optional<Error> stalled;  // why the loader is thought to be stalled; empty: it is not
  std::optional<Resizing> resizing;
  // The ask for which the catalogue is being read. When it has been answered early it is no longer
  // in `leaving`.
  std::optional<RequestId> rereading;
  std::set<ModelId> moving;          // models that neither rest nor serve
  std::int64_t loads_under_way = 0;  // how many models the loader is working on
  std::string wrong_change;          // the first that may_follow() refuses; empty: there was none
  // By phase: the number of models in it.
  std::array<std::int64_t, static_cast<std::size_t>(ModelPhase::kDropping) + 1> in_phase = {};
  FleetView view;                 // of models that take something of their slice
  std::vector<RateMeter> meters;  // of what links give, by LinkId
  std::vector<ModelId> changed;   // models that changed since the sums were last brought up to date
  Bytes there_sum, reserved_sum;  // of host memory, by all models
  // Models that may leave host memory without draining, the cheapest to bring back first, as of the
  // last rank_unloadable(); their bytes; and the models that have changed since.
  std::set<UnloadCandidate> unloadable;
  Bytes unloadable_sum;
  std::vector<ModelId> unranked;
  bool stopped = false;
  SteadyTime time;
  Nanos now;  // by `time`
  Random random;
  FleetCounters counters;
  std::vector<Action> actions;
};

}  // namespace causeway::fleet
