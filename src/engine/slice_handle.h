// The seam around a slice (docs/decisions/0014-seams.md): submit, cancel, observe, whether the
// slice lives in this process or another. Carries only plain data.
#pragma once

#include "base/result.h"
#include "request/batch.h"
#include "request/request.h"

namespace causeway::engine {

// Receives what a slice produces. Called from the slice's loop, one call at a time; must not block
// and must not call back into the SliceHandle.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual void on_outputs(std::vector<request::Output> outputs) = 0;
};

class SliceHandle {
 public:
  virtual ~SliceHandle() = default;

  // Queues a request; its outputs go to the slice's sink, ending with exactly one finished Output
  // (only if submit succeeded). kResourceExhausted: the queue is full; kUnavailable: draining;
  // kInvalidArgument: it can never run (too long, unknown model). Any thread; does not block.
  virtual Status submit(request::Request request) = 0;

  // Asks for the request to end with kCancelled; no effect when it has ended. Any thread.
  virtual void cancel(RequestId request) = 0;

  // A recent snapshot. Any thread; does not block on a step.
  virtual request::Observation observe() const = 0;
};

}  // namespace causeway::engine
