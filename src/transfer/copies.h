// Lists of copies in which copies of adjacent memory are merged.
#pragma once

#include <vector>

#include "base/dcheck.h"
#include "device/device.h"

namespace causeway::transfer {

// Extends the last copy when this one follows it in both memories; otherwise appends it.
inline void append_copy(std::vector<device::Copy>& copies, const device::Copy& copy) {
  CAUSEWAY_DCHECK(copy.bytes >= Bytes(0), "a copy of less than nothing");
  if (!copies.empty()) {
    device::Copy& last = copies.back();
    const auto follows = [&](const device::MemoryAddress& next,
                             const device::MemoryAddress& before) {
      return next.device == before.device && next.region == before.region &&
             next.offset == before.offset + last.bytes;
    };
    if (follows(copy.target, last.target) && follows(copy.source, last.source)) {
      last.bytes += copy.bytes;
      return;
    }
  }
  copies.push_back(copy);
}

}  // namespace causeway::transfer
