#include "slice/testing/disturbed_stress.h"

#include <fmt/format.h>

#include <cstdio>

namespace causeway::slice::testing {

using transfer::testing::FaultPlan;

void disturb(Random& random, FaultPlan& faults, const Disturbance& how) {
  faults.release();
  if (random.chance(how.quiet)) return;
  const auto skip = static_cast<int>(random.below(how.skip_max));
  if (random.chance(how.fails)) {
    faults.next(FaultPlan::Kind::kFail, static_cast<int>(random.between(1, 6)), skip);
    return;
  }
  faults.reopen();
  faults.next(random.chance(0.5) ? FaultPlan::Kind::kHang : FaultPlan::Kind::kHangThenFail, 1,
              skip);
}

StressPlan disturbed_stress(std::uint64_t seed, Nanos length, FaultPlan& faults) {
  StressPlan stress;
  stress.seed = seed;
  stress.length = length;
  stress.disturb = [&faults](Random& random) { disturb(random, faults, {}); };
  stress.calm = [&faults] { faults.release(); };
  stress.progress = [](const std::string& line) {
    fmt::print("  {}\n", line);
    std::fflush(stdout);
  };
  return stress;
}

}  // namespace causeway::slice::testing
