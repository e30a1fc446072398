#include "weights/command_order.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace causeway::weights::command_order_test {
namespace {

using Kind = WeightCommand::Kind;
using Extents = std::set<std::int64_t>;

constexpr ModelId kOld(1), kNew(2);

WeightCommand of(Kind kind, ModelId model, std::int64_t first, std::int64_t count) {
  return {.kind = kind, .model = model, .first_extent = first, .extents = count};
}

void execute(const WeightCommand& command, Extents& committed) {
  for (std::int64_t i = 0; i < command.extents; ++i) {
    const std::int64_t extent = 1000 * command.model.value + command.first_extent + i;
    const bool changed = command.kind == Kind::kCommit ? committed.insert(extent).second
                                                       : committed.erase(extent) > 0;
    RC_ASSERT(changed);  // nothing is committed or taken away twice
  }
}

RC_GTEST_PROP(CommandOrder, EveryGroupHasItsMemoryAndNeverMoreThanBefore, ()) {
  // The old model gives up some of its extents, the new one takes some for its groups.
  const std::int64_t old_extents = *rc::gen::inRange(0, 40);
  const std::int64_t spare = *rc::gen::inRange(0, 10);
  Extents committed;
  std::vector<WeightCommand> commands;
  if (old_extents > 0) {
    execute(of(Kind::kCommit, kOld, 0, old_extents), committed);
    const std::int64_t middle = *rc::gen::inRange<std::int64_t>(0, old_extents);
    if (middle > 0) commands.push_back(of(Kind::kDecommit, kOld, 0, middle));
    commands.push_back(of(Kind::kDecommit, kOld, middle, old_extents - middle));
  }
  const std::int64_t taken = *rc::gen::inRange<std::int64_t>(0, old_extents + spare + 1);
  if (taken > 0) commands.push_back(of(Kind::kCommit, kNew, 0, taken));
  // Groups of the taken extents; neighbours share one.
  std::vector<ExtentRun> groups;
  for (std::int64_t at = 0; at < taken;) {
    const std::int64_t count = *rc::gen::inRange<std::int64_t>(1, 6);
    groups.push_back({at, std::min(count, taken - at)});
    at += *rc::gen::inRange<std::int64_t>(std::max<std::int64_t>(1, count - 1), count + 1);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    commands.push_back({.kind = Kind::kBring, .model = kNew, .group = static_cast<int>(g)});
  }

  std::vector<WeightCommand> ordered;
  interleave(
      commands,
      [&](const WeightCommand& bring) { return groups[static_cast<std::size_t>(bring.group)]; },
      ordered);

  const auto most = static_cast<std::size_t>(std::max(old_extents, taken));
  int next_group = 0;
  for (const WeightCommand& command : ordered) {
    if (command.kind != Kind::kBring) {
      execute(command, committed);
      RC_ASSERT(committed.size() <= most);
      continue;
    }
    RC_ASSERT(command.group == next_group++);
    const ExtentRun run = groups[static_cast<std::size_t>(command.group)];
    for (std::int64_t i = 0; i < run.count; ++i) {
      RC_ASSERT(committed.contains(1000 * kNew.value + run.first + i));
    }
  }
  RC_ASSERT(next_group == static_cast<int>(groups.size()));
  RC_ASSERT(committed.size() == static_cast<std::size_t>(taken));
}

TEST(CommandOrder, TheFirstCopyWaitsForItsOwnMemoryOnly) {
  const std::vector<WeightCommand> commands = {of(Kind::kDecommit, kOld, 0, 100),
                                               of(Kind::kCommit, kNew, 0, 100),
                                               {.kind = Kind::kBring, .model = kNew, .group = 0},
                                               {.kind = Kind::kBring, .model = kNew, .group = 1}};
  std::vector<WeightCommand> ordered;
  interleave(
      commands,
      [](const WeightCommand& bring) {
        return ExtentRun{50 * bring.group, 50};
      },
      ordered);
  ASSERT_EQ(ordered.size(), 6u);
  EXPECT_EQ(ordered[0].extents, 50);
  EXPECT_EQ(ordered[1].kind, Kind::kCommit);
  EXPECT_EQ(ordered[2].kind, Kind::kBring);
}

}  // namespace
}  // namespace causeway::weights::command_order_test
