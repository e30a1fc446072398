#include "weights/weight_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace causeway::weights {

CachedModel cached_model(const WeightLayout& layout, std::span<const ReadingStep> reading) {
  CachedModel model;
  for (const ReadingStep& step : reading) {
    const PlacedGroup& group = layout.groups.at(static_cast<std::size_t>(step.group));
    const Bytes piece = step.readable_at_home ? kPieceBytes : group.bytes;
    for (Bytes at; at < group.bytes; at += piece) {
      model.groups.push_back({.offset = group.offset + at,
                              .bytes = std::min(piece, group.bytes - at),
                              .readable_at_home = step.readable_at_home});
      model.layout_groups.push_back(step.group);
    }
  }
  return model;
}

std::int64_t extents_of(const CachedModel& model, Bytes extent) {
  Bytes end;
  for (const ResidentGroup& group : model.groups) end = std::max(end, group.offset + group.bytes);
  return round_up(end, extent) / extent;
}

WeightCache::WeightCache(const ResidencyOptions& options, WeightMover& mover)
    : options_(options), residency_(options), mover_(mover) {
  residency_.grant(mover_.granted_rate(), Nanos(0));
}

Status WeightCache::check_fits(const CachedModel& cached) const {
  const std::int64_t needed = extents_of(cached, options_.extent);
  const std::int64_t most = std::max(options_.extents, options_.extents_max);
  if (needed <= most) return {};
  const auto mib_of = [&](std::int64_t extents) {
    return std::to_string((options_.extent * extents).count >> 20) + " MiB";
  };
  return exhausted("the model's weights take " + mib_of(needed) + ", and the cache has " +
                   mib_of(most));
}

Status WeightCache::add_model(ModelId model, CachedModel cached) {
  CAUSEWAY_TRY(residency_.add_model(model, cached.groups));
  const auto last = std::max_element(cached.layout_groups.begin(), cached.layout_groups.end());
  const std::size_t groups =
      last == cached.layout_groups.end() ? 0 : static_cast<std::size_t>(*last) + 1;
  models_.emplace(model, Entry{std::move(cached), groups, ""});
  return {};
}

Status WeightCache::remove_model(ModelId model) {
  commands_.clear();
  CAUSEWAY_TRY(residency_.remove_model(model, commands_));
  models_.erase(model);
  mover_.submit(commands_);
  return {};
}

void WeightCache::take_events(Nanos now) {
  residency_.grant(mover_.granted_rate(), now);
  for (WeightEvent& event : mover_.poll()) {
    if (!event.model.valid()) {
      frame_events_.push_back(std::move(event));
      continue;
    }
    if (event.outcome.ok()) {
      residency_.arrived(event.model, event.group, event.arrival, now);
      continue;
    }
    models_.at(event.model).last_error = event.outcome.error().message;
    residency_.failed(event.model, event.group, event.arrival, now);
  }
}

void WeightCache::demand(std::span<const ModelDemand> demand, Nanos now) {
  take_events(now);
  residency_.demand(demand, now);
}

void WeightCache::decide(Nanos now) {
  commands_.clear();
  residency_.decide(now, commands_);
  if (!commands_.empty()) mover_.submit(commands_);
}

void WeightCache::command_frames(WeightCommand::Kind kind, std::int64_t first_extent,
                                 std::int64_t extents) {
  WeightCommand command;
  command.kind = kind;
  command.first_extent = first_extent;
  command.extents = extents;
  mover_.submit({&command, 1});
}

void WeightCache::commit_frames(std::int64_t first_extent, std::int64_t extents) {
  command_frames(WeightCommand::Kind::kCommit, first_extent, extents);
}

void WeightCache::decommit_frames(std::int64_t first_extent, std::int64_t extents) {
  command_frames(WeightCommand::Kind::kDecommit, first_extent, extents);
}

std::vector<WeightEvent> WeightCache::take_frame_events() {
  return std::exchange(frame_events_, {});
}

Residency::Readiness WeightCache::readiness(ModelId model, Nanos computes, Nanos begins) const {
  constexpr Nanos kLook = micros(200);
  const Residency::Readiness readiness = residency_.readiness(model, computes, begins);
  if (!readiness.now || mover_.issued(model)) return readiness;
  return {.now = false, .at = begins + kLook};
}

void WeightCache::step_begins(ModelId model, std::vector<WeightView>& views) {
  residency_.step_begins(model);
  views.clear();
  if (residency_.all_cached(model)) return;
  const CachedModel& cached = models_.at(model).cached;
  views.resize(models_.at(model).layout_groups);
  for (std::size_t i = 0; i < cached.groups.size(); ++i) {
    const int group = static_cast<int>(i);
    const bool readable = cached.groups[i].readable_at_home;
    WeightView& view = views.at(static_cast<std::size_t>(cached.layout_groups[i]));
    switch (residency_.place(model, group)) {
      case GroupPlace::kCached: break;
      case GroupPlace::kArriving:
        if (readable) {
          view = {.place = WeightPlace::kHome};
        } else {
          view = {.place = WeightPlace::kStaged,
                  .ready = mover_.semaphore(model, group),
                  .value = residency_.arrival(model, group)};
        }
        break;
      case GroupPlace::kHome:
        CAUSEWAY_CHECK(readable, "a step begins without its weights");
        view = {.place = WeightPlace::kHome};
        break;
    }
  }
}

Bytes WeightCache::missing_bytes(ModelId model) const {
  const std::vector<ResidentGroup>& groups = models_.at(model).cached.groups;
  Bytes missing;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].readable_at_home) continue;
    if (residency_.place(model, static_cast<int>(i)) == GroupPlace::kCached) continue;
    missing += groups[i].bytes;
  }
  return missing;
}

Nanos WeightCache::copy_time(Bytes bytes) const {
  const double rate = residency_.link_rate();
  return rate > 0 ? nanos_from_seconds(static_cast<double>(bytes.count) / rate) : Nanos(0);
}

Status WeightCache::step_ended(ModelId model, Nanos now) {
  if (residency_.step_ended(model, now)) return {};
  return Error{ErrorCode::kDevice,
               "weights of the model could not be brought: " + models_.at(model).last_error};
}

std::optional<std::string> WeightCache::take_failure(ModelId model) {
  if (!residency_.gave_up(model)) return std::nullopt;
  residency_.clear_failure(model);
  const std::string why = residency_.fits(model)
                              ? models_.at(model).last_error
                              : "pinned models leave it no room: unpin one of them";
  return "weights of the model could not be brought: " + why;
}

}  // namespace causeway::weights
