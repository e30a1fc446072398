// Decides on which slice a model is put, and which others give way to it there. Pure: the core
// shows the slices as they are, and a policy answers (paper §6.1, 6.2; docs/design/fleet.md has the
// table).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fleet/fleet_spec.h"
#include "fleet/fleet_view.h"

namespace causeway::fleet {

struct Candidate {
  ModelId model;
  const ModelSpec& spec;
  bool evicts = true;   // others may give way, and limits be exceeded: requests wait for it
  bool drains = false;  // so may those with requests
  SliceId last = {};    // where it was before: its weights may be cached there
  // Models are time-shared in a slice's memory (FleetOptions::moves): weights that exceed it do not
  // cross at every step, but come again before the model runs again.
  bool time_shared = false;
  std::span<const SliceId> unfit = {};  // slices that could not take it
  std::uint64_t draw = 0;               // a random number for policies that roll dice
  Nanos now = {};
};

// A model with requests, which go on on another slice.
struct Migration {
  ModelId model;
  SliceId to;
};

struct Placement {
  SliceId slice;
  std::vector<ModelId> victims;  // all may go
  Demand demand = {};            // as far as is known before the load
  double excess = 0;             // of the soft limits, as a factor; up to 1: all targets can be met
  std::vector<Migration> migrations = {};  // from the slice, where models are time-shared
};

class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;
  // nullopt: no slice has room for it now. What it answers keeps the hard limits: the slice is up,
  // places and memory suffice once the victims have gone.
  virtual std::optional<Placement> choose(const FleetView& fleet,
                                          const Candidate& candidate) const = 0;
};

enum class PlacementKind : std::uint8_t {
  kBandwidth,  // where link, memory bandwidth and compute allow (the paper's), and of these where
               // the first token is predicted soonest
  kRandom,     // any slice where it can be put
  kDedicated,  // a slice of which nothing gives way
  kLocality,   // where it starts soonest: where it was, or where least has to go; where models are
               // time-shared, what runs there migrates if that moves less (ServerlessLLM's)
  kShared,     // where fewest requests run; the engine switches between tokens
};

// "bandwidth", "random", "dedicated", "locality", "shared"; kInvalidArgument lists them.
Result<PlacementKind> find_placement(std::string_view name);
std::string_view name_of(PlacementKind kind);
std::unique_ptr<PlacementPolicy> make_placement(PlacementKind kind);

}  // namespace causeway::fleet
