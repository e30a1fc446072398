// The paper's placement (§6.1, 6.2; the table of docs/design/fleet.md). Internal to this room.
#pragma once

#include <memory>

#include "fleet/placement.h"

namespace causeway::fleet {

// It searches FleetView::index(); what it chooses is what testing/placement_scan.h does, which
// looks at all slices.
std::unique_ptr<PlacementPolicy> make_bandwidth_placement();

}  // namespace causeway::fleet
