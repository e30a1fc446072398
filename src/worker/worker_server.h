// The worker's side: opens slices as the supervisor asks, attaches models of memory that it is
// lent, and serves until the supervisor has gone.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "engine/slice_handle.h"
#include "slice/machine.h"
#include "slice/model_home.h"
#include "slice/slice.h"
#include "weights/file.h"
#include "worker/messages.h"

namespace causeway::worker {

// How a plan becomes slices: which backends there are is the program's to know. One thread.
class SliceOpener {
 public:
  virtual ~SliceOpener() = default;
  // Called once, before any slice, and while a process before this one may still have its slices'
  // memory: so it takes none of a slice's, on the device or of the host. It opens driver, contexts
  // and libraries, which take their time. Home and clock outlive what it returns.
  virtual Result<std::unique_ptr<slice::Machine>> open_machine(const WorkerPlan& plan,
                                                               slice::ModelHome& home,
                                                               const Clock& clock) = 0;
  // The plan's slice of this number; the machine and the sink outlive it.
  virtual Result<std::unique_ptr<slice::Slice>> open_slice(const WorkerPlan& plan,
                                                           std::size_t number,
                                                           slice::Machine& machine,
                                                           engine::OutputSink& sink) = 0;
};

struct WorkerServerOptions {
  std::string version;            // of the build: the supervisor must be of the same
  Nanos hello_max = seconds(10);  // that the supervisor may take to send its version and its plan
  // Between Prepared and Open: a process before this one ends meanwhile.
  Nanos open_wait_max = seconds(120);
  Nanos observe_every = millis(5);
  Nanos alive_every = millis(50);
};

// `socket`: the connection to the supervisor. An error: it never served, and has told the
// supervisor why, if there is one. Once it serves it ends the process: with status 0 when the
// supervisor has gone, else with 1 and a line in the log. Nothing is given back then: that would
// wait for a device that may hang, and the system does it.
Status serve_worker(weights::FileDescriptor socket, const WorkerServerOptions& options,
                    SliceOpener& opener, const Clock& clock);

}  // namespace causeway::worker
