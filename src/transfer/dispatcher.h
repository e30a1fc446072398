// The decisions of the transfer engine as a state machine: task manager, path selector and
// outstanding queues (MMA §3.4). The owner of the links asks pull() for a link that has room, moves
// the chunk, and says how it ended; time is passed in. The engine runs it on real devices,
// simulate_transfers() on modelled links.
//
//   add ─▶ task ─▶ queue[target][direction][priority]        chunks are cut when pulled
//                        │ pull(link): own queue first, then another's (a relay)
//                        ▼
//          outstanding[link][direction] ≤ depth ─▶ finished │ failed │ gave_up … settled
//
// A blocked link finishes nothing, so it pulls nothing: back-pressure needs no measuring.
// Deviations from the paper: priorities rank before direct-first; link sets (path_facts.h) bound
// which GPUs relay; chunks shrink and slow links stand back near the end of a task.
//
// Not thread-safe. Deterministic.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "transfer/link_time_slices.h"
#include "transfer/path_facts.h"
#include "transfer/segment_table.h"
#include "transfer/set_tuner.h"

namespace causeway::transfer {

using TaskId = Id<struct TaskTag>;
using ChunkId = Id<struct ChunkTag>;

enum class RelayPolicy {
  kNone,            // direct only
  kLongestQueue,    // help the target with most bytes waiting
  kPriorityTarget,  // help one target first, then as kLongestQueue
  kStatic,          // baseline: each task is split among links once and for all
};

struct DispatchOptions {
  int depth = 2;  // outstanding chunks of a link and direction
  std::array<Bytes, kDirections> chunk_bytes = {mib(5), mib(5)};
  Bytes chunk_bytes_min = mib(2);  // near the end of a task
  // For tasks that have one path only; large tasks get chunks of twice this size, because the link
  // idles for some 10 µs between two copies of a stream. Longer chunks would leave too little room
  // for the time slices of other traffic.
  Bytes chunk_bytes_direct = mib(32);
  std::int64_t chunk_segments = 4'096;  // descriptors
  Bytes multipath_bytes_min = mib(12);  // smaller tasks go direct
  bool direct_first = true;
  RelayPolicy relay = RelayPolicy::kLongestQueue;
  int priority_target = 0;                 // for kPriorityTarget
  std::vector<double> static_shares = {};  // by link, for kStatic
  // Yielding to other traffic: a link that is slower than `yield_below` times its rate in the map
  // pauses for `yield_for`. 0: it never yields.
  Nanos yield_for = {};
  double yield_below = 0.7;
  bool tune_sets = true;
  SetTunerOptions tuner = {};
  int direct_attempts = 2;  // of one range of bytes, before its task fails
};

struct TaskSpec {
  TaskId id;
  int target = 0;  // link index of its GPU
  Direction direction = Direction::kIn;
  device::CopyPriority priority = device::CopyPriority::kStep;
  SegmentTable segments;
  LinkSet only = {};  // as of TransferRequest
};

struct Chunk {
  ChunkId id;
  TaskId task;
  int link = 0;
  int target = 0;
  Direction direction = Direction::kIn;
  device::CopyPriority priority = device::CopyPriority::kStep;
  ByteRange range;
  // The target's own link has pulled all earlier bytes of the task, and none of them has failed.
  // Once the link has done its chunks in order, this one ends the task.
  bool completes = false;
  bool relayed() const { return link != target; }
};

struct TaskEnd {
  TaskId task;
  bool ok = false;
};

// Bytes that arrived over one link one way.
struct LinkTraffic {
  Bytes direct;
  Bytes relayed;
};

// Bytes that arrived, by purpose (CopyPriority) and direction.
using PurposeTraffic = std::array<std::array<Bytes, kDirections>, device::kCopyPriorities>;

class Dispatcher {
 public:
  Dispatcher(DispatchOptions options, PathFacts facts);

  // The task may be pulled from at once. Its id must be new. A task of 0 bytes ends at once.
  void add(TaskSpec task, Nanos now);
  // The next chunk for a link that has room; none when the link should take nothing now.
  std::optional<Chunk> pull(int link, Direction direction, Nanos now);

  void finished(ChunkId chunk, Nanos now);
  // The chunk's bytes are to be moved again, over the direct link. After options.direct_attempts
  // direct failures the task ends as failed.
  void failed(ChunkId chunk, Nanos now);
  // The chunk took too long. As failed(), but its copy may still be under way, so it keeps its
  // place, and its task cannot end until settled() is called.
  void gave_up(ChunkId chunk, Nanos now);
  void settled(ChunkId chunk, Nanos now);
  // No more of the task is pulled. It ends as failed with the last of its chunks that are under
  // way.
  void abandon(TaskId task);
  // The task ends as failed now, whatever is under way. finished(), failed() or settled() must
  // still be called for its chunks.
  void drop(TaskId task);

  // Whether a link reaches targets other than its own.
  bool could_relay(int link) const;
  // Whether a link's GPU may relay.
  void set_relay(int link, bool may);
  // The two GPUs have no direct path between them.
  void forbid_pair(int link, int target);

  std::vector<TaskEnd> take_ended();
  // The time to pull again although nothing has ended, because a link yields.
  std::optional<Nanos> next_wake(Nanos now) const;

  bool idle() const { return tasks_.empty() && chunks_.empty(); }
  bool knows(TaskId task) const { return tasks_.contains(task); }
  // Whether some of the task's bytes are not on their way yet.
  bool waits(TaskId task) const { return tasks_.at(task).waiting(); }
  const SegmentTable& segments(TaskId task) const { return tasks_.at(task).spec.segments; }
  int outstanding(int link, Direction direction) const { return link_at(link, direction).chunks; }
  LinkTraffic traffic(int link, Direction direction) const {
    return link_at(link, direction).traffic;
  }
  const PurposeTraffic& by_purpose() const { return by_purpose_; }
  // The links that serve a target now.
  LinkSet links_for(int target, Direction direction) const;
  // Checks that sums agree and no limit is exceeded; a CHECK fails otherwise.
  void check_integrity() const;

 private:
  struct Retry {
    ByteRange range;
    int direct_failures = 0;
  };
  struct Task {
    TaskSpec spec;
    Bytes cursor;  // pulled so far
    std::deque<Retry> retries;
    int in_flight = 0;
    bool failed = false;
    bool straight = true;      // until now as Chunk::completes describes
    std::vector<Bytes> quota;  // by link, for kStatic
    bool multipath = false;
    bool waiting() const { return !failed && (cursor < spec.segments.total() || !retries.empty()); }
  };
  struct Flying {
    Chunk chunk;
    Nanos started;
    int direct_failures = 0;
    bool given_up = false;
  };
  struct Link {
    int chunks = 0;
    int given_up = 0;  // of them
    Bytes bytes;       // outstanding
    Nanos last_done;
    double rate = 0;  // bytes per second, smoothed; 0: unknown
    Nanos observed;   // when, last
    Nanos yields_until;
    LinkTimeSlices time_slices;
    LinkTraffic traffic;
  };
  struct Queue {
    std::deque<TaskId> tasks;
    Bytes waiting;
  };

  Link& link_at(int link, Direction direction);
  const Link& link_at(int link, Direction direction) const;
  Queue& queue_of(int target, Direction direction, device::CopyPriority priority);
  const Queue& queue_of(int target, Direction direction, device::CopyPriority priority) const;
  const WayFacts& way(Direction direction) const { return facts_.way(direction); }

  std::vector<int> targets_for(int link, Direction direction, device::CopyPriority priority) const;
  std::optional<Chunk> take(int target, int link, Direction direction,
                            device::CopyPriority priority, Nanos now);
  bool may_take(const Task& task, int link, Nanos now) const;
  LinkSet links_of(const TaskSpec& task) const;
  LinkSet usable(int target, LinkSet wanted) const;
  bool may_use_others(const TaskSpec& task) const;
  bool own_link_needed(const Task& task) const;
  bool has_own_work(int link, Direction direction) const;
  bool worth_it(const Task& task, int link, Nanos now) const;
  double rate_of(int link, Direction direction, Nanos now) const;
  Bytes chunk_size(const Task& task, int link) const;
  Chunk launch(Task& task, int link, Retry part, Nanos now);

  void observe(Link& link, const Flying& flying, Nanos now);
  static void learn(Link& link, const Chunk& chunk, Nanos took, bool first, double alone);
  bool has_company(const Chunk& chunk) const;
  Flying land(ChunkId chunk, Nanos now);
  void give_back(const Flying& flying);
  void tune(const Chunk& chunk, Nanos now);
  void end_if_done(TaskId id);
  void forget_waiting(Task& task);

  const DispatchOptions options_;
  const PathFacts facts_;
  LinkSet relays_;
  std::set<std::pair<int, int>> forbidden_;
  std::map<TaskId, Task> tasks_;
  std::map<ChunkId, Flying> chunks_;
  std::vector<std::array<Link, kDirections>> links_;
  std::vector<std::array<std::array<Queue, device::kCopyPriorities>, kDirections>> queues_;
  std::vector<std::array<SetTuner, kDirections>> tuners_;  // by target
  PurposeTraffic by_purpose_;
  std::vector<TaskEnd> ended_;
  std::int64_t next_chunk_ = 0;
};

}  // namespace causeway::transfer
