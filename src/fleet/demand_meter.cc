#include "fleet/demand_meter.h"

#include <algorithm>
#include <cmath>

#include "base/dcheck.h"

namespace causeway::fleet {
namespace {

// A request counts 1/e after that: several times what a layout must be better for before it is
// taken (slice::LayoutRules), so that a pause between requests is no change of demand.
constexpr Nanos kMemory = seconds(30);

double left(Nanos since) {
  return std::exp(-to_seconds(std::max(Nanos(0), since)) / to_seconds(kMemory));
}

double mean(double sum, double count) { return count > 0 ? sum / count : 0; }

}  // namespace

void DemandMeter::decay(Nanos now) {
  const double left = fleet::left(now - last_);
  for (double* sum : {&arrivals_, &prompts_, &ends_, &outputs_}) *sum *= left;
  last_ = std::max(last_, now);
  CAUSEWAY_DCHECK(arrivals_ >= 0 && ends_ >= 0, "sums fade, and never below nothing");
}

void DemandMeter::arrived(Tokens prompt, Nanos now) {
  CAUSEWAY_DCHECK(prompt >= Tokens(0), "a prompt of a negative length");
  decay(now);
  arrivals_ += 1;
  prompts_ += static_cast<double>(prompt.count);
}

void DemandMeter::ended(Tokens output, Nanos now) {
  CAUSEWAY_DCHECK(output >= Tokens(0), "an answer of a negative length");
  decay(now);
  ends_ += 1;
  outputs_ += static_cast<double>(output.count);
}

ModelDemand DemandMeter::at(Nanos now) const {
  return {.rate = arrivals_ * left(now - last_) / to_seconds(kMemory),
          .prompt = mean(prompts_, arrivals_),
          .output = mean(outputs_, ends_)};
}

}  // namespace causeway::fleet
