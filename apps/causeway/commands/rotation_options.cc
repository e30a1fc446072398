#include "commands/rotation_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace causeway::app {
namespace {

Status named(const Status& outcome, const std::string& option) {
  return outcome.ok() ? outcome : Status(outcome.error().with_context(option));
}

}  // namespace

void RotationOptions::declare_policy(Options& app, const std::string& group) {
  policy_declared_ = true;
  app.add_option("--scheduling-policy", policy_,
                 "order of requests when not all of them have room: fcfs, priority, rotary (by lag "
                 "behind their latency targets), or one of rotary's baselines: waiting-first, "
                 "swapped-first, artifact, ranked, sjf-oracle, past-future")
      .group(group)
      .show_default();
  app.add_option("--preemption", preemption_,
                 "what happens to the KV of preempted requests: rotate (move it to host memory), "
                 "recompute (drop it), or auto (whichever takes less time); rotate needs "
                 "--kv-host-memory-bytes, auto recomputes without")
      .one_of({"rotate", "recompute", "auto"})
      .group(group)
      .show_default();
}

void RotationOptions::declare(Options& app, const std::string& group) {
  const auto by_model = [&](const char* name, std::vector<std::string>& values,
                            const char* standard, const std::string& what) {
    app.add_option(name, values, what + "; NUMBER or MODEL=NUMBER, with commas or repeated")
        .delimiter(',')
        .one_value()
        .group(group)
        .show_default(standard);
  };
  const auto number = [&](const char* name, double& value, const char* what) {
    app.add_option(name, value, what).group(group).show_default();
  };
  by_model("--slo-ttft-ms", ttft_ms_, "5000",
           "target for the time to the first token, for requests without one");
  by_model("--slo-tpot-ms", tpot_ms_, "100",
           "target for the time of each further token, for requests without one");
  by_model("--slo-ttft-slack", ttft_slack_, "0.5",
           "beta_F, 0 to 1: under policy rotary a request without a first token begins to lag "
           "after this share of its target");
  by_model("--slo-tpot-slack", tpot_slack_, "0",
           "beta_B, -10 to 1: the same for a request with a first token; negative: it begins to "
           "lag before its last token is out");
  by_model("--rotary-alpha", alpha_, "3",
           "above 0, at most 1000: how fast the lag of a request with a first token grows, "
           "compared with that of a request without one; at most 16 different values");
  app.add_option("--rotary-displaces-early", displaces_early_,
                 "which requests may displace others before they lag: none, unanswered (those "
                 "without a first token), or all (as in the paper)")
      .group(group)
      .show_default();
  number("--rotary-ahead-share", policy_options_.lag.ahead_share,
         "0 to 1: a request that is ahead of its target for tokens may pause for this share of its "
         "lead before it lags; 0: as in the paper");
  number(
      "--rotary-late-after", policy_options_.lag.late_after,
      "1 to 1000: a request whose first token is late lags only after this many times its target, "
      "so that requests that can still be in time go first; 0: it always lags, as in the paper");
  number("--ranked-error", policy_options_.predicted_error,
         "0 to 10: standard deviation of the logarithm of the lengths that policy ranked predicts");
  number(
      "--rotation-frames-share", limits_.frames_share_max,
      "largest share of the KV frames that requests may give up for others in a step, at most 0.5");
  number("--rotation-rate-share", limits_.rate_share_min,
         "0 to 1: least share of the link to host memory for rotating KV");
}

Status RotationOptions::apply(schedule::Options& schedule, schedule::BudgetLimits& limits,
                              Bytes kv_host) const {
  if (policy_declared_) {
    CAUSEWAY_ASSIGN(schedule.policy, schedule::parse_policy(policy_));
    CAUSEWAY_ASSIGN(schedule.preemption, schedule::parse_preemption(preemption_));
    if (kv_host == Bytes(0) && schedule.preemption == schedule::PreemptionKind::kRotate) {
      return invalid_argument(
          "--preemption rotate: there is no host memory to which KV could move; give "
          "--kv-host-memory-bytes, e.g. 16GB, or leave --preemption out");
    }
    if (kv_host == Bytes(0)) schedule.preemption = schedule::PreemptionKind::kRecompute;
  }
  schedule.rotation = policy_options_;
  const auto early = schedule::parse_displaces_early(displaces_early_);
  if (!early.ok()) return early.error().with_context("--rotary-displaces-early");
  schedule::LagOptions& lag = schedule.rotation.lag;
  lag.early = *early;
  CAUSEWAY_TRY(
      named(schedule::check_lag({.ahead_share = lag.ahead_share}), "--rotary-ahead-share"));
  CAUSEWAY_TRY(named(schedule::check_lag({.late_after = lag.late_after}), "--rotary-late-after"));
  CAUSEWAY_TRY(
      named(schedule::check_predicted_error(policy_options_.predicted_error), "--ranked-error"));
  CAUSEWAY_TRY(named(schedule::check_limits({.frames_share_max = limits_.frames_share_max}),
                     "--rotation-frames-share"));
  CAUSEWAY_TRY(named(schedule::check_limits({.rate_share_min = limits_.rate_share_min}),
                     "--rotation-rate-share"));
  limits = limits_;
  return {};
}

Result<std::vector<RotationOptions::Given>> RotationOptions::parse(
    const std::string& option, const std::vector<std::string>& values) {
  std::vector<Given> all;
  std::set<std::string> seen;
  for (const std::string& value : values) {
    const std::size_t equals = value.rfind('=');
    const bool for_one = equals != std::string::npos;
    Given given{.model = for_one ? value.substr(0, equals) : ""};
    const char* const begin = value.data() + (for_one ? equals + 1 : 0);
    const char* const end = value.data() + value.size();
    const auto [stop, failure] = std::from_chars(begin, end, given.number);
    if (failure != std::errc() || stop != end || (for_one && given.model.empty())) {
      return invalid_argument(option + " " + value +
                              ": wanted is a number, or MODEL=NUMBER, e.g. big=0.5");
    }
    if (!seen.insert(given.model).second) {
      return invalid_argument(option + " " + value + ": given twice for " +
                              (for_one ? given.model : "all models"));
    }
    all.push_back(std::move(given));
  }
  // What is said of all comes first, and of one model what is said of it.
  std::stable_partition(all.begin(), all.end(),
                        [](const Given& given) { return given.model.empty(); });
  return all;
}

template <typename Put>
Status RotationOptions::fill(const std::string& option, const std::vector<std::string>& values,
                             const std::vector<std::string>& models, std::vector<OfModel>& all,
                             Put put) {
  CAUSEWAY_ASSIGN(const auto given, parse(option, values));
  for (const Given& one : given) {
    OfModel checked;  // also where no model takes it
    CAUSEWAY_TRY(named(put(checked, one.number), option));
    bool found = one.model.empty();
    for (std::size_t i = 0; i < models.size(); ++i) {
      if (!one.model.empty() && models[i] != one.model) continue;
      CAUSEWAY_TRY(put(all[i], one.number));
      found = true;
    }
    if (found) continue;
    return invalid_argument(fmt::format("{} {}={:g}: no such model; there are {}", option,
                                        one.model, one.number, fmt::join(models, ", ")));
  }
  return {};
}

Result<std::vector<RotationOptions::OfModel>> RotationOptions::of_models(
    const std::vector<std::string>& models) const {
  std::vector<OfModel> all(models.size());
  const auto target = [](Nanos request::Slo::*field) {
    return [field](OfModel& model, double ms) -> Status {
      CAUSEWAY_ASSIGN(model.slo.*field, request::target_from_ms(ms));
      return {};
    };
  };
  const auto slack = [](double request::Slo::*field) {
    return [field](OfModel& model, double share) {
      model.slo.*field = share;
      return request::check_slo(model.slo);
    };
  };
  using request::Slo;
  CAUSEWAY_TRY(fill("--slo-ttft-ms", ttft_ms_, models, all, target(&Slo::ttft)));
  CAUSEWAY_TRY(fill("--slo-tpot-ms", tpot_ms_, models, all, target(&Slo::tpot)));
  CAUSEWAY_TRY(fill("--slo-ttft-slack", ttft_slack_, models, all, slack(&Slo::ttft_slack)));
  CAUSEWAY_TRY(fill("--slo-tpot-slack", tpot_slack_, models, all, slack(&Slo::tpot_slack)));
  std::vector<double> alphas;
  CAUSEWAY_TRY(fill("--rotary-alpha", alpha_, models, all, [](OfModel& model, double alpha) {
    model.alpha = alpha;
    return schedule::check_alpha(alpha);
  }));
  for (const OfModel& model : all) alphas.push_back(model.alpha);
  CAUSEWAY_TRY(named(schedule::check_alphas(alphas), "--rotary-alpha"));
  return all;
}

}  // namespace causeway::app
