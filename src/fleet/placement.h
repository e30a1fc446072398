// Decides on which slice a model is placed, and which other models leave it for that. Pure: the
// core shows the slices as they are, and a policy answers (paper §6.1, 6.2; docs/design/fleet.md
// has the table).
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
  // Other models may leave, and soft limits may be exceeded, because requests wait for it.
  bool evicts = true;
  bool drains = false;  // models with requests may leave as well, after these have ended
  SliceId last = {};    // the slice where it was before; its weights may still be cached there
  // Models are time-shared in a slice's memory (FleetOptions::moves): weights that do not fit are
  // not streamed at every step, but brought again before the model's next step.
  bool time_shared = false;
  std::span<const SliceId> unfit = {};  // slices that could not take it before
  std::uint64_t draw = 0;               // a random number for policies that choose at random
  Nanos now = {};
};

// A model with requests that moves to another slice, where they continue.
struct Migration {
  ModelId model;
  SliceId to;
};

struct Placement {
  SliceId slice;
  std::vector<ModelId> victims;  // each of them may leave
  Demand demand = {};            // as far as it is known before the load
  double excess = 0;  // the largest demand ÷ soft limit; up to 1 all targets can be kept
  // Models that move away from the slice, when models are time-shared.
  std::vector<Migration> migrations = {};
};

class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;
  // Chooses a slice; nullopt: none has room now. The result keeps the hard limits: the slice is up,
  // and its memory and limit of models suffice once the victims have left.
  virtual std::optional<Placement> choose(const FleetView& fleet,
                                          const Candidate& candidate) const = 0;
};

enum class PlacementKind : std::uint8_t {
  kBandwidth,  // where link, memory bandwidth and compute allow (the paper's), and of these where
               // the first token is predicted soonest
  kRandom,     // any slice with room
  kDedicated,  // a slice from which no model has to leave
  kLocality,   // where it starts soonest: where it was, or where least has to go; where models are
               // time-shared, what runs there migrates if that moves less (ServerlessLLM's)
  kShared,     // where the fewest requests run; the engine switches models between tokens
};

// "bandwidth", "random", "dedicated", "locality", "shared"; kInvalidArgument lists them.
Result<PlacementKind> find_placement(std::string_view name);
std::string_view name_of(PlacementKind kind);
std::unique_ptr<PlacementPolicy> make_placement(PlacementKind kind);

}  // namespace causeway::fleet
