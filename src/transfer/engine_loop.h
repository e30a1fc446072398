// What the engine's thread owns: dispatcher, lanes, requests that wait for their `after`. One step
// looks at everything once. Private to the engine; used by one thread at a time.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "device/arena.h"
#include "transfer/completion.h"
#include "transfer/engine.h"
#include "transfer/link_lane.h"

namespace causeway::transfer {

struct Submission {
  TaskSpec task;  // the loop sets its id
  const device::Event* after = nullptr;
  TransferSignal signal;
  CompletionBoard::Ticket ticket;
};

class EngineLoop {
 public:
  EngineLoop(const TransferEngineOptions& options, std::vector<device::Device*> devices,
             PathFacts facts, CompletionBoard& board);
  // Streams and staging buffers.
  Status set_up();

  void accept(Submission submission, Nanos now);
  // Sets the target's own link to work and then the others, until the engine's thread is awake. A
  // submitter calls it.
  void begin(int target, Direction direction, const Clock& clock, const std::atomic<bool>& awake);
  // Issues only the first chunk of that work.
  void begin_own(int target, Direction direction, Nanos now) { pull_one(target, direction, now); }
  // Looks at everything once; returns whether anything happened.
  bool step(Nanos now);
  // Tells the board what has ended; returns whether anything had.
  bool report();
  bool copying() const { return !flying_.empty(); }
  bool idle() const { return gated_.empty() && running_.empty() && flying_.empty(); }
  // Ends everything. Streams go first, so that nothing is written after a completion.
  void shut_down();

  TransferStats stats() const;

 private:
  struct Gated {
    Submission submission;
    Nanos since;
  };
  struct Running {
    CompletionBoard::Ticket ticket;
    TransferSignal signal;
    int target = 0;
    Direction direction = Direction::kIn;
    std::optional<Error> error;  // the last of its chunks
  };
  struct Ended {
    CompletionBoard::Ticket ticket;
    TransferSignal signal;
    Status outcome;
  };
  struct GivenUp {
    Chunk chunk;
    Nanos at = {};
    bool hopeless = false;  // past drain_max
  };
  struct Link {
    device::Device* device = nullptr;
    device::Extents staging;
    std::array<std::unique_ptr<LinkLane>, kDirections> lanes;
    std::array<Nanos, kDirections> repairs_from = {};  // by direction, after a failure to repair
    bool relays = false;                               // as set up
    bool lost = false;
    int faults = 0;                    // as a relay
    std::optional<Nanos> rests_until;  // as a relay
  };

  Status set_up_link(int index);
  Status allocate_staging(Link& link, std::vector<device::MemoryAddress>& buffers, Bytes each);
  bool open_gates(Nanos now);
  void start(Submission submission, Nanos now);
  bool collect(Nanos now);
  void chunk_ended(const LinkLane::Ended& ended, Nanos now);
  void chunk_failed(const Chunk& chunk, const Error& error, Nanos now);
  void give_up_old_chunks(Nanos now);
  void lose_hope(Nanos now);
  bool hopeless(int link, Direction direction) const;
  void fail_tasks_of(int link, Direction direction, const Error& error);
  void settle_lost(Nanos now);
  void wake_relays(Nanos now);
  void rest_relay(int link, Nanos now);
  bool pull(Nanos now);
  void repair(int link, Direction direction, Nanos now);
  bool pull_one(int link, Direction direction, Nanos now);
  void end(CompletionBoard::Ticket ticket, TransferSignal signal, Status outcome);
  void collect_ended_tasks();
  LinkLane& lane_of(const Chunk& chunk);

  const TransferEngineOptions options_;
  CompletionBoard& board_;
  Dispatcher dispatcher_;
  std::vector<Link> links_;
  std::vector<Gated> gated_;
  std::map<TaskId, Running> running_;
  std::map<ChunkId, Chunk> flying_;
  std::map<ChunkId, GivenUp> given_up_;
  std::vector<Ended> ended_;  // not yet reported
  std::int64_t next_task_ = 0;
  std::int64_t transfers_ = 0;
  std::int64_t failures_ = 0;
  std::int64_t retries_ = 0;
};

}  // namespace causeway::transfer
