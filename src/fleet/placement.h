// On which slice a model is put, and which others give way to it there. Pure: the core shows the
// slices as they are, a policy answers (paper §6.1, 6.2; docs/design/fleet.md has the table).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fleet/fleet_spec.h"

namespace causeway::fleet {

// A model that is on a slice, or is to come there. Those that leave are not shown.
struct PlacedModel {
  ModelId model;
  Demand demand = {};
  bool may_go = false;  // nothing asks for it, and it is not pinned
  double cost = 0;      // of bringing it back: bytes × rate of its requests
  Nanos last_used = {};
  std::int64_t requests = 0;  // that run
};

struct SliceView {
  SliceSpec spec;
  bool up = true;
  std::vector<PlacedModel> models;
};

struct FleetView {
  std::vector<SliceView> slices;  // by SliceId
  std::vector<LinkSpec> links;
};

struct Candidate {
  ModelId model;
  const ModelSpec& spec;
  bool evicts = true;      // others may give way, and limits be exceeded: requests wait for it
  SliceId last = {};       // where it was before
  std::uint64_t draw = 0;  // a random number for policies that roll dice
};

struct Placement {
  SliceId slice;
  std::vector<ModelId> victims;  // all may go
  Demand demand = {};            // as far as is known before the load
  double excess = 0;             // of the soft limits, as a factor; up to 1: all targets can be met
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
  kBandwidth,  // where link, memory bandwidth and compute allow (the paper's), idle slices first
  kRandom,     // any slice where it can be put
  kDedicated,  // a slice of which nothing gives way
  kLocality,   // where it starts soonest: where it was, or where least has to go
  kShared,     // where fewest requests run; the engine switches between tokens
};

// "bandwidth", "random", "dedicated", "locality", "shared"; kInvalidArgument lists them.
Result<PlacementKind> find_placement(std::string_view name);
std::string_view name_of(PlacementKind kind);
std::unique_ptr<PlacementPolicy> make_placement(PlacementKind kind);

// By how much the soft limits would be exceeded on the slice, without `gone` and with `more`: the
// largest of sum ÷ limit over its link (with all slices of that link), memory and compute.
double excess_of(const FleetView& fleet, SliceId slice, std::span<const ModelId> gone,
                 const Demand& more);

}  // namespace causeway::fleet
