// Where the border between KV frames and cached weights goes while a slice serves (plan_hbm() says
// where it is when the slice opens). Pure. docs/design/slice.md draws the parts around it.
//
//   │ KV: in use │ wanted │ kept │ spare ──▶ ◀── spare: unused, idle │ wanted │ weights in use │
//
// A side has to have what its largest taker cannot do without: a sequence all of its frames, a
// model all of its weights. It gets that from whatever the other side has beyond its own least, at
// any time. Beside that, memory moves only when one side lacks and the other can spare:
// - Requests that wait for frames get extents that are free, or held by models without requests.
// - Models with requests, which would push each other out, get extents of frames that are free or
//   cached, beyond what requests want and a quarter of what is in use: those grow.
//
// Not both at once: a side that lacks memory has none to spare. So without a change of demand
// memory never moves back; and however demand changes, not before `hold` has passed.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace causeway::schedule {

struct BorderRules {
  std::int64_t frames_per_extent = 1;
  std::int64_t kv_min = 1;  // extents that KV keeps
  std::int64_t kv_max = 1;  // extents that it has addresses for
  Nanos hold = seconds(2);  // the least time between two moves of opposite directions
};

// What KV needs, in frames.
struct KvDemand {
  std::int64_t usable = 0;   // that are there, or will be when all that is under way is done
  std::int64_t in_use = 0;   // referenced or quarantined
  std::int64_t wanted = 0;   // by running and waiting sequences, beyond those in use
  std::int64_t largest = 0;  // that one sequence cannot do without
};

// What weights need, in extents.
struct WeightDemand {
  std::int64_t budget = 0;   // that is theirs, or will be when all that is under way is done
  std::int64_t used = 0;     // that hold groups
  std::int64_t idle = 0;     // of those, that models with requests can do without
  std::int64_t wanted = 0;   // by models with requests, beyond those used
  std::int64_t largest = 0;  // that one model with requests cannot do without, beside pinned ones
  std::int64_t least = 0;    // the same of all models that are attached
};

enum class BorderSide : std::uint8_t { kKv, kWeights };

struct BorderMove {
  BorderSide to = BorderSide::kKv;
  std::int64_t extents = 0;  // 0: the border stays
};

struct BorderDecision {
  BorderMove move;
  std::optional<Nanos> again;  // a move is held back: decide again then
};

// `last`: the move before this one, if there was any, which was decided at `moved`.
BorderDecision decide_border(const BorderRules& rules, const KvDemand& kv,
                             const WeightDemand& weights, const std::optional<BorderMove>& last,
                             Nanos moved, Nanos now);

}  // namespace causeway::schedule
