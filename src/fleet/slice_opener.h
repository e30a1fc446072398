// Divides GPUs into slices for a fleet that serves. Now and then the fleet asks whether another
// division would be better. If so, the slices that are to be closed get no new requests and drain;
// then the opener closes them and opens others (docs/design/fleet.md, "Slices that change").
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fleet/demand_meter.h"
#include "fleet/fleet_slice.h"
#include "fleet/fleet_spec.h"
#include "slice/slice_layout.h"

namespace causeway::fleet {

struct LayoutChange {
  std::vector<FleetSlice*> closing;       // all open slices of the GPUs that are divided anew
  std::vector<slice::SlicePart> opening;  // at least one
  std::string why;                        // for the log
};

struct SlicesOpened {
  std::vector<FleetSlice*> slices;
  std::vector<SliceSpec> specs;  // of each slice; links are those that the fleet began with
  std::string failure;  // why the slices are not the ones that were asked for; empty: they are
};

class SliceOpener {
 public:
  virtual ~SliceOpener() = default;

  // Decides whether slices should change, given the measured demand of each model (by ModelId). The
  // fleet asks again until it can call reopen(). Does not block; one thread at a time, never during
  // reopen().
  virtual std::optional<LayoutChange> decide(std::span<const ModelDemand> demands, Nanos now) = 0;
  // Closes slices that have drained: requests that still run there are ended, and attached models
  // are released. Then opens the others; if that fails, opens the former ones again. Blocks. One
  // thread at a time, together with attach() and detach() of all slices. The returned slices are
  // valid until they are closed or the opener is destroyed.
  virtual SlicesOpened reopen(const LayoutChange& change) = 0;
};

}  // namespace causeway::fleet
