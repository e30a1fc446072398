// What a slice has of the memory that options give to its GPU.
#pragma once

#include "commands/served_slices.h"

namespace causeway::app {

inline Bytes part_of(Bytes whole, double share) {
  return share < 1 ? Bytes(static_cast<std::int64_t>(static_cast<double>(whole.count) * share))
                   : whole;
}

// Of how many GPUs a layout has slices.
int gpus_of(const slice::SliceLayout& layout);

// The options of one slice: sizes are its own.
ServedSlicesOptions share_of(const ServedSlicesOptions& options, const slice::SlicePart& part,
                             int gpus);

}  // namespace causeway::app
