#include "request/slo.h"

#include <algorithm>
#include <string>

namespace causeway::request {
namespace {

constexpr Nanos kTargetMax = seconds(86'400);

Status check_target(Nanos target, const char* name) {
  if (target > Nanos(0) && target <= kTargetMax) return {};
  return invalid_argument(std::string(name) + " is a time above 0 and of a day at most, not " +
                          std::to_string(to_seconds(target)) + " s");
}

Status check_share(double share, double least, double most, const char* name) {
  // Written so that NaN fails.
  if (share >= least && share <= most) return {};
  return invalid_argument(std::string(name) + " is a share of its target from " +
                          std::to_string(least) + " to " + std::to_string(most) + ", not " +
                          std::to_string(share));
}

}  // namespace

Status check_slo(const Slo& slo) {
  CAUSEWAY_TRY(check_target(slo.ttft, "the TTFT target"));
  CAUSEWAY_TRY(check_target(slo.tpot, "the TPOT target"));
  CAUSEWAY_TRY(check_share(slo.ttft_slack, 0, 1, "the TTFT slack (beta_F)"));
  return check_share(slo.tpot_slack, -10, 1, "the TPOT slack (beta_B)");
}

Result<Nanos> target_from_ms(double ms) {
  constexpr double kLeastMs = 1e-6;
  const double most = to_seconds(kTargetMax) * 1e3;
  // Written so that NaN fails.
  if (ms >= kLeastMs && ms <= most) {
    return std::max(nanos_from_seconds(ms * 1e-3), Nanos(1));
  }
  return invalid_argument("a target is milliseconds from 0.000001 to 86400000 (a day)");
}

}  // namespace causeway::request
