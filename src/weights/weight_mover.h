// What executes a Residency's commands: it puts memory behind a model's addresses, takes it away,
// and brings groups from home. Memory of KV frames goes the same way, in the same order, so that it
// is taken from one before it is given to the other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "weights/residency.h"

namespace causeway::weights {

// The end of a kBring or, without a model, of the commit of an extent of KV frames, which has no
// memory after an error.
struct WeightEvent {
  ModelId model;
  int group = 0;  // index in the reading order, as in the command
  std::uint32_t arrival = 0;
  Status outcome;
  std::int64_t extent = 0;  // index in the frames' range
  bool streamed = false;    // the end of a kStream; `arrival` is its pass
  std::int32_t slot = -1;   // the end of a kExpert: its slot
};

class WeightMover {
 public:
  virtual ~WeightMover() = default;
  // Executes the commands one after the other; copies may still be under way when later commands
  // begin. Every kBring, kStream and kExpert ends in one event, and so does every extent of KV
  // frames that is committed. One thread at a time; does not block.
  virtual void submit(std::span<const WeightCommand> commands) = 0;
  // The events since the last call, in the order in which they happened. Same thread as submit().
  virtual std::vector<WeightEvent> poll() = 0;
  // Gives back what poll() returned, so that its memory may serve for the next. Same thread.
  virtual void take_back(std::vector<WeightEvent>&& /*events*/) {}
  // Whether every copy of a kBring of the model has been begun. A step must not wait on the device
  // for a copy that has not, because that could delay the copy itself. Any thread.
  virtual bool issued(ModelId model) const = 0;
  // The group's semaphore, raised to the arrival's number when the group is there or its copy has
  // failed; after a failure the results of steps that read it are void. nullptr when steps do not
  // wait on a device. Any thread.
  virtual const device::Semaphore* semaphore(ModelId model, int group) const = 0;
  // streamed(): the same for a streamed group, raised to the pass. consumed(): the counter that
  // steps raise after their last read of a streamed group. nullptr when no model is streamed. Any
  // thread.
  virtual const device::Semaphore* streamed(ModelId /*model*/, int /*group*/) const {
    return nullptr;
  }
  virtual device::Semaphore* consumed(ModelId /*model*/) const { return nullptr; }
  // The rate that the links grant to these copies, or would grant if there were any, in bytes per
  // second; 0: nothing is left, but copies proceed all the same. Any thread.
  virtual double granted_rate() const = 0;
};

}  // namespace causeway::weights
