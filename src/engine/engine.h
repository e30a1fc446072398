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
  // Whether an idle loop may have its executor warm up now; empty: it may. Not while other slices
  // of the device serve, which that would hold up. The loop's thread; does not block.
  std::function<bool()> may_warm_up = {};
};

class Engine final : public SliceHandle {
 public:
  class State;
  // Starts the loop's thread. Clock, executor, sink and cache are borrowed and must outlive the
  // engine; the cache is the loop's from now on. Without one every model can be stepped at any
  // time. kInvalidArgument: options that make no sense; kResourceExhausted: no thread to be had.
  static Result<std::unique_ptr<Engine>> start(const EngineOptions& options, const Clock& clock,
                                               StepExecutor& executor, OutputSink& sink,
                                               weights::WeightCache* cache = nullptr);
  explicit Engine(std::unique_ptr<State> state);  // for start()
  // Stops as stop(Nanos(0)) does, but waits for a loop that its driver holds, however long.
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // From now on the model's requests are accepted; the executor must know the model already.
  // kInvalidArgument: known already, or facts that make no sense; kResourceExhausted: its weights
  // do not fit into the cache. Does not block on a step.
  Status add_model(ModelId model, const ModelFacts& facts);
  // Refuses the model's new requests (kUnavailable) at once, waits up to `timeout` for those it has
  // to end, then forgets the model: the executor may drop it. kDeadlineExceeded: requests are left,
  // and the model serves on as before; kNotFound.
  Status remove_model(ModelId model, Nanos timeout);

  // `count` twins more than options.core.twins have memory now. No effect where KV does not rotate.
  // Does not block.
  void add_twins(std::int64_t count);

  Status submit(request::Request request) override;
  void cancel(RequestId request) override;
  request::Observation observe() const override;
  // Observes each model, in order of ModelId. The frames are the slice's: one pool serves all its
  // models.
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const;

  // The requests that were in a step of the device when observe() said that it is lost. One of them
  // may be why.
  std::vector<RequestId> struck() const;

  // Observes one model; all is zero for one that the engine does not know.
  request::Observation observe(ModelId model) const;
  // The model's requests that were taken and whose finished Output has not been delivered. Exact,
  // where observe_models() is a snapshot.
  std::int64_t unfinished(ModelId model) const;

  // Refuses new requests (kUnavailable), lets those it has end within `grace`, cancels the rest,
  // waits for the step in flight (step_timeout at the longest) and ends the thread. When it
  // returns, every request has had its finished Output, unless the driver holds the loop: then
  // observe() says that it hangs, and the thread is left. Idempotent.
  void stop(Nanos grace);

  // Weights have arrived, or failed to: the loop looks at its cache. Does not block.
  void poke();

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::engine
