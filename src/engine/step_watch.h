// Is told which requests a crash of this process would hit: those in a step, and those that wait. A
// worker's supervisor uses it to know which of them may have caused the crash.
#pragma once

#include <span>

#include "base/units.h"

namespace causeway::engine {

class StepWatch {
 public:
  virtual ~StepWatch() = default;
  // The request has been taken in. Until steps() has it, it waits, and nothing happens that depends
  // on its contents. Engine-loop thread, as steps(); neither blocks.
  virtual void queued(RequestId request) = 0;
  // Tells the requests of the steps in flight and of a decided one, in ascending order, before
  // anything is done for that step. Any other request waits, or has ended.
  virtual void steps(std::span<const RequestId> requests) = 0;
};

}  // namespace causeway::engine
