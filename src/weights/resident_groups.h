// One model's groups and the extents behind them: the bookkeeping of weights/residency.h, without
// its policy. Internal to this room.
//
// A group needs its extents while it arrives, is cached, or failed with steps in flight ("held").
// An extent is used while a group needs it. Committed extents follow used ones when
// append_decommits() and append_commits() are called.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "weights/residency.h"

namespace causeway::weights {

class ResidentGroups {
 public:
  struct Group {
    Bytes bytes;
    Bytes copied;  // bytes to copy when it is brought; 0 for memory_only
    bool required = true;
    std::int64_t first = 0;  // extents [first, end)
    std::int64_t end = 0;
    GroupPlace place = GroupPlace::kHome;
    bool held = false;
    std::uint32_t arrival = 0;  // the number of its last bring

    bool needs_extents() const { return place != GroupPlace::kHome || held; }
  };

  ResidentGroups(const std::vector<ResidentGroup>& groups, Bytes extent);

  int size() const { return static_cast<int>(groups_.size()); }
  const Group& at(int group) const { return groups_[static_cast<std::size_t>(group)]; }

  // From home and not held to arriving.
  void bring(int group, std::uint32_t arrival);
  void arrived(int group);
  // From arriving or cached to home; keeps its extents when `hold`.
  void lose(int group, bool hold);
  void release_held();
  // Drops cached groups from the end of the reading order until so many extents are unused.
  void drop_from_end(std::int64_t extents);

  bool serves() const { return required_cached_ == required_; }  // every required group is cached
  bool all_cached() const { return cached_ == size(); }
  bool steppable() const;  // every required group is cached or arriving
  bool holds() const { return held_ > 0; }
  int arriving() const { return arriving_; }
  int required_arriving() const { return required_arriving_; }
  int arriving(bool required) const {
    return required ? required_arriving_ : arriving_ - required_arriving_;
  }
  Bytes cached_bytes() const;
  Bytes required_bytes() const { return required_bytes_; }

  std::int64_t used() const { return used_; }
  std::int64_t committed() const { return committed_count_; }
  std::int64_t extents() const { return extents_; }  // extents of all groups together
  std::int64_t required_extents() const { return required_extents_; }
  // Extents that would come into use: for all required groups at home; for one group.
  std::int64_t lacks_required() const;
  std::int64_t lacks(int group) const;
  // Extents that would become unused if all cached groups were dropped.
  std::int64_t cached_used() const;
  // Extents that would become unused if the cached groups that are not required were dropped.
  std::int64_t optional_used() const;

  void append_decommits(ModelId model, std::vector<WeightCommand>& out);
  void append_commits(ModelId model, std::vector<WeightCommand>& out);

  // For checkers, between calls of decide(): what is wrong; empty: nothing is.
  std::string check() const;

 private:
  Group& mutable_at(int group) { return groups_[static_cast<std::size_t>(group)]; }
  void use(const Group& group);
  void unuse(const Group& group);
  template <typename Wanted>
  std::int64_t count_extents(Wanted wanted) const;
  template <typename Changes>
  void append_runs(WeightCommand::Kind kind, ModelId model, Changes changes,
                   std::vector<WeightCommand>& out);

  std::vector<Group> groups_;
  std::vector<std::int32_t> users_;      // by extent: the number of groups that need it
  std::vector<std::uint8_t> committed_;  // by extent
  std::int64_t used_ = 0;
  std::int64_t committed_count_ = 0;
  std::int64_t extents_ = 0;
  std::int64_t required_extents_ = 0;
  Bytes required_bytes_;
  int required_ = 0;
  int required_cached_ = 0;
  int cached_ = 0;
  int arriving_ = 0;
  int required_arriving_ = 0;
  int held_ = 0;
  bool changed_ = false;  // used and committed extents may differ
};

}  // namespace causeway::weights
