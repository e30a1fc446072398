// Where the streamed groups of a model lie in its range once aliases are resolved: which bytes of
// which extents a copy of a group writes, and so which groups it overwrites
// (docs/design/streaming.md). Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "weights/stream_plan.h"

namespace causeway::simulate {

class RingLayout {
 public:
  RingLayout(const weights::StreamPlan& plan, Bytes extent);

  // The extents of the range that hold the group's bytes: of the ring, or shared with a resident
  // group.
  const std::vector<std::int64_t>& extents(int group) const {
    return groups_[static_cast<std::size_t>(group)].extents;
  }
  // The other groups that use the same bytes.
  const std::vector<int>& overwrites(int group) const {
    return groups_[static_cast<std::size_t>(group)].overwrites;
  }

 private:
  struct Piece {  // bytes [first, end) of the range
    Bytes first;
    Bytes end;
  };
  struct Group {
    std::vector<Piece> pieces;
    std::vector<std::int64_t> extents;
    std::vector<int> overwrites;
  };

  static Group group_of(const weights::StreamPlan& plan, const weights::StreamedGroup& group,
                        Bytes extent);
  static bool overlap(const Group& one, const Group& other);

  std::vector<Group> groups_;  // by streamed group
};

}  // namespace causeway::simulate
