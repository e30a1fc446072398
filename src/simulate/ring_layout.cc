#include "simulate/ring_layout.h"

#include <algorithm>

namespace causeway::simulate {
namespace {

// The extent whose memory shows there.
std::int64_t resolve(const weights::StreamPlan& plan, std::int64_t extent) {
  for (const weights::ExtentAlias& alias : plan.aliases) {
    if (extent >= alias.first && extent < alias.first + alias.count) {
      return alias.ring + (extent - alias.first);
    }
  }
  return extent;
}

}  // namespace

RingLayout::RingLayout(const weights::StreamPlan& plan, Bytes extent) {
  for (const weights::StreamedGroup& group : plan.groups) {
    groups_.push_back(group_of(plan, group, extent));
  }
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    for (std::size_t other = 0; other < groups_.size(); ++other) {
      if (other != i && overlap(groups_[i], groups_[other])) {
        groups_[i].overwrites.push_back(static_cast<int>(other));
      }
    }
  }
}

RingLayout::Group RingLayout::group_of(const weights::StreamPlan& plan,
                                       const weights::StreamedGroup& group, Bytes extent) {
  Group found;
  const Bytes end = group.offset + group.bytes;
  for (Bytes at = group.offset; at < end;) {
    const std::int64_t shown = at / extent;
    const std::int64_t memory = resolve(plan, shown);
    const Bytes next = std::min(end, extent * (shown + 1));
    const Bytes shift = extent * (memory - shown);
    found.pieces.push_back({at + shift, next + shift});
    found.extents.push_back(memory);
    at = next;
  }
  return found;
}

bool RingLayout::overlap(const Group& one, const Group& other) {
  return std::any_of(one.pieces.begin(), one.pieces.end(), [&](const Piece& a) {
    return std::any_of(other.pieces.begin(), other.pieces.end(),
                       [&](const Piece& b) { return a.first < b.end && b.first < a.end; });
  });
}

}  // namespace causeway::simulate
