// Fast-forward: a request that finds nothing else on its slice, and is answered before anything
// else is asked of it (docs/design/simulate.md).
#include <algorithm>

#include "base/check.h"
#include "simulate/simulated_slice.h"

namespace causeway::simulate {
namespace {

// The engine's thread, as it launches the steps of such a request.
class AloneThread {
 public:
  AloneThread(const HostLaunches::Alone& launch, Tokens tokens, Nanos at)
      : launch_(launch), tokens_(tokens.count), busy_(at + launch.first) {}

  // Until then.
  Nanos busy() const { return busy_; }
  bool has(std::int64_t step) const { return step < tokens_; }
  // One behind the first, if there are so many.
  void launch(std::int64_t step, Nanos at) {
    if (has(step)) busy_ = std::max(busy_, at) + (step <= launch_.plain ? launch_.each : Nanos(0));
  }

 private:
  const HostLaunches::Alone launch_;
  const std::int64_t tokens_;
  Nanos busy_;
};

// When the engine hears that the first step has ended, at `ends`, and the second is launched. While
// weights are on their way that one is launched when these are expected in time, or the first has
// ended. Copies are told when they end, or once the thread has launched what it does.
Nanos first_told(const SimulatedExecutor::AloneStart& start, Nanos ends, AloneThread& thread,
                 SimulatedExecutor::AloneSteps& steps) {
  Nanos now = start.at, last_told;
  std::size_t told = 0;
  steps.copies_told.clear();
  const auto hear = [&] {
    for (; told < start.copies.size() && start.copies[told] <= now; ++told) {
      last_told = now == start.at ? start.copies[told] : now;
      steps.copies_told.push_back(last_told);
    }
  };
  bool second = !thread.has(1);
  Nanos look = kNever;
  const auto launch_second = [&] {
    look = kNever;
    if (second) return;
    const auto readiness = start.behind(static_cast<std::int64_t>(told), last_told,
                                        std::max(start.at + start.computes, now));
    if (readiness.at) look = *readiness.at;
    second = readiness.now;
    if (second) thread.launch(1, now);
  };
  hear();
  launch_second();
  while (thread.busy() > now || ends > now) {
    Nanos next = std::min(ends, look);
    if (told < start.copies.size()) next = std::min(next, start.copies[told]);
    now = thread.busy() > now ? thread.busy() : next;
    hear();
    if (thread.busy() <= now && ends > now) launch_second();
  }
  CAUSEWAY_CHECK(told == start.copies.size(), "a step has ended before its weights came");
  steps.ahead = second && thread.has(1);
  if (!second) thread.launch(1, now);
  return now;
}

}  // namespace

bool SimulatedExecutor::may_run_alone(const Model& model, const engine::EngineCore::Alone& alone,
                                      bool copies) const {
  if (options_.faults.any() || shadow_ || copies_ || options_.frames_move || streamed_)
    return false;
  if (options_.memory != nullptr || options_.reads_at_home) return false;
  if (launches_.until() > clock_.now()) return false;
  if (!resident_.empty() || !stream_.empty() || !ended_.empty()) return false;
  if (mover_ == nullptr) return true;
  if (mover_->copies_at(clock_.now()) != copies) return false;
  if (model.source != WeightSource::kCache) return !copies;
  const auto there = mover_->copies_of(alone.model);
  return std::all_of(there.begin(), there.end(),
                     [](const auto& copy) { return copy && !copy->failed; });
}

Nanos SimulatedExecutor::first_end_alone(const Model& model, ModelId id, Nanos begins,
                                         Nanos takes) const {
  if (mover_ == nullptr || !mover_->copies_at(begins)) return begins + takes;
  Step step;
  step.model = &model;
  step.batch.model = id;
  const auto copies = mover_->copies_of(id);
  step.reads.reserve(copies.size());
  for (const auto& copy : copies) {
    step.reads.push_back({.group = static_cast<int>(step.reads.size()), .arrival = copy->arrival});
  }
  return end_of_arrivals(step, begins, takes);
}

// Two steps are in flight. The engine hears of the end of one when its thread has launched the one
// behind it, launches the next, and tells the token then:
//
//   device │ prompt │   token 1   │ token 2 │ …
//   thread    launch 2 ┘ hears, launch 3 ┘
bool SimulatedExecutor::steps_alone(const engine::EngineCore::Alone& alone, const AloneStart& start,
                                    AloneSteps& steps) const {
  const Model& model = models_.at(alone.model);
  if (!may_run_alone(model, alone, !start.copies.empty())) return false;
  const ModelShape& shape = *model.shape;
  AloneThread thread(launches_.alone(alone.model, alone.prompt, shape), alone.output, start.at);

  StepTokens prompt{.tokens = static_cast<double>(alone.prompt.count)};
  prompt.add(prompt.tokens, 0);
  Nanos begins = thread.busy();
  const bool copies = mover_ != nullptr && mover_->copies_at(begins);
  const Nanos takes = step_duration(work_of(prompt, shape), options_.profile, copies);
  Nanos ends = first_end_alone(model, alone.model, begins, takes);
  steps.start = start.at;
  steps.weights_wait = ends - begins - takes;
  steps.launch_wait_longest = begins - start.at;
  steps.busy = ends - begins;
  Nanos now = first_told(start, ends, thread, steps);
  steps.first_token = now;
  steps.longest = now - start.at;

  StepTokens next{.tokens = 1};
  next.add(1, prompt.tokens);
  const StepDurations durations(work_of(next, shape), options_.profile);
  const auto kv_per_token = static_cast<double>(shape.kv_per_token.count);
  steps.told.clear();
  for (std::int64_t step = 1;; ++step) {
    const Nanos launched = thread.busy();  // this step is
    thread.launch(step + 1, now);
    steps.told.push_back(std::max(thread.busy(), now));
    if (step == alone.output.count) return true;
    const Nanos ready = step > 1 || steps.ahead ? ends : now;
    steps.launch_wait_longest = std::max(steps.launch_wait_longest, launched - ready);
    begins = std::max(ends, launched);
    ends = begins +
           durations.of(next.pairs * shape.flops_per_context_token, next.kv_tokens * kv_per_token);
    next.advance(1);
    steps.busy += ends - begins;
    const Nanos heard = std::max(ends, thread.busy());
    steps.longest = std::max(steps.longest, heard - now);
    now = heard;
  }
}

TokenId SimulatedExecutor::last_token(const engine::EngineCore::Alone& alone) const {
  return token_at(alone.request, (alone.prompt + alone.output).count - 1,
                  models_.at(alone.model).of_vocab);
}

void SimulatedExecutor::run_alone(const engine::EngineCore::Alone& alone, const AloneSteps& steps) {
  const std::int64_t count = alone.output.count;
  const Model& model = models_.at(alone.model);
  HostLaunches::Rows rows{.model = alone.model,
                          .sequences = 1,
                          .tokens = alone.prompt.count,
                          .prompts = alone.prompt > Tokens(1)};
  const HostLaunches::Alone launch = launches_.alone(alone.model, alone.prompt, *model.shape);
  launches_.launch(rows, *model.shape, steps.start);
  rows.tokens = 1;
  rows.prompts = false;
  for (std::int64_t step = 1; step < count && step <= launch.plain; ++step) {
    launches_.launch(rows, *model.shape, steps.start);
  }
  const std::int64_t ahead = std::max<std::int64_t>(0, count - (steps.ahead ? 1 : 2));
  counters_.steps += count;
  counters_.steps_ahead += ahead;
  counters_.tokens_pending += ahead;
  counters_.busy += steps.busy;
  counters_.weights_wait += steps.weights_wait;
  counters_.launch_wait_longest =
      std::max(counters_.launch_wait_longest, steps.launch_wait_longest);
}

bool SimulatedSlice::begin_alone(const engine::EngineCore::Alone& request) {
  CAUSEWAY_CHECK(!alone_, "a request is alone where another one is");
  if (!options_.fast_forward || !depends_on_itself_ || !core_.may_run_alone(request)) return false;
  const auto behind = [](std::int64_t, Nanos, Nanos) {
    return weights::Residency::Readiness{.now = true, .at = {}};
  };
  const Nanos now = clock_.now();
  if (!executor_.steps_alone(request,
                             {.at = now, .computes = Nanos(0), .copies = {}, .behind = behind},
                             alone_steps_)) {
    return false;
  }
  if (alone_steps_.longest >= core_.step_timeout()) return false;
  const auto until = core_.calm_until();
  if (until && alone_steps_.told.back() >= *until) return false;
  alone_ = Alone{.request = request, .came = now, .submitted = false};
  return true;
}

void SimulatedSlice::wait_alone() {
  const auto waiting = core_.waits_alone();
  if (!depends_on_itself_ || !waiting) return;
  const weights::Residency& residency = cache_->residency();
  const ModelId model = waiting->request.model;
  const Nanos at = *copies_looked_at_;
  const auto first = std::upper_bound(copies_ahead_.begin(), copies_ahead_.end(), at);
  const std::int64_t ended = first - copies_ahead_.begin();
  // All that comes is of one arrival.
  if (residency.calm_arrivals() + 1 != std::ssize(copies_ahead_)) return;
  const Nanos told = ended > 0 ? *(first - 1) : at;
  if (!residency.readiness_behind(model, ended, told, waiting->beside, at).now) return;
  const auto behind = [&](std::int64_t so_many, Nanos last, Nanos begins) {
    return residency.readiness_behind(model, so_many, last, waiting->beside_behind, begins);
  };
  if (!executor_.steps_alone(
          waiting->request,
          {.at = at, .computes = waiting->computes, .copies = copies_ahead_, .behind = behind},
          alone_steps_)) {
    return;
  }
  if (alone_steps_.longest >= core_.step_timeout()) return;
  alone_ = Alone{.request = waiting->request, .came = waiting->came, .submitted = true};
}

void SimulatedSlice::end_alone() {
  const Alone alone = *std::exchange(alone_, std::nullopt);
  const SimulatedExecutor::AloneSteps& steps = alone_steps_;
  CAUSEWAY_CHECK(clock_.now() == steps.told.back(), "a request is not alone to its end");
  if (alone.submitted) {
    for (std::size_t i = 0; i < copies_ahead_.size(); ++i) {
      mover_->hear_until(copies_ahead_[i]);
      cache_->take_events(steps.copies_told[i]);
    }
    mover_->hear_until(kNever);
    copies_looked_at_.reset();
  }
  executor_.run_alone(alone.request, steps);
  core_.run_alone(alone.request, {.came = alone.came,
                                  .first_step = steps.start,
                                  .first_token = steps.first_token,
                                  .last_end = clock_.now(),
                                  .busy = steps.busy,
                                  .last_token = executor_.last_token(alone.request)});
}

Nanos SimulatedSlice::alone_ends_if_asked(Nanos now) const {
  const std::vector<Nanos>& told = alone_steps_.told;
  const std::int64_t tokens = std::ssize(told);
  // The two steps in flight end as they would have.
  const auto first = std::upper_bound(told.begin(), told.end(), now) - told.begin();
  const Nanos least = executor_.step_least(alone_->request.model);
  const std::int64_t behind = std::max<std::int64_t>(0, tokens - first - 2);
  const Nanos began = first < 2 ? alone_->came : told[static_cast<std::size_t>(first - 2)];
  return began + std::min(least * behind, core_.step_timeout());
}

}  // namespace causeway::simulate
