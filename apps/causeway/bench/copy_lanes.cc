#include "bench/copy_lanes.h"

#include <algorithm>

namespace causeway::bench {

Bytes CopiesBothWays::bytes() const {
  Bytes sum;
  for (const device::Copy& copy : in) sum += copy.bytes;
  for (const device::Copy& copy : out) sum += copy.bytes;
  return sum;
}

Status CopyLanes::Lane::open(device::Device& device, const char* name) {
  CAUSEWAY_ASSIGN(stream_, device.make_stream(name));
  for (auto& mark : marks_) {
    CAUSEWAY_ASSIGN(mark, device.make_mark());
  }
  return {};
}

Status CopyLanes::Lane::issue(Copies copies) {
  CAUSEWAY_TRY(stream_->copy(copies, device::CopyPriority::kStep));
  if (++calls_ % kCallsBetweenMarks != 0) return {};
  device::Event& mark = *marks_[static_cast<std::size_t>(calls_ / kCallsBetweenMarks % 2)];
  CAUSEWAY_TRY(mark.wait(kLaneWait));
  return stream_->record(mark);
}

Result<CopyLanes> CopyLanes::open(device::Device& device) {
  CopyLanes lanes;
  lanes.copies_max_ = device.capabilities().copies_max;
  CAUSEWAY_TRY(lanes.in_.open(device, "copies in"));
  CAUSEWAY_TRY(lanes.out_.open(device, "copies out"));
  return lanes;
}

Status CopyLanes::loop(const CopiesBothWays& copies) {
  const std::size_t most = std::max(copies.in.size(), copies.out.size());
  for (std::size_t i = 0; i < most; ++i) {
    if (i < copies.in.size()) CAUSEWAY_TRY(in_.issue({&copies.in[i], 1}));
    if (i < copies.out.size()) CAUSEWAY_TRY(out_.issue({&copies.out[i], 1}));
  }
  CAUSEWAY_TRY(in_.finish());
  return out_.finish();
}

Status CopyLanes::issue_batches(Lane& lane, Copies copies, std::int64_t copies_max) {
  while (!copies.empty()) {
    const std::size_t count = std::min(copies.size(), static_cast<std::size_t>(copies_max));
    CAUSEWAY_TRY(lane.issue(copies.first(count)));
    copies = copies.subspan(count);
  }
  return lane.finish();
}

Status CopyLanes::batches(const CopiesBothWays& copies) {
  CAUSEWAY_TRY(issue_batches(out_, copies.out, copies_max_));
  return issue_batches(in_, copies.in, copies_max_);
}

}  // namespace causeway::bench
