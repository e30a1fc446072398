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

// The end of a kBring; or, without a model, of the commit of an extent of KV frames: on an error it
// has no memory.
struct WeightEvent {
  ModelId model;
  int group = 0;  // of the reading order, as in the command
  std::uint32_t arrival = 0;
  Status outcome;
  std::int64_t extent = 0;  // of the frames' range
  bool streamed = false;    // the end of a kStream: `arrival` is the pass
  std::int32_t slot = -1;   // the end of a kExpert: its slot
};

class WeightMover {
 public:
  virtual ~WeightMover() = default;
  // Executes the commands one after the other; copies may still be under way when later commands
  // begin. Every kBring, kStream and kExpert ends in one event, and so does every extent of KV
  // frames that is committed. One thread at a time; does not block.
  virtual void submit(std::span<const WeightCommand> commands) = 0;
  // What has ended since the last call, in the order of its ends. The same thread.
  virtual std::vector<WeightEvent> poll() = 0;
  // Whether the copy of every kBring of the model has been handed on: a step that waits for one
  // that has not could hold up what is still to be done for it. Any thread.
  virtual bool issued(ModelId model) const = 0;
  // Raised to the arrival's number when a group is there, or when its copy has failed: then what a
  // step has read of it is void. Any thread; nullptr where steps do not wait on a device.
  virtual const device::Semaphore* semaphore(ModelId model, int group) const = 0;
  // The same of a streamed group, raised to the pass; and the counter that steps raise when they
  // have consumed such a group. Any thread; nullptr where no model is streamed.
  virtual const device::Semaphore* streamed(ModelId /*model*/, int /*group*/) const {
    return nullptr;
  }
  virtual device::Semaphore* consumed(ModelId /*model*/) const { return nullptr; }
  // Bytes per second that the links grant these copies now, or would if there were any; 0: nothing
  // is left of them, and copies go all the same. Any thread.
  virtual double granted_rate() const = 0;
};

}  // namespace causeway::weights
