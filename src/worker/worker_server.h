// The worker's side of the protocol: opens slices as the supervisor asks, attaches models in memory
// that the supervisor lends, and serves until the supervisor has gone.
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

// Turns a plan into slices; the program implements it, because it knows the backends. One thread.
class SliceOpener {
 public:
  virtual ~SliceOpener() = default;
  // Called once, before any slice is opened, and possibly while an earlier process still holds the
  // memory of its slices. So it must not take any memory of slices, on devices or of the host; it
  // opens driver, contexts and libraries, which take long. Home and clock must outlive the result.
  virtual Result<std::unique_ptr<slice::Machine>> open_machine(const WorkerPlan& plan,
                                                               slice::ModelHome& home,
                                                               const Clock& clock) = 0;
  // Opens the plan's slice of this number. Machine and sink must outlive it.
  virtual Result<std::unique_ptr<slice::Slice>> open_slice(const WorkerPlan& plan,
                                                           std::size_t number,
                                                           slice::Machine& machine,
                                                           engine::OutputSink& sink) = 0;
};

struct WorkerServerOptions {
  std::string version;            // of the build, which must be the supervisor's
  Nanos hello_max = seconds(10);  // until the supervisor has sent its version and its plan
  // Between Prepared and Open, while an earlier process ends.
  Nanos open_wait_max = seconds(120);
  Nanos observe_every = millis(5);
  Nanos alive_every = millis(50);
};

// Serves on `socket`, the connection to the supervisor. An error: it did not begin to serve, and
// has told the supervisor why, if there is one. Once it serves it does not return but ends the
// process: with status 0 when the supervisor has gone, otherwise with 1 and a line in the log. It
// releases nothing then, because that could wait for a hanging device, and the system does it
// anyway.
Status serve_worker(weights::FileDescriptor socket, const WorkerServerOptions& options,
                    SliceOpener& opener, const Clock& clock);

}  // namespace causeway::worker
