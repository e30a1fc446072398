// The state of a Worker, and its thread, which reads the process's messages, notices its loss, and
// starts it again. Internal to this room.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "weights/model_pool.h"
#include "worker/channel.h"
#include "worker/child.h"
#include "worker/restart.h"
#include "worker/worker.h"

namespace causeway::worker {

class Worker::State {
 public:
  State(const WorkerOptions& options, slice::ModelHome& home, const Clock& clock,
        engine::OutputSink& sink);
  ~State() { stop(); }

  Status start();
  void stop();
  std::size_t slices() const { return options_.plan.slices.size(); }

  Status submit(std::int32_t slice, request::Request request);
  void cancel(std::int32_t slice, RequestId request);
  request::Observation observe(std::int32_t slice) const;
  Nanos link_busy(std::int32_t slice) const;
  request::Observation observe(std::int32_t slice, ModelId model) const;
  std::vector<std::pair<ModelId, request::Observation>> observe_models(std::int32_t slice) const;
  Result<fleet::AttachedModel> attach(std::int32_t slice, const fleet::CatalogueEntry& entry,
                                      const fleet::ModelSource& source, bool pinned);
  Status detach(std::int32_t slice, ModelId model, Nanos timeout);
  bool returned(std::int32_t slice);
  std::vector<RequestId> suspects(std::int32_t slice) const;
  Opened::Slice opened(std::int32_t slice) const;
  int pid() const;
  std::int64_t starts() const;

 private:
  struct Model {
    std::unique_ptr<weights::PinnedModel> home;
    std::int64_t vocab = 0;
  };
  struct Asked {
    ModelId model;
    std::int32_t attempt = 0;
    bool queued = false;  // the process has said that the request waits; it may since be in a step
  };
  // Observations of the present process, and the counters of all earlier ones.
  struct Seen {
    request::Observation now;
    request::Observation before;  // counters only
    Nanos link_busy, link_busy_before;

    request::Observation all() const;
    void lose();
  };
  struct One {
    Opened::Slice opened;
    std::int64_t requests_max = 0;
    std::unordered_map<RequestId, Asked> requests;  // those that have not ended
    std::vector<RequestId> in_steps;                // requests in steps, as the process said last
    std::vector<RequestId> suspects;                // at the time of the loss
    std::map<ModelId, Model> models;                // attached models
    ModelId attaching;                              // the model that is being attached
    Seen seen;
    std::map<ModelId, Seen> models_seen;
    std::string lost;  // why the slice is lost, until returned()

    // The requests that are in a step, or may be about to enter one.
    std::vector<RequestId> active() const;
    bool has(ModelId model) const { return models.contains(model) || model == attaching; }
  };
  // A killed process, until it has ended.
  struct Ending {
    Child child;
    Nanos killed;
    bool given_up = false;  // it has not ended within end_max
  };
  struct Answer {
    std::optional<Error> error;
    Bytes streamed;
    Nanos predicted_tpot;
  };
  using Ends = std::vector<request::Output>;

  One& one(std::int32_t slice) { return slices_[static_cast<std::size_t>(slice)]; }
  const One& one(std::int32_t slice) const { return slices_[static_cast<std::size_t>(slice)]; }

  // Sends a message and waits for its answer; nullopt: the worker was lost meanwhile.
  std::optional<Answer> call(std::unique_lock<std::mutex>& lock, std::int64_t number,
                             const Message& message, int descriptor, Nanos timeout);

  // For the thread, and for start() before the thread runs.
  void run();
  // Starts a process and waits until it serves; defined in worker_start.cc.
  Status connect();
  Status greet(Channel& channel);
  Status prepare(Channel& channel);
  Status await_ends(Channel& channel);
  Status open(Channel& channel);
  Result<Message> await(Channel& channel, Nanos timeout);
  // Waits until every killed process has ended or been given up, for `timeout` at most.
  bool all_ended(Nanos timeout);
  void tell_restarted();
  void tell_attached();
  Error serve();
  Status handle(Message message);
  Status take(Outputs outputs);
  Status take(const Observed& observed);
  Status take(std::int64_t number, Answer answer);
  Status take(const Queued& queued);
  Status take(const Stepping& stepping);
  Status take(const transfer::LinkAsk& ask);
  // Sends the worker its lease, if it has changed.
  void lend();
  Result<One*> from(std::int32_t slice);
  void lose(const Error& why);
  // Takes all requests from the worker, with their ends. With the lock held.
  Ends take_requests(request::FinishReason reason, const Error& why);
  // Pauses before another process is started; false: the worker must stop.
  bool pause(Nanos length);
  bool stopping() const;

  const WorkerOptions options_;
  slice::ModelHome& home_;
  const Clock& clock_;
  engine::OutputSink& sink_;
  // Used by the thread.
  Child child_;
  std::vector<Ending> ending_;
  bool answered_ = false;         // this process has produced a token
  std::int64_t losses_ = 0;       // in a row, of processes that served nothing
  std::optional<Nanos> lost_at_;  // when a serving process was lost, until one serves again
  std::optional<Nanos> reopened_at_ = {};  // when slices were open again, until a model is attached
  RestartParts parts_;                     // of the start after the last loss

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unique_ptr<Channel> channel_;  // null: there is no process; only the thread replaces it
  std::vector<One> slices_;           // the number of slices never changes
  bool serves_ = false;               // the process has open slices
  bool stopping_ = false;
  std::int64_t starts_ = 0;
  int pid_ = -1;
  std::int64_t calls_ = 0;
  std::map<std::int64_t, std::optional<Answer>> answers_;  // by call that waits for its answer
  std::string hangs_;  // why the process hangs, as a waiting caller found

  std::thread thread_;
};

}  // namespace causeway::worker
