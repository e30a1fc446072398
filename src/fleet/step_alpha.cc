#include "fleet/step_alpha.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "base/check.h"

namespace causeway::fleet {
namespace {

bool is_alpha(double value) { return value >= 0 && value <= 1; }  // so that NaN is none

}  // namespace

Result<StepAlphaOptions> parse_step_alpha(std::string_view text) {
  StepAlphaOptions options;
  if (text == "tuned") return options;
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && is_alpha(value)) {
    options.fixed = value;
    return options;
  }
  return invalid_argument("alpha: 'tuned', or a share from 0 to 1, not '" + std::string(text) +
                          "'");
}

Status check_step_alpha(const StepAlphaOptions& options) {
  if (options.fixed && !is_alpha(*options.fixed)) {
    return invalid_argument("an alpha is from 0 to 1");
  }
  CAUSEWAY_TRY(request::check_slo(options.slo));
  return check_alpha_tuner(options.tuner);
}

Nanos step_budget(const request::Slo& slo, bool decodes, double prompt_share) {
  const Nanos never(INT64_MAX);
  Nanos budget = decodes ? slo.tpot : never;
  if (prompt_share > 0) {
    const double part = to_seconds(slo.ttft) * std::min(1.0, prompt_share);
    budget = std::min(budget, nanos_from_seconds(part));
  }
  return budget == never ? Nanos(0) : budget;
}

StepAlpha::StepAlpha(const StepAlphaOptions& options) : options_(options), tuner_(options.tuner) {
  CAUSEWAY_CHECK(check_step_alpha(options).ok(), "a slice's alpha is out of its range");
}

void StepAlpha::step_ended(const StepSeen& seen) {
  if (options_.fixed || seen.took <= Nanos(0)) return;
  tuner_.update({.latency = seen.took,
                 .budget = seen.budget,
                 .hbm_utilisation = utilisation(seen.hbm, seen.took, seen.hbm_rate),
                 .link_utilisation = to_seconds(seen.link) / to_seconds(seen.took)});
}

}  // namespace causeway::fleet
