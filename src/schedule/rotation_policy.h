// Which sequence comes into HBM first, which leaves it first, and which may displace which, when
// there is not room for all. Policies that rotate differ in nothing else: budgets, accounts and the
// plan are the same for all of them (rotation_plan.h, docs/design/rotary.md).
//
// Pure: the same facts give the same answers, and `now` matters only for whether one may displace
// another. Requests are therefore ranked only when their facts change.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "schedule/policy.h"
#include "schedule/urgency_heaps.h"

namespace causeway::schedule {

// A model's α: how fast a request that has answered lags, compared with one that has not. (0,
// 1000].
inline constexpr double kAlphaDefault = 3.0;
inline constexpr double kAlphaMax = 1000.0;
inline constexpr int kAlphasMax = 16;  // different values in a set of models
// kInvalidArgument names the range, or says that there are too many different ones.
Status check_alpha(double alpha);
Status check_alphas(std::span<const double> alphas);

// Which waiting requests displace running ones before they lag.
enum class DisplacesEarly {
  kNone,        // none: they get only what is free
  kUnanswered,  // those whose first token may still be in time
  kAll,         // the paper's VLT ≥ 0
};
std::string_view name_of(DisplacesEarly early);
Result<DisplacesEarly> parse_displaces_early(std::string_view name);

// The options of policy rotary.
struct LagOptions {
  DisplacesEarly early = DisplacesEarly::kNone;
  // A request that has had tokens faster than its target asks is ahead of the target. It begins to
  // lag when it has had no token for this share of that lead, or for S_F. [0, 1]; 0: its lag counts
  // from its last token.
  double ahead_share = 0.5;
  // A request whose first token is late can no longer attain its target, and gives way to those
  // that can: it lags from this many S_F after its arrival. 0, or from 1 to 1000; 0: it never gives
  // way.
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
    // Running requests age, too: the longest running leave first, those of models that are not
    // stepped are spared, and the model whose requests lag most is stepped next.
    bool ages = false;
    bool longest_runs_first = false;  // prompt tokens go to the longest running first
    bool predicts_peak = false;       // admission uses future_peak.h
    bool steps_back = false;          // requests with late first tokens are ranked again
  };

  virtual ~RotationPolicy() = default;
  virtual std::string_view name() const = 0;
  virtual Traits traits() const = 0;
  // The rank of a request that waits or is rotary. The number of different slopes is small.
  virtual Standing outside(const SequenceFacts& facts) const = 0;
  // The rank of a running request, fixed when it comes in; the smallest leaves first. Finite.
  virtual double inside(const SequenceFacts& facts) const = 0;
  // Whether a request outside may take the place of a running one with this lag (below 0: it has
  // had more than its target asks). Not called unless traits().displaces.
  virtual bool displaces(const SequenceFacts& candidate, const SequenceFacts& victim,
                         double victim_lag, Nanos now) const;
  // The length of its answer as this policy knows it; `truth` is the length that the caller says.
  virtual Tokens expected_output(RequestId request, Tokens truth) const;
};

std::unique_ptr<RotationPolicy> make_rotation_policy(PolicyKind kind,
                                                     const RotationPolicyOptions& options = {});

}  // namespace causeway::schedule
