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
  // "NAME=value" each, over this process's own: which MIG instance it is to have.
  std::vector<std::string> environment = {};
  std::string name;     // for the log: "GPU 0"
  std::string version;  // of this build
  WorkerPlan plan;
  // Of the links that it shares with other workers, where plan.leases(), and its number in it. The
  // book outlives the worker.
  transfer::LeaseBook* leases = nullptr;
  int lessee = 0;
  Nanos silence_max = seconds(5);  // without a word it is taken to hang
  Nanos hello_max = seconds(10);
  Nanos prepare_max = seconds(60);
  Nanos open_max = seconds(120);
  Nanos attach_max = seconds(300);  // registering a model's memory takes its time
  // How long a killed process may take to end: the driver first gives back hundreds of GB of
  // registered memory.
  Nanos end_max = seconds(30);
  // Before it is started again for the second time in a row, and then doubled, while it neither
  // gives a token nor lives for a second. The first time there is none.
  Nanos pause_min = millis(100);
  Nanos pause_max = seconds(30);
};

class Worker;

// A slice of a worker. All its functions may be called from any thread; attach() and detach() wait
// for the worker, the others never do.
class WorkerSlice final : public fleet::FleetSlice {
 public:
  WorkerSlice(Worker& worker, std::int32_t number) : worker_(worker), number_(number) {}

  // Beside what an engine refuses at once (queue full, model not attached, a request of that id is
  // here): kUnavailable while the worker is lost. What its engine refuses ends with that error.
  Status submit(request::Request request) override;
  void cancel(RequestId request) override;
  // The observation of a few milliseconds ago. `lost` until returned(), however soon the process is
  // back. Counters go on over restarts.
  request::Observation observe() const override;
  request::Observation observe(ModelId model) const override;
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const override;
  // kUnavailable: the worker is lost, or was while it attached.
  Result<fleet::AttachedModel> attach(const fleet::CatalogueEntry& entry,
                                      const fleet::ModelSource& source, bool pinned) override;
  // Detaches a model. Nothing is attached to a worker that is lost.
  Status detach(ModelId model, Nanos timeout) override;
  std::vector<RequestId> suspects() const override;
  Bytes link_bytes() const override;

  bool restarts() const override { return true; }
  bool returned() override;

  // How many frames its process said that it has when it was opened first.
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
  // Blocks until the slices are open. Home, clock and sink outlive the worker; the sink gets the
  // outputs of all slices, one call at a time. What a worker says why it cannot open them;
  // kUnsupported: it is of another build; kIo, kDeadlineExceeded, kUnavailable: it does not start.
  static Result<std::unique_ptr<Worker>> start(const WorkerOptions& options, slice::ModelHome& home,
                                               const Clock& clock, engine::OutputSink& sink);
  explicit Worker(std::unique_ptr<State> state);  // by start()
  // Stops the worker, as stop() does.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::vector<std::unique_ptr<WorkerSlice>>& slices() const { return slices_; }
  State& state() { return *state_; }

  // Ends the process, and what requests it has (kCancelled). Idempotent; not from the sink.
  void stop();

  // For tests and monitoring: the process that runs now (-1: none does), and how often it was
  // started.
  int pid() const;
  std::int64_t starts() const;

 private:
  std::unique_ptr<State> state_;
  std::vector<std::unique_ptr<WorkerSlice>> slices_;
};

}  // namespace causeway::worker
