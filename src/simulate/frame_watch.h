// Watches which KV frames the steps in flight of a simulated device use, and finds two faults: a
// step writes a frame of another request's step, and memory is taken away from behind a frame.
#pragma once

#include <map>
#include <string>

#include "request/batch.h"
#include "simulate/shadow_kv.h"
#include "simulate/simulated_mover.h"

namespace causeway::simulate {

// Checks quarantine: the next batch must not write what the running batch uses for another request.
// Returns what is wrong; empty: nothing is.
std::string frames_given_away(const request::Batch& running, const request::Batch& next,
                              Tokens tokens_per_block);

// Watches frames whose memory comes and goes.
class FrameWatch {
 public:
  // The mover is borrowed; null: memory does not move.
  explicit FrameWatch(const SimulatedMover* mover) : mover_(mover) {}

  // Call it when a step is submitted. Spoils frames that have got other memory since they were last
  // used. Returns what is wrong (a frame without memory); empty: nothing is.
  std::string submitted(const request::Batch& batch, ShadowKv* shadow);
  // Call it when the step has ended. Returns which memory was taken from the step; empty: none.
  std::string ended(const request::Batch& batch) const;

 private:
  const SimulatedMover* mover_;
  // SimulatedMover::frame_memory() when the frame was last used
  std::map<FrameId, std::int64_t> memory_;
};

}  // namespace causeway::simulate
