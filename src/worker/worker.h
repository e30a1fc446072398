// The supervisor's side of a worker's process: starts it, keeps it alive, and is to the fleet the
// slices that live there.
//
//   auto worker = Worker::start({.command = {…, "worker", "--worker-socket", "3"}, …}, home, clock,
//                               sink);
//   fleet: {(*worker)->slices()…}
//   (*worker)->stop();
//
// A worker that dies or hangs is started again at once, beside its end; its requests end, once
// each, with kUnavailable and Output::lost, and the fleet has them go on. See
// docs/design/worker.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/slice_handle.h"
#include "fleet/fleet_slice.h"
#include "slice/model_home.h"
#include "slice/slice.h"
#include "transfer/lease_book.h"
#include "worker/messages.h"

namespace causeway::worker {

struct WorkerOptions {
  std::vector<std::string> command;  // a program by its path, and arguments
  // "NAME=value" entries that are added to those of this process, for example the MIG instance to
  // use
  std::vector<std::string> environment = {};
  std::string name;     // for the log: "GPU 0"
  std::string version;  // of this build
  WorkerPlan plan;
  // The leases of links that the worker shares with others, if plan.leases(), and the worker's
  // number there. The book must outlive the worker.
  transfer::LeaseBook* leases = nullptr;
  int lessee = 0;
  Nanos silence_max = seconds(5);  // a worker that sends nothing for this long counts as hanging
  Nanos hello_max = seconds(10);
  Nanos prepare_max = seconds(60);
  Nanos open_max = seconds(120);
  Nanos attach_max = seconds(300);  // registering a model's memory takes long
  // How long a killed process may take to end: the driver first releases hundreds of GB of
  // registered memory.
  Nanos end_max = seconds(30);
  // The pause before the second restart in a row, which then doubles, while no process produces a
  // token or lives for a second. There is no pause before the first.
  Nanos pause_min = millis(100);
  Nanos pause_max = seconds(30);
};

class Worker;

// A slice of a worker. Any thread may call any function; attach() and detach() wait for the worker,
// and the others never do.
class WorkerSlice final : public fleet::FleetSlice {
 public:
  WorkerSlice(Worker& worker, std::int32_t number) : worker_(worker), number_(number) {}

  // Errors that an engine gives at once (queue full, model not attached, the id is in use), and
  // kUnavailable while the worker is lost. A request that the worker's engine refuses later ends
  // with that error.
  Status submit(request::Request request) override;
  void cancel(RequestId request) override;
  // The observation of a few milliseconds ago. `lost` is set until returned(), even if the process
  // is back sooner. Counters continue over restarts.
  request::Observation observe() const override;
  request::Observation observe(ModelId model) const override;
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const override;
  // kUnavailable: the worker is lost, or was lost meanwhile.
  Result<fleet::AttachedModel> attach(const fleet::CatalogueEntry& entry,
                                      const fleet::ModelSource& source, bool pinned) override;
  // Detaches a model. No effect when the worker is lost, because nothing is attached then.
  Status detach(ModelId model, Nanos timeout) override;
  std::vector<RequestId> suspects() const override;
  Bytes link_bytes() const override;
  Nanos link_busy() const override;

  bool restarts() const override { return true; }
  bool returned() override;

  // The number of frames that its process reported when it was first opened.
  std::int64_t frames() const;
  slice::WeightRoom weight_room() const;
  slice::SliceLimits limits() const;

 private:
  Worker& worker_;
  const std::int32_t number_;
};

class Worker {
 public:
  class State;
  // Starts the worker, and blocks until its slices are open. Home, clock and sink must outlive the
  // worker; the sink gets the outputs of all slices, one call at a time. Errors are those that the
  // worker reports; kUnsupported: the worker is another build; kIo, kDeadlineExceeded,
  // kUnavailable: it does not start.
  static Result<std::unique_ptr<Worker>> start(const WorkerOptions& options, slice::ModelHome& home,
                                               const Clock& clock, engine::OutputSink& sink);
  explicit Worker(std::unique_ptr<State> state);  // by start()
  // Calls stop().
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::vector<std::unique_ptr<WorkerSlice>>& slices() const { return slices_; }
  State& state() { return *state_; }

  // Ends the process and its requests (kCancelled). Idempotent; must not be called from the sink.
  void stop();

  // For tests and monitoring: the present process, -1 when there is none, and how often one was
  // started.
  int pid() const;
  std::int64_t starts() const;

 private:
  std::unique_ptr<State> state_;
  std::vector<std::unique_ptr<WorkerSlice>> slices_;
};

}  // namespace causeway::worker
