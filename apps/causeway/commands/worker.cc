// `causeway worker`: the process in which the server has slices run (docs/design/worker.md).
#include "worker/worker_server.h"

#include "base/log.h"
#include "commands/command.h"
#include "slice/cuda_slice.h"
#include "slice/host_slice.h"
#include "version.h"

namespace causeway::app {
namespace {

constexpr Bytes kKvHostAhead = mib(128);
// Of host memory. More than others register, so that a worker that is killed ends soon.
constexpr Bytes kRegisteredAtOnce = mib(16);

class Opener final : public worker::SliceOpener {
 public:
  // Each uses its own GPU's link, and leases its part of what that shares with others.
  Result<std::unique_ptr<slice::Machine>> open_machine(const worker::WorkerPlan& plan,
                                                       slice::ModelHome& home,
                                                       const Clock& clock) override {
    if (plan.backend == worker::Backend::kHost) {
      return slice::Machine::open_host({}, {.leased = plan.leases()}, home, clock);
    }
    const Nanos began = clock.now();
    CAUSEWAY_ASSIGN(auto machine,
                    slice::Machine::open_gpus(
                        {.choice = slice::LinkChoice::kOwn, .leased = plan.leases()}, home, clock));
    const Nanos driven = clock.now();
    CAUSEWAY_TRY(slice::warm_up_cuda(*machine, plan.gpu));
    const Nanos warm = clock.now();
    candidates_ = candidates(plan);
    spdlog::info(
        "worker: prepared; ms by part: driver {:.0f}, context and library {:.0f}, "
        "models' configs {:.0f}",
        to_millis(driven - began), to_millis(warm - driven), to_millis(clock.now() - warm));
    return machine;
  }

  Result<std::unique_ptr<slice::Slice>> open_slice(const worker::WorkerPlan& plan,
                                                   std::size_t number, slice::Machine& machine,
                                                   engine::OutputSink& sink) override {
    const worker::SlicePlan& slice = plan.slices[number];
    if (plan.backend == worker::Backend::kHost) {
      return slice::open_host_slice({.kv = slice.kv,
                                     .kv_frame = slice.kv_frame,
                                     .kv_host = kv_host(slice),
                                     .cache = slice.weights,
                                     .ring = slice.ring,
                                     .experts = slice.experts,
                                     .threads = slice.processors,
                                     .engine = slice.engine},
                                    machine, sink);
    }
    return slice::open_cuda_slice({.gpu = plan.gpu,
                                   .processors = slice.processors,
                                   .unit = slice.unit,
                                   .share = slice.share,
                                   .memory_utilization = slice.memory_utilization,
                                   .kv = slice.kv,
                                   .kv_frame = slice.kv_frame,
                                   .kv_host = kv_host(slice),
                                   .weights = slice.weights,
                                   .ring = slice.ring,
                                   .experts = slice.experts,
                                   .engine = slice.engine,
                                   .registered_at_once = kRegisteredAtOnce},
                                  candidates_, machine, sink);
  }

 private:
  // Registering gigabytes takes half a second, for which no first request need wait.
  static slice::KvHostOptions kv_host(const worker::SlicePlan& slice) {
    return {.bytes = slice.kv_host, .ahead = kKvHostAhead, .registered_at_once = kRegisteredAtOnce};
  }

  static std::vector<slice::CudaCandidate> candidates(const worker::WorkerPlan& plan) {
    std::vector<slice::CudaCandidate> candidates;
    for (const worker::PlannedModel& model : plan.models) {
      candidates.push_back({.id = model.id,
                            .name = model.name,
                            .config = model::load_config(model.directory),
                            .max_model_len = model.max_model_len,
                            .pinned = model.pinned,
                            .max_resident = model.max_resident});
    }
    return candidates;
  }

  std::vector<slice::CudaCandidate> candidates_;  // on GPUs: every slice may run each
};

class WorkerCommand final : public Command {
 public:
  WorkerCommand(Options& parent, const Clock& clock)
      : Command(parent, "worker", "Run slices for a server, which starts this process itself"),
        clock_(clock) {
    options()
        .add_option("--worker-socket", socket_,
                    "number of the file descriptor that is connected to the server")
        .non_negative();
  }

  Status run() override {
    Opener opener;
    return worker::serve_worker(weights::FileDescriptor(socket_), {.version = version()}, opener,
                                clock_);
  }

 private:
  const Clock& clock_;
  int socket_ = -1;
};

}  // namespace

std::unique_ptr<Command> make_worker(Options& parent, const Clock& clock) {
  return std::make_unique<WorkerCommand>(parent, clock);
}

}  // namespace causeway::app
