// Hears what a crash of this process would strike: which requests are in a step, and which wait.
// With it a worker's supervisor knows which of them may be why the process has gone.
#pragma once

#include <span>

#include "base/units.h"

namespace causeway::engine {

class StepWatch {
 public:
  virtual ~StepWatch() = default;
  // The request has been taken in. It waits, and nothing is done for it that depends on what it
  // asks, until steps() has it. Engine-loop thread, as steps(); neither blocks.
  virtual void queued(RequestId request) = 0;
  // Tells the requests of the steps in flight and of one that has been decided, in ascending order,
  // before anything is done for that step. A request that is not among them waits, or has ended.
  virtual void steps(std::span<const RequestId> requests) = 0;
};

}  // namespace causeway::engine
