// One slice, in this process: an EngineCore (the loop's decisions) on a thread of its own.
//
//   any thread ── submit, cancel, add_model, remove_model ──▶ inbox ──▶ loop thread: EngineCore
//   any thread ◀── observe (snapshot) ─────────────────────────────────┘ │        └▶ StepExecutor
//   OutputSink ◀── on_outputs, outside every lock ────────────────────────┘
//
//   auto engine = Engine::start(options, clock, executor, sink);
//   (*engine)->add_model(id, facts);          // after executor.add_model(id, …)
//   (*engine)->submit(request);
//   (*engine)->remove_model(id, seconds(30)); // then executor.remove_model(id)
//   (*engine)->stop(seconds(30));
//
// All public functions may be called from any thread, except from OutputSink::on_outputs.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine_core.h"
#include "engine/slice_handle.h"
#include "engine/step_executor.h"

namespace causeway::engine {

struct EngineOptions {
  CoreOptions core;
  std::int64_t requests_max = 4096;  // running and waiting; more are refused
  // Whether an idle loop may have its executor warm up now; empty: always. It should not while
  // other slices of the device serve, because warming up would delay them. Called on the loop's
  // thread; must not block.
  std::function<bool()> may_warm_up = {};
};

class Engine final : public SliceHandle {
 public:
  class State;
  // Starts the loop's thread. Clock, executor, sink and cache are borrowed and must outlive the
  // engine; the loop owns the use of the cache from now on. Without a cache every model can be
  // stepped at any time. kInvalidArgument: options that make no sense; kResourceExhausted: no
  // thread is available.
  static Result<std::unique_ptr<Engine>> start(const EngineOptions& options, const Clock& clock,
                                               StepExecutor& executor, OutputSink& sink,
                                               weights::WeightCache* cache = nullptr);
  explicit Engine(std::unique_ptr<State> state);  // for start()
  // As stop(Nanos(0)), but waits for a loop that its driver holds, however long.
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // From now on the model's requests are accepted; the executor must know the model already.
  // kInvalidArgument: already known, or facts that make no sense; kResourceExhausted: its weights
  // do not fit into the cache. Does not block on a step.
  Status add_model(ModelId model, const ModelFacts& facts);
  // Refuses the model's new requests (kUnavailable) at once, waits up to `timeout` for its requests
  // to end, then forgets the model, which the executor may then drop. kDeadlineExceeded: requests
  // are left, and the model serves on; kNotFound.
  Status remove_model(ModelId model, Nanos timeout);

  // `count` more twins than options.core.twins have memory now. No effect where KV does not rotate.
  // Does not block.
  void add_twins(std::int64_t count);

  Status submit(request::Request request) override;
  void cancel(RequestId request) override;
  request::Observation observe() const override;
  // Observes each model, in order of ModelId. The frames are the slice's: one pool serves all its
  // models.
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const;

  // The requests that were in a step of the device when observe() reported it as lost. One of them
  // may be the cause.
  std::vector<RequestId> suspects() const;

  // Observes one model; all fields are zero for one that the engine does not know.
  request::Observation observe(ModelId model) const;
  // The model's requests that were taken and whose finished Output has not been delivered. Exact,
  // where observe_models() is a snapshot.
  std::int64_t unfinished(ModelId model) const;

  // Refuses new requests (kUnavailable), lets its requests end within `grace`, cancels the rest,
  // waits for the step in flight (step_timeout at most) and ends the thread. When it returns, every
  // request has had its finished Output, unless the driver holds the loop: then observe() reports
  // that it hangs, and the thread is abandoned. Idempotent.
  void stop(Nanos grace);

  // Weights have arrived, or failed to: the loop looks at its cache. Does not block.
  void poke();

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::engine
