#include "weights/resident_groups.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace causeway::weights {

// The extents of the groups that are wanted, each counted once.
template <typename Wanted>
std::int64_t ResidentGroups::count_extents(Wanted wanted) const {
  std::vector<std::uint8_t> marked(users_.size());
  for (const Group& group : groups_) {
    if (!wanted(group)) continue;
    std::fill(marked.begin() + group.first, marked.begin() + group.end, std::uint8_t{1});
  }
  return std::count(marked.begin(), marked.end(), std::uint8_t{1});
}

ResidentGroups::ResidentGroups(const std::vector<ResidentGroup>& groups, Bytes extent) {
  std::int64_t extents = 0;
  bool required_before = true;
  groups_.reserve(groups.size());
  for (const ResidentGroup& group : groups) {
    CAUSEWAY_CHECK(group.offset.count >= 0 && group.bytes.count > 0, "a group lies nowhere");
    CAUSEWAY_CHECK(group.readable_at_home || required_before,
                   "groups that are readable at home stand last");
    required_before = !group.readable_at_home;
    required_ += required_before ? 1 : 0;
    Group placed;
    placed.bytes = group.bytes;
    placed.copied = group.memory_only ? Bytes(0) : group.bytes;
    required_bytes_ += required_before ? placed.copied : Bytes(0);
    placed.required = required_before;
    placed.first = group.offset / extent;
    placed.end = (group.offset + group.bytes - Bytes(1)) / extent + 1;
    extents = std::max(extents, placed.end);
    groups_.push_back(placed);
  }
  users_.resize(static_cast<std::size_t>(extents));
  committed_.resize(static_cast<std::size_t>(extents));
  extents_ = count_extents([](const Group&) { return true; });
  required_extents_ = count_extents([](const Group& group) { return group.required; });
}

void ResidentGroups::use(const Group& group) {
  for (auto extent = group.first; extent < group.end; ++extent) {
    if (users_[static_cast<std::size_t>(extent)]++ == 0) used_ += 1;
  }
  changed_ = true;
}

void ResidentGroups::unuse(const Group& group) {
  for (auto extent = group.first; extent < group.end; ++extent) {
    if (--users_[static_cast<std::size_t>(extent)] == 0) used_ -= 1;
  }
  changed_ = true;
}

void ResidentGroups::bring(int group, std::uint32_t arrival) {
  Group& brought = mutable_at(group);
  CAUSEWAY_CHECK(!brought.needs_extents(), "a group is brought twice");
  brought.place = GroupPlace::kArriving;
  brought.arrival = arrival;
  arriving_ += 1;
  required_arriving_ += brought.required ? 1 : 0;
  use(brought);
}

void ResidentGroups::arrived(int group) {
  Group& there = mutable_at(group);
  there.place = GroupPlace::kCached;
  arriving_ -= 1;
  required_arriving_ -= there.required ? 1 : 0;
  cached_ += 1;
  required_cached_ += there.required ? 1 : 0;
}

void ResidentGroups::lose(int group, bool hold) {
  Group& lost = mutable_at(group);
  if (lost.place == GroupPlace::kArriving) {
    arriving_ -= 1;
    required_arriving_ -= lost.required ? 1 : 0;
  } else {
    cached_ -= 1;
    required_cached_ -= lost.required ? 1 : 0;
  }
  lost.place = GroupPlace::kHome;
  lost.held = hold;
  if (hold) {
    held_ += 1;
  } else {
    unuse(lost);
  }
}

void ResidentGroups::release_held() {
  if (held_ == 0) return;
  for (Group& group : groups_) {
    if (!group.held) continue;
    group.held = false;
    unuse(group);
  }
  held_ = 0;
}

void ResidentGroups::drop_from_end(std::int64_t extents) {
  const std::int64_t wanted = used_ - extents;
  for (int group = size() - 1; group >= 0 && used_ > wanted; --group) {
    if (at(group).place == GroupPlace::kCached) lose(group, false);
  }
  CAUSEWAY_CHECK(used_ <= wanted, "a model has not the extents that were to be dropped");
}

bool ResidentGroups::steppable() const {
  return serves() || std::all_of(groups_.begin(), groups_.end(), [](const Group& group) {
           return !group.required || group.place != GroupPlace::kHome;
         });
}

Bytes ResidentGroups::cached_bytes() const {
  Bytes bytes;
  for (const Group& group : groups_) {
    if (group.place == GroupPlace::kCached) bytes += group.bytes;
  }
  return bytes;
}

std::int64_t ResidentGroups::lacks_required() const {
  if (serves()) return 0;
  return count_extents([](const Group& group) { return group.required || group.needs_extents(); }) -
         used_;
}

std::int64_t ResidentGroups::lacks(int group) const {
  const Group& one = at(group);
  return std::count(users_.begin() + one.first, users_.begin() + one.end, 0);
}

std::int64_t ResidentGroups::cached_used() const {
  if (arriving_ == 0 && held_ == 0) return used_;
  return used_ - count_extents([](const Group& group) {
           return group.needs_extents() && group.place != GroupPlace::kCached;
         });
}

std::int64_t ResidentGroups::optional_used() const {
  if (cached_ == required_cached_) return 0;
  return used_ - count_extents([](const Group& group) {
           return group.needs_extents() && (group.required || group.place != GroupPlace::kCached);
         });
}

template <typename Changes>
void ResidentGroups::append_runs(WeightCommand::Kind kind, ModelId model, Changes changes,
                                 std::vector<WeightCommand>& out) {
  const auto extents = static_cast<std::int64_t>(users_.size());
  const std::uint8_t target = kind == WeightCommand::Kind::kCommit ? 1 : 0;
  for (std::int64_t extent = 0; extent < extents; ++extent) {
    if (!changes(extent)) continue;
    const std::int64_t first = extent;
    while (extent < extents && changes(extent)) {
      committed_[static_cast<std::size_t>(extent++)] = target;
    }
    WeightCommand command;
    command.kind = kind;
    command.model = model;
    command.first_extent = first;
    command.extents = extent - first;
    out.push_back(command);
    committed_count_ += target == 1 ? command.extents : -command.extents;
  }
}

void ResidentGroups::append_decommits(ModelId model, std::vector<WeightCommand>& out) {
  if (!changed_) return;
  append_runs(
      WeightCommand::Kind::kDecommit, model,
      [&](std::int64_t extent) {
        const auto i = static_cast<std::size_t>(extent);
        return committed_[i] != 0 && users_[i] == 0;
      },
      out);
}

void ResidentGroups::append_commits(ModelId model, std::vector<WeightCommand>& out) {
  if (!changed_) return;
  append_runs(
      WeightCommand::Kind::kCommit, model,
      [&](std::int64_t extent) {
        const auto i = static_cast<std::size_t>(extent);
        return committed_[i] == 0 && users_[i] > 0;
      },
      out);
  changed_ = false;
}

std::string ResidentGroups::check() const {
  std::vector<std::int32_t> users(users_.size());
  int cached = 0, arriving = 0, held = 0, required_cached = 0, required_arriving = 0;
  for (const Group& group : groups_) {
    cached += group.place == GroupPlace::kCached ? 1 : 0;
    required_cached += group.required && group.place == GroupPlace::kCached ? 1 : 0;
    arriving += group.place == GroupPlace::kArriving ? 1 : 0;
    required_arriving += group.required && group.place == GroupPlace::kArriving ? 1 : 0;
    held += group.held ? 1 : 0;
    if (group.held && group.place != GroupPlace::kHome) return "a group is held and not at home";
    if (!group.needs_extents()) continue;
    for (auto i = group.first; i < group.end; ++i) users[static_cast<std::size_t>(i)] += 1;
  }
  if (users != users_) return "an extent's users are miscounted";
  if (cached != cached_ || required_cached != required_cached_ || arriving != arriving_ ||
      required_arriving != required_arriving_ || held != held_) {
    return "groups are miscounted";
  }
  if (used_ != std::ssize(users_) - std::count(users_.begin(), users_.end(), 0)) {
    return "used extents are miscounted";
  }
  if (committed_count_ != std::count(committed_.begin(), committed_.end(), std::uint8_t{1})) {
    return "committed extents are miscounted";
  }
  for (std::size_t i = 0; i < users_.size(); ++i) {
    if (users_[i] > 0 && committed_[i] == 0) return "a used extent is not committed";
    if (!changed_ && users_[i] == 0 && committed_[i] != 0) return "an unused extent is committed";
  }
  return {};
}

}  // namespace causeway::weights
