// Which sequence comes into HBM first, which leaves it first, and which may displace which, when
// there is not room for all: the one thing in which policies that rotate differ. Budgets, accounts
// and the plan are the same for all of them (rotation_plan.h, docs/design/rotary.md).
//
// Pure: the same facts give the same answers, and none depends on `now` except whether one may
// displace another. So requests are ranked only when something of theirs changes.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "schedule/policy.h"
#include "schedule/urgency_heaps.h"

namespace causeway::schedule {

// α of a model: how fast a request that has answered lags, against one that has not. (0, 1000].
inline constexpr double kAlphaDefault = 3.0;
inline constexpr double kAlphaMax = 1000.0;
inline constexpr int kAlphasMax = 16;  // different ones in a set of models
// kInvalidArgument names the range, or says that there are too many different ones.
Status check_alpha(double alpha);
Status check_alphas(std::span<const double> alphas);

// Which waiting requests displace running ones before they lag.
enum class DisplacesEarly {
  kNone,        // none: what is free is all that they get
  kUnanswered,  // those that wait for their first token, while that may still be in time
  kAll,         // the paper's VLT ≥ 0
};
std::string_view name_of(DisplacesEarly early);
Result<DisplacesEarly> parse_displaces_early(std::string_view name);

// The options of policy rotary.
struct LagOptions {
  DisplacesEarly early = DisplacesEarly::kNone;
  // A request that has had tokens faster than its target asks is ahead of it. It begins to lag when
  // this share of what it is ahead has passed without a token, or S_F at the most. [0, 1]; 0: its
  // lag counts from its last token.
  double ahead_share = 0.5;
  // One whose first token is late can no longer attain its target, and steps back for those that
  // can: it lags from this many S_F after its arrival. 0, or from 1 to 1000; 0: never.
  double late_after = 10;
};
inline constexpr LagOptions kLagOfPaper = {
    .early = DisplacesEarly::kAll, .ahead_share = 0, .late_after = 0};
// kInvalidArgument names the range.
Status check_lag(const LagOptions& options);

struct RotationPolicyOptions {
  LagOptions lag = {};
  // ranked: predicted = true length × exp(error × z), z standard normal; 0: exact. [0, 10].
  double predicted_error = 0.5;
  std::uint64_t predicted_seed = 1;
};
// kInvalidArgument names the range.
Status check_predicted_error(double error);

class RotationPolicy {
 public:
  struct Traits {
    bool displaces = false;  // requests outside HBM may displace; otherwise only growth does
    // Running requests age, too: the longest running leave first, those whose model is not stepped
    // are spared, and the model whose requests lag most is stepped next.
    bool ages = false;
    bool longest_runs_first = false;  // prompt tokens go to the longest running first
    bool predicts_peak = false;       // admission asks future_peak.h
    bool steps_back = false;          // whose first token is late is ranked anew
  };

  virtual ~RotationPolicy() = default;
  virtual std::string_view name() const = 0;
  virtual Traits traits() const = 0;
  // How a request stands that waits or is rotary. The number of different slopes is small.
  virtual Standing outside(const SequenceFacts& facts) const = 0;
  // The rank of a running request, fixed when it comes in; the smallest leaves first. Finite.
  virtual double inside(const SequenceFacts& facts) const = 0;
  // Whether one that is outside may take the place of one that runs and has this lag (below 0: it
  // has had more than it is owed). Not asked unless traits().displaces.
  virtual bool displaces(const SequenceFacts& candidate, const SequenceFacts& victim,
                         double victim_lag, Nanos now) const;
  // The length of its answer as this policy knows it; `truth` is what the caller says it will be.
  virtual Tokens expected_output(RequestId request, Tokens truth) const;
};

std::unique_ptr<RotationPolicy> make_rotation_policy(PolicyKind kind,
                                                     const RotationPolicyOptions& options = {});

}  // namespace causeway::schedule
