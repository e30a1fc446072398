// The order in which a mover executes what a Residency decided at once: Residency lists all
// decommits, then all commits, then all brings, and the first copy would wait for the mapping of
// every extent (16 GB: some 20 ms). Here each group's memory is mapped just before its copy begins.
//
// Pure. The copies stay in their order, and no more extents are committed at any time than before
// the list, or after all of its decommits, whichever is more.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "weights/residency.h"

namespace causeway::weights {

// Neighbouring extents of a model's range.
struct ExtentRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

ExtentRun extents_of(const ResidentGroup& group, Bytes extent);

// Appends the commands to `ordered`. `group_extents`: of the group that a kBring names.
void interleave(std::span<const WeightCommand> commands,
                const std::function<ExtentRun(const WeightCommand&)>& group_extents,
                std::vector<WeightCommand>& ordered);

}  // namespace causeway::weights
