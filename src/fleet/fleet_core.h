// The fleet's decisions, without its threads: which slice serves a request, which models are in
// host memory and on slices, and which models leave for others (C2CServe's assigner, paper §6.1 and
// 6.2). Events and time go in, actions come out; docs/design/fleet.md has the states and the
// invariants.
//
//   actions = core.on_event(RequestArrived{…}, now);   // execute them in order
//   …                                                  // Load → LoadEnded, Unload → UnloadEnded, …
//   core.on_event(Woken{}, now);                       // at next_wakeup(), at the latest
//
// A request that arrives under an id that is in use is refused, and the earlier request is not
// affected. Not thread-safe.
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
  kQueued,     // wanted: by a request, an ask or ahead of both
  kMeasuring,  // the loader reads its size
  kWaiting,    // it waits for a place
  kPlaced,     // its place is being cleared
  kLoading,
  kReady,
  kClosing,    // its slice is to be closed; it serves its present requests
  kMigrating,  // to another slice, where the requests that its slice gives back continue
  kDraining,   // it serves its present requests, then leaves
  kLeaving,    // it leaves its slice
  kDropping,   // it leaves host memory
};

std::string_view name_of(ModelPhase phase);

struct FleetOptions {
  std::int64_t waiting_max = 1024;  // requests held while their models are made ready
  std::int64_t loads_max = 1;       // models that are measured or loaded at the same time
  // How long the model that comes next may find no place before its requests are refused; and
  // before a model with requests is drained for it (nullopt: none is drained).
  Nanos room_timeout = seconds(1);
  std::optional<Nanos> drain_after = std::nullopt;
  // How often a request may be in a step of a slice that is lost and still be routed again: a
  // request that brings slices down is ended after that. And how long a request of a lost slice may
  // be held.
  std::int64_t resumes_max = 2;
  Nanos resume_timeout = seconds(60);
  // While no slice is up, requests wait for one to return, but no longer than this after the last
  // one was lost; zero: they do not wait.
  Nanos return_timeout = seconds(30);
  // A model without requests takes nothing of its slice. Its next request may move it to another
  // slice, and it stays attached to both. For slices that divide their memory among models
  // themselves, such as engines with a residency: the spec's slices must have no limit of models.
  bool moves = false;
  std::uint64_t seed = 1;  // for policies that choose at random
};

// The present state of a model.
struct ModelSeen {
  ModelPhase phase = ModelPhase::kCold;
  SliceId slice;  // the slice where it is, is to come, or that it leaves
  Bytes host;     // in host memory
  Demand demand;  // what it takes of the slice
  std::int64_t held = 0;
  std::int64_t running = 0;  // requests that were routed and have not ended
  std::string last_error;    // of the last load; empty: it succeeded
  std::int64_t loads_failed = 0;
  bool pinned = false;
  bool attached = false;  // to a slice
  bool removed = false;   // it is not served any more
};

struct FleetCounters {
  std::int64_t routed = 0;  // requests, counted each time
  // The part of `routed` that came from slices that were lost or closed, or gave requests back.
  std::int64_t resumed = 0;
  std::int64_t refused = 0;  // requests, without cancelled ones
  std::int64_t loads = 0;
  std::int64_t loads_failed = 0;
  std::int64_t loads_lost = 0;  // loads that were undone because their slice was lost or closed
  std::int64_t unloads = 0;
  std::int64_t drains = 0;
  std::int64_t best_effort = 0;  // placements that exceed a soft limit
  std::int64_t moves = 0;        // models that changed from one serving slice to another
  std::int64_t resizes = 0;
  std::int64_t removed = 0;    // models
  std::int64_t withdrawn = 0;  // requests that had not ended when their slice was closed
  std::int64_t migrations = 0;  // models that were moved by the policy
  std::int64_t migrated = 0;    // requests that were given back for migrations
};

class FleetCore {
 public:
  // Each slice and link id in the spec must be an index of it, and there must be a slice (CHECKs).
  FleetCore(FleetSpec spec, const FleetOptions& options, std::unique_ptr<PlacementPolicy> policy);
  ~FleetCore();
  FleetCore(const FleetCore&) = delete;
  FleetCore& operator=(const FleetCore&) = delete;

  // Takes in an event and returns the actions to execute, in this order. An event that names an
  // unknown model or slice, or answers an action that is not under way, fails a CHECK. `now` may be
  // less than before: see steady_time.h.
  std::vector<Action> on_event(const Event& event, Nanos now);
  // When a Woken event must come at the latest; nullopt: only another event changes anything.
  std::optional<Nanos> next_wakeup() const;

  ModelSeen model(ModelId model) const;
  // The expected time per token, from the sums of the demands on its slice and link; zero while the
  // model is on no slice. When it exceeds the target the model is served by best effort.
  Nanos predicted_tpot(ModelId id) const;
  // With which the placement counts, in bytes a second: the lesser of the spec's and of what was
  // seen (LinkSeen).
  double link_rate(LinkId link) const;
  LinkId link_of(SliceId slice) const;  // invalid: it has none
  std::int64_t models() const;   // including removed ones
  std::int64_t waiting() const;  // held requests
  bool resizing() const;         // from ResizeWanted to SlicesChanged
  bool loads_pending() const;    // some model is wanted and not ready
  // Whether the slice of the model's present Load has been lost since the load was issued, even if
  // the slice is back by now. The model must not be attached there then, because the core counts
  // this load as undone.
  bool load_is_undone(ModelId model) const;
  bool asleep() const;           // from SleepAsked to WakeAsked, while no model is on a slice
  Bytes host_used() const;
  Bytes host_budget() const;  // as it was last measured
  const FleetCounters& counters() const;

  // For checkers: recomputes and compares every invariant, slowly.
  Status check_integrity() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::fleet
