// Which KV frames the steps in flight of a simulated device use, and what must not happen to them:
// a frame of one request that another's step writes, or memory that is taken from behind a frame.
#pragma once

#include <map>
#include <string>

#include "request/batch.h"
#include "simulate/shadow_kv.h"
#include "simulate/simulated_mover.h"

namespace causeway::simulate {

// What a step in flight uses for one request must not yet be another's to write: quarantine. What
// the next batch, of so many tokens a block, does to the running one; empty: nothing.
std::string frames_given_away(const request::Batch& running, const request::Batch& next,
                              Tokens tokens_per_block);

// Of frames whose memory comes and goes.
class FrameWatch {
 public:
  // The mover is borrowed; null: memory does not move.
  explicit FrameWatch(const SimulatedMover* mover) : mover_(mover) {}

  // At a step's submission. Spoils those that have got other memory since they were last used.
  // Returns what is wrong, or empty: a frame without memory.
  std::string submitted(const request::Batch& batch, ShadowKv* shadow);
  // At its end: memory that was taken from the step.
  std::string ended(const request::Batch& batch) const;

 private:
  const SimulatedMover* mover_;
  std::map<FrameId, std::int64_t> memory_;  // as last used: SimulatedMover::frame_memory()
};

}  // namespace causeway::simulate
