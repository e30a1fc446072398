#include "schedule/rotation_policy.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "request/onset.h"

namespace causeway::schedule {
namespace {

constexpr Nanos kAheadOfTargetMax = seconds(10);  // bound for a negative slack

Nanos share_of(Nanos target, double share) {
  return nanos_from_seconds(to_seconds(target) * share);
}

// All lags are 0, so the order is that of `key` alone.
Standing by_key(std::int64_t key, std::int32_t tier = 0) {
  return {.slope = 0, .onset = Nanos(key), .tier = tier};
}

std::int64_t rest_of(const SequenceFacts& facts) {
  return std::max<std::int64_t>(1, (facts.output_expected - facts.output).count);
}

// SuperInfer's virtual lag time. It counts from the token that the client waits for, the first or
// the next. A sequence that leaves HBM in the middle of its prompt therefore keeps its target for
// the first.
class Rotary final : public RotationPolicy {
 public:
  explicit Rotary(const LagOptions& options) : options_(options) {}
  std::string_view name() const override { return name_of(PolicyKind::kRotary); }
  Traits traits() const override {
    return {.displaces = true,
            .ages = true,
            .longest_runs_first = true,
            .steps_back = options_.late_after > 0};
  }
  Standing outside(const SequenceFacts& facts) const override {
    const request::Slo& slo = facts.slo;
    if (facts.answered) {
      // With a long target a sequence would lag by days before it is late.
      const Nanos slack = std::max(share_of(slo.tpot, slo.tpot_slack), -kAheadOfTargetMax);
      return {.slope = facts.alpha, .onset = facts.last_token + ahead(facts) + slack};
    }
    const double share = facts.late ? options_.late_after : slo.ttft_slack;
    return {.slope = 1, .onset = request::lags_from(facts.arrival, slo.ttft, share)};
  }
  double inside(const SequenceFacts& facts) const override {
    return static_cast<double>(facts.running_since.count);
  }
  bool displaces(const SequenceFacts& candidate, const SequenceFacts&, double victim_lag,
                 Nanos now) const override {
    if (victim_lag >= 0) return false;
    const bool early =
        options_.early == DisplacesEarly::kAll ||
        (options_.early == DisplacesEarly::kUnanswered && !candidate.answered && !candidate.late);
    return early || outside(candidate).lag(now) > 0;
  }

 private:
  // How long a sequence may go without a token because it had its tokens early.
  Nanos ahead(const SequenceFacts& facts) const {
    const double owed = to_seconds(facts.slo.tpot) * static_cast<double>(facts.output.count - 1);
    const double ahead = owed - to_seconds(facts.last_token - facts.first_token);
    return nanos_from_seconds(
        std::clamp(options_.ahead_share * ahead, 0.0, to_seconds(facts.slo.ttft)));
  }
  const LagOptions options_;
};

// The published code's scheduler: the oldest come in, the longest running leave, and there is no
// lag.
class Artifact final : public RotationPolicy {
 public:
  std::string_view name() const override { return name_of(PolicyKind::kArtifact); }
  Traits traits() const override { return {.displaces = true, .longest_runs_first = true}; }
  Standing outside(const SequenceFacts& facts) const override {
    return by_key(facts.arrival.count);
  }
  double inside(const SequenceFacts& facts) const override {
    return static_cast<double>(facts.running_since.count);
  }
};

// First come, first served, after a state or a priority.
class ByArrival : public RotationPolicy {
 public:
  ByArrival(PolicyKind kind, bool displaces) : kind_(kind), displaces_(displaces) {}
  std::string_view name() const override { return name_of(kind_); }
  Traits traits() const override {
    return {.displaces = displaces_, .predicts_peak = kind_ == PolicyKind::kPastFuture};
  }
  Standing outside(const SequenceFacts& facts) const override {
    return by_key(facts.arrival.count, tier_of(facts));
  }
  double inside(const SequenceFacts& facts) const override {
    return -static_cast<double>(facts.arrival.count);
  }
  bool displaces(const SequenceFacts& candidate, const SequenceFacts&, double,
                 Nanos) const override {
    return kind_ == PolicyKind::kWaitingFirst && !candidate.rotary;
  }

 private:
  std::int32_t tier_of(const SequenceFacts& facts) const {
    if (kind_ == PolicyKind::kWaitingFirst) return facts.rotary ? 0 : 1;
    if (kind_ == PolicyKind::kSwappedFirst) return facts.rotary ? 1 : 0;
    return 0;
  }
  const PolicyKind kind_;
  const bool displaces_;
};

class ByPriority final : public RotationPolicy {
 public:
  std::string_view name() const override { return name_of(PolicyKind::kPriority); }
  Traits traits() const override { return {.displaces = true}; }
  Standing outside(const SequenceFacts& facts) const override {
    return by_key(facts.arrival.count, facts.priority);
  }
  double inside(const SequenceFacts& facts) const override { return facts.priority; }
  bool displaces(const SequenceFacts& candidate, const SequenceFacts& victim, double,
                 Nanos) const override {
    return candidate.priority > victim.priority;
  }
};

// The shortest rest of an answer first; the rest is known (sjf-oracle) or predicted (ranked).
class ByLength final : public RotationPolicy {
 public:
  ByLength(PolicyKind kind, double error, std::uint64_t seed)
      : kind_(kind), error_(error), seed_(seed) {}
  std::string_view name() const override { return name_of(kind_); }
  Traits traits() const override { return {}; }
  Standing outside(const SequenceFacts& facts) const override { return by_key(rest_of(facts)); }
  double inside(const SequenceFacts& facts) const override {
    return -static_cast<double>(rest_of(facts));
  }
  Tokens expected_output(RequestId request, Tokens truth) const override {
    if (error_ == 0) return truth;
    Random random(mix64(seed_ ^ mix64(static_cast<std::uint64_t>(request.value))));
    const double predicted = static_cast<double>(truth.count) * std::exp(error_ * random.normal());
    return Tokens(std::max<std::int64_t>(1, std::llround(std::min(predicted, 1e12))));
  }

 private:
  const PolicyKind kind_;
  const double error_;
  const std::uint64_t seed_;
};

constexpr std::pair<DisplacesEarly, std::string_view> kEarly[] = {
    {DisplacesEarly::kNone, "none"},
    {DisplacesEarly::kUnanswered, "unanswered"},
    {DisplacesEarly::kAll, "all"},
};

}  // namespace

std::string_view name_of(DisplacesEarly early) {
  return kEarly[static_cast<std::size_t>(early)].second;
}

Result<DisplacesEarly> parse_displaces_early(std::string_view name) {
  for (const auto& [early, known] : kEarly) {
    if (known == name) return early;
  }
  return invalid_argument("those that displace early are none, unanswered or all, not '" +
                          std::string(name) + "'");
}

Status check_lag(const LagOptions& options) {
  constexpr double kLateMost = 1000;
  // Written so that NaN fails.
  if (!(options.ahead_share >= 0 && options.ahead_share <= 1)) {
    return invalid_argument("what a request is ahead counts by a share from 0 to 1, not " +
                            std::to_string(options.ahead_share));
  }
  const double late = options.late_after;
  if (late == 0 || (late >= 1 && late <= kLateMost)) return {};
  return invalid_argument("a late request steps back for 1 to " + std::to_string(kLateMost) +
                          " targets, or 0: never, not " + std::to_string(late));
}

Status check_predicted_error(double error) {
  // Written so that NaN fails.
  if (error >= 0 && error <= 10) return {};
  return invalid_argument("the error of predicted lengths is from 0 to 10, not " +
                          std::to_string(error));
}

Status check_alpha(double alpha) {
  // Written so that NaN fails.
  if (alpha > 0 && alpha <= kAlphaMax) return {};
  return invalid_argument("alpha is above 0 and " + std::to_string(kAlphaMax) + " at most, not " +
                          std::to_string(alpha));
}

Status check_alphas(std::span<const double> alphas) {
  std::set<double> different;
  for (const double alpha : alphas) {
    CAUSEWAY_TRY(check_alpha(alpha));
    different.insert(alpha);
  }
  if (std::ssize(different) <= kAlphasMax) return {};
  return invalid_argument("models have " + std::to_string(different.size()) +
                          " different alphas: use " + std::to_string(kAlphasMax) + " at most");
}

bool RotationPolicy::displaces(const SequenceFacts&, const SequenceFacts&, double, Nanos) const {
  return true;
}

Tokens RotationPolicy::expected_output(RequestId, Tokens truth) const { return truth; }

std::unique_ptr<RotationPolicy> make_rotation_policy(PolicyKind kind,
                                                     const RotationPolicyOptions& options) {
  CAUSEWAY_CHECK(check_lag(options.lag).ok(), "an option of lags is out of its range");
  CAUSEWAY_CHECK(options.predicted_error >= 0, "an error of predictions is not negative");
  switch (kind) {
    case PolicyKind::kRotary: return std::make_unique<Rotary>(options.lag);
    case PolicyKind::kArtifact: return std::make_unique<Artifact>();
    case PolicyKind::kPriority: return std::make_unique<ByPriority>();
    case PolicyKind::kWaitingFirst: return std::make_unique<ByArrival>(kind, true);
    case PolicyKind::kFcfs:
    case PolicyKind::kSwappedFirst:
    case PolicyKind::kPastFuture: return std::make_unique<ByArrival>(kind, false);
    case PolicyKind::kSjfOracle: return std::make_unique<ByLength>(kind, 0.0, 0);
    case PolicyKind::kRanked:
      return std::make_unique<ByLength>(kind, options.predicted_error, options.predicted_seed);
  }
  CAUSEWAY_CHECK(false, "a policy kind that does not exist");
  return nullptr;
}

}  // namespace causeway::schedule
