// One slice's loop without its thread: admit → schedule → move → run → sample → retire. Time comes
// in as `now`, so that the simulator and the tests drive exactly the code that serves.
//
//   submit() ─▶ scheduler ──start_step()──▶ StepExecutor ──finish_step()──▶ outputs
//   cancel() ─▶ (waiting)       (running, steps in flight)                  take_outputs()
//
// As many steps are in flight as the executor allows, two at most: the second is decided and
// submitted while the first runs (docs/design/engine.md says what is known when).
//
// The core owns the sequences (tokens so far), the scheduler and the KV bookkeeping. It calls
// StepExecutor::submit(); its driver waits for the step and gives the result to finish_step(). Not
// thread-safe; engine.h wraps it in a thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/checked_request.h"
#include "engine/model_facts.h"
#include "engine/step_executor.h"
#include "engine/step_watch.h"
#include "kv/kv_cache.h"
#include "request/batch.h"
#include "request/request.h"
#include "schedule/hbm_border.h"
#include "schedule/scheduler.h"

namespace causeway::engine {

// When a step is submitted whose model's weights are still on their way.
enum class StepStart : std::uint8_t {
  kJustInTime,  // when what is left to copy takes no longer than what it computes
  kAllCached,   // when nothing is left to copy (baseline: reload, then compute)
  kAtOnce,      // when its copies have been issued (baseline: it holds the device while it waits)
  kWhenIdle,    // likewise while nothing runs, else just in time: for steps that read at home
};

struct CoreOptions {
  std::int64_t frames = 0;  // KV frames of the slice, shared by all its models, at the start
  // How memory moves between frames and cached weights; nullopt: it does not.
  std::optional<schedule::BorderRules> border = {};
  bool prefix_caching = true;
  std::uint64_t prefix_hash_seed = 0;  // kv::KvCacheOptions::hash_seed: random in a server
  // KV rotates between HBM and host memory, where at the start `twins` frames have room, of `frame`
  // bytes each; 0: it does not rotate. Needs an executor that rotates; a schedule that does not
  // rotate uses no twins.
  std::int64_t twins = 0;
  Bytes frame = {};
  schedule::BudgetLimits rotation = {};
  schedule::Options schedule;
  // A step that runs longer counts as hanging; nullopt: the time that the executor gives.
  std::optional<Nanos> step_timeout = std::nullopt;
  int steps_in_flight_max = 2;  // at most: the executor may allow fewer
  StepStart step_start = StepStart::kJustInTime;
  StepWatch* watch = nullptr;  // borrowed; null: there is no watch

  // Eager copies hold frames after their sequences have ended, which only a scheduler that rotates
  // takes into account.
  std::int64_t twins_used() const { return schedule.rotates() ? twins : 0; }

  // The most frames that there may ever be.
  std::int64_t frames_max() const {
    return border ? border->kv_max * border->frames_per_extent : frames;
  }
};

class EngineCore {
 public:
  // Executor and cache are borrowed. Without a cache every model can be stepped at any time, and
  // there is no border.
  EngineCore(const CoreOptions& options, StepExecutor& executor,
             weights::WeightCache* cache = nullptr);
  ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // kInvalidArgument: already known, or facts that make no sense; kResourceExhausted: its weights
  // do not fit into the cache.
  Status add_model(ModelId model, const ModelFacts& facts);
  // Forgets the model and its cached KV. kUnavailable while it has requests, a step in flight or
  // weights on their way; kNotFound.
  Status remove_model(ModelId model);
  // `count` more twins than options.twins have memory now. No effect where KV does not rotate.
  void add_twins(std::int64_t count);

  // Takes a request in. If and only if this succeeds, its outputs end with exactly one finished
  // one. It was checked with the facts of its model here. kInvalidArgument: it can never run;
  // kUnavailable: the device hangs.
  Status submit(CheckedRequest request, Nanos now);
  // Checks the request, then as above.
  Status submit(request::Request request, Nanos now);
  // Ends the request with kCancelled, even while a step computes it. No effect when it is unknown.
  void cancel(RequestId request, Nanos now);
  void cancel_all(Nanos now);

  // Decides and starts steps until as many as allowed are in flight, or nothing more can run. True:
  // a step is in flight.
  bool start_step(Nanos now);
  bool step_in_flight() const;
  // Whether copies of KV are under way: then start_step() must be called every few milliseconds.
  bool copies_under_way() const;
  // Takes the result of the oldest step in flight.
  void finish_step(const request::StepResult& result, Nanos now);
  // The latest time to call check_timeout(), or start_step() for a model whose weights are on their
  // way; nullopt: only a new event changes anything.
  std::optional<Nanos> next_wakeup() const;
  // The time in force, from the options or the executor. Never changes, so any thread may ask.
  Nanos step_timeout() const;
  // When the oldest step in flight has run longer than step_timeout(), the device counts as
  // hanging: every request ends with kError, and new ones are refused until the step returns after
  // all.
  void check_timeout(Nanos now);

  // Fast-forward (core_calm.cc, docs/design/simulate.md). Returns how many of the next steps are
  // calm, so that the caller need not handle them one by one. Two steps are in flight, and the
  // second decodes all sequences, which are of one model with cached weights. A calm step gives
  // each sequence a token, and is followed by a step like the second one. The result holds unless
  // something is asked of this core before.
  std::int64_t calm_steps() const;
  // Only steps that end before this time are calm; nullopt: there is no such limit.
  std::optional<Nanos> calm_until() const;
  // Whether start_step() has nothing to do until then, unless a step ends or something is asked.
  bool rests_until(Nanos at) const;
  // Copies of weights are under way that will succeed one after the other at the times `ends`.
  // Returns when the core must be called next because of them, if nothing else happens; nullopt: at
  // the first of them. WeightCache::take_events() then reports the copies that ended before, each
  // with its time. Call it after start_step(now).
  std::optional<Nanos> calm_arrivals_until(Nanos now, std::span<const Nanos> ends) const;
  // Has the effect of `steps` calm steps, at most calm_steps(). The last one ends at `last_end`,
  // and the device was busy for `busy` with all of them. sampled(request, place) gives the token at
  // that place of the request's sequence. There are no outputs.
  using SampledTokens = std::function<TokenId(const request::Request&, std::int64_t place)>;
  void run_calm_steps(std::int64_t steps, Nanos last_end, Nanos busy, const SampledTokens& sampled);
  // Fills `requests` with those that get a token of each calm step.
  void calm_requests(std::vector<RequestId>& requests) const;
  // The same where two models alternate: one step of each is in flight, and decodes all sequences
  // of its model. A round is a step of each. In a calm one both steps end, and each model is
  // stepped once more, the second first:
  //
  //   A B │ B A │ A B │ B A …
  //
  // Returns how many of the next rounds are calm.
  std::int64_t calm_rounds() const;
  // The steps of at most calm_rounds() rounds have ended, at these times.
  void run_calm_rounds(std::span<const Nanos> ends, Nanos busy, const SampledTokens& sampled);
  // Those that get a token in each round, of the step that ends first, and of the other one.
  void round_requests(std::vector<RequestId>& first, std::vector<RequestId>& second) const;

  // A request that comes to an idle core, and is answered before anything else is asked of the
  // core.
  struct Alone {
    RequestId request;
    ModelId model;
    Tokens prompt;
    Tokens output;
    Nanos queued;  // time from its arrival until it came to this core
  };
  // Whether the core is idle and has everything that such a request needs. Then one step computes
  // its prompt and one more step each of its tokens but the last, two in flight at most, and until
  // calm_until() there is nothing else to decide.
  bool may_run_alone(const Alone& alone) const;
  // The only request of the core, when it was submitted and waits for weights of its model that are
  // on their way, and otherwise could run alone; nullopt: there is no such request.
  struct AloneWaiting {
    Alone request;
    Nanos came;
    Nanos computes;  // the expected time of its first step
    // How much longer its first step, and the step after that, may wait for weights.
    Nanos beside;
    Nanos beside_behind;
  };
  std::optional<AloneWaiting> waits_alone() const;
  // Has the effect of submit() for the request, unless it was submitted already, and of all of its
  // steps, none of which the core has been told of. The cache must have been told of the arrival of
  // the weights before. The device was busy for `busy`. There is one output, the last, with the
  // last token.
  struct AloneSteps {
    Nanos came;
    Nanos first_step;   // when the first step was started
    Nanos first_token;  // when the core would have been told of the first token
    Nanos last_end;
    Nanos busy;
    TokenId last_token;
  };
  void run_alone(const Alone& alone, const AloneSteps& steps);

  // What is known of the steps that are or will be in flight: the next one to end does so at `next`
  // at the earliest, and the one after it at `second`. `passed` calm steps that end before both are
  // not counted.
  struct StepsAhead {
    Nanos next;
    Nanos second;
    std::int64_t passed = 0;
  };
  // The earliest time at which a request may end if the core is not called before and no step
  // fails; INT64_MAX: there is no request. When it cannot be known the result is ahead.next.
  // step_least(model) must be a time that no step of the model falls below.
  using StepLeast = std::function<Nanos(ModelId)>;
  // The requests of `but` end earlier, and do not count.
  Nanos ends_from(const StepsAhead& ahead, const StepLeast& step_least,
                  std::span<const RequestId> but = {}) const;
  // Replaces `requests` with those that end when the oldest step in flight of resident models has
  // ended, if it does not fail. False: this cannot be known.
  bool ends_with_step(std::vector<RequestId>& requests) const;

  // The outputs produced since the last call, in order.
  std::vector<request::Output> take_outputs();
  // The same into `outputs`, whose memory the engine uses next.
  void take_outputs(std::vector<request::Output>& outputs);

  // Requests that have not ended.
  std::int64_t requests() const;
  bool idle() const { return requests() == 0 && !step_in_flight(); }
  bool hung() const;
  // The device is lost for good: ends every request with `why` (Output::lost), and refuses new ones
  // with it.
  void lose(const std::string& why);
  // The requests that were in a step of a lost device, one of which may be the cause.
  const std::vector<RequestId>& suspects() const;

  request::Observation observe() const;
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const;

  // For checkers: the KV bookkeeping; and every invariant of core, scheduler, KV and residency, by
  // recomputation.
  const kv::KvCache& kv() const;
  Status check_integrity() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::engine
