#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/dcheck.h"
#include "base/log.h"

namespace causeway::engine {
namespace {

// The period in which the loop looks for new requests and cancellations while a step runs.
constexpr Nanos kInboxPoll = millis(1);
// The same while it waits for weights; poke() wakes it as well.
constexpr Nanos kWeightsPoll = millis(50);
// The same while it is idle and may not warm up yet.
constexpr Nanos kWarmUpPoll = millis(50);
// A shorter warm-up is not worth a line of the log.
constexpr Nanos kWarmingTold = millis(5);
// The period in which a stopping engine checks whether its loop is held by the driver.
constexpr Nanos kHeldPoll = millis(20);

struct AddModel {
  ModelId model;
  ModelFacts facts;
};
struct Cancel {
  RequestId request;
};
struct AddTwins {
  std::int64_t count = 0;
};
using Command = std::variant<CheckedRequest, Cancel, AddModel, AddTwins>;

// A model as the submitting threads see it.
struct ModelFront {
  std::shared_ptr<const ModelFacts> facts;
  std::int64_t live = 0;  // those whose finished Output is not delivered
  bool draining = false;
};

request::Output refusal(RequestId request, std::int32_t attempt, bool lost, const Error& error) {
  request::Output output;
  CAUSEWAY_DCHECK(!error.message.empty(), "a refusal that does not say why");
  output.request = request;
  output.attempt = attempt;
  output.lost = lost;
  output.finished = true;
  output.reason = request::FinishReason::kError;
  output.error = error.message;
  output.code = error.code;
  return output;
}

Status check_options(const EngineOptions& options) {
  if (options.core.frames < 1) return invalid_argument("an engine needs at least one KV frame");
  if (options.core.border && options.core.frames % options.core.border->frames_per_extent != 0) {
    return invalid_argument("where memory moves, KV frames fill whole extents");
  }
  if (options.core.schedule.tokens_per_step_max < 1 || options.core.schedule.running_max < 1) {
    return invalid_argument("tokens_per_step_max and running_max must be at least 1");
  }
  CAUSEWAY_TRY(schedule::check_chunk(options.core.schedule.chunk));
  if (options.core.step_timeout.value_or(Nanos(1)) <= Nanos(0)) {
    return invalid_argument("step_timeout must be longer than 0");
  }
  if (options.requests_max < 1) return invalid_argument("requests_max must be at least 1");
  return {};
}

}  // namespace

class Engine::State {
 public:
  State(const EngineOptions& options_in, const Clock& clock_in, StepExecutor& executor_in,
        OutputSink& sink_in, weights::WeightCache* cache_in)
      : options(options_in),
        clock(clock_in),
        executor(executor_in),
        sink(sink_in),
        cache(cache_in),
        core(options_in.core, executor_in, cache_in) {}

  void run();
  void take_commands(std::deque<Command>& commands);
  void apply(Command&& command, std::vector<request::Output>& refused);
  void warm_up();
  void await_step();
  void await_weights();
  void watch_device();
  void deliver(std::vector<request::Output> outputs);
  void publish();

  // Needs the mutex: whether an idle loop has something to do.
  bool is_wanted() const {
    return !inbox.empty() || !removals.empty() || cancel_everything || poked;
  }

  // Checks invariants, in debug and sanitizer builds.
  void check_at_idle() const;
  // A hanging step cannot be waited for; the executor keeps the memory that it uses.
  bool finished() const { return core.idle() || core.hung(); }
  // No step can run, or none until a hanging step ends after all.
  bool dead() const { return core.hung() || !core.observe().lost.empty(); }
  // Whether the loop has not come round for longer than a step may take. Any thread.
  bool held() const {
    const Nanos last(beat.load());
    return last.count >= 0 && clock.now() - last > core.step_timeout();
  }

  const EngineOptions options;
  const Clock& clock;
  StepExecutor& executor;
  OutputSink& sink;
  weights::WeightCache* const cache;

  // Used by the loop's thread only.
  EngineCore core;
  bool cancelling = false;
  std::deque<ModelId> cold;  // models for which the executor has not warmed up
  Nanos warming;             // the time it took, since the log was told

  std::mutex mutex;                 // guards what follows
  std::condition_variable wake;     // for the loop: something to do
  std::condition_variable settled;  // for waiters: a request has ended, a model is gone
  std::deque<Command> inbox;
  std::map<ModelId, ModelFront> models;
  std::unordered_map<RequestId, ModelId> live;
  std::set<ModelId> removals;  // without requests, for the loop to forget
  bool poked = false;
  bool accepting = true;
  bool hung = false;
  std::string lost;  // why the device is lost; empty: it is not
  bool cancel_everything = false;
  bool loop_ended = false;

  // When the loop last came round, in nanoseconds; negative while it sleeps. A loop that does not
  // come round is held by the driver, which may block once the device takes no more work.
  std::atomic<std::int64_t> beat{-1};

  mutable std::mutex snapshot_mutex;  // guards what follows
  request::Observation observation;
  std::vector<RequestId> suspects;
  std::vector<std::pair<ModelId, request::Observation>> model_observations;

  std::mutex stop_mutex;  // one stop() at a time
  std::thread thread;
};

void Engine::State::take_commands(std::deque<Command>& commands) {
  if (core.idle()) warm_up();
  std::unique_lock lock(mutex);
  if (core.idle()) {
    beat = -1;
    if (cold.empty()) {
      wake.wait(lock, [this] { return is_wanted(); });
    } else {
      wake.wait_for(lock, wait_time(kWarmUpPoll), [this] { return is_wanted(); });
    }
  }
  poked = false;
  beat = clock.now().count;
  commands.swap(inbox);
  cancelling = cancel_everything;
  hung = core.hung();
  const auto gone = [&](ModelId model) {
    if (!core.remove_model(model).ok()) return false;  // its last step is still in flight
    models.erase(model);
    std::erase(cold, model);
    return true;
  };
  if (std::erase_if(removals, gone) > 0) settled.notify_all();
}

void Engine::State::apply(Command&& command, std::vector<request::Output>& refused) {
  const Nanos now = clock.now();
  if (auto* request = std::get_if<CheckedRequest>(&command)) {
    const RequestId id = (*request)->id;
    const std::int32_t attempt = (*request)->attempt;
    const Status taken = core.submit(std::move(*request), now);
    if (!taken.ok()) refused.push_back(refusal(id, attempt, dead(), taken.error()));
  } else if (const auto* cancel = std::get_if<Cancel>(&command)) {
    core.cancel(cancel->request, now);
  } else if (const auto* add = std::get_if<AddModel>(&command)) {
    const Status added = core.add_model(add->model, add->facts);
    CAUSEWAY_CHECK(added.ok(), "the engine and its core disagree about models");
    cold.push_back(add->model);
  } else if (const auto* twins = std::get_if<AddTwins>(&command)) {
    core.add_twins(twins->count);
  }
}

// A request that arrives meanwhile waits for one piece of it at most.
void Engine::State::warm_up() {
  const auto stop = [this] {
    if (options.may_warm_up && !options.may_warm_up()) return true;
    const std::lock_guard lock(mutex);
    return is_wanted();
  };
  CAUSEWAY_DCHECK(core.idle(), "an engine warms up beside requests");
  if (cold.empty() || dead() || stop()) return;
  const Nanos began = clock.now();
  while (!cold.empty() && executor.warm_up(cold.front(), stop)) cold.pop_front();
  warming += clock.now() - began;
  if (!cold.empty() || warming < kWarmingTold) return;
  spdlog::info(
      "what first steps of the attached models need is ready, after {:.0f} ms of idle time",
      to_millis(std::exchange(warming, Nanos(0))));
}

void Engine::State::await_step() {
  CAUSEWAY_DCHECK(core.step_in_flight(), "no step is waited for");
  Nanos wait = kInboxPoll;
  if (const auto deadline = core.next_wakeup()) {
    wait = std::clamp(*deadline - clock.now(), Nanos(0), kInboxPoll);
  }
  if (const auto result = executor.wait(wait)) {
    core.finish_step(*result, clock.now());
  } else {
    core.check_timeout(clock.now());
  }
}

// No step is in flight, but requests, or a model that is to be removed, wait for weights or KV.
void Engine::State::await_weights() {
  CAUSEWAY_DCHECK(!core.step_in_flight(), "a step is waited for by its end");
  Nanos wait = core.copies_under_way() ? kInboxPoll : kWeightsPoll;
  if (const auto look = core.next_wakeup()) {
    wait = std::clamp(*look - clock.now(), Nanos(0), kWeightsPoll);
  }
  std::unique_lock lock(mutex);
  if (core.idle() && removals.empty()) return;
  wake.wait_for(lock, wait_time(wait),
                [&] { return !inbox.empty() || cancel_everything || poked; });
}

// Called after every step, because an error that destroys the device's context is found by the step
// that it hits.
void Engine::State::watch_device() {
  const Status health = executor.health();
  if (health.ok()) return;
  core.lose(health.error().message);
  const std::lock_guard lock(mutex);
  lost = health.error().message;
}

void Engine::State::deliver(std::vector<request::Output> outputs) {
  if (outputs.empty()) return;
  std::vector<RequestId> ended;
  for (const request::Output& output : outputs) {
    if (output.finished) ended.push_back(output.request);
  }
  sink.on_outputs(std::move(outputs));
  if (ended.empty()) return;
  const std::lock_guard lock(mutex);
  for (const RequestId request : ended) {
    const auto at = live.find(request);
    CAUSEWAY_CHECK(at != live.end(), "a request ended that was never taken");
    CAUSEWAY_DCHECK(models.at(at->second).live > 0, "a model has fewer requests than none");
    models.at(at->second).live -= 1;
    live.erase(at);
  }
  settled.notify_all();
}

void Engine::State::publish() {
  request::Observation whole = core.observe();
  auto each = core.observe_models();
  const std::lock_guard lock(snapshot_mutex);
  observation = whole;
  suspects = core.suspects();
  model_observations = std::move(each);
}

void Engine::State::check_at_idle() const {
  if constexpr (kDchecks) {
    const Status whole = core.check_integrity();
    CAUSEWAY_CHECK(whole.ok(), whole.ok() ? std::string() : whole.error().message);
  }
}

void Engine::State::run() {
  std::deque<Command> commands;
  while (!(cancelling && finished())) {
    take_commands(commands);
    std::vector<request::Output> refused;
    for (Command& command : commands) apply(std::move(command), refused);
    commands.clear();
    if (cancelling) core.cancel_all(clock.now());
    core.start_step(clock.now());
    // The outputs of a step are sent while the next one runs. publish() comes first, so that a
    // client that has an output finds it counted.
    publish();
    deliver(std::move(refused));
    deliver(core.take_outputs());
    if (core.step_in_flight()) {
      await_step();
    } else {
      await_weights();
    }
    watch_device();
    // With nothing left to run the loop sleeps, after the outputs of the last step were sent.
    if (core.idle()) {
      publish();
      deliver(core.take_outputs());
      check_at_idle();
    }
  }
  // The caller of stop() learns of a device that began to hang in the last round.
  publish();
  deliver(core.take_outputs());
  const std::lock_guard lock(mutex);
  beat = -1;  // ended is not held
  loop_ended = true;
  settled.notify_all();
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Engine>> Engine::start(const EngineOptions& options, const Clock& clock,
                                              StepExecutor& executor, OutputSink& sink,
                                              weights::WeightCache* cache) {
  CAUSEWAY_TRY(check_options(options));
  auto state = std::make_unique<State>(options, clock, executor, sink, cache);
  try {
    state->thread = std::thread([loop = state.get()] { loop->run(); });
  } catch (const std::system_error& error) {
    return exhausted(std::string("the engine's thread could not be started: ") + error.what());
  }
  return std::make_unique<Engine>(std::move(state));
}

Engine::~Engine() {
  stop(Nanos(0));
  // A held loop still uses what the engine borrowed.
  if (state_->thread.joinable()) state_->thread.join();
}

Status Engine::add_model(ModelId model, const ModelFacts& facts) {
  if (!model.valid() || facts.tokens_per_block.count < 1 || facts.max_model_len.count < 1 ||
      facts.vocab < 0) {
    return invalid_argument("a model needs an id, a block of at least a token and a context");
  }
  if (facts.weights.streams() && !state_->executor.capabilities().streams) {
    return unsupported("this device does not run models whose weights are streamed");
  }
  if (state_->cache != nullptr) CAUSEWAY_TRY(state_->cache->check_fits(facts.weights));
  const std::lock_guard lock(state_->mutex);
  if (!state_->accepting) return unavailable("the engine is stopping");
  if (!state_->models.emplace(model, ModelFront{.facts = std::make_shared<const ModelFacts>(facts)})
           .second) {
    return invalid_argument("model " + std::to_string(model.value) + " is in the engine already");
  }
  state_->inbox.push_back(AddModel{model, facts});
  state_->wake.notify_one();
  return {};
}

void Engine::add_twins(std::int64_t count) {
  CAUSEWAY_DCHECK(count >= 0, "host memory does not shrink");
  const std::lock_guard lock(state_->mutex);
  state_->inbox.push_back(AddTwins{count});
  state_->wake.notify_one();
}

Status Engine::remove_model(ModelId model, Nanos timeout) {
  std::unique_lock lock(state_->mutex);
  const auto at = state_->models.find(model);
  if (at == state_->models.end()) {
    return not_found("model " + std::to_string(model.value) + " is not in the engine");
  }
  if (at->second.draining) {
    return unavailable("model " + std::to_string(model.value) + " is being removed already");
  }
  CAUSEWAY_DCHECK(!state_->removals.contains(model), "a model goes twice");
  at->second.draining = true;
  const auto gone = [&] {
    const auto front = state_->models.find(model);
    if (front == state_->models.end()) return true;
    if (front->second.live == 0 && state_->removals.insert(model).second) {
      state_->wake.notify_one();
    }
    return false;
  };
  if (state_->settled.wait_for(lock, wait_time(timeout), gone)) return {};
  state_->removals.erase(model);
  ModelFront& front = state_->models.at(model);
  front.draining = false;
  return Error{ErrorCode::kDeadlineExceeded, "model " + std::to_string(model.value) +
                                                 " still has " + std::to_string(front.live) +
                                                 " requests or a step in flight; it serves on"};
}

Status Engine::submit(request::Request request) {
  std::shared_ptr<const ModelFacts> facts;
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->accepting) return unavailable("the engine is stopping");
    const auto at = state_->models.find(request.model);
    if (at == state_->models.end()) {
      return invalid_argument("model " + std::to_string(request.model.value) +
                              " is not in the engine");
    }
    facts = at->second.facts;
  }
  // Reads the whole prompt, and so is outside the lock.
  CAUSEWAY_ASSIGN(CheckedRequest checked, CheckedRequest::check(std::move(request), *facts,
                                                                state_->options.core.frames_max()));

  const std::lock_guard lock(state_->mutex);
  const auto at = state_->models.find(checked->model);
  const bool same = at != state_->models.end() && at->second.facts == facts;
  if (!state_->accepting || !same || at->second.draining) {
    return unavailable("the engine is stopping, or the model is being removed");
  }
  if (!state_->lost.empty()) return unavailable(state_->lost);
  if (state_->hung) return unavailable("the device does not answer: its step has not ended");
  const auto requests = static_cast<std::int64_t>(state_->live.size());
  if (requests >= state_->options.requests_max) {
    return exhausted("the queue is full: " + std::to_string(requests) +
                     " requests are running or waiting; try again later");
  }
  if (!state_->live.emplace(checked->id, checked->model).second) {
    return invalid_argument("request " + std::to_string(checked->id.value) + " is in the engine");
  }
  CAUSEWAY_DCHECK(at->second.live >= 0 && requests >= 0, "requests are miscounted");
  at->second.live += 1;
  state_->inbox.emplace_back(std::move(checked));
  state_->wake.notify_one();
  return {};
}

std::vector<RequestId> Engine::suspects() const {
  const std::lock_guard lock(state_->snapshot_mutex);
  return state_->suspects;
}

request::Observation Engine::observe(ModelId model) const {
  const std::lock_guard lock(state_->snapshot_mutex);
  const auto& all = state_->model_observations;
  CAUSEWAY_DCHECK(std::is_sorted(all.begin(), all.end(),
                                 [](const auto& a, const auto& b) { return a.first < b.first; }),
                  "models are searched by their ids");
  const auto at = std::lower_bound(all.begin(), all.end(), model,
                                   [](const auto& one, ModelId id) { return one.first < id; });
  if (at == all.end() || at->first != model) return {};
  return at->second;
}

std::int64_t Engine::unfinished(ModelId model) const {
  const std::lock_guard lock(state_->mutex);
  const auto at = state_->models.find(model);
  return at == state_->models.end() ? 0 : at->second.live;
}

void Engine::poke() {
  const std::lock_guard lock(state_->mutex);
  state_->poked = true;
  state_->wake.notify_one();
}

void Engine::cancel(RequestId request) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->live.contains(request)) return;
  state_->inbox.emplace_back(Cancel{request});
  state_->wake.notify_one();
}

request::Observation Engine::observe() const {
  const bool held = state_->held();
  const std::lock_guard lock(state_->snapshot_mutex);
  request::Observation seen = state_->observation;
  seen.hung = seen.hung || held;
  return seen;
}

std::vector<std::pair<ModelId, request::Observation>> Engine::observe_models() const {
  const std::lock_guard lock(state_->snapshot_mutex);
  return state_->model_observations;
}

void Engine::stop(Nanos grace) {
  const std::lock_guard one_at_a_time(state_->stop_mutex);
  if (!state_->thread.joinable()) return;
  {
    std::unique_lock lock(state_->mutex);
    state_->accepting = false;
    state_->settled.wait_for(lock, wait_time(grace), [&] { return state_->live.empty(); });
    state_->cancel_everything = true;
    state_->wake.notify_one();
    // A driver that holds the loop may do so for ever, so the thread is abandoned.
    while (!state_->loop_ended && !state_->held()) {
      state_->settled.wait_for(lock, wait_time(kHeldPoll));
    }
    if (!state_->loop_ended) return;
  }
  state_->thread.join();
}

}  // namespace causeway::engine
