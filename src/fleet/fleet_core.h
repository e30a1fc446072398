// The fleet's decisions, without its threads: which slice serves a request, which models are in
// host memory and on slices, which give way (C2CServe's assigner, paper §6.1 and 6.2). Events and
// time in, actions out; docs/design/fleet.md has the states and what always holds.
//
//   actions = core.on_event(RequestArrived{…}, now);   // execute them in order
//   …                                                  // Load → LoadEnded, Unload → UnloadEnded, …
//   core.on_event(Woken{}, now);                       // at next_wakeup(), at the latest
//
// A request that arrives under an id that is in use is refused, and the other goes on. Not
// thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fleet/fleet_event.h"
#include "fleet/fleet_spec.h"
#include "fleet/placement.h"

namespace causeway::fleet {

enum class ModelPhase : std::uint8_t {
  kCold,       // not in host memory
  kHome,       // in host memory, on no slice
  kQueued,     // asked for
  kMeasuring,  // its size is asked for
  kWaiting,    // for a place
  kPlaced,     // its place is being cleared
  kLoading,
  kReady,
  kClosing,    // its slice is to be closed: serves what it has there
  kMigrating,  // to another slice: what it has is given back, and goes on there
  kDraining,   // serves what it has, then leaves
  kLeaving,    // its slice
  kDropping,   // out of host memory
};

std::string_view name_of(ModelPhase phase);

struct FleetOptions {
  std::int64_t waiting_max = 1024;  // requests held while their models are made ready
  std::int64_t loads_max = 1;       // measured or loaded at a time
  // How long the model that comes next may find no place, before its requests are refused; and
  // before one with requests is drained for it (nullopt: none ever is).
  Nanos room_timeout = seconds(1);
  std::optional<Nanos> drain_after = std::nullopt;
  // How often a request is routed again that was in the step that ran when its slice was lost, so
  // that one that brings slices down ends; and how long one of a lost slice may be held.
  std::int64_t resumes_max = 2;
  Nanos resume_timeout = seconds(60);
  // While no slice is up requests wait for one to return, no longer than this since the last went;
  // zero: none does.
  Nanos return_timeout = seconds(30);
  // A model without requests takes nothing of its slice, and its next request may have it change
  // to another; it stays attached where it was. For slices that divide places and memory
  // themselves, as engines with a residency of their own: no slice of the spec may count places.
  bool moves = false;
  std::uint64_t seed = 1;  // of policies that roll dice
};

// A model as it is.
struct ModelSeen {
  ModelPhase phase = ModelPhase::kCold;
  SliceId slice;  // on which it is, or comes to be, or which it leaves
  Bytes host;     // in host memory
  Demand demand;  // of the slice
  std::int64_t held = 0;
  std::int64_t running = 0;  // routed, and not ended
  std::string last_error;    // of the last load
  std::int64_t loads_failed = 0;
  bool pinned = false;
  bool attached = false;  // to a slice
  bool removed = false;   // served no longer
};

struct FleetCounters {
  std::int64_t routed = 0;   // each time
  std::int64_t resumed = 0;  // of these, after their slice was lost or closed, or gave them back
  std::int64_t refused = 0;  // not those that were cancelled
  std::int64_t loads = 0;
  std::int64_t loads_failed = 0;
  std::int64_t loads_lost = 0;  // undone by a slice that was lost or closed
  std::int64_t unloads = 0;
  std::int64_t drains = 0;
  std::int64_t best_effort = 0;  // placements that exceed a soft limit
  std::int64_t moves = 0;        // of models from the slice that served them to another
  std::int64_t resizes = 0;
  std::int64_t removed = 0;    // models
  std::int64_t withdrawn = 0;  // requests that had not ended when their slice was closed
  std::int64_t migrations = 0;  // of models, by the policy
  std::int64_t migrated = 0;    // requests that their slices gave back for that
};

class FleetCore {
 public:
  // Every id in the spec is an index of it: a CHECK. At least one slice.
  FleetCore(FleetSpec spec, const FleetOptions& options, std::unique_ptr<PlacementPolicy> policy);
  ~FleetCore();
  FleetCore(const FleetCore&) = delete;
  FleetCore& operator=(const FleetCore&) = delete;

  // Takes in an event and returns what is to be done, in this order. An event that names a model or
  // slice that the spec does not have, or answers what was not asked for, is a CHECK. `now` may be
  // less than before: see steady_time.h.
  std::vector<Action> on_event(const Event& event, Nanos now);
  // When Woken must come at the latest; nullopt: only another event changes anything.
  std::optional<Nanos> next_wakeup() const;

  ModelSeen model(ModelId model) const;
  // The time per token that the sums of what is asked of its slice and link predict; zero while it
  // is on no slice. Longer than its target: it is served by best effort.
  Nanos predicted_tpot(ModelId id) const;
  std::int64_t models() const;   // with those that were removed
  std::int64_t waiting() const;  // requests that are held
  bool resizing() const;         // from ResizeWanted to SlicesChanged
  bool loads_pending() const;    // some model is asked for, and is not ready
  // Whether the slice of the Load that is under way for the model has been lost since it was asked
  // for, though it may be back by now. The model must not be attached there for it: the core, which
  // counts this load as undone, would not know of it.
  bool load_is_undone(ModelId model) const;
  bool asleep() const;           // from SleepAsked to WakeAsked, while no model is on a slice
  Bytes host_used() const;
  Bytes host_budget() const;  // as last measured
  const FleetCounters& counters() const;

  // Recomputes and compares every invariant, slowly. For checkers.
  Status check_integrity() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::fleet
