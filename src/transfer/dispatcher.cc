#include "transfer/dispatcher.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/dcheck.h"
#include "transfer/transfer.h"

namespace causeway::transfer {
namespace {

using device::CopyPriority;
using device::kCopyPriorities;

// A queue's first tasks may be too small to relay. The search for one that is large enough ends
// after so many.
constexpr int kTasksLooked = 16;
constexpr double kRateSmoothing = 0.25;
constexpr double kSampleMin = 0.4;  // of the rate so far
// The time of a chunk on a link that was empty also has its launch, the other half of a relay, and
// the waking of a sleeping thread in it, and none of these say how fast the link is. Small tasks
// have no other chunks. When these times counted, all relays looked slow, and tasks of 12 MiB went
// over one link.
constexpr Nanos kStart = micros(150);
// After this long without a chunk a link's rate is taken from the map again. A link that looks slow
// is given no chunks of small tasks, so it would look slow until a large task came. Without a map
// no rate is forgotten.
constexpr Nanos kForget = millis(20);

SetTuner::Start tuner_start(const WayFacts& way, int target) {
  const LinkSet best = way.best[at(target)];
  return {best.empty() ? LinkSet::of(target) : best, way.best_rate[at(target)],
          way.reach[at(target)], way.alone};
}

}  // namespace

Dispatcher::Dispatcher(DispatchOptions options, PathFacts facts)
    : options_(std::move(options)),
      facts_(std::move(facts)),
      relays_(LinkSet::first(facts_.links)),
      links_(at(facts_.links)),
      queues_(at(facts_.links)) {
  CAUSEWAY_CHECK(facts_.links >= 1 && facts_.links <= kLinksMax, "1 to 64 links");
  CAUSEWAY_CHECK(options_.depth >= 1 && options_.chunk_segments >= 1 &&
                 options_.chunk_bytes_min > Bytes(0) && options_.chunk_bytes_direct > Bytes(0));
  for (const Bytes bytes : options_.chunk_bytes) CAUSEWAY_CHECK(bytes >= options_.chunk_bytes_min);
  for (const WayFacts& way : facts_.ways) {
    const auto n = at(facts_.links);
    CAUSEWAY_CHECK(way.best.size() == n && way.best_rate.size() == n && way.reach.size() == n &&
                       way.alone.size() == n,
                   "facts of another number of links");
  }
  for (int target = 0; target < facts_.links; ++target) {
    tuners_.push_back({SetTuner(options_.tuner, tuner_start(way(Direction::kIn), target)),
                       SetTuner(options_.tuner, tuner_start(way(Direction::kOut), target))});
  }
}

Dispatcher::Link& Dispatcher::link_at(int link, Direction direction) {
  CAUSEWAY_DCHECK(link >= 0 && link < facts_.links, "no such link");
  return links_.at(at(link))[index_of(direction)];
}
const Dispatcher::Link& Dispatcher::link_at(int link, Direction direction) const {
  return links_.at(at(link))[index_of(direction)];
}
Dispatcher::Queue& Dispatcher::queue_of(int target, Direction direction, CopyPriority priority) {
  return queues_.at(at(target))[index_of(direction)][static_cast<std::size_t>(priority)];
}
const Dispatcher::Queue& Dispatcher::queue_of(int target, Direction direction,
                                              CopyPriority priority) const {
  return queues_.at(at(target))[index_of(direction)][static_cast<std::size_t>(priority)];
}

LinkSet Dispatcher::links_for(int target, Direction direction) const {
  const LinkSet wanted = options_.tune_sets ? tuners_.at(at(target))[index_of(direction)].current()
                                            : way(direction).best[at(target)];
  return usable(target, wanted);
}

LinkSet Dispatcher::links_of(const TaskSpec& task) const {
  return task.only.empty() ? links_for(task.target, task.direction)
                           : usable(task.target, task.only);
}

// This holds also when the tuner has just left only the target's own link, because otherwise it
// would never learn of others.
bool Dispatcher::may_use_others(const TaskSpec& task) const {
  const WayFacts& facts = way(task.direction);
  const LinkSet tuned = options_.tune_sets ? facts.reach[at(task.target)] : LinkSet();
  const LinkSet possible = task.only.empty() ? links_of(task) | tuned : task.only;
  return usable(task.target, possible) != LinkSet::of(task.target);
}

LinkSet Dispatcher::usable(int target, LinkSet wanted) const {
  LinkSet usable = wanted & relays_;
  for (const auto& [link, forbidden_target] : forbidden_) {
    if (forbidden_target == target) usable = usable.without(link);
  }
  CAUSEWAY_DCHECK(target >= 0 && target < facts_.links, "no such target");
  return wanted.has(target) || usable.empty() ? usable.with(target) : usable;
}

void Dispatcher::add(TaskSpec spec, Nanos /*now*/) {
  CAUSEWAY_CHECK(spec.target >= 0 && spec.target < facts_.links, "no such link");
  CAUSEWAY_CHECK(!tasks_.contains(spec.id), "a task's id is in use");
  Task task;
  const Bytes total = spec.segments.total();
  const bool large = total >= options_.multipath_bytes_min || !spec.only.empty();
  task.multipath = options_.relay != RelayPolicy::kNone && large && may_use_others(spec);
  if (options_.relay == RelayPolicy::kStatic && task.multipath) {
    double sum = 0;
    for (const double share : options_.static_shares) sum += share;
    CAUSEWAY_CHECK(sum > 0 && std::ssize(options_.static_shares) <= facts_.links,
                   "a static split without shares");
    Bytes left = total;
    for (const double share : options_.static_shares) {
      const Bytes part =
          std::min(left, Bytes(std::llround(static_cast<double>(total.count) * share / sum)));
      task.quota.push_back(part);
      left -= part;
    }
    CAUSEWAY_DCHECK(left >= Bytes(0), "a split gives more than there is");
    task.quota.resize(at(facts_.links));
    task.quota[at(spec.target)] += left;
  }
  Queue& queue = queue_of(spec.target, spec.direction, spec.priority);
  queue.tasks.push_back(spec.id);
  queue.waiting += total;
  const TaskId id = spec.id;
  task.spec = std::move(spec);
  tasks_.emplace(id, std::move(task));
  end_if_done(id);
}

std::optional<Chunk> Dispatcher::pull(int link, Direction direction, Nanos now) {
  Link& state = link_at(link, direction);
  CAUSEWAY_DCHECK(state.given_up <= state.chunks, "more copies were given up than are outstanding");
  if (state.chunks >= options_.depth || now < state.yields_until) return std::nullopt;
  // A copy that was given up may stay on the link for ever. It is not another program's time slice.
  if (!state.time_slices.may_pull(state.chunks - state.given_up)) return std::nullopt;
  for (int p = 0; p < kCopyPriorities; ++p) {
    const auto priority = static_cast<CopyPriority>(p);
    for (const int target : targets_for(link, direction, priority)) {
      if (auto chunk = take(target, link, direction, priority, now)) return chunk;
    }
  }
  return std::nullopt;
}

// Targets in the order in which the link should help them.
std::vector<int> Dispatcher::targets_for(int link, Direction direction,
                                         CopyPriority priority) const {
  std::vector<int> targets;
  for (int target = 0; target < facts_.links; ++target) {
    if (queue_of(target, direction, priority).waiting > Bytes(0)) targets.push_back(target);
  }
  const auto rank = [&](int target) {
    if (options_.direct_first && target == link) return 0;
    const bool preferred = options_.relay == RelayPolicy::kPriorityTarget;
    return preferred && target == options_.priority_target ? 1 : 2;
  };
  std::stable_sort(targets.begin(), targets.end(), [&](int a, int b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return queue_of(a, direction, priority).waiting > queue_of(b, direction, priority).waiting;
  });
  return targets;
}

std::optional<Chunk> Dispatcher::take(int target, int link, Direction direction,
                                      CopyPriority priority, Nanos now) {
  int looked = 0;
  for (const TaskId id : queue_of(target, direction, priority).tasks) {
    if (++looked > kTasksLooked) break;
    Task& task = tasks_.at(id);
    if (!task.waiting() || !may_take(task, link, now)) continue;
    if (link == target && !task.retries.empty()) {
      const Retry retry = task.retries.front();
      task.retries.pop_front();
      return launch(task, link, retry, now);
    }
    const Bytes begin = task.cursor;
    task.cursor = task.spec.segments.cut(begin, chunk_size(task, link), options_.chunk_segments);
    CAUSEWAY_DCHECK(task.cursor > begin, "a chunk without bytes");
    if (!task.quota.empty()) task.quota[at(link)] -= task.cursor - begin;
    return launch(task, link, {{begin, task.cursor}, 0}, now);
  }
  return std::nullopt;
}

bool Dispatcher::may_take(const Task& task, int link, Nanos now) const {
  const int target = task.spec.target;
  CAUSEWAY_DCHECK(!task.failed, "a task that failed has nothing left to move");
  if (link == target && !task.retries.empty()) return true;
  if (task.cursor >= task.spec.segments.total()) return false;
  if (link != target) {
    if (!task.multipath || !relays_.has(link) || forbidden_.contains({link, target})) return false;
  }
  if (!task.quota.empty()) {
    // The quota of a link that may no longer relay goes to the direct link.
    if (task.quota[at(link)] > Bytes(0)) return true;
    if (link != target) return false;
    Bytes others;
    for (int other = 0; other < facts_.links; ++other) {
      const bool relays = relays_.has(other) && !forbidden_.contains({other, target});
      if (other != target && relays) others += task.quota[at(other)];
    }
    return others == Bytes(0);
  }
  if (!task.multipath) return true;
  if (!links_of(task.spec).has(link)) {
    return link == target && own_link_needed(task);
  }
  return worth_it(task, link, now);
}

// A target's own link that is not in its best set still helps when the links of that set are busy
// with work of their own.
bool Dispatcher::own_link_needed(const Task& task) const {
  if (!task.spec.only.empty()) return false;
  const LinkSet links = links_for(task.spec.target, task.spec.direction);
  for (int link = 0; link < facts_.links; ++link) {
    if (links.has(link) && !has_own_work(link, task.spec.direction)) return false;
  }
  return true;
}

bool Dispatcher::has_own_work(int link, Direction direction) const {
  for (int p = 0; p < kCopyPriorities; ++p) {
    if (queue_of(link, direction, static_cast<CopyPriority>(p)).waiting > Bytes(0)) return true;
  }
  return false;
}

double Dispatcher::rate_of(int link, Direction direction, Nanos now) const {
  const Link& state = link_at(link, direction);
  const double alone = way(direction).alone[at(link)];
  if (state.rate <= 0) return alone;
  if (alone <= 0 || state.chunks > state.given_up) return state.rate;
  const double age = std::min(1.0, to_seconds(now - state.observed) / to_seconds(kForget));
  return state.rate + age * (alone - state.rate);
}

// A link takes no chunk when the other links would finish all that waits before it finished this
// chunk. The link that would finish first always takes it, so every chunk is taken.
bool Dispatcher::worth_it(const Task& task, int link, Nanos now) const {
  const auto [target, direction] = std::pair(task.spec.target, task.spec.direction);
  const Bytes chunk = chunk_size(task, link);
  const auto done_in = [&](int l) {
    const double bytes = static_cast<double>((link_at(l, direction).bytes + chunk).count);
    return bytes / rate_of(l, direction, now);
  };
  if (rate_of(link, direction, now) <= 0) return true;
  const double mine = done_in(link);
  CAUSEWAY_DCHECK(std::isfinite(mine) && mine >= 0, "a chunk that takes less than no time");
  const LinkSet links = links_of(task.spec);
  Bytes waiting = queue_of(target, direction, task.spec.priority).waiting;
  double others = 0;
  bool faster = false;
  for (int other = 0; other < facts_.links; ++other) {
    if (other == link || !links.has(other)) continue;
    if (rate_of(other, direction, now) <= 0) return true;
    others += rate_of(other, direction, now);
    waiting += link_at(other, direction).bytes;
    faster = faster || done_in(other) < mine;
  }
  return !faster || mine <= static_cast<double>(waiting.count) / others;
}

Bytes Dispatcher::chunk_size(const Task& task, int link) const {
  if (!task.multipath) {
    const Bytes least = options_.chunk_bytes_direct;
    return std::clamp(task.spec.segments.total() / 4, least, least * 2);
  }
  const Bytes most = options_.chunk_bytes[index_of(task.spec.direction)];
  if (!task.quota.empty()) {
    const Bytes quota = task.quota[at(link)];
    return quota > Bytes(0) ? std::min(quota, most) : most;
  }
  const Bytes left = task.spec.segments.total() - task.cursor;
  const int links = links_of(task.spec).count();
  CAUSEWAY_DCHECK(links >= 1 && left > Bytes(0), "a chunk of nothing, or over no link");
  return std::clamp(left / links, options_.chunk_bytes_min, most);
}

Chunk Dispatcher::launch(Task& task, int link, Retry part, Nanos now) {
  Chunk chunk;
  chunk.id = ChunkId(next_chunk_++);
  chunk.task = task.spec.id;
  chunk.link = link;
  chunk.target = task.spec.target;
  chunk.direction = task.spec.direction;
  chunk.priority = task.spec.priority;
  chunk.range = part.range;
  task.straight = task.straight && !chunk.relayed();
  chunk.completes = task.straight && !task.waiting();
  CAUSEWAY_DCHECK(part.range.bytes() > Bytes(0), "a chunk without bytes");
  ++task.in_flight;
  Link& state = link_at(link, chunk.direction);
  state.rate = rate_of(link, chunk.direction, now);
  state.observed = now;
  ++state.chunks;
  state.bytes += chunk.range.bytes();
  queue_of(chunk.target, chunk.direction, chunk.priority).waiting -= chunk.range.bytes();
  chunks_.emplace(chunk.id, Flying{chunk, now, part.direct_failures, false});
  return chunk;
}

void Dispatcher::finished(ChunkId id, Nanos now) {
  CAUSEWAY_DCHECK(chunks_.contains(id), "a chunk ends that is not outstanding");
  const Flying& flying = chunks_.at(id);
  const Chunk chunk = flying.chunk;
  Link& link = link_at(chunk.link, chunk.direction);
  if (!flying.given_up) {
    observe(link, flying, now);
    (chunk.relayed() ? link.traffic.relayed : link.traffic.direct) += chunk.range.bytes();
    by_purpose_[static_cast<std::size_t>(chunk.priority)][index_of(chunk.direction)] +=
        chunk.range.bytes();
    tune(chunk, now);
  }
  land(id, now);
  end_if_done(chunk.task);
}

// A link works through its chunks in order, so the time of a chunk begins at the end of the one
// before.
void Dispatcher::observe(Link& link, const Flying& flying, Nanos now) {
  const Nanos from = std::max(flying.started, link.last_done);
  if (now <= from) return;
  CAUSEWAY_DCHECK(!flying.given_up, "the end of a copy that was given up teaches nothing");
  const Chunk& chunk = flying.chunk;
  const WayFacts& facts = way(chunk.direction);
  const double alone = facts.alone[at(chunk.link)];
  const double rate = static_cast<double>(chunk.range.bytes().count) / to_seconds(now - from);
  learn(link, chunk, now - from, flying.started > link.last_done, alone);
  link.observed = now;
  // Copies of our own that share the link are not another program's time slice.
  link.time_slices.ended(chunk.range.bytes(), now - from, has_company(chunk) ? 0 : alone);
  if (options_.yield_for <= Nanos(0)) return;
  const LinkSet best = facts.best[at(chunk.target)];
  double expected = alone;
  if (best.has(chunk.link) && facts.best_rate[at(chunk.target)] > 0) {
    expected = std::min(expected, facts.best_rate[at(chunk.target)] / best.count());
  }
  if (rate < options_.yield_below * expected) link.yields_until = now + options_.yield_for;
}

// `first`: the chunk came to a link that had none.
void Dispatcher::learn(Link& link, const Chunk& chunk, Nanos took, bool first, double alone) {
  const auto bytes = static_cast<double>(chunk.range.bytes().count);
  const double before = link.rate;
  if (before <= 0) {
    link.rate = bytes / to_seconds(took);
    return;
  }
  if (first) took = std::max(took - kStart, std::min(took, nanos_from_seconds(bytes / before)));
  // A single chunk whose end was seen late must not make the link look dead. Nor must the next one,
  // which then seems to end early, make it look several times as fast: small tasks would be left to
  // it alone.
  const double most = alone > 0 ? alone : before / kSampleMin;
  const double sample = std::clamp(bytes / to_seconds(took), kSampleMin * before, most);
  link.rate = before + kRateSmoothing * (sample - before);
  CAUSEWAY_DCHECK(std::isfinite(link.rate) && link.rate > 0, "a link without a rate");
}

// Other copies of our own: in the other direction, or for other targets.
bool Dispatcher::has_company(const Chunk& chunk) const {
  for (int link = 0; link < facts_.links; ++link) {
    for (const Direction direction : kBothDirections) {
      const bool same = direction == chunk.direction;
      if (!same && link_at(link, direction).chunks > 0) return true;
      if (same && link != chunk.target && has_own_work(link, direction)) return true;
    }
  }
  return false;
}

void Dispatcher::tune(const Chunk& chunk, Nanos now) {
  if (!options_.tune_sets) return;
  const auto task = tasks_.find(chunk.task);
  if (task == tasks_.end() || !task->second.multipath) return;
  CAUSEWAY_DCHECK(task->second.spec.target == chunk.target, "a chunk of another target");
  SetTuner& tuner = tuners_[at(chunk.target)][index_of(chunk.direction)];
  if (!task->second.spec.only.empty()) return tuner.pause();
  // Transfers of other targets change this target's rate for reasons that its link set has no part
  // in.
  for (int target = 0; target < facts_.links; ++target) {
    if (target != chunk.target && has_own_work(target, chunk.direction)) return tuner.pause();
  }
  if (!has_own_work(chunk.target, chunk.direction)) return tuner.pause();
  tuner.moved(chunk.link, chunk.range.bytes(), now);
}

// Removes the chunk from its link.
Dispatcher::Flying Dispatcher::land(ChunkId id, Nanos now) {
  const auto found = chunks_.find(id);
  CAUSEWAY_CHECK(found != chunks_.end(), "a chunk that is not outstanding");
  const Flying flying = found->second;
  Link& link = link_at(flying.chunk.link, flying.chunk.direction);
  --link.chunks;
  if (flying.given_up) --link.given_up;
  link.bytes -= flying.chunk.range.bytes();
  CAUSEWAY_DCHECK(link.chunks >= 0 && link.given_up >= 0 && link.bytes >= Bytes(0),
                  "more left the link than was on it");
  link.last_done = std::max(link.last_done, now);
  chunks_.erase(found);
  const auto task = tasks_.find(flying.chunk.task);
  if (task != tasks_.end()) --task->second.in_flight;
  return flying;
}

void Dispatcher::failed(ChunkId id, Nanos now) {
  const Flying flying = land(id, now);
  if (!flying.given_up) give_back(flying);
  end_if_done(flying.chunk.task);
}

void Dispatcher::gave_up(ChunkId id, Nanos /*now*/) {
  Flying& flying = chunks_.at(id);
  if (flying.given_up) return;
  flying.given_up = true;
  ++link_at(flying.chunk.link, flying.chunk.direction).given_up;
  give_back(flying);
}

void Dispatcher::settled(ChunkId id, Nanos now) {
  const Flying flying = land(id, now);
  end_if_done(flying.chunk.task);
}

void Dispatcher::give_back(const Flying& flying) {
  const auto found = tasks_.find(flying.chunk.task);
  if (found == tasks_.end() || found->second.failed) return;
  Task& task = found->second;
  task.straight = false;

  CAUSEWAY_DCHECK(task.in_flight >= 0, "a chunk of a task that has none");
  const int failures = flying.direct_failures + (flying.chunk.relayed() ? 0 : 1);
  if (failures >= options_.direct_attempts) {
    forget_waiting(task);
    task.failed = true;
    return;
  }
  task.retries.push_back({flying.chunk.range, failures});
  queue_of(task.spec.target, task.spec.direction, task.spec.priority).waiting +=
      flying.chunk.range.bytes();
}

void Dispatcher::forget_waiting(Task& task) {
  Bytes waiting = task.spec.segments.total() - task.cursor;
  for (const Retry& retry : task.retries) waiting += retry.range.bytes();
  queue_of(task.spec.target, task.spec.direction, task.spec.priority).waiting -= waiting;
  CAUSEWAY_DCHECK(waiting >= Bytes(0), "more was taken than there is");
  task.cursor = task.spec.segments.total();
  task.retries.clear();
}

void Dispatcher::abandon(TaskId id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  forget_waiting(found->second);
  found->second.failed = true;
  end_if_done(id);
}

void Dispatcher::drop(TaskId id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  forget_waiting(found->second);
  found->second.failed = true;
  found->second.in_flight = 0;
  end_if_done(id);
}

void Dispatcher::end_if_done(TaskId id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || found->second.waiting() || found->second.in_flight > 0) return;
  const TaskSpec& spec = found->second.spec;
  std::erase(queue_of(spec.target, spec.direction, spec.priority).tasks, id);
  CAUSEWAY_DCHECK(found->second.in_flight == 0 && found->second.retries.empty(),
                  "a task ends that has chunks left");
  ended_.push_back({id, !found->second.failed});
  tasks_.erase(found);
}

bool Dispatcher::could_relay(int link) const {
  for (const WayFacts& way : facts_.ways) {
    for (int target = 0; target < facts_.links; ++target) {
      if (target != link && way.reach[at(target)].has(link)) return true;
    }
  }
  return false;
}

void Dispatcher::set_relay(int link, bool may) {
  relays_ = may ? relays_.with(link) : relays_.without(link);
}

void Dispatcher::forbid_pair(int link, int target) { forbidden_.emplace(link, target); }

std::vector<TaskEnd> Dispatcher::take_ended() { return std::exchange(ended_, {}); }

std::optional<Nanos> Dispatcher::next_wake(Nanos now) const {
  std::optional<Nanos> next;
  for (const auto& ways : links_) {
    for (const Link& link : ways) {
      if (link.yields_until > now && (!next || link.yields_until < *next)) next = link.yields_until;
    }
  }
  return next;
}

void Dispatcher::check_integrity() const {
  std::map<std::pair<int, Direction>, Link> flying;
  for (const auto& [id, entry] : chunks_) {
    Link& link = flying[{entry.chunk.link, entry.chunk.direction}];
    ++link.chunks;
    if (entry.given_up) ++link.given_up;
    link.bytes += entry.chunk.range.bytes();
  }
  for (int link = 0; link < facts_.links; ++link) {
    for (const Direction direction : kBothDirections) {
      const Link& counted = flying[{link, direction}];
      const Link& state = link_at(link, direction);
      CAUSEWAY_CHECK(state.chunks == counted.chunks && state.given_up == counted.given_up &&
                         state.bytes == counted.bytes,
                     "outstanding miscounted");
      CAUSEWAY_CHECK(state.chunks <= options_.depth, "more outstanding than the depth");
      for (int p = 0; p < kCopyPriorities; ++p) {
        const Queue& queue = queue_of(link, direction, static_cast<CopyPriority>(p));
        Bytes waiting;
        for (const TaskId id : queue.tasks) {
          const Task& task = tasks_.at(id);
          waiting += task.spec.segments.total() - task.cursor;
          for (const Retry& retry : task.retries) waiting += retry.range.bytes();
        }
        CAUSEWAY_CHECK(queue.waiting == waiting, "waiting bytes miscounted");
      }
    }
  }
}

}  // namespace causeway::transfer
