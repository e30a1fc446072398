// Latency targets of a request, and how close to missing them the scheduler lets it come.
#pragma once

#include "base/result.h"
#include "base/units.h"

namespace causeway::request {

// Targets that scheduling works towards (conventions: headers x-slo-ttft-ms, x-slo-tpot-ms). The
// shares are SuperInfer's β_F and β_B: a request that waits begins to lag when that share of its
// target has passed (docs/design/rotary.md); policies without lags ignore them.
struct Slo {
  Nanos ttft = seconds(5);   // S_F, from arrival to the first token; above 0, a day at most
  Nanos tpot = millis(100);  // S_B, between tokens; above 0, a day at most
  double ttft_slack = 0.5;   // β_F ∈ [0, 1]
  double tpot_slack = 0.0;   // β_B ∈ [−10, 1]; negative: it lags before its last token is out
};

// kInvalidArgument names the field and its range.
Status check_slo(const Slo& slo);

// Converts a target in milliseconds, given as any double. kInvalidArgument names the range.
Result<Nanos> target_from_ms(double ms);

}  // namespace causeway::request
