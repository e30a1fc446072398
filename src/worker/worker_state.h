// The state of a Worker, and its thread, which reads what the process says, finds out that it is
// lost, and starts it again. Internal to this room.
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
    bool queued = false;  // it waits, as its process has said, unless it is in a step
  };
  // Since the process was started, and all that were before it.
  struct Seen {
    request::Observation now;
    request::Observation before;  // counters alone

    request::Observation all() const;
    void lose();
  };
  struct One {
    Opened::Slice opened;
    std::int64_t requests_max = 0;
    std::unordered_map<RequestId, Asked> requests;  // that have not ended
    std::vector<RequestId> in_steps;                // of these and of others, as its process said
    std::vector<RequestId> suspects;                // as it was lost
    std::map<ModelId, Model> models;                // that are attached
    ModelId attaching;                              // that is about to be
    Seen seen;
    std::map<ModelId, Seen> models_seen;
    std::string lost;  // why, until returned()

    // The requests that are in a step, or may be about to be taken into one.
    std::vector<RequestId> active() const;
    bool has(ModelId model) const { return models.contains(model) || model == attaching; }
  };
  // A process that was killed, until it has ended.
  struct Ending {
    Child child;
    Nanos killed;
    bool given_up = false;  // it has not ended in end_max
  };
  struct Answer {
    std::optional<Error> error;
    Bytes streamed;
    Nanos predicted_tpot;
  };
  using Ends = std::vector<request::Output>;

  One& one(std::int32_t slice) { return slices_[static_cast<std::size_t>(slice)]; }
  const One& one(std::int32_t slice) const { return slices_[static_cast<std::size_t>(slice)]; }

  // Sends, and waits for the answer: nullopt when the worker was lost.
  std::optional<Answer> call(std::unique_lock<std::mutex>& lock, std::int64_t number,
                             const Message& message, int descriptor, Nanos timeout);

  // The thread's, and start()'s before it runs.
  void run();
  // Brings a process up until it serves (worker_start.cc).
  Status connect();
  Status greet(Channel& channel);
  Status prepare(Channel& channel);
  Status await_ends(Channel& channel);
  Status open(Channel& channel);
  Result<Message> await(Channel& channel, Nanos timeout);
  // Waits, for this long at most, until no killed process is left that may yet end.
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
  // Sends the worker its lease, if there is something new about it.
  void lend();
  Result<One*> from(std::int32_t slice);
  void lose(const Error& why);
  // Takes all requests that it has, as they end. With the lock.
  Ends take_requests(request::FinishReason reason, const Error& why);
  // Waits before another process is started; false: the worker is to stop.
  bool pause(Nanos length);
  bool stopping() const;

  const WorkerOptions options_;
  slice::ModelHome& home_;
  const Clock& clock_;
  engine::OutputSink& sink_;
  // The thread's.
  Child child_;
  std::vector<Ending> ending_;
  bool answered_ = false;                  // this process has given a token
  std::int64_t losses_ = 0;                // in a row, of processes that were of no use
  std::optional<Nanos> lost_at_;           // of one that served; until one does again
  std::optional<Nanos> reopened_at_ = {};  // until a model is attached to it
  RestartParts parts_;                     // since it was lost

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::unique_ptr<Channel> channel_;  // null: no process; replaced by the thread alone
  std::vector<One> slices_;           // fixed in number
  bool serves_ = false;               // this process, with slices open
  bool stopping_ = false;
  std::int64_t starts_ = 0;
  int pid_ = -1;
  std::int64_t calls_ = 0;
  std::map<std::int64_t, std::optional<Answer>> answers_;  // of calls that wait
  std::string hangs_;                                      // found by the caller that waited for it

  std::thread thread_;
};

}  // namespace causeway::worker
