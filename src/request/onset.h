// From when a request that waits for its first token lags: SuperInfer's virtual lag time (VLT). The
// fleet counts by it which model comes next, and a slice's scheduler which request does.
#pragma once

#include "base/units.h"

namespace causeway::request {

// `share`: of the target, that may pass before; β_F, of a request that is not late yet.
inline Nanos lags_from(Nanos arrival, Nanos ttft, double share) {
  return arrival + nanos_from_seconds(to_seconds(ttft) * share);
}

}  // namespace causeway::request
