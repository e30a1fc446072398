#include "simulate/simulated_mover.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace causeway::simulate {

using weights::WeightCommand;

SimulatedMover::SimulatedMover(const SimulatedMoverOptions& options, const Clock& clock,
                               SharedLink* link)
    : options_(options),
      clock_(clock),
      shared_(link),
      reader_(link != nullptr ? link->readers_known++ : 0),
      random_(options.seed),
      frames_(static_cast<std::size_t>(options.frame_extents_max)),
      committed_of_frames_(options.frame_extents) {
  CAUSEWAY_CHECK(options.bytes_per_second > 0 && options.extent.count > 0, "a link without a rate");
  for (std::int64_t e = 0; e < options.frame_extents; ++e) {
    frames_.at(static_cast<std::size_t>(e)).committed = true;
  }
}

void SimulatedMover::add_model(ModelId id, const weights::CachedModel& cached) {
  const auto extents = static_cast<std::size_t>(weights::extents_of(cached, options_.extent));
  Model model;
  model.cached = cached;
  model.copies.resize(cached.groups.size());
  model.committed.resize(extents);
  model.extents.reserve(cached.groups.size());
  for (const weights::ResidentGroup& group : cached.groups) {
    model.extents.push_back(weights::extents_of(group, options_.extent));
  }
  if (cached.stream) {
    model.ring_layout.emplace(*cached.stream, options_.extent);
    model.consumed = std::make_unique<SimulatedSemaphore>(clock_);
    model.streamed.resize(cached.stream->groups.size());
    for (Streamed& group : model.streamed) {
      group.arrived = std::make_unique<SimulatedSemaphore>(clock_);
    }
  }
  CAUSEWAY_CHECK(models_.emplace(id, std::move(model)).second, "the mover knows the model already");
}

void SimulatedMover::remove_model(ModelId id) {
  const auto at = models_.find(id);
  CAUSEWAY_CHECK(at != models_.end(), "the mover does not know the model");
  for (const bool committed : at->second.committed) {
    if (committed) blame("a model goes and leaves memory behind");
  }
  for (const Pending& pending : link_) {
    if (pending.command.model == id) blame("a model goes while its weights are on their way");
  }
  std::erase_if(link_, [&](const Pending& pending) { return pending.command.model == id; });
  models_.erase(id);
}

void SimulatedMover::blame(const std::string& what) {
  if (violation_.empty()) violation_ = "mover: " + what;
}

Nanos SimulatedMover::takes(Bytes bytes) const {
  const double seconds = static_cast<double>(bytes.count) / options_.bytes_per_second;
  return options_.latency + nanos_from_seconds(seconds);
}

void SimulatedMover::submit(std::span<const WeightCommand> commands) {
  for (const WeightCommand& command : commands) {
    if (!command.model.valid()) {
      move_frames(command);
      continue;
    }
    Model& model = models_.at(command.model);
    switch (command.kind) {
      case WeightCommand::Kind::kDecommit: commit(model, command, false); break;
      case WeightCommand::Kind::kCommit: commit(model, command, true); break;
      case WeightCommand::Kind::kBring: bring(model, command); break;
      case WeightCommand::Kind::kStream: stream(model, command); break;
      case WeightCommand::Kind::kExpert: load_expert(model, command); break;
    }
  }
}

void SimulatedMover::commit(Model& model, const WeightCommand& command, bool wanted) {
  for (std::int64_t i = 0; i < command.extents; ++i) {
    const std::int64_t extent = command.first_extent + i;
    auto place = model.committed.at(static_cast<std::size_t>(extent));
    if (place == wanted) blame("an extent is committed, or taken away, twice");
    place = wanted;
    committed_ += wanted ? 1 : -1;
  }
  if (!wanted) drop_groups(model, command);
  check_committed();
}

void SimulatedMover::check_committed() {
  if (committed_ + committed_of_frames_ > options_.extents_max) {
    blame("more is committed than there is");
  }
}

void SimulatedMover::move_frames(const WeightCommand& command) {
  const bool wanted = command.kind == WeightCommand::Kind::kCommit;
  for (std::int64_t i = 0; i < command.extents; ++i) {
    FrameExtent& extent = frames_.at(static_cast<std::size_t>(command.first_extent + i));
    if (extent.committed == wanted) blame("an extent of frames is committed, or taken away, twice");
    if (!wanted && extent.there > clock_.now())
      blame("frames are taken away before they are there");
    const bool failed = wanted && random_.chance(options_.frame_error_rate);
    if (wanted) {
      extent.there = clock_.now() + options_.frame_latency;
      extent.commits += failed ? 0 : 1;
      WeightCommand one = command;
      one.first_extent += i;
      frames_coming_.push_back({.command = one, .ends = extent.there, .failed = failed});
    } else {
      frame_moves_.gave += 1;
    }
    extent.committed = wanted && !failed;
    if (!failed) committed_of_frames_ += wanted ? 1 : -1;
  }
  check_committed();
}

std::optional<std::int64_t> SimulatedMover::frame_memory(FrameId frame) const {
  const auto extent = static_cast<std::size_t>(frame.value / options_.frames_per_extent);
  const FrameExtent& asked = frames_.at(extent);
  if (!asked.committed || asked.there > clock_.now()) return std::nullopt;
  return asked.commits;
}

// Those that lie on the command's extents.
void SimulatedMover::drop_groups(Model& model, const WeightCommand& command) {
  const std::int64_t first = command.first_extent, end = first + command.extents;
  for (std::size_t i = 0; i < model.copies.size(); ++i) {
    const weights::ExtentRun run = model.extents[i];
    if (end <= run.first || first >= run.first + run.count || !model.copies[i]) continue;
    const Copy& copy = *model.copies[i];
    if (copy.ends > clock_.now()) blame("memory is taken from a group that arrives");
    const weights::ResidentGroup& group = model.cached.groups[i];
    if (options_.copies_out && !copy.failed && !group.memory_only) copy_out(group.bytes);
    take_copy(model, i);
  }
  if (model.streamed.empty()) return;
  for (std::int64_t extent = first; extent < end; ++extent) drop_streamed(model, extent);
}

void SimulatedMover::copy_out(Bytes bytes) {
  Nanos& free = shared_ != nullptr ? shared_->free_out : out_until_;
  out_until_ = free = std::max(free, clock_.now()) + takes(bytes);
  bytes_out_ += bytes;
}

void SimulatedMover::drop_streamed(Model& model, std::int64_t extent) {
  for (std::size_t i = 0; i < model.streamed.size(); ++i) {
    std::optional<Copy>& copy = model.streamed[i].copy;
    const auto& extents = model.ring_layout->extents(static_cast<int>(i));
    if (!copy || std::find(extents.begin(), extents.end(), extent) == extents.end()) continue;
    if (copy->ends > clock_.now()) blame("memory is taken from a ring that is filled");
    copy.reset();
  }
}

void SimulatedMover::bring(Model& model, const WeightCommand& command) {
  const auto group = static_cast<std::size_t>(command.group);
  const weights::ResidentGroup& brought = model.cached.groups.at(group);
  const weights::ExtentRun run = model.extents[group];
  for (std::int64_t extent = run.first; extent < run.first + run.count; ++extent) {
    if (!model.committed.at(static_cast<std::size_t>(extent))) {
      blame("a group is brought to where no memory is");
    }
  }
  if (brought.memory_only) return show_ring(model, command);
  const std::optional<Copy>& before = model.copies[group];
  if (before && before->ends > clock_.now()) blame("a group is brought while it arrives");
  const bool failed = random_.chance(options_.error_rate);
  set_copy(model, group, {.arrival = command.arrival, .ends = Nanos(0), .failed = failed});
  queue({.command = command,
         .waits = brought.readable_at_home,
         .bytes = brought.bytes,
         .takes = takes(brought.bytes),
         .ends = Nanos(0),
         .failed = failed});
}

// Nothing crosses the link.
void SimulatedMover::show_ring(Model& model, const WeightCommand& command) {
  const Nanos there = clock_.now() + std::max(options_.latency, Nanos(1));
  set_copy(model, static_cast<std::size_t>(command.group),
           {.arrival = command.arrival, .ends = there, .failed = false});
  rings_.push_back({.command = command, .ends = there});
}

void SimulatedMover::stream(Model& model, const WeightCommand& command) {
  const auto index = static_cast<std::size_t>(command.group);
  for (const std::int64_t extent : model.ring_layout->extents(command.group)) {
    if (!model.committed.at(static_cast<std::size_t>(extent))) {
      blame("a group is streamed into a ring that is not there");
    }
  }
  Streamed& group = model.streamed.at(index);
  if (device::reached(group.last_pass, command.arrival)) blame("a pass is copied twice");
  std::vector<int> overwritten = model.ring_layout->overwrites(command.group);
  overwritten.push_back(command.group);
  for (const int other : overwritten) {
    std::optional<Copy>& copy = model.streamed[static_cast<std::size_t>(other)].copy;
    if (copy && copy->ends > clock_.now()) blame("a group is streamed over one that arrives");
    copy.reset();
  }
  const bool failed = random_.chance(options_.error_rate);
  group.copy = Copy{.arrival = command.arrival, .ends = Nanos(0), .failed = failed};
  group.last_pass = command.arrival;
  queue({.command = command,
         .bytes = model.cached.stream->groups[index].bytes,
         .takes = takes(model.cached.stream->groups[index].bytes),
         .ends = Nanos(0),
         .failed = failed});
  if (group.copy) group.arrived->raise_at(command.arrival, group.copy->ends);
}

// Into a slot of memory that the model keeps until the copy has ended. No step waits for it.
void SimulatedMover::load_expert(const Model& model, const WeightCommand& command) {
  CAUSEWAY_CHECK(model.cached.experts && command.slot >= 0, "the model has slots for experts");
  const Bytes bytes = model.cached.experts->slot_bytes;
  queue({.command = command,
         .bytes = bytes,
         .takes = takes(bytes),
         .ends = Nanos(0),
         .failed = random_.chance(options_.error_rate)});
}

std::optional<SimulatedMover::Copy>& SimulatedMover::place_of(const WeightCommand& command) {
  Model& model = models_.at(command.model);
  const auto group = static_cast<std::size_t>(command.group);
  const bool streams = command.kind == WeightCommand::Kind::kStream;
  return streams ? model.streamed.at(group).copy : model.copies.at(group);
}

void SimulatedMover::set_end(const WeightCommand& command, Nanos end) {
  if (command.kind == WeightCommand::Kind::kExpert) return;
  std::optional<Copy>& copy = place_of(command);
  if (!copy) return;
  copy->ends = end;
  Nanos& last = models_.at(command.model).last_end;
  last = std::max(last, end);
}

void SimulatedMover::set_copy(Model& model, std::size_t group, const Copy& copy) {
  take_copy(model, group);
  model.copies[group] = copy;
  model.good += copy.failed ? 0 : 1;
  model.last_end = std::max(model.last_end, copy.ends);
}

void SimulatedMover::take_copy(Model& model, std::size_t group) {
  std::optional<Copy>& copy = model.copies[group];
  if (!copy) return;
  model.good -= copy->failed ? 0 : 1;
  model.taken += 1;
  copy.reset();
}

// Behind all that have begun, and before those that wait unless it waits itself.
void SimulatedMover::queue(Pending pending) {
  const Nanos now = clock_.now();
  copied_.submitted += pending.bytes;
  if (shared_ != nullptr) shared_->submitted += pending.bytes;
  auto place = link_.end();
  while (shared_ == nullptr && !pending.waits && place != link_.begin()) {
    const Pending& before = *std::prev(place);
    if (!before.waits || before.ends - before.takes <= now) break;
    --place;
  }
  place = link_.insert(place, std::move(pending));
  Nanos free = place == link_.begin() ? idle_since_ : std::prev(place)->ends;
  if (shared_ != nullptr) free = std::max(free, shared_->free);
  free = std::max({free, out_until_, shared_ != nullptr ? shared_->read_until : read_until_});
  for (; place != link_.end(); ++place) {
    const Nanos begins = std::max(free, now);
    place->ends = free =
        shared_ == nullptr ? begins + place->takes : shared_->rates.end_of(begins, place->takes);
    set_end(place->command, free);
    if (shared_ != nullptr) shared_->uses.push_back({begins, free});
    if (shared_ != nullptr && shared_->watched) {
      shared_->carried.push_back({.end = free, .took = free - begins, .bytes = place->bytes});
    }
  }
  if (shared_ == nullptr) return;
  shared_->free = free;
  while (!shared_->uses.empty() && shared_->uses.front().end <= now) shared_->uses.pop_front();
}

std::optional<HomeRead> SimulatedMover::home_read(Nanos at, Nanos takes) const {
  std::vector<LinkUse> uses;
  for (const Pending& pending : link_) {
    const bool streams = pending.command.kind == WeightCommand::Kind::kStream;
    if (streams && pending.ends > at) return std::nullopt;
    uses.push_back({pending.ends - pending.takes, pending.ends});
  }
  if (shared_ != nullptr) uses.assign(shared_->uses.begin(), shared_->uses.end());
  return read_beside(uses, at, takes);
}

// Copies of others over a shared link keep their time, which their slices count on already.
void SimulatedMover::read_at_home(Nanos at, const HomeRead& read) {
  for (Pending& pending : link_) {
    if (pending.ends <= at) continue;
    pending.ends += read.delays;
    set_end(pending.command, pending.ends);
  }
  Nanos& until = shared_ != nullptr ? shared_->read_until : read_until_;
  until = std::max(until, read.end);
  if (shared_ != nullptr && shared_->free > at) shared_->free += read.delays;
}

weights::WeightEvent SimulatedMover::event_of(const Pending& ended) {
  weights::WeightEvent event;
  event.model = ended.command.model;
  event.group = ended.command.group;
  event.arrival = ended.command.arrival;
  event.streamed = ended.command.kind == WeightCommand::Kind::kStream;
  if (ended.command.kind == WeightCommand::Kind::kExpert) event.slot = ended.command.slot;
  (ended.failed ? copied_.failed : copied_.arrived) += ended.bytes;
  if (ended.failed) {
    event.outcome = Error{ErrorCode::kDevice, "simulated: the copy failed"};
    failures_ += 1;
  } else if (event.streamed) {
    const auto& groups = models_.at(event.model).cached.stream->groups;
    streamed_bytes_ += groups[static_cast<std::size_t>(event.group)].bytes;
  }
  return event;
}

std::vector<weights::WeightEvent> SimulatedMover::poll() {
  std::vector<weights::WeightEvent> events = std::move(events_);
  events.clear();
  const Nanos now = std::min(clock_.now(), heard_until_);
  take_ended(frames_coming_, now, [&](const Pending& ended) {
    weights::WeightEvent& event = events.emplace_back();
    event.extent = ended.command.first_extent;
    (ended.failed ? frame_moves_.failed : frame_moves_.got) += 1;
    if (ended.failed) event.outcome = Error{ErrorCode::kResourceExhausted, "simulated: no memory"};
  });
  take_ended(rings_, now, [&](const Pending& ended) { events.push_back(event_of(ended)); });
  take_ended(link_, now, [&](const Pending& ended) {
    idle_since_ = ended.ends;
    events.push_back(event_of(ended));
  });
  return events;
}

Bytes SimulatedMover::under_way() const {
  Bytes sum;
  for (const Pending& pending : link_) sum += pending.bytes;
  return sum;
}

void SimulatedMover::ends_of_copies(std::vector<Nanos>& ends) const {
  ends.clear();
  for (const Pending& pending : link_) ends.push_back(pending.ends);
}

std::optional<Nanos> SimulatedMover::next_end() const {
  std::optional<Nanos> next;
  for (const std::vector<Pending>* all : {&link_, &rings_, &frames_coming_}) {
    const auto ahead = std::find_if(all->begin(), all->end(), [&](const Pending& pending) {
      return pending.ends > clock_.now();
    });
    if (ahead != all->end()) next = std::min(next.value_or(ahead->ends), ahead->ends);
  }
  return next;
}

std::optional<SimulatedMover::Copy> SimulatedMover::copy_of(ModelId model, int group) const {
  return models_.at(model).copies.at(static_cast<std::size_t>(group));
}

std::optional<Nanos> SimulatedMover::arrives_at(ModelId model, int group) const {
  const std::optional<Copy> copy = copy_of(model, group);
  if (!copy || copy->ends <= clock_.now()) return std::nullopt;
  return copy->ends;
}

const device::Semaphore* SimulatedMover::streamed(ModelId model, int group) const {
  return models_.at(model).streamed.at(static_cast<std::size_t>(group)).arrived.get();
}

device::Semaphore* SimulatedMover::consumed(ModelId model) const {
  return models_.at(model).consumed.get();
}

std::optional<SimulatedMover::Copy> SimulatedMover::copy_in_ring(ModelId model, int group) const {
  return models_.at(model).streamed.at(static_cast<std::size_t>(group)).copy;
}

std::uint32_t SimulatedMover::last_pass(ModelId model, int group) const {
  return models_.at(model).streamed.at(static_cast<std::size_t>(group)).last_pass;
}

}  // namespace causeway::simulate
