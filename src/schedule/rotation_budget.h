// How many frames may rotate between HBM and host memory in one iteration (B_xfer, SuperInfer §4),
// and whether copying a victim costs less than computing it again. Pure functions of measured
// rates. The paper fixes B_xfer by hand (2,400 blocks); deriving it is ours
// (docs/design/rotary.md).
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/units.h"

namespace causeway::schedule {

// What one iteration may use of the links. Rates are in bytes per second, measured while the other
// direction is in use too (duplex). With a rate that is zero, negative or not a number nothing
// moves in that direction.
struct LinkFacts {
  double out_rate = 0;      // HBM to host memory
  double in_rate = 0;       // host memory to HBM
  Nanos step;               // the time that the step is expected to take
  Bytes weights_in;         // of weights that must come in meanwhile
  Bytes eager_out;          // of eager copies that will go out meanwhile
  Bytes frame;              // > 0
  std::int64_t frames = 0;  // usable frames of the cache
};

struct BudgetLimits {
  double frames_share_max = 0.05;  // the most of the frames for B_xfer; [1e-6, 0.5]
  double rate_share_min = 0.10;    // the least of a link for rotation; [0, 1]
};

// kInvalidArgument names the range.
Status check_limits(const BudgetLimits& limits);

// The numbers of frames that may rotate.
struct RotationBudget {
  std::int64_t out = 0;       // copies out
  std::int64_t in = 0;        // copies in
  std::int64_t exchange = 0;  // B_xfer: frames that victims give up for others

  bool rotates() const { return exchange > 0; }
  bool operator==(const RotationBudget&) const = default;
};

// A link that moves at all moves at least one frame in an iteration; all are zero if one direction
// is dead.
RotationBudget rotation_budget(const LinkFacts& facts, const BudgetLimits& limits = {});

// The costs of a victim when it is copied and when it is computed again.
struct VictimCost {
  std::int64_t copies_out = 0;  // frames that have no twin yet
  std::int64_t copies_in = 0;   // frames, when it comes back
  Tokens computed{0};           // tokens to compute again otherwise
  double prefill_rate = 0;  // of its model, tokens per second; zero or less: unknown, so copying is
                            // cheaper
};

struct CostRates {
  double out_rate = 0;  // bytes per second, as in LinkFacts
  double in_rate = 0;
  Bytes frame;
};

// The predicted time of each; infinity if it can never be done.
double seconds_to_rotate(const VictimCost& cost, const CostRates& rates);
double seconds_to_recompute(const VictimCost& cost);
// A tie is rotated.
bool cheaper_to_recompute(const VictimCost& cost, const CostRates& rates);

}  // namespace causeway::schedule
