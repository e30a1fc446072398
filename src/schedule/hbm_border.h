// Where the border between KV frames and cached weights goes while a slice serves (plan_hbm() says
// where it is when the slice opens). Pure. docs/design/slice.md draws the parts around it.
//
//   │ KV: in use │ wanted │ kept │ spare ──▶ ◀── spare: unused, idle │ wanted │ weights in use │
//
// Each side must have what its largest taker cannot do without: for a sequence all of its frames,
// for a model all of its weights. It gets that at any time from whatever the other side has beyond
// its own least. Otherwise memory moves only when one side lacks it and the other can spare it:
// - Requests that wait for frames get extents that are free, or held by models without requests.
// - Models with requests, which would push each other out, get extents of frames that are free or
//   cached, beyond what requests want and a quarter of what is in use: those grow.
//
// Both cannot happen at once, because a side that lacks memory has none to spare. Without a change
// of demand memory therefore never moves back; whatever the demand, it does not before `hold` has
// passed.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace causeway::schedule {

struct BorderRules {
  std::int64_t frames_per_extent = 1;
  std::int64_t kv_min = 1;  // extents that KV always keeps
  std::int64_t kv_max = 1;  // extents that KV has addresses for
  Nanos hold = seconds(2);  // the least time between two moves of opposite directions
};

// What KV needs, in frames.
struct KvDemand {
  std::int64_t usable = 0;   // there now, or once everything under way is done
  std::int64_t in_use = 0;   // referenced or quarantined
  std::int64_t wanted = 0;   // by running and waiting sequences, beyond those in use
  std::int64_t largest = 0;  // what one sequence cannot do without
};

// What weights need, in extents.
struct WeightDemand {
  std::int64_t budget = 0;   // theirs now, or once everything under way is done
  std::int64_t used = 0;     // that hold groups
  std::int64_t idle = 0;     // of `used`: models with requests do not need them
  std::int64_t wanted = 0;   // by models with requests, beyond those used
  std::int64_t largest = 0;  // what one such model needs, beside pinned ones
  std::int64_t least = 0;    // the same, over all attached models
};

enum class BorderSide : std::uint8_t { kKv, kWeights };

struct BorderMove {
  BorderSide to = BorderSide::kKv;
  std::int64_t extents = 0;  // 0: the border stays
};

struct BorderDecision {
  BorderMove move;
  std::optional<Nanos> again;  // a move is delayed: decide again then
};

// `last`: the previous move, if there was one, which was decided at `moved`.
BorderDecision decide_border(const BorderRules& rules, const KvDemand& kv,
                             const WeightDemand& weights, const std::optional<BorderMove>& last,
                             Nanos moved, Nanos now);

}  // namespace causeway::schedule
