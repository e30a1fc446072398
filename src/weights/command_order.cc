#include "weights/command_order.h"

#include <algorithm>
#include <map>
#include <set>

namespace causeway::weights {
namespace {

using Kind = WeightCommand::Kind;

class Interleaver {
 public:
  Interleaver(std::span<const WeightCommand> commands, std::vector<WeightCommand>& ordered)
      : commands_(commands), ordered_(ordered) {
    for (const WeightCommand& command : commands) {
      if (command.kind != Kind::kCommit) continue;
      auto& extents = to_commit_[command.model];
      for (std::int64_t i = 0; i < command.extents; ++i) extents.insert(command.first_extent + i);
    }
  }

  void run(const std::function<ExtentRun(const WeightCommand&)>& group_extents) {
    for (const WeightCommand& command : commands_) {
      if (command.kind != Kind::kBring) continue;
      commit(command.model, group_extents(command));
      ordered_.push_back(command);
    }
    for (auto& [model, extents] : to_commit_) {
      while (!extents.empty()) commit(model, {*extents.begin(), 1});
    }
    decommit(INT64_MAX);
    for (const WeightCommand& command : commands_) {
      const bool late = command.kind == Kind::kStream || command.kind == Kind::kExpert;
      if (late) ordered_.push_back(command);
    }
  }

 private:
  // What of the run is to be committed, as few commands as possible.
  void commit(ModelId model, ExtentRun run) {
    auto& extents = to_commit_[model];
    for (auto at = extents.lower_bound(run.first);
         at != extents.end() && *at < run.first + run.count;) {
      ExtentRun part{*at, 0};
      while (at != extents.end() && *at == part.first + part.count && *at < run.first + run.count) {
        ++part.count;
        at = extents.erase(at);
      }
      decommit(part.count);
      ordered_.push_back({.kind = Kind::kCommit,
                          .model = model,
                          .first_extent = part.first,
                          .extents = part.count});
    }
  }

  // At least so many extents, as far as the list has them.
  void decommit(std::int64_t count) {
    while (count > 0 && next_ < commands_.size()) {
      const WeightCommand& command = commands_[next_];
      const std::int64_t left = command.kind == Kind::kDecommit ? command.extents - done_ : 0;
      const std::int64_t part = std::min(left, count);
      if (part > 0) {
        ordered_.push_back({.kind = Kind::kDecommit,
                            .model = command.model,
                            .first_extent = command.first_extent + done_,
                            .extents = part});
      }
      count -= part;
      done_ += part;
      if (part < left) continue;
      ++next_;
      done_ = 0;
    }
  }

  const std::span<const WeightCommand> commands_;
  std::vector<WeightCommand>& ordered_;
  std::map<ModelId, std::set<std::int64_t>> to_commit_;
  std::size_t next_ = 0;   // the command whose extents are decommitted next
  std::int64_t done_ = 0;  // of its extents
};

}  // namespace

ExtentRun extents_of(const ResidentGroup& group, Bytes extent) {
  const std::int64_t first = group.offset / extent;
  const std::int64_t end = (group.offset + group.bytes + extent - Bytes(1)) / extent;
  return {first, end - first};
}

void interleave(std::span<const WeightCommand> commands,
                const std::function<ExtentRun(const WeightCommand&)>& group_extents,
                std::vector<WeightCommand>& ordered) {
  Interleaver(commands, ordered).run(group_extents);
}

}  // namespace causeway::weights
