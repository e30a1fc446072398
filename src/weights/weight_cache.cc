#include "weights/weight_cache.h"

#include <algorithm>
#include <set>
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

CachedModel as_a_whole(const CachedModel& cached) {
  CAUSEWAY_CHECK(!cached.groups.empty() && !cached.streams(), "a model that is cached has groups");
  Bytes begin = cached.groups.front().offset, end = begin;
  for (const ResidentGroup& group : cached.groups) {
    begin = std::min(begin, group.offset);
    end = std::max(end, group.offset + group.bytes);
  }
  return {.groups = {{.offset = begin, .bytes = end - begin}},
          .layout_groups = {cached.layout_groups.front()}};
}

namespace {

// With memory of their own.
std::int64_t required_extents(const CachedModel& model, Bytes extent) {
  std::set<std::int64_t> extents;
  for (const ResidentGroup& group : model.groups) {
    const std::int64_t end = (group.offset + group.bytes + extent - Bytes(1)) / extent;
    for (std::int64_t e = group.offset / extent; e < end; ++e) extents.insert(e);
  }
  return std::ssize(extents);
}

}  // namespace

Bytes CachedModel::home_of(std::size_t group) const {
  return experts && group < experts->home.size() ? experts->home[group] : groups.at(group).offset;
}

ExpertSlots CachedModel::slots(const std::byte* base) const {
  if (!experts) return {};
  return {base + experts->slots_offset.count, experts->slot_bytes, experts->gate_up};
}

namespace {

Result<CachedModel> model_of_slots(const WeightLayout& layout, std::span<const ReadingStep> reading,
                                   const StreamOptions& options) {
  CachedModel model;
  CAUSEWAY_ASSIGN(model.experts, plan_experts(layout, reading, options));
  model.policy = options.experts;
  const ExpertPlan& plan = *model.experts;
  for (const int group : plan.resident) {
    const PlacedGroup& placed = plan.layout.groups[static_cast<std::size_t>(group)];
    model.groups.push_back({.offset = placed.offset, .bytes = placed.bytes});
    model.layout_groups.push_back(group);
  }
  model.groups.push_back({.offset = plan.slots_offset,
                          .bytes = round_up(plan.slots_end(), options.extent) - plan.slots_offset,
                          .memory_only = true});
  model.layout_groups.push_back(-1);
  return model;
}

}  // namespace

Result<CachedModel> streamed_model(const WeightLayout& layout, std::span<const ReadingStep> reading,
                                   const StreamOptions& options) {
  const bool sparse = std::any_of(reading.begin(), reading.end(),
                                  [](const ReadingStep& step) { return step.experts > 0; });
  if (sparse && options.experts != ExpertPolicy::kWhole) {
    // Whole layers need less room where layers are small and their dense parts large.
    auto slots = model_of_slots(layout, reading, options);
    if (slots.ok()) return slots;
  }
  CachedModel model;
  CAUSEWAY_ASSIGN(model.stream, plan_stream(layout, reading, options));
  for (const int group : model.stream->resident) {
    const PlacedGroup& placed = layout.groups[static_cast<std::size_t>(group)];
    model.groups.push_back({.offset = placed.offset, .bytes = placed.bytes});
    model.layout_groups.push_back(group);
  }
  model.groups.push_back({.offset = options.extent * model.stream->ring_first,
                          .bytes = options.extent * model.stream->ring_extents,
                          .memory_only = true});
  model.layout_groups.push_back(-1);
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
  std::int64_t needed = extents_of(cached, options_.extent);
  // Its range has addresses that need no memory of their own.
  if (cached.streams()) needed = required_extents(cached, options_.extent);
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
  int groups = last == cached.layout_groups.end() ? 0 : *last + 1;
  std::unique_ptr<WeightRing> ring;
  if (cached.stream) {
    for (const StreamedGroup& group : cached.stream->groups) {
      groups = std::max(groups, group.layout_group + 1);
    }
    ring = std::make_unique<WeightRing>(*cached.stream);
  }
  Entry entry;
  if (cached.experts) {
    groups = static_cast<int>(cached.experts->layout.groups.size());
    entry.experts = std::make_unique<ExpertCache>(
        ExpertCacheOptions{.layers = std::ssize(cached.experts->layers),
                           .experts = cached.experts->experts,
                           .slots = cached.experts->slots,
                           .policy = cached.policy});
  }
  entry.cached = std::move(cached);
  entry.layout_groups = static_cast<std::size_t>(groups);
  entry.ring = std::move(ring);
  const auto added = models_.emplace(model, std::move(entry)).first;
  if (added->second.ring || added->second.experts) filled_.emplace_back(model, &added->second);
  std::sort(filled_.begin(), filled_.end());
  return {};
}

Status WeightCache::remove_model(ModelId model) {
  commands_.clear();
  CAUSEWAY_TRY(residency_.remove_model(model, commands_));
  std::erase_if(filled_, [model](const auto& one) { return one.first == model; });
  models_.erase(model);
  mover_.submit(commands_);
  return {};
}

void WeightCache::take_events(Nanos now) {
  residency_.grant(mover_.granted_rate(), now);
  std::vector<WeightEvent> events = mover_.poll();
  for (WeightEvent& event : events) {
    if (!event.model.valid()) {
      frame_events_.push_back(std::move(event));
    } else {
      take_event(event, now);
    }
  }
  mover_.take_back(std::move(events));
  fill(now);
}

void WeightCache::take_event(const WeightEvent& event, Nanos now) {
  Entry& entry = models_.at(event.model);
  const bool ok = event.outcome.ok();
  if (!ok) entry.last_error = event.outcome.error().message;
  if (event.streamed) return entry.ring->ended(event.group, event.arrival, ok);
  if (event.slot >= 0) return entry.experts->ended(event.slot, ok);
  if (!ok) return residency_.failed(event.model, event.group, event.arrival, now);
  residency_.arrived(event.model, event.group, event.arrival, now);
  if (!entry.cached.groups.at(static_cast<std::size_t>(event.group)).memory_only) return;
  if (entry.ring) entry.ring->forget();
  if (entry.experts) entry.experts->forget();
}

void WeightCache::fill(Nanos now) {
  if (filled_.empty()) return;
  commands_.clear();
  for (const auto& [id, entry] : filled_) {
    if (entry->ring) {
      fill_ring(id, *entry);
      if (entry->ring->quiet()) end_fill(id, *entry, now);
    }
    if (entry->experts) {
      fill_slots(id, *entry);
      if (entry->experts->quiet()) end_fill(id, *entry, now);
    }
  }
  if (!commands_.empty()) mover_.submit(commands_);
}

bool WeightCache::may_fill(ModelId model) const {
  return residency_.all_cached(model) && !residency_.leaving(model);
}

// While copies are under way the model counts as stepped, so that nothing is taken from under them.
void WeightCache::begin_fill(ModelId model, Entry& entry, const WeightCommand& command) {
  if (!std::exchange(entry.filling, true)) residency_.copies_begin(model);
  commands_.push_back(command);
}

void WeightCache::end_fill(ModelId model, Entry& entry, Nanos now) {
  if (!std::exchange(entry.filling, false)) return;
  // Nothing of what it holds was on its way when it began: it cannot be poisoned.
  (void)residency_.step_ended(model, now);
}

void WeightCache::fill_ring(ModelId model, Entry& entry) {
  WeightRing& ring = *entry.ring;
  ring.consumed(mover_.consumed(model)->value());
  const bool there = may_fill(model);
  ring.set_wanted(there && entry.requests > 0);
  if (ring.spoilt()) ring.forget();
  while (const auto next = ring.next()) {
    if (!there && !entry.filling && ring.passes_in_flight() == 0) break;
    WeightCommand command;
    command.kind = WeightCommand::Kind::kStream;
    command.model = model;
    command.group = next->group;
    command.arrival = next->pass;
    begin_fill(model, entry, command);
    ring.issue();
  }
}

void WeightCache::fill_slots(ModelId model, Entry& entry) {
  ExpertCache& experts = *entry.experts;
  if (entry.requests == 0 || !may_fill(model)) return;
  while (const auto load = experts.next()) {
    WeightCommand command;
    command.kind = WeightCommand::Kind::kExpert;
    command.model = model;
    command.group = load->expert / entry.cached.experts->experts;
    command.expert = load->expert % entry.cached.experts->experts;
    command.slot = load->slot;
    begin_fill(model, entry, command);
    experts.issue();
  }
}

void WeightCache::demand(std::span<const ModelDemand> demand, Nanos now) {
  for (const auto& [id, entry] : filled_) {
    const std::int64_t before = std::exchange(entry->requests, 0);
    for (const ModelDemand& wanted : demand) {
      if (wanted.model == id) entry->requests = wanted.requests;
    }
    if (entry->experts && before == 0 && entry->requests > 0) entry->experts->sequence_begins();
  }
  take_events(now);
  residency_.demand(demand, now);
}

void WeightCache::decide(Nanos now) {
  commands_.clear();
  residency_.decide(now, commands_);
  if (!commands_.empty()) mover_.submit(commands_);
}

void WeightCache::ring_views(ModelId model, Entry& entry, std::vector<WeightView>& views) {
  // What is neither resident nor streamed is gathered at home.
  views.assign(entry.layout_groups, {.place = WeightPlace::kHome});
  for (const int group : entry.cached.stream->resident) {
    views.at(static_cast<std::size_t>(group)) = {};
  }
  const std::uint32_t pass = entry.ring->begin_pass();
  for (std::size_t i = 0; i < entry.cached.stream->groups.size(); ++i) {
    const int group = static_cast<int>(i);
    views.at(static_cast<std::size_t>(entry.cached.stream->groups[i].layout_group)) = {
        .place = WeightPlace::kStaged,
        .ready = mover_.streamed(model, group),
        .value = pass,
        .consumed = mover_.consumed(model),
        .consumed_value = entry.ring->consumed_value(group, pass)};
  }
}

// What has no memory in the range is gathered at home.
void WeightCache::expert_views(Entry& entry, std::vector<WeightView>& views) {
  views.assign(entry.layout_groups, {.place = WeightPlace::kHome});
  const ExpertPlan& plan = *entry.cached.experts;
  for (const int group : plan.resident) views.at(static_cast<std::size_t>(group)) = {};
  const std::span<const std::int32_t> slots = entry.experts->step_begins();
  const auto experts = static_cast<std::size_t>(plan.experts);
  for (std::size_t layer = 0; layer < plan.layers.size(); ++layer) {
    views.at(static_cast<std::size_t>(plan.layers[layer].group)).slots =
        slots.subspan(layer * experts, experts);
  }
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
  // Just in time is for models that a step brings whole, over a link that has nothing else to do.
  const bool streaming = std::any_of(filled_.begin(), filled_.end(),
                                     [](const auto& one) { return one.second->filling; });
  if (streaming || models_.at(model).cached.streams()) computes = -seconds(86'400);
  const Residency::Readiness readiness = residency_.readiness(model, computes, begins);
  if (!readiness.now || mover_.issued(model)) return readiness;
  return {.now = false, .at = begins + kLook};
}

void WeightCache::step_begins(ModelId model, std::vector<WeightView>& views) {
  residency_.step_begins(model);
  Entry& entry = models_.at(model);
  if (entry.ring) return ring_views(model, entry, views);
  if (entry.experts) return expert_views(entry, views);
  views_now(model, views);
}

void WeightCache::views_now(ModelId model, std::vector<WeightView>& views) const {
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
  if (residency_.all_cached(model)) return Bytes(0);
  const std::vector<ResidentGroup>& groups = models_.at(model).cached.groups;
  Bytes missing;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].readable_at_home || groups[i].memory_only) continue;
    if (residency_.place(model, static_cast<int>(i)) == GroupPlace::kCached) continue;
    missing += groups[i].bytes;
  }
  return missing;
}

Nanos WeightCache::copy_time(Bytes bytes) const {
  const double rate = residency_.link_rate();
  return rate > 0 ? nanos_from_seconds(static_cast<double>(bytes.count) / rate) : Nanos(0);
}

ExpertCache::Counters WeightCache::expert_counters(ModelId model) const {
  const auto found = models_.find(model);
  if (found == models_.end() || !found->second.experts) return {};
  return found->second.experts->counters();
}

Status WeightCache::step_ended(ModelId model, Nanos now, std::span<const std::uint32_t> chosen) {
  Entry& entry = models_.at(model);
  if (entry.experts) entry.experts->step_ended(chosen);
  const bool streamed = !entry.ring || entry.ring->end_pass();
  if (residency_.step_ended(model, now) && streamed) return {};
  return Error{ErrorCode::kDevice,
               "weights of the model could not be brought: " + entry.last_error};
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
