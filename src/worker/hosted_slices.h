// The slices of a worker's process, and its two threads. One thread reads what the supervisor
// sends, and reports to it what the slices do. The other attaches and detaches models, and reads
// tokenizers of models whose answers have a form, because that blocks. Internal to this room.
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
  // The arguments must outlive this object.
  HostedSlices(Channel& channel, const WorkerServerOptions& options, const Clock& clock);
  ~HostedSlices();
  HostedSlices(const HostedSlices&) = delete;
  HostedSlices& operator=(const HostedSlices&) = delete;

  // `witness` goes to the supervisor and remains the caller's; -1: there is none.
  Status prepare(const WorkerPlan& plan, SliceOpener& opener, int witness);
  // Opens the plan's slices. Call it after prepare(), with the same plan.
  Status open(WorkerPlan plan, SliceOpener& opener);
  // Serves until the connection ends, so it always returns an error. kUnavailable: the supervisor
  // has gone.
  Status serve();

 private:
  // Sends a slice's outputs to the supervisor.
  class Sink final : public engine::OutputSink {
   public:
    Sink(Channel& channel, std::int32_t slice) : channel_(channel), slice_(slice) {}
    void on_outputs(std::vector<request::Output> outputs) override;

   private:
    Channel& channel_;
    const std::int32_t slice_;
  };
  // Tells the supervisor what a slice is about to do, so that it knows that if this process dies.
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
    std::vector<std::byte> told;  // the last observation of all models that was sent
    std::map<ModelId, std::vector<std::byte>> models_told;
    std::map<ModelId, double> alphas;  // by attached model; used by the tasks' thread
  };
  struct Task {
    std::variant<Attach, Detach, Submit> what;
    weights::FileDescriptor region;
  };
  // What is needed to compile forms for an attached model. The tokenizer is read when the first
  // form is asked for.
  struct Forms {
    std::filesystem::path directory;
    std::vector<TokenId> eos;
    text::ToolCallFormat tool_calls = text::ToolCallFormat::kNone;
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
  // Requests whose answers have a form; defined in hosted_forms.cc.
  Status submit_formed(Submit submit);
  // On the tasks' thread: has the form compiled, and submits the request after that.
  void compile(Submit submit);
  Result<grammar::ModelTokens> tokens_of(ModelId model);
  // A compilation has ended. Called on the compiler's thread.
  void compiled(Submit submit, const grammar::Compiler::Outcome& outcome);
  // False: the request's form is not being compiled any more.
  bool stop_compiling(RequestId request, Compiling& was);
  // Ends the requests whose forms have been compiled for too long.
  Status end_late();
  Status refuse(std::int32_t slice, RequestId request, std::int32_t attempt, const Error& why);
  Status observe();
  Status observe(std::int32_t number, One& one, bool& told);
  // Has the machine divide the leased share of links, and asks for what is wanted of them.
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
  std::optional<transfer::HeldLease> lease_;  // empty: no link is shared with other workers

  std::map<ModelId, std::set<std::int32_t>> users_;  // by attached model; used by the tasks' thread
  std::map<ModelId, Forms> forms_;                   // by attached model; used by the tasks' thread

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::map<RequestId, Compiling> compiling_;
  bool ends_ = false;
  Status broken_;  // the failure that the tasks' thread met

  std::unique_ptr<grammar::Compiler> compiler_;  // set by open()
  std::thread tasks_thread_;
};

}  // namespace causeway::worker
