// HybridGEMM's α of a slice, from step to step: fixed, or tuned (alpha_tuner.h) by what steps were
// seen to take. A slice has one. A step reads alpha() when it is submitted, and is told of when it
// has ended, so that α changes between steps and never inside of one. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "fleet/alpha_tuner.h"
#include "request/slo.h"

namespace causeway::fleet {

struct StepAlphaOptions {
  std::optional<double> fixed;  // the same α always [0, 1]; nullopt: tuned
  AlphaTunerOptions tuner = {};
  // The targets from which a step's budget follows (step_budget).
  request::Slo slo = {.ttft = seconds(1), .tpot = millis(100)};
};

// "tuned", or a share from 0 to 1; kInvalidArgument says so.
Result<StepAlphaOptions> parse_step_alpha(std::string_view text);
// kInvalidArgument names what is out of its range.
Status check_step_alpha(const StepAlphaOptions& options);

// The part of the requests' targets that a step may take: the time between tokens for one that
// decodes; for a part of a prompt the same part of the time to the first token. `prompt_share`: the
// largest of the parts of prompts that it computes, (0, 1]; 0: it computes none.
Nanos step_budget(const request::Slo& slo, bool decodes, double prompt_share);

// What was measured of a step whose kernels read weights at home.
struct StepSeen {
  Nanos took;
  Nanos budget;
  Bytes hbm;            // moved by the step
  double hbm_rate = 0;  // in bytes a second: what the slice may have of its memory
  // The time for which what is read at home would have the link to itself, others beside it: its
  // bytes ÷ what is left of the link.
  Nanos link;
};

class StepAlpha {
 public:
  // The options hold check_step_alpha().
  explicit StepAlpha(const StepAlphaOptions& options);

  double alpha() const { return options_.fixed.value_or(tuner_.alpha()); }
  // A step has ended.
  void step_ended(const StepSeen& seen);

 private:
  const StepAlphaOptions options_;
  AlphaTuner tuner_;
};

}  // namespace causeway::fleet
