// The state of a fleet's simulation. Internal to this room; checkers drive it instant by instant.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/slice_handle.h"
#include "fleet/routed_requests.h"
#include "simulate/fleet_simulation.h"
#include "simulate/fleet_slices.h"

namespace causeway::simulate {

// Receives what the clients of the fleet see; for checkers.
class FleetClients {
 public:
  virtual ~FleetClients() = default;
  virtual void answered(const request::Output& output, Nanos at) = 0;
  // The request ends without an output of a slice.
  virtual void refused(RequestId request, request::FinishReason reason, const Error& error) = 0;
};

// A slice id of the fleet and what the fleet knows of it; over time several simulated slices may
// have the id.
class FleetPlace final : public engine::SliceHandle {
 public:
  FleetPlace(FleetSlices& slices, const Clock& clock, std::size_t index)
      : slices_(slices), clock_(clock), index_(index) {}

  Status submit(request::Request request) override {
    if (lost) return unavailable("the slice is lost");
    return slices_.ask(index_).core().submit(std::move(request), clock_.now());
  }
  void cancel(RequestId request) override {
    if (!lost) slices_.ask(index_).core().cancel(request, clock_.now());
  }
  request::Observation observe() const override {
    request::Observation seen;
    if (lost) seen.lost = "simulated: the slice died";
    return lost ? seen : slices_.at(index_)->core().observe();
  }

  std::size_t index() const { return index_; }

  std::int64_t machine = 0;
  std::int64_t parts = 1;  // into how many the machine was divided when the slice was opened
  bool open = false;
  std::map<ModelId, Bytes> attached;  // the bytes of each model that cross the link at every step
  std::int64_t losses = 0;
  // True from the death of the slice until it serves again.
  bool lost = false;
  bool told = false;  // the fleet has heard of it
  Nanos heard_at = kNever;
  Nanos back_at = kNever;
  std::vector<RequestId> suspects;
  // Requests that ended before the loss, of which the fleet hears later.
  std::vector<RequestId> ended;

 private:
  FleetSlices& slices_;
  const Clock& clock_;
  const std::size_t index_;
};

fleet::SliceSpec slice_spec(const SimulationOptions& slice, std::int64_t models_max,
                            std::int64_t machine);
// Whether run_fleet() can run it.
Status check_run(const FleetSimulationOptions& options, const Workload& workload);

class FleetSimulation {
 public:
  // Options and workload must have passed check_run(); all arguments are borrowed.
  FleetSimulation(const FleetSimulationOptions& options, const Workload& workload,
                  FleetClients* clients = nullptr);

  void begin();
  // Does everything of the next instant. False: nothing is left to happen.
  bool step();
  FleetSimulationReport report();
  // As report(), but without latencies, which take long to add up.
  FleetSimulationReport counts();

  // For checkers, between steps. Recomputes the invariants of slices: of all of them, or only of
  // those that had their turn in the last step. Also reports the first broken invariant of the
  // fleet's core during steps that are watched, and compares the bytes that links have carried, the
  // models in host memory and the attached models.
  enum class Asked : std::uint8_t { kAll, kThoseThatHadTheirTurn };
  Status check_integrity(Asked asked) const;
  // Turns watching of the next steps on or off. It is on from the start when there are clients.
  void watch(bool watches) { watches_ = watches; }
  // After the end of a run with lets_go: checks that nothing is held anywhere.
  Status check_let_go();
  const fleet::FleetCore& core() const { return core_; }
  Nanos now() const { return clock_.now(); }
  // Whether the run ended although something was left to do.
  bool cut_short() const { return cut_short_; }

 private:
  struct Unloading {
    fleet::Unload unload;
    Nanos until;
    bool tried = false;  // the model was asked to leave the first of its slices
  };
  struct Resizing {
    MachineResize change;
    std::vector<fleet::SliceId> closing;  // these were told to close and have not done so yet
    std::optional<Nanos> reopen_at;
  };

  // Defined in fleet_simulation.cc.
  static fleet::FleetSpec spec_of(const FleetSimulationOptions& options, const Workload& workload);
  static std::vector<std::string> names_of(const std::vector<ModelShape>& models);
  static bool resumes(const FleetSimulationOptions& options);
  static std::int64_t places_max(const FleetSimulationOptions& options);
  bool work_left() const;
  Nanos next_at() const;
  Nanos wakeup_at() const;
  bool next_instant();
  void arrive();
  void settle();
  void start_slices();
  bool pass(request::Output& output, Nanos at);
  void deliver(const request::Output& output, Nanos at);
  void refused(RequestId request, request::FinishReason reason, const Error& error);
  void tell(const fleet::Event& event);
  request::Request made(RequestId request) const;
  bool leaves(const fleet::Route& route);
  // How long a step of a model takes at the least, and at most before it counts as hanging.
  struct StepBounds {
    Nanos least;
    Nanos most;
  };
  const StepBounds& bounds_of(std::size_t model, std::size_t on_slice);
  // The time by the fleet's clock.
  Nanos fleet_now() const { return clock_.now() + skew_; }

  void apply(const fleet::Route& route);
  void apply(const fleet::Withdraw& withdraw);
  void apply(const fleet::CancelOn& cancel) { place(cancel.slice).cancel(cancel.request); }
  void apply(const fleet::Refuse& refuse);
  void apply(const fleet::LoadFailed&) {}
  void apply(const fleet::Answered& answered);
  void apply(const fleet::ModelRemoved&) {}
  void apply(const fleet::ModelKept&) {}
  void apply(const fleet::Reread&) { CAUSEWAY_CHECK(false, "the catalogue stays as it is here"); }
  void apply(const fleet::Measure& measure);
  void apply(const fleet::Load& load);
  void apply(const fleet::Unload& unload);
  void apply(const fleet::Drop& drop);
  void apply(const fleet::Resize& resize);

  // Defined in fleet_simulation_loader.cc.
  void end_loads();
  Result<Bytes> attach(const fleet::Load& load);
  // Returns whether some unload ended.
  bool try_unloads();
  bool leave(ModelId model, fleet::SliceId from);
  bool try_unload(Unloading& one);
  bool rests() const;
  void let_go();
  void leave_behind_nothing();
  Bytes host_budget() const;
  Bytes host_used() const;

  // Defined in fleet_simulation_changes.cc.
  void befall();
  void on(const RequestCancel& cancel);
  void on(const SliceLoss& loss) { losses_.push_back(loss); }
  void on(const LinkTrouble&) {}  // LinkRates have it from the start
  void on(const MachineResize& resize);
  void on(const ClockJump& jump);
  void on(const HostPause& pause);
  void open(std::size_t index);
  void open_all();
  bool lose_slices();
  void lose(const SliceLoss& loss);
  void tell_lost(FleetPlace& place);
  void tell_late_ends(FleetPlace& place);
  void tell_losses();
  void look_after_slices();
  Nanos next_of_slices() const;
  void tell_links();
  void change_slices();
  void look_at_demand();
  bool begin_resize(const MachineResize& change);
  bool closes(const FleetPlace& place) const;
  bool close_slices();
  void close(FleetPlace& place, std::size_t index);
  void reopen();
  const SimulationOptions& slice_options(std::int64_t parts);
  Status check_links() const;
  Status check_attached() const;

  void add_to(const SimulatedSlice& slice, SimulationReport& sum) const;
  std::int64_t slices_open() const;
  // Notes what links have carried, once a second.
  void note_carried();
  bool samples_carried() const;
  FleetCarried carried_now() const;

  const ModelShape& shape(ModelId model) const {
    return options_.slice.models[static_cast<std::size_t>(model.value)];
  }
  FleetPlace& place(fleet::SliceId id) { return places_[static_cast<std::size_t>(id.value)]; }
  SimulatedSlice& slice(fleet::SliceId id) {
    return slices_.ask(static_cast<std::size_t>(id.value));
  }

  const FleetSimulationOptions& options_;
  const Workload& workload_;
  FleetClients* const clients_;
  const bool resumes_;
  // Whether the second thread simulates slices. It does not where an alpha varies what steps read,
  // since no time is known then that is shorter than any step.
  const bool helped_;
  // The options of a slice, by the number of slices of its machine; not used with gpu_parts.
  std::map<std::int64_t, SimulationOptions> by_parts_;
  ManualClock clock_;
  Nanos skew_;                         // fleet's clock − clock_
  std::vector<SharedLink> links_;      // by machine
  std::vector<Bytes> submitted_past_;  // by machine: bytes that closed slices submitted
  fleet::FleetSpec spec_;
  fleet::FleetCore core_;
  LatencyRecorder recorder_;
  FleetSlices slices_;
  std::deque<FleetPlace> places_;  // by SliceId
  std::size_t arrived_ = 0;
  std::int64_t live_ = 0;  // requests that have arrived and not ended
  bool cut_short_ = false;
  bool watches_ = false;             // whether the core's invariants are checked after each event
  Status broken_;                    // the first invariant that was broken
  std::vector<std::optional<StepBounds>> bounds_;  // by model
  std::vector<fleet::Event> events_;               // not told to the core yet, in this order
  std::multimap<Nanos, fleet::Load> loads_;  // by the time of their ends
  std::vector<Unloading> unloads_;
  std::map<ModelId, bool> home_;         // models in host memory; false: still being loaded
  fleet::RoutedRequests routed_;         // used when requests may continue on other slices
  std::unordered_set<RequestId> given_;  // used with routed_: requests that a slice has had

  // Faults.
  std::size_t befallen_ = 0;           // how many of options_.faults have happened
  std::vector<SliceLoss> losses_;      // of this instant
  std::deque<MachineResize> resizes_;  // wanted and not begun
  Nanos try_resizes_at_ = kNever;
  Nanos paused_until_;
  std::optional<Resizing> resizing_;
  std::int64_t slices_lost_ = 0;
  Nanos links_at_ = kNever;  // when the fleet is told next what links gave
  bool asked_to_leave_ = false, all_left_ = false;

  std::optional<GpuParts> parts_;  // with options_.gpu_parts only
  SharedMemory memory_;
  std::vector<Nanos> targets_;  // by model: the target for the time between tokens
  Nanos look_at_;
  SimulationReport past_;  // the counters of closed slices
  std::vector<FleetCarried> carried_;
};

}  // namespace causeway::simulate
