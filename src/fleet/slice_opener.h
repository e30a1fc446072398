// Divides GPUs into slices for a fleet that serves. The fleet asks it now and then whether they had
// better be divided otherwise. If so, nothing new comes to the slices that are to go, they drain,
// and the opener closes them and opens others (docs/design/fleet.md, "Slices that change").
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
  std::vector<FleetSlice*> closing;       // that are open: all of the GPUs that are divided anew
  std::vector<slice::SlicePart> opening;  // at least one
  std::string why;                        // for the log
};

struct SlicesOpened {
  std::vector<FleetSlice*> slices;
  std::vector<SliceSpec> specs;  // of each; links are those that the fleet began with
  std::string failure;           // why these are not those that were wanted; empty: they are
};

class SliceOpener {
 public:
  virtual ~SliceOpener() = default;

  // Whether slices are to change, given what is asked for of each model (by ModelId). Asked again
  // until reopen() comes of it. Does not block; one thread at a time, while reopen() does not run.
  virtual std::optional<LayoutChange> decide(std::span<const ModelDemand> demands, Nanos now) = 0;
  // Closes slices, of which nothing is wanted any more: what still runs there is ended, and what is
  // attached is let go of. Then opens the others; if that fails, those that there were. Blocks. One
  // thread at a time, with attach() and detach() of all slices. What it returns lives until it is
  // closed, or the opener goes.
  virtual SlicesOpened reopen(const LayoutChange& change) = 0;
};

}  // namespace causeway::fleet
