#include "transfer/engine_loop.h"

#include <algorithm>
#include <utility>

#include "base/dcheck.h"

namespace causeway::transfer {
namespace {

using device::MemoryAddress;

// The most that a submitter does of the work of the engine's thread: what 12 MiB over four links
// take.
constexpr Nanos kBeginMax = micros(150);
constexpr int kFaultsMax = 16;  // the rest does not grow beyond so many
// The pause between attempts to make new streams, each of which may take as long as many chunks.
constexpr Nanos kRepairPause = millis(10);

bool same_pair_fails_always(const Error& error) { return error.code == ErrorCode::kUnsupported; }
// The request was wrong, or another chunk's stream failed under this one; the link is not at fault.
bool innocent(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kCancelled;
}

}  // namespace

EngineLoop::EngineLoop(const TransferEngineOptions& options, std::vector<device::Device*> devices,
                       PathFacts facts, CompletionBoard& board)
    : options_(options), board_(board), dispatcher_(options.dispatch, std::move(facts)) {
  for (device::Device* device : devices) {
    links_.emplace_back();
    links_.back().device = device;
  }
}

Status EngineLoop::set_up() {
  for (int link = 0; link < static_cast<int>(links_.size()); ++link) {
    CAUSEWAY_TRY(set_up_link(link));
  }
  return {};
}

// One allocation holds the buffers of both directions.
Status EngineLoop::allocate_staging(Link& link, std::vector<MemoryAddress>& buffers, Bytes each) {
  const Bytes extent = link.device->capabilities().extent_bytes;
  const int slots = kDirections * options_.dispatch.depth;
  CAUSEWAY_DCHECK(each > Bytes(0) && slots >= 1, "staging of nothing");
  const Bytes needed = round_up(each * slots, extent);
  if (needed > options_.staging_bytes_max) {
    return exhausted("staging needs " + std::to_string(needed.count) + " bytes");
  }
  CAUSEWAY_ASSIGN(link.staging,
                  link.device->arena().allocate(needed / extent, device::Arena::End::kHigh));
  for (int slot = 0; slot < slots; ++slot) {
    buffers.push_back(
        MemoryAddress::in_arena(link.device->id(), link.staging.offset() + each * slot));
  }
  return {};
}

Status EngineLoop::set_up_link(int index) {
  Link& link = links_[static_cast<std::size_t>(index)];
  const auto& dispatch = options_.dispatch;
  std::vector<MemoryAddress> buffers;
  const Bytes each = std::max(dispatch.chunk_bytes[0], dispatch.chunk_bytes[1]);
  const bool wanted = links_.size() > 1 && dispatch.relay != RelayPolicy::kNone &&
                      options_.staging_bytes_max > Bytes(0) && dispatcher_.could_relay(index) &&
                      link.device->capabilities().peer_copies;
  link.relays = wanted && allocate_staging(link, buffers, each).ok();
  dispatcher_.set_relay(index, link.relays);
  for (const Direction direction : kBothDirections) {
    LinkLaneOptions options;
    options.direction = direction;
    options.depth = dispatch.depth;
    options.name = "transfer." + std::string(name_of(direction));
    options.staging_bytes = each;
    if (link.relays) {
      const auto from =
          buffers.begin() + static_cast<std::ptrdiff_t>(index_of(direction)) * dispatch.depth;
      options.staging.assign(from, from + dispatch.depth);
    }
    CAUSEWAY_ASSIGN(link.lanes[index_of(direction)],
                    LinkLane::create(*link.device, std::move(options)));
  }
  return {};
}

LinkLane& EngineLoop::lane_of(const Chunk& chunk) {
  return *links_[static_cast<std::size_t>(chunk.link)].lanes[index_of(chunk.direction)];
}

void EngineLoop::accept(Submission submission, Nanos now) {
  if (submission.after != nullptr) {
    gated_.push_back({std::move(submission), now});
    return;
  }
  start(std::move(submission), now);
}

void EngineLoop::start(Submission submission, Nanos now) {
  const auto [target, direction] = std::pair(submission.task.target, submission.task.direction);
  if (hopeless(target, direction)) {
    return end(submission.ticket, submission.signal,
               unavailable("a copy over link " + std::to_string(target) + " is stuck"));
  }
  submission.task.id = TaskId(next_task_++);
  CAUSEWAY_DCHECK(!running_.contains(submission.task.id), "a task's id is in use");
  running_.emplace(submission.task.id,
                   Running{submission.ticket, submission.signal, target, direction, {}});
  dispatcher_.add(std::move(submission.task), now);
}

void EngineLoop::begin(int target, Direction direction, const Clock& clock,
                       const std::atomic<bool>& awake) {
  const Nanos start = clock.now();
  while (pull_one(target, direction, start)) {
  }
  for (bool any = true; any;) {
    any = false;
    for (int link = 0; link < static_cast<int>(links_.size()); ++link) {
      const Nanos now = clock.now();
      if (awake.load(std::memory_order_relaxed) || now - start > kBeginMax) return;
      any = (link != target && pull_one(link, direction, now)) || any;
    }
  }
}

bool EngineLoop::step(Nanos now) {
  bool any = open_gates(now);
  any = collect(now) || any;
  give_up_old_chunks(now);
  settle_lost(now);
  lose_hope(now);
  wake_relays(now);
  any = pull(now) || any;
  collect_ended_tasks();
  return any || !ended_.empty();
}

bool EngineLoop::open_gates(Nanos now) {
  bool any = false;
  // Iterated by index, because start() may add others that wait.
  for (std::size_t i = 0; i < gated_.size();) {
    const Result<bool> done = gated_[i].submission.after->done();
    const bool late = now - gated_[i].since > options_.after_time_max;
    if (done.ok() && !*done && !late) {
      ++i;
      continue;
    }
    Submission submission = std::move(gated_[i].submission);
    gated_.erase(gated_.begin() + static_cast<std::ptrdiff_t>(i));
    any = true;
    if (done.ok() && *done) {
      start(std::move(submission), now);
      continue;
    }
    const Error why = done.ok() ? unavailable(
                                      "the event that the transfer was to wait for was "
                                      "not done in time; nothing was moved")
                                : done.error().with_context("before the transfer");
    end(submission.ticket, submission.signal, why);
  }
  return any;
}

bool EngineLoop::collect(Nanos now) {
  bool any = false;
  for (Link& link : links_) {
    for (const auto& lane : link.lanes) {
      if (lane->busy() == 0) continue;
      for (const LinkLane::Ended& ended : lane->poll()) {
        chunk_ended(ended, now);
        any = true;
      }
    }
  }
  return any;
}

void EngineLoop::chunk_ended(const LinkLane::Ended& ended, Nanos now) {
  const auto given_up = given_up_.find(ended.chunk);
  if (given_up != given_up_.end()) {
    given_up_.erase(given_up);
    dispatcher_.settled(ended.chunk, now);
    return;
  }
  const auto found = flying_.find(ended.chunk);
  if (found == flying_.end()) return;  // the chunk was of a lost GPU
  const Chunk chunk = found->second;
  CAUSEWAY_DCHECK(chunk.id == ended.chunk, "a chunk under another's id");
  flying_.erase(found);
  if (ended.status.ok()) {
    dispatcher_.finished(chunk.id, now);
  } else {
    chunk_failed(chunk, ended.status.error(), now);
  }
}

void EngineLoop::chunk_failed(const Chunk& chunk, const Error& error, Nanos now) {
  CAUSEWAY_DCHECK(!flying_.contains(chunk.id), "a chunk that failed is still under way");
  ++retries_;
  if (const auto running = running_.find(chunk.task); running != running_.end()) {
    const bool better = !running->second.error || error.code != ErrorCode::kCancelled;
    if (better) running->second.error = error;
    // The copy that the device waited for has ended by now.
    if (running->second.error->code == ErrorCode::kDeadlineExceeded) {
      running->second.error = unavailable(error.message);
    }
  }
  if (chunk.relayed() && same_pair_fails_always(error)) {
    dispatcher_.forbid_pair(chunk.link, chunk.target);
  } else if (chunk.relayed() && !innocent(error)) {
    rest_relay(chunk.link, now);
  }
  dispatcher_.failed(chunk.id, now);
}

void EngineLoop::rest_relay(int index, Nanos now) {
  Link& link = links_[static_cast<std::size_t>(index)];
  // Other chunks that fail by the same fault do not count again.
  if (link.rests_until) return;
  link.rests_until = now + options_.relay_rest * (std::int64_t{1} << link.faults);
  CAUSEWAY_DCHECK(link.faults >= 0 && link.faults < 63, "a rest is doubled a few times");
  link.faults = std::min(link.faults + 1, kFaultsMax);
  dispatcher_.set_relay(index, false);
}

void EngineLoop::wake_relays(Nanos now) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    if (!link.rests_until || *link.rests_until > now || link.lost) continue;
    const bool stuck = std::any_of(given_up_.begin(), given_up_.end(), [&](const auto& entry) {
      return entry.second.chunk.link == static_cast<int>(i);
    });
    if (stuck) continue;
    link.rests_until.reset();
    dispatcher_.set_relay(static_cast<int>(i), link.relays);
  }
}

void EngineLoop::give_up_old_chunks(Nanos now) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    for (const auto& lane : links_[i].lanes) {
      for (const ChunkId id : lane->older_than(now - options_.chunk_time_max)) {
        const auto found = flying_.find(id);
        if (found == flying_.end()) continue;  // it was given up before
        const Chunk chunk = found->second;
        flying_.erase(found);
        CAUSEWAY_DCHECK(!given_up_.contains(id), "a copy is given up twice");
        given_up_.emplace(id, GivenUp{chunk, now});
        ++retries_;
        // This is done for the link's own chunks too: its slots may stay taken for ever, and
        // transfers for other targets, which may have no other link left, would wait for it.
        rest_relay(chunk.link, now);
        if (const auto running = running_.find(chunk.task); running != running_.end()) {
          // The error is not kDeadlineExceeded, because the transfer ends only once the copy has
          // ended.
          running->second.error = unavailable("a copy over link " + std::to_string(chunk.link) +
                                              " did not end in time");
        }
        dispatcher_.gave_up(id, now);
      }
    }
  }
}

// The copy will not end. Neither its transfer nor those that can only use this link must wait for
// it for ever.
void EngineLoop::lose_hope(Nanos now) {
  for (auto& [id, entry] : given_up_) {
    if (entry.hopeless || now - entry.at <= options_.drain_max) continue;
    entry.hopeless = true;
    const std::string link = "a copy over link " + std::to_string(entry.chunk.link) + " is stuck";
    if (const auto running = running_.find(entry.chunk.task); running != running_.end()) {
      running->second.error =
          Error{ErrorCode::kDeadlineExceeded,
                link + "; it may still write, so the transfer's memory must not be used again"};
      dispatcher_.drop(entry.chunk.task);
    }
    fail_tasks_of(entry.chunk.link, entry.chunk.direction, unavailable(link));
  }
}

bool EngineLoop::hopeless(int link, Direction direction) const {
  return std::any_of(given_up_.begin(), given_up_.end(), [&](const auto& entry) {
    const GivenUp& copy = entry.second;
    return copy.hopeless && copy.chunk.link == link && copy.chunk.direction == direction;
  });
}

// Chunks that are under way are still waited for where that is possible; their tasks end with them.
void EngineLoop::fail_tasks_of(int link, Direction direction, const Error& error) {
  for (auto& [id, running] : running_) {
    if (running.target != link || running.direction != direction || !dispatcher_.knows(id))
      continue;
    if (!running.error) running.error = error;
    dispatcher_.abandon(id);
  }
}

// A lost GPU moves nothing any more, so its copies under way have ended.
void EngineLoop::settle_lost(Nanos now) {
  for (auto entry = given_up_.begin(); entry != given_up_.end();) {
    Link& link = links_[static_cast<std::size_t>(entry->second.chunk.link)];
    link.lost = link.lost || !link.device->health().ok();
    if (!link.lost) {
      ++entry;
      continue;
    }
    dispatcher_.set_relay(entry->second.chunk.link, false);
    dispatcher_.settled(entry->first, now);
    entry = given_up_.erase(entry);
  }
}

bool EngineLoop::pull(Nanos now) {
  bool any = false;
  for (bool again = true; again;) {
    again = false;
    for (int link = 0; link < static_cast<int>(links_.size()); ++link) {
      for (const Direction direction : kBothDirections) {
        again = pull_one(link, direction, now) || again;
      }
    }
    any = any || again;
  }
  return any;
}

void EngineLoop::repair(int index, Direction direction, Nanos now) {
  Link& link = links_[static_cast<std::size_t>(index)];
  Nanos& from = link.repairs_from[index_of(direction)];
  if (now < from) return;
  CAUSEWAY_DCHECK(!link.lanes[index_of(direction)]->ready(), "a lane is repaired that is whole");
  const Status repaired = link.lanes[index_of(direction)]->repair();
  if (repaired.ok()) return;
  from = now + kRepairPause;
  rest_relay(index, now);
  fail_tasks_of(index, direction, repaired.error());
}

bool EngineLoop::pull_one(int index, Direction direction, Nanos now) {
  Link& link = links_[static_cast<std::size_t>(index)];
  LinkLane& lane = *link.lanes[index_of(direction)];
  if (!lane.ready()) repair(index, direction, now);
  // A lost GPU's slots stay taken although the dispatcher has settled their chunks.
  if (!lane.ready() || lane.busy() >= options_.dispatch.depth) return false;
  const auto chunk = dispatcher_.pull(index, direction, now);
  if (!chunk) return false;
  CAUSEWAY_DCHECK(chunk->link == index && chunk->direction == direction, "another link's chunk");
  const Running& running = running_.at(chunk->task);
  const Status launched =
      lane.launch(*chunk, dispatcher_.segments(chunk->task), running.signal, now);
  if (launched.ok()) {
    flying_.emplace(chunk->id, *chunk);
    if (!dispatcher_.waits(chunk->task)) board_.ends_soon(running.ticket);
  } else {
    chunk_failed(*chunk, launched.error(), now);
  }
  return true;
}

void EngineLoop::end(CompletionBoard::Ticket ticket, TransferSignal signal, Status outcome) {
  ++transfers_;

  CAUSEWAY_DCHECK(failures_ <= transfers_, "more transfers failed than ended");
  if (!outcome.ok()) ++failures_;
  ended_.push_back({ticket, signal, std::move(outcome)});
}

void EngineLoop::collect_ended_tasks() {
  if constexpr (kDchecks) {
    if (dispatcher_.idle()) dispatcher_.check_integrity();
  }
  for (const TaskEnd& task : dispatcher_.take_ended()) {
    const auto found = running_.find(task.task);
    CAUSEWAY_CHECK(found != running_.end(), "a task ended that was not running");
    const Running running = found->second;
    running_.erase(found);
    if (task.ok) {
      end(running.ticket, running.signal, Status());
    } else {
      end(running.ticket, running.signal,
          running.error.value_or(Error{ErrorCode::kDevice, "the transfer failed"}));
    }
  }
}

// The semaphore is raised first, because its owner may destroy it on hearing of the end.
bool EngineLoop::report() {
  for (const Ended& ended : ended_) {
    if (ended.outcome.ok()) ended.signal.raise();
    board_.complete(ended.ticket, ended.outcome);
  }
  return !std::exchange(ended_, {}).empty();
}

void EngineLoop::shut_down() {
  for (Link& link : links_) {
    for (auto& lane : link.lanes) lane.reset();
  }
  report();
  const Error cancelled{ErrorCode::kCancelled, "the transfer engine was shut down"};
  for (const Gated& gated : gated_) board_.complete(gated.submission.ticket, cancelled);
  for (const auto& [id, running] : running_) board_.complete(running.ticket, cancelled);
  gated_.clear();
  running_.clear();
}

TransferStats EngineLoop::stats() const {
  TransferStats stats;
  for (int link = 0; link < static_cast<int>(links_.size()); ++link) {
    stats.links.push_back(
        {dispatcher_.traffic(link, Direction::kIn), dispatcher_.traffic(link, Direction::kOut)});
    const Link& state = links_[static_cast<std::size_t>(link)];
    if (state.relays && (state.rests_until || state.lost)) ++stats.relays_off;
  }
  stats.by_purpose = dispatcher_.by_purpose();
  stats.transfers = transfers_;
  stats.failures = failures_;
  stats.retries = retries_;
  return stats;
}

}  // namespace causeway::transfer
