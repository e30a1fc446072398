// A random life of a FleetCore against a world that knows only what it was told to do: slices with
// models on them, host memory, requests. The world checks every action against its own books.
#pragma once

#include <cstdint>
#include <string>

#include "fleet/fleet_core.h"

namespace causeway::fleet::testing {

struct FleetHistoryReport {
  std::string failure;  // the first rule that was broken; empty: none
  std::int64_t requests = 0;
  std::int64_t cancelled = 0;  // while they were held
  std::int64_t loads_failed = 0;
  std::int64_t kept = 0;  // models that did not let go
  std::int64_t slices_lost = 0;
  std::int64_t strikes = 0;         // of these, by a request that brings down each that computes it
  std::int64_t suspects_ended = 0;  // in a step of more slices that were lost than they may be
  std::int64_t waited_long = 0;     // moved, though they waited in more of them than that
  std::int64_t drops = 0;
  std::int64_t ended_late = 0;   // told after the loss of their slice
  std::int64_t given_back = 0;   // requests, by slices that their models leave
  std::int64_t stalls = 0;       // of the loader
  std::int64_t opened_none = 0;  // slices that were closed, and none came in their place
  std::int64_t asks = 0;         // of the operator
  std::int64_t asks_refused = 0;
  std::int64_t loaded_asked = 0;    // models that serve since they were asked for
  std::int64_t unloaded_asked = 0;  // that have left; not those of all models together
  std::int64_t slept = 0;           // all that had no requests
  std::int64_t slept_behind = 0;    // of these, once others had ended
  std::int64_t slept_aborting = 0;  // and where those were cancelled
  std::int64_t reloads = 0;         // of the catalogue
  std::int64_t found = 0;           // by these: models that are new, or back
  std::int64_t gone_kept = 0;       // that are served on without their folders
  FleetCounters counters;
};

// From a seed: 1 to 8 models (some pinned), 1 to 4 slices, policy, limits; then arrivals, cancels,
// ends, requests that bring slices down, loads that are slow or fail, models that do not let go,
// slices that die and return, or are closed for others, more or fewer, models that are loaded,
// unloaded and pinned as asked for, and a catalogue to which models come and from which they go.
// At the end nothing more arrives, and all requests must end within a bounded number of events.
FleetHistoryReport run_fleet_history(std::uint64_t seed);

}  // namespace causeway::fleet::testing
