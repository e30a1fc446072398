// The options of KV rotation, and of the latency targets that it works towards: one definition for
// all commands that have them. Numbers that models may have for themselves are given as NUMBER, for
// all, or as MODEL=NUMBER, several with commas between.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "options.h"
#include "request/slo.h"
#include "schedule/rotation_budget.h"
#include "schedule/scheduler.h"

namespace causeway::app {

class RotationOptions {
 public:
  // `group`: of --help. --scheduling-policy and --preemption, of commands that have one of each.
  void declare_policy(Options& app, const std::string& group = "Options");
  // --slo-…, --rotary-…, --rotation-…, --ranked-error.
  void declare(Options& app, const std::string& group = "Options");

  // Writes what the options say into these; a policy only if it was declared. `kv_host`: host
  // memory for KV; if there is none, victims are recomputed. kInvalidArgument: --preemption rotate
  // without it, a number out of its range; the message names the option.
  Status apply(schedule::Options& schedule, schedule::BudgetLimits& limits, Bytes kv_host) const;

  struct OfModel {
    request::Slo slo;  // of requests that name no targets
    double alpha = schedule::kAlphaDefault;
  };
  // In the order of the names, which are all there are. kInvalidArgument: a number out of its
  // range, a model that is not there, too many different α.
  Result<std::vector<OfModel>> of_models(const std::vector<std::string>& models) const;

 private:
  // What an option says of a model; of all: nothing stands before the '='.
  struct Given {
    std::string model;
    double number = 0;
  };
  static Result<std::vector<Given>> parse(const std::string& option,
                                          const std::vector<std::string>& values);
  // Into `all`, by model. `put`: Status(OfModel&, number), which checks it.
  template <typename Put>
  static Status fill(const std::string& option, const std::vector<std::string>& values,
                     const std::vector<std::string>& models, std::vector<OfModel>& all, Put put);

  bool policy_declared_ = false;
  std::string policy_ = "fcfs", preemption_ = "auto";
  std::string displaces_early_ = "none";
  schedule::RotationPolicyOptions policy_options_;
  schedule::BudgetLimits limits_;
  std::vector<std::string> alpha_, ttft_ms_, tpot_ms_, ttft_slack_, tpot_slack_;
};

}  // namespace causeway::app
