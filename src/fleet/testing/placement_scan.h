// The naive model of the bandwidth placement: it looks at every slice.
#pragma once

#include <memory>
#include <string>

#include "fleet/placement.h"

namespace causeway::fleet::testing {

std::unique_ptr<PlacementPolicy> make_placement_scan();

// Chooses as make_placement() does, and CHECKs that the scan chooses the same.
std::unique_ptr<PlacementPolicy> make_compared_placement();

}  // namespace causeway::fleet::testing
