// What the scheduler remembers between iterations. Internal to this room.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "schedule/policy.h"
#include "schedule/scheduler.h"
#include "schedule/sequence_table.h"

namespace causeway::schedule {

struct ModelQueue {
  ModelId id;  // invalid: removed, the place may be reused
  std::int64_t tokens_per_block = 1;
  WaitingHeap waiting;
  RunningList running;
  Nanos last_step;                   // when its last step ended
  std::int64_t last_step_index = 0;  // breaks ties in time
  bool streamed = false;             // its steps are in the other lane
  int in_flight = 0;                 // steps of it
  // The head that last found no room, so that its prefix is not hashed anew every iteration.
  RequestId blocked_head;
  std::int64_t blocked_room = 0;
  int blocked_skips = 0;

  // How many of those waiting need so many frames for what they know.
  std::map<std::int64_t, std::int64_t> waiting_frames;

  std::int64_t frames_for(Tokens tokens) const {
    return (tokens.count + tokens_per_block - 1) / tokens_per_block;
  }
  void start_waiting(SequenceTable& table, SlotIndex index);
  void stop_waiting(SequenceTable& table, SlotIndex index);
};

// What an admission leaves free for those that run.
inline std::int64_t spare_frames(const kv::KvCache& kv) { return 1 + kv.frames() / 100; }

// How many running sequences' tables list each frame: says what preempting one would free.
class FrameReferences {
 public:
  void reset(std::int64_t frames);
  void add(std::span<const FrameId> table);
  // Frames that nobody lists any more, and that will be free then.
  std::int64_t drop(std::span<const FrameId> table, const kv::KvCache& kv);

 private:
  std::vector<std::int32_t> counts_;
};

class Scheduler::State {
 public:
  State(const Options& options_in, std::unique_ptr<Policy> policy_in);

  ModelQueue& queue_of(ModelId model);
  const ModelQueue& queue_of(ModelId model) const;
  ModelQueue& queue_of(const Slot& slot) { return queues[static_cast<std::size_t>(slot.model)]; }

  // Brings slot.promised up to date with its known tokens and frames.
  void update_promise(Slot& slot);
  // Asks the policy anew for everybody.
  void refresh_urgencies(Nanos now);
  void set_urgency(Slot& slot, Nanos now);
  // A sequence that was taken off its running list, and off the totals.
  void wait_again(SlotIndex index);
  void end_step(const Decision& decision, Nanos now);

  Options options;
  std::unique_ptr<Policy> policy;
  Policy::Traits traits;
  SequenceTable table;
  std::vector<ModelQueue> queues;
  std::unordered_map<ModelId, std::int32_t> queue_index;
  std::int64_t running_total = 0;
  std::int64_t waiting_total = 0;
  std::int64_t promised_total = 0;
  std::int64_t steps = 0;
  int in_flight = 0;     // steps of resident models
  int streamed = 0;      // steps of streamed models
  bool put_off = false;  // somebody must be displaced: decide when nothing is in flight

  // Scratch of one decision, kept for its memory.
  std::vector<std::int32_t> model_order;
  std::vector<std::int64_t> freed;  // beside Decision::preempted
  FrameReferences references;
};

}  // namespace causeway::schedule
