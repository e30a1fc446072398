#include "transfer/dispatcher.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "base/testing/rounds.h"

namespace causeway::transfer::dispatcher_test {
namespace {

using device::CopyPriority;
using device::DeviceId;
using device::MemoryAddress;

TaskSpec task(std::int64_t id, int target, Bytes bytes, CopyPriority priority = CopyPriority::kStep,
              Direction direction = Direction::kIn) {
  TaskSpec spec;
  spec.id = TaskId(id);
  spec.target = target;
  spec.direction = direction;
  spec.priority = priority;
  spec.segments = SegmentTable::make({{MemoryAddress::in_host({RegionId(0), Bytes(0)}),
                                       MemoryAddress::in_arena(DeviceId(target), Bytes(0)), bytes}})
                      .value();
  return spec;
}

constexpr Nanos kStart = Nanos(0);

// Pulls for one link until it takes nothing more, and finishes each chunk at once.
std::vector<Chunk> drain(Dispatcher& dispatcher, int link) {
  std::vector<Chunk> chunks;
  while (const auto chunk = dispatcher.pull(link, Direction::kIn, kStart)) {
    chunks.push_back(*chunk);
    dispatcher.finished(chunk->id, kStart);
  }
  return chunks;
}

TEST(Dispatcher, ALinkTakesItsOwnWorkFirst) {
  Dispatcher dispatcher({}, assume_all_links(2));
  dispatcher.add(task(0, 0, mib(64)), kStart);
  dispatcher.add(task(1, 1, mib(32)), kStart);
  const auto chunks = drain(dispatcher, 1);
  ASSERT_FALSE(chunks.empty());
  Bytes direct;
  bool relayed = false;
  for (const Chunk& chunk : chunks) {
    EXPECT_FALSE(relayed && !chunk.relayed()) << "direct work after a relay";
    relayed = relayed || chunk.relayed();
    if (!chunk.relayed()) direct += chunk.range.bytes();
  }
  EXPECT_EQ(direct, mib(32));
  EXPECT_TRUE(relayed);
  EXPECT_TRUE(dispatcher.idle());
}

TEST(Dispatcher, TheLastOfAStraightTaskCompletesIt) {
  // One link, and then two links, of which the second relays or does not.
  for (const bool alone : {true, false}) {
    DispatchOptions options;
    options.relay = alone ? RelayPolicy::kNone : RelayPolicy::kLongestQueue;
    Dispatcher dispatcher(options, assume_all_links(2));
    dispatcher.add(task(0, 0, mib(200)), kStart);
    if (!alone) {
      const auto relayed = dispatcher.pull(1, Direction::kIn, kStart);
      EXPECT_FALSE(relayed.value().completes);
      dispatcher.finished(relayed->id, kStart);
    }
    const auto chunks = drain(dispatcher, 0);
    ASSERT_GT(chunks.size(), 2u);
    for (const Chunk& chunk : chunks) {
      EXPECT_EQ(chunk.completes, alone && chunk.id == chunks.back().id);
    }
    EXPECT_TRUE(dispatcher.idle());
  }
}

// This also holds when a chunk fails after the last one was launched: its bytes are moved later.
TEST(Dispatcher, NoChunkCompletesATaskThatFailedOnce) {
  for (const bool gives_up : {false, true}) {
    DispatchOptions options;
    options.chunk_bytes_direct = mib(8);
    Dispatcher dispatcher(options, assume_all_links(1));
    dispatcher.add(task(0, 0, mib(24)), kStart);
    const Chunk first = dispatcher.pull(0, Direction::kIn, kStart).value();
    gives_up ? dispatcher.gave_up(first.id, kStart) : dispatcher.failed(first.id, kStart);
    const auto chunks = drain(dispatcher, 0);
    EXPECT_EQ(chunks.size(), 3u);
    for (const Chunk& chunk : chunks) EXPECT_FALSE(chunk.completes);
    if (gives_up) dispatcher.settled(first.id, kStart);
    EXPECT_TRUE(dispatcher.idle());
  }
  DispatchOptions options;
  options.chunk_bytes_direct = mib(16);
  Dispatcher dispatcher(options, assume_all_links(1));
  dispatcher.add(task(0, 0, mib(32)), kStart);
  const Chunk first = dispatcher.pull(0, Direction::kIn, kStart).value();
  const Chunk last = dispatcher.pull(0, Direction::kIn, kStart).value();
  EXPECT_FALSE(first.completes);
  EXPECT_TRUE(last.completes);
  dispatcher.failed(first.id, kStart);
  dispatcher.failed(last.id, kStart);
  for (const Chunk& chunk : drain(dispatcher, 0)) EXPECT_FALSE(chunk.completes);
  EXPECT_TRUE(dispatcher.idle());
}

// One link of 50 GB/s, whose chunks of 5 MiB take 105 µs alone.
PathFacts one_known_link() {
  PathFacts facts = assume_all_links(1);
  for (WayFacts& way : facts.ways) way.alone = {50e9};
  return facts;
}

// Chunks of a large task are of 5 MiB.
DispatchOptions small_direct_chunks(int depth) {
  DispatchOptions options;
  options.depth = depth;
  options.chunk_bytes_direct = kib(2560);
  return options;
}

// Ends one chunk in time, and then one 600 µs late; returns the time of that end.
Nanos one_chunk_late(Dispatcher& dispatcher) {
  Nanos now = kStart;
  for (const Nanos took : {micros(105), micros(705)}) {
    const auto chunk = dispatcher.pull(0, Direction::kIn, now);
    now = now + took;
    dispatcher.finished(chunk.value().id, now);
  }
  return now;
}

// Other traffic had the link for 600 µs: we take as much, and then let the link run dry once.
TEST(Dispatcher, BesideOthersALinkIsTakenByTimeSlices) {
  Dispatcher dispatcher(small_direct_chunks(8), one_known_link());
  dispatcher.add(task(0, 0, gib(1)), kStart);
  const Nanos now = one_chunk_late(dispatcher);
  int pulled = 0;
  while (dispatcher.pull(0, Direction::kIn, now)) ++pulled;
  EXPECT_GE(pulled, 3);
  EXPECT_LT(pulled, 8);
}

TEST(Dispatcher, WorkTheOtherWayIsNoTimeSlice) {
  Dispatcher dispatcher(small_direct_chunks(8), one_known_link());
  dispatcher.add(task(0, 0, gib(1)), kStart);
  dispatcher.add(task(1, 0, gib(1), CopyPriority::kStep, Direction::kOut), kStart);
  ASSERT_TRUE(dispatcher.pull(0, Direction::kOut, kStart).has_value());
  const Nanos now = one_chunk_late(dispatcher);
  int pulled = 0;
  while (dispatcher.pull(0, Direction::kIn, now)) ++pulled;
  EXPECT_EQ(pulled, 8);
}

// A copy that was given up stays on the link; time slices begin beside it all the same.
TEST(Dispatcher, ACopyThatWasGivenUpEndsNoTimeSlices) {
  Dispatcher dispatcher(small_direct_chunks(2), one_known_link());
  dispatcher.add(task(0, 0, gib(1)), kStart);
  const auto stuck = dispatcher.pull(0, Direction::kIn, kStart);
  dispatcher.gave_up(stuck->id, kStart);
  Nanos now = one_chunk_late(dispatcher);
  for (int chunk = 0; chunk < 100; ++chunk) {
    const auto next = dispatcher.pull(0, Direction::kIn, now);
    ASSERT_TRUE(next.has_value()) << chunk;
    now = now + micros(105);
    dispatcher.finished(next->id, now);
  }
}

// A link that looks slow is given no chunk of a small task for a while, but not for ever.
TEST(Dispatcher, WhatALinkWasSlowByIsForgotten) {
  PathFacts facts = assume_all_links(2);
  for (WayFacts& way : facts.ways) way.alone = {50e9, 50e9};
  DispatchOptions options;
  options.tune_sets = false;
  Dispatcher dispatcher(options, facts);
  Nanos now = kStart;
  dispatcher.add(task(0, 0, mib(240)), now);
  for (int chunk = 0; chunk < 24; ++chunk) {  // a relay's take 2 ms, those of the own link 0.1
    const auto slow = dispatcher.pull(1, Direction::kIn, now);
    const auto fast = dispatcher.pull(0, Direction::kIn, now);
    if (fast) dispatcher.finished(fast->id, now + micros(105));
    if (!slow) break;
    now = now + millis(2);
    dispatcher.finished(slow->id, now);
  }
  while (const auto rest = dispatcher.pull(0, Direction::kIn, now)) {
    now = now + micros(105);
    dispatcher.finished(rest->id, now);
  }
  ASSERT_TRUE(dispatcher.idle());
  const auto relay_helps = [&](std::int64_t id) {
    dispatcher.add(task(id, 0, mib(12)), now);
    const auto own = dispatcher.pull(0, Direction::kIn, now);
    const auto relayed = dispatcher.pull(1, Direction::kIn, now);
    now = now + micros(105);
    dispatcher.finished(own.value().id, now);
    if (relayed) dispatcher.finished(relayed->id, now);
    while (const auto rest = dispatcher.pull(0, Direction::kIn, now)) {
      now = now + micros(105);
      dispatcher.finished(rest->id, now);
    }
    return relayed.has_value();
  };
  EXPECT_FALSE(relay_helps(1));
  now = now + millis(25);
  EXPECT_TRUE(relay_helps(2));
  EXPECT_TRUE(relay_helps(3));  // it was quick
}

TEST(Dispatcher, ATaskMaySayWhichLinksItUses) {
  Dispatcher dispatcher({}, assume_all_links(4));
  TaskSpec spec = task(0, 0, mib(8));  // small: it would go direct
  spec.only = LinkSet::of(1).with(3);
  dispatcher.add(std::move(spec), kStart);
  EXPECT_TRUE(drain(dispatcher, 0).empty());
  EXPECT_TRUE(drain(dispatcher, 2).empty());
  const auto first = dispatcher.pull(1, Direction::kIn, kStart);
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->relayed());
  // These relays may not help, so the target's own link takes what is left.
  dispatcher.set_relay(1, false);
  dispatcher.set_relay(3, false);
  dispatcher.finished(first->id, kStart);
  EXPECT_FALSE(drain(dispatcher, 0).empty());
  EXPECT_TRUE(dispatcher.idle());
}

TEST(Dispatcher, WithoutDirectFirstTheLongestQueueWins) {
  Dispatcher dispatcher({.direct_first = false}, assume_all_links(2));
  dispatcher.add(task(0, 0, mib(64)), kStart);
  dispatcher.add(task(1, 1, mib(32)), kStart);
  EXPECT_TRUE(dispatcher.pull(1, Direction::kIn, kStart)->relayed());
}

TEST(Dispatcher, UrgentWorkOfAnotherGoesBeforeOwnWork) {
  Dispatcher dispatcher({}, assume_all_links(2));
  dispatcher.add(task(0, 0, mib(64), CopyPriority::kStep), kStart);
  dispatcher.add(task(1, 1, mib(64), CopyPriority::kPromotion), kStart);
  EXPECT_EQ(dispatcher.pull(1, Direction::kIn, kStart)->task, TaskId(0));
}

TEST(Dispatcher, RelaysHelpTheLongestQueue) {
  Dispatcher dispatcher({}, assume_all_links(3));
  dispatcher.add(task(0, 0, mib(40)), kStart);
  dispatcher.add(task(1, 1, mib(80)), kStart);
  EXPECT_EQ(dispatcher.pull(2, Direction::kIn, kStart)->target, 1);
}

TEST(Dispatcher, RelaysPreferThePriorityTarget) {
  Dispatcher dispatcher({.relay = RelayPolicy::kPriorityTarget, .priority_target = 0},
                        assume_all_links(3));
  dispatcher.add(task(0, 0, mib(40)), kStart);
  dispatcher.add(task(1, 1, mib(80)), kStart);
  EXPECT_EQ(dispatcher.pull(2, Direction::kIn, kStart)->target, 0);
}

TEST(Dispatcher, AStaticSplitIsKept) {
  Dispatcher dispatcher({.relay = RelayPolicy::kStatic, .static_shares = {1, 2}},
                        assume_all_links(2));
  dispatcher.add(task(0, 0, mib(90)), kStart);
  Bytes direct, relayed;
  for (const Chunk& chunk : drain(dispatcher, 1)) relayed += chunk.range.bytes();
  for (const Chunk& chunk : drain(dispatcher, 0)) direct += chunk.range.bytes();
  EXPECT_EQ(direct, mib(30));
  EXPECT_EQ(relayed, mib(60));
  EXPECT_TRUE(dispatcher.idle());
}

TEST(Dispatcher, SmallTasksAreNotRelayed) {
  Dispatcher dispatcher({}, assume_all_links(2));
  dispatcher.add(task(0, 0, mib(12) - Bytes(1)), kStart);
  EXPECT_FALSE(dispatcher.pull(1, Direction::kIn, kStart));
  EXPECT_TRUE(dispatcher.pull(0, Direction::kIn, kStart));
}

TEST(Dispatcher, ABlockedLinkPullsNoMoreThanItsDepth) {
  Dispatcher dispatcher({.depth = 3}, assume_all_links(2));
  dispatcher.add(task(0, 0, gib(1)), kStart);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(dispatcher.pull(0, Direction::kIn, kStart));
  EXPECT_FALSE(dispatcher.pull(0, Direction::kIn, kStart));
  EXPECT_TRUE(dispatcher.pull(1, Direction::kIn, kStart));
}

// The map says that link 1 is of no use to target 0, and that target 2 is better served by others.
TEST(Dispatcher, OnlyTheBestLinksHelp) {
  PathFacts facts = assume_all_links(3);
  facts.way(Direction::kIn).best = {LinkSet::of(0).with(2), LinkSet::first(3), LinkSet::first(2)};
  Dispatcher dispatcher({.tune_sets = false}, facts);
  dispatcher.add(task(0, 0, mib(64)), kStart);
  EXPECT_FALSE(dispatcher.pull(1, Direction::kIn, kStart));
  EXPECT_TRUE(dispatcher.pull(2, Direction::kIn, kStart));
  dispatcher.add(task(2, 2, mib(64)), kStart);
  const auto helped = dispatcher.pull(1, Direction::kIn, kStart);
  ASSERT_TRUE(helped);
  EXPECT_EQ(helped->target, 2);
  // Its own link does not help while link 1 could; it helps target 0 instead.
  EXPECT_EQ(dispatcher.pull(2, Direction::kIn, kStart)->target, 0);
}

TEST(Dispatcher, AFailedRelayIsRetriedDirectly) {
  Dispatcher dispatcher({}, assume_all_links(2));
  dispatcher.add(task(0, 0, mib(16)), kStart);
  const auto relayed = dispatcher.pull(1, Direction::kIn, kStart);
  ASSERT_TRUE(relayed && relayed->relayed());
  dispatcher.failed(relayed->id, kStart);
  const auto again = dispatcher.pull(0, Direction::kIn, kStart);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->range.begin, relayed->range.begin);
  EXPECT_EQ(again->range.end, relayed->range.end);
}

TEST(Dispatcher, ADirectFailureTooManyFailsTheTask) {
  Dispatcher dispatcher({}, assume_all_links(1));
  dispatcher.add(task(0, 0, mib(64)), kStart);
  dispatcher.failed(dispatcher.pull(0, Direction::kIn, kStart)->id, kStart);
  const auto other = dispatcher.pull(0, Direction::kIn, kStart);  // the retry
  const auto flying = dispatcher.pull(0, Direction::kIn, kStart);
  dispatcher.failed(other->id, kStart);
  EXPECT_TRUE(dispatcher.take_ended().empty()) << "a chunk is still under way";
  dispatcher.finished(flying->id, kStart);
  const auto ended = dispatcher.take_ended();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_FALSE(ended[0].ok);
  EXPECT_TRUE(dispatcher.idle());
}

TEST(Dispatcher, ATaskWaitsForACopyThatWasGivenUp) {
  Dispatcher dispatcher({}, assume_all_links(2));
  dispatcher.add(task(0, 0, mib(12)), kStart);
  const auto stuck = dispatcher.pull(1, Direction::kIn, kStart);
  dispatcher.gave_up(stuck->id, kStart);
  dispatcher.set_relay(1, false);
  drain(dispatcher, 0);
  EXPECT_TRUE(dispatcher.take_ended().empty());
  dispatcher.settled(stuck->id, kStart);
  ASSERT_EQ(dispatcher.take_ended().size(), 1u);
}

TEST(Dispatcher, AnEmptyTaskEndsAtOnce) {
  Dispatcher dispatcher({}, assume_all_links(1));
  dispatcher.add(task(0, 0, Bytes(0)), kStart);
  EXPECT_TRUE(dispatcher.take_ended().at(0).ok);
}

TEST(Dispatcher, ChunksOfOnePathGrowWithTheTask) {
  const std::pair<Bytes, Bytes> chunk_of[] = {
      {mib(64), mib(32)}, {mib(256), mib(64)}, {gib(1), mib(64)}};
  for (const auto& [total, chunk] : chunk_of) {
    Dispatcher dispatcher({}, assume_all_links(1));
    dispatcher.add(task(0, 0, total), kStart);
    const auto pulled = dispatcher.pull(0, Direction::kIn, kStart);
    ASSERT_TRUE(pulled);
    EXPECT_EQ(pulled->range.bytes(), chunk) << total.count;
  }
}

TEST(Dispatcher, AYieldingLinkStandsBack) {
  PathFacts facts = assume_all_links(1);
  facts.way(Direction::kIn).alone = {50e9};
  Dispatcher dispatcher({.chunk_bytes_direct = mib(8), .yield_for = micros(300)}, facts);
  dispatcher.add(task(0, 0, gib(1)), kStart);
  auto chunk = dispatcher.pull(0, Direction::kIn, kStart);
  Nanos now = micros(340);  // 16 MiB at 50 GB/s
  dispatcher.finished(chunk->id, now);
  chunk = dispatcher.pull(0, Direction::kIn, now);
  ASSERT_TRUE(chunk) << "as fast as the map says";
  now += micros(700);
  dispatcher.finished(chunk->id, now);
  EXPECT_FALSE(dispatcher.pull(0, Direction::kIn, now));
  EXPECT_EQ(dispatcher.next_wake(now), now + micros(300));
  EXPECT_TRUE(dispatcher.pull(0, Direction::kIn, now + micros(300)));
}

// Random machines, tasks, ends, failures and copies that hang: every byte of a task that succeeds
// arrives, no byte twice unless its chunk failed, all tasks end, and no chunk waits while links
// have room.
class RandomDispatch {
 public:
  explicit RandomDispatch(std::uint64_t seed)
      : random_(seed), links_(static_cast<int>(random_.between(1, 6))) {
    PathFacts facts = assume_all_links(links_);
    for (const Direction direction : kBothDirections) {
      WayFacts& way = facts.way(direction);
      for (std::size_t l = 0; l < static_cast<std::size_t>(links_); ++l) {
        way.best[l].bits &= random_.bits();
        if (random_.chance(0.7)) way.alone[l] = 1e9 * static_cast<double>(random_.between(1, 60));
      }
    }
    DispatchOptions options;
    options.depth = static_cast<int>(random_.between(1, 3));
    options.chunk_bytes = {Bytes(random_.between(8, 4'096)), Bytes(random_.between(8, 4'096))};
    options.chunk_bytes_min = Bytes(random_.between(1, 8));
    options.chunk_bytes_direct = Bytes(random_.between(1, 4'096));
    options.multipath_bytes_min = Bytes(random_.between(0, 9'000));
    options.direct_first = random_.chance(0.7);
    options.relay = static_cast<RelayPolicy>(random_.below(4));
    options.priority_target = static_cast<int>(random_.below(links_));
    for (int l = 0; l < links_; ++l) options.static_shares.push_back(random_.uniform() + 0.01);
    options.yield_for = random_.chance(0.3) ? Nanos(random_.between(1, 500)) : Nanos(0);
    options.tuner.window_chunks = 2;
    options.tuner.regret = 0.5;
    faulty_ = random_.chance(0.4) ? 0.1 : 0;
    dispatcher_.emplace(options, facts);
  }

  void run() {
    for (int step = 0; step < 600; ++step) {
      now_ += Nanos(random_.below(200));
      if (step < 300 && random_.chance(0.1)) add();
      if (random_.chance(0.7)) pull_all();
      if (!flying_.empty() && random_.chance(0.8)) end_one();
      if (faulty_ > 0 && random_.chance(0.02)) {
        dispatcher_->set_relay(static_cast<int>(random_.below(links_)), random_.chance(0.6));
      }
      dispatcher_->check_integrity();
      collect();
    }
    for (int step = 0; step < 200'000 && !dispatcher_->idle(); ++step) {
      if (const auto wake = dispatcher_->next_wake(now_)) now_ = std::max(now_, *wake);
      now_ += Nanos(1 + random_.below(100));
      pull_all();
      ASSERT_FALSE(flying_.empty()) << "work lies about and nobody takes it";
      end_one();
      collect();
    }
    dispatcher_->check_integrity();
    ASSERT_TRUE(dispatcher_->idle());
    ASSERT_TRUE(bytes_.empty()) << "a task has not ended";
  }

 private:
  struct Flying {
    Chunk chunk;
    bool given_up = false;
  };

  void add() {
    const TaskId id(next_task_++);
    const auto target = static_cast<int>(random_.below(links_));
    const Bytes bytes(random_.between(0, 20'000));
    bytes_[id] = std::vector<int>(to_size(bytes), 0);
    dispatcher_->add(task(id.value, target, bytes, static_cast<CopyPriority>(random_.below(5)),
                          random_.chance(0.5) ? Direction::kIn : Direction::kOut),
                     now_);
  }

  void pull_all() {
    for (int link = 0; link < links_; ++link) {
      for (const Direction direction : kBothDirections) {
        while (const auto chunk = dispatcher_->pull(link, direction, now_)) {
          for (const Flying& other : flying_) {
            ASSERT_FALSE(!other.given_up && other.chunk.task == chunk->task &&
                         other.chunk.range.begin < chunk->range.end &&
                         chunk->range.begin < other.chunk.range.end)
                << "bytes on two ways at once";
          }
          flying_.push_back({*chunk, false});
        }
      }
    }
  }

  void end_one() {
    const auto index = static_cast<std::size_t>(random_.below(std::ssize(flying_)));
    Flying& flying = flying_[index];
    const Chunk chunk = flying.chunk;
    if (flying.given_up) {
      dispatcher_->settled(chunk.id, now_);
    } else if (random_.chance(faulty_)) {
      if (random_.chance(0.5)) {
        flying.given_up = true;
        return dispatcher_->gave_up(chunk.id, now_);
      }
      dispatcher_->failed(chunk.id, now_);
    } else {
      if (const auto found = bytes_.find(chunk.task); found != bytes_.end()) {
        for (Bytes b = chunk.range.begin; b < chunk.range.end; b += Bytes(1)) {
          ++found->second[to_size(b)];
        }
      }
      dispatcher_->finished(chunk.id, now_);
    }
    flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void collect() {
    for (const TaskEnd& end : dispatcher_->take_ended()) {
      const auto found = bytes_.find(end.task);
      ASSERT_NE(found, bytes_.end()) << "a task ended twice";
      for (const int moved : found->second) {
        ASSERT_LE(moved, 1);
        if (end.ok) {
          ASSERT_EQ(moved, 1);
        }
      }
      EXPECT_TRUE(end.ok || faulty_ > 0);
      bytes_.erase(found);
    }
  }

  Random random_;
  const int links_;
  double faulty_ = 0;
  std::optional<Dispatcher> dispatcher_;
  Nanos now_ = Nanos(1);
  std::int64_t next_task_ = 0;
  std::vector<Flying> flying_;
  std::map<TaskId, std::vector<int>> bytes_;  // how often each byte arrived
};

TEST(Dispatcher, MovesEveryByteOnceWhateverHappens) {
  for (std::uint64_t seed = 0; seed < rounds<std::uint64_t>(300); ++seed) {
    SCOPED_TRACE(seed);
    RandomDispatch(seed).run();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace causeway::transfer::dispatcher_test
