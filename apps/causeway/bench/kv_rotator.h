// Blocks that rotate between frames and twins as the engine loop has them rotate: a step's worth of
// copies at a time, and the next when a step before has been passed by its gates.
//
//   submit(step 0) submit(step 1) │ gates of step 0 open: submit(step 2) │ gates of step 1 open: …
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "kv/transfer_kv_mover.h"

namespace causeway::bench {

struct BlockMove {
  FrameId frame;
  TwinId twin;
};
struct BlockMoves {
  std::vector<BlockMove> in, out;  // no frame and no twin is in both
};

struct KvPace {
  std::int64_t blocks_per_step = 64;  // each way: SuperInfer's B_xfer
  std::int64_t steps_in_flight = 2;   // as the engine has
};

// One thread.
class KvRotator {
 public:
  // The mover outlives the rotator, which takes all of its notices meanwhile.
  KvRotator(kv::TransferKvMover& mover, const KvPace& pace, const Clock& clock);
  ~KvRotator() { mover_.set_notify({}); }
  KvRotator(const KvRotator&) = delete;
  KvRotator& operator=(const KvRotator&) = delete;

  // Moves all blocks and returns how long that took, until the ends of all copies were told. The
  // first failure ends it; copies may be under way then.
  Result<Nanos> move(const BlockMoves& moves);

 private:
  using Direction = kv::KvCopy::Direction;
  struct Step {
    std::vector<kv::CopyGate> gates;  // none: of copies out alone
    std::int64_t submitted = 0;       // copies of this run, its own the last of them
  };

  bool over(const Step& step) const;
  void submit(const BlockMoves& moves, std::size_t first);
  void add(std::vector<kv::KvCopy>& copies, Direction direction, std::span<const BlockMove> moves,
           std::size_t first);
  Status take_ends();
  void wait();

  kv::TransferKvMover& mover_;
  const KvPace pace_;
  const Clock& clock_;
  std::int64_t next_copy_ = 0;
  // Of the run.
  std::deque<Step> steps_;  // under way
  std::int64_t submitted_ = 0, ended_ = 0;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool notified_ = false;
};

}  // namespace causeway::bench
