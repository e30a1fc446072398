// The slices of a worker's process, and its two threads: one reads what the supervisor sends and
// tells it what the slices do; the other attaches and detaches models, and reads the tokenizers of
// those whose answers have a form, which blocks. Internal to this room.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <variant>
#include <vector>

#include "engine/step_watch.h"
#include "fleet/engine_slice.h"
#include "grammar/compiler.h"
#include "slice/model_home.h"
#include "transfer/link_lease.h"
#include "worker/channel.h"
#include "worker/messages.h"
#include "worker/worker_server.h"

namespace causeway::worker {

class HostedSlices {
 public:
  // All outlive it.
  HostedSlices(Channel& channel, const WorkerServerOptions& options, const Clock& clock);
  ~HostedSlices();
  HostedSlices(const HostedSlices&) = delete;
  HostedSlices& operator=(const HostedSlices&) = delete;

  Status prepare(const WorkerPlan& plan, SliceOpener& opener);
  // Opens the slices of the same plan, after prepare().
  Status open(WorkerPlan plan, SliceOpener& opener);
  // Until the connection ends: always an error. kUnavailable: the supervisor has gone.
  Status serve();

 private:
  // Sends what a slice produces to the supervisor.
  class Sink final : public engine::OutputSink {
   public:
    Sink(Channel& channel, std::int32_t slice) : channel_(channel), slice_(slice) {}
    void on_outputs(std::vector<request::Output> outputs) override;

   private:
    Channel& channel_;
    const std::int32_t slice_;
  };
  // Says what a slice is about to do, so that the supervisor knows if this process does not survive
  // it.
  class Watch final : public engine::StepWatch {
   public:
    Watch(Channel& channel, std::int32_t slice) : channel_(channel), slice_(slice) {}
    void queued(RequestId request) override;
    void steps(std::span<const RequestId> requests) override;

   private:
    Channel& channel_;
    const std::int32_t slice_;
    std::vector<RequestId> told_;
  };
  struct One {
    std::unique_ptr<Sink> sink;
    std::unique_ptr<Watch> watch;
    std::unique_ptr<slice::Slice> slice;
    std::unique_ptr<fleet::EngineSlice> engine;
    std::vector<std::byte> told;  // of all models together, the last time
    std::map<ModelId, std::vector<std::byte>> models_told;
    std::map<ModelId, double> alphas;  // of attached models; the tasks' thread's
  };
  struct Task {
    std::variant<Attach, Detach, Submit> what;
    weights::FileDescriptor region;
  };
  // The compiler for answers of an attached model that have a form; its tokenizer is read when the
  // first is asked for.
  struct Forms {
    std::filesystem::path directory;
    std::vector<TokenId> eos;
    std::string mark;
    std::unique_ptr<text::Tokenizer> tokenizer;
    std::int64_t vocab = 0;
  };
  // A request whose form is being compiled.
  struct Compiling {
    std::int32_t slice = 0;
    std::int32_t attempt = 0;
    Nanos since;
  };

  Status handle(Message message, weights::FileDescriptor descriptor);
  Status do_later(Task task);
  Result<One*> at(std::int32_t slice);
  Status submit(Submit submit);
  Status cancel(const Cancel& cancel);
  // hosted_forms.cc: requests whose answers have a form.
  Status submit_formed(Submit submit);
  // The tasks' thread: has the form compiled, and then the request submitted.
  void compile(Submit submit);
  Result<grammar::ModelTokens> tokens_of(ModelId model);
  // A compilation has ended. On its thread.
  void compiled(Submit submit, const grammar::Compiler::Outcome& outcome);
  // False: it was not being compiled any more.
  bool stop_compiling(RequestId request, Compiling& was);
  // Ends those that have been compiled for too long.
  Status end_late();
  Status refuse(std::int32_t slice, RequestId request, std::int32_t attempt, const Error& why);
  Status observe();
  Status observe(std::int32_t number, One& one, bool& told);
  // Has the machine's book divide what is leased, and says what is wanted of it.
  Status keep_lease();
  bool busy() const;

  void run_tasks();
  Attached attach(const Attach& wanted, const weights::FileDescriptor& region);
  Result<fleet::AttachedModel> attach_model(const Attach& wanted,
                                            const weights::FileDescriptor& region);
  static Status check(const Attach& wanted, const One& one);
  Status adopt(const Attach& wanted, const weights::FileDescriptor& region);
  Status detach(const Detach& wanted);
  void release(ModelId model);

  Channel& channel_;
  const WorkerServerOptions options_;
  const Clock& clock_;
  slice::ModelHome home_;
  std::unique_ptr<slice::Machine> machine_;
  std::vector<One> slices_;
  Nanos observed_, alive_;
  std::optional<transfer::HeldLease> lease_;  // none: no link is shared with other workers

  std::map<ModelId, std::set<std::int32_t>> users_;  // of models that are here; the tasks' thread's
  std::map<ModelId, Forms> forms_;                   // of them; the tasks' thread's

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::map<RequestId, Compiling> compiling_;
  bool ends_ = false;
  Status broken_;  // what the tasks' thread met

  std::unique_ptr<grammar::Compiler> compiler_;  // from open() on
  std::thread tasks_thread_;
};

}  // namespace causeway::worker
