// Fast-forward: a request that finds its model there and nothing else, and is answered before
// anything else is asked of its slice (docs/design/simulate.md).
#include <algorithm>

#include "base/check.h"
#include "simulate/simulated_slice.h"

namespace causeway::simulate {

// Two steps are in flight. The engine hears of the end of one when its thread has launched the one
// behind it, launches the next, and tells the token then:
//
//   device │ prompt │   token 1   │ token 2 │ …
//   thread    launch 2 ┘ hears, launch 3 ┘
bool SimulatedExecutor::steps_alone(const engine::EngineCore::Alone& alone,
                                    AloneSteps& steps) const {
  const Nanos now = clock_.now();
  if (options_.faults.any() || shadow_ || copies_ || options_.frames_move || streamed_) return false;
  if (options_.memory != nullptr || launches_.until() > now) return false;
  if (!resident_.empty() || !stream_.empty() || !ended_.empty()) return false;
  const Model& model = models_.at(alone.model);
  const ModelShape& shape = *model.shape;
  if (mover_ != nullptr && mover_->copies_at(now)) return false;
  if (model.source == WeightSource::kCache && !mover_->all_there(alone.model)) return false;

  const std::int64_t last = alone.output.count - 1;
  const HostLaunches::Alone launch = launches_.alone(alone.model, alone.prompt, shape);
  const auto launch_takes = [&](std::int64_t step) {
    return step <= launch.plain ? launch.each : Nanos(0);
  };
  StepTokens prompt{.tokens = static_cast<double>(alone.prompt.count)};
  prompt.add(prompt.tokens, 0);
  StepTokens next{.tokens = 1};
  next.add(1, prompt.tokens);
  const StepDurations durations(work_of(next, shape), options_.profile);
  const auto kv_per_token = static_cast<double>(shape.kv_per_token.count);

  steps.told.resize(static_cast<std::size_t>(alone.output.count));
  Nanos begins = now + launch.first;
  Nanos launched = begins + (last > 0 ? launch_takes(1) : Nanos(0));  // the step behind it
  Nanos takes = step_duration(work_of(prompt, shape), options_.profile);
  Nanos awaited = now;
  steps.busy = steps.longest = Nanos(0);
  steps.launch_wait_longest = launch.first;
  for (std::int64_t step = 0; step <= last; ++step) {
    const Nanos ends = begins + takes;
    const Nanos hears = std::max(ends, launched);
    steps.launch_wait_longest = std::max(steps.launch_wait_longest, launched - ends);
    steps.longest = std::max(steps.longest, hears - awaited);
    steps.busy += takes;
    launched = step + 2 <= last ? hears + launch_takes(step + 2) : hears;
    steps.told[static_cast<std::size_t>(step)] = launched;
    begins = awaited = hears;
    takes = durations.of(next.pairs * shape.flops_per_context_token, next.kv_tokens * kv_per_token);
    next.advance(1);
  }
  return true;
}

TokenId SimulatedExecutor::run_alone(const engine::EngineCore::Alone& alone,
                                     const AloneSteps& steps, Nanos came) {
  const std::int64_t count = alone.output.count;
  const Model& model = models_.at(alone.model);
  HostLaunches::Rows rows{.model = alone.model,
                          .sequences = 1,
                          .tokens = alone.prompt.count,
                          .prompts = alone.prompt > Tokens(1)};
  const HostLaunches::Alone launch = launches_.alone(alone.model, alone.prompt, *model.shape);
  launches_.launch(rows, *model.shape, came);
  rows.tokens = 1;
  rows.prompts = false;
  for (std::int64_t step = 1; step < count && step <= launch.plain; ++step) {
    launches_.launch(rows, *model.shape, came);
  }
  counters_.steps += count;
  counters_.steps_ahead += count - 1;
  counters_.tokens_pending += count - 1;
  counters_.busy += steps.busy;
  counters_.launch_wait_longest = std::max(counters_.launch_wait_longest, steps.launch_wait_longest);
  return token_at(alone.request, (alone.prompt + alone.output).count - 1, model.of_vocab);
}

bool SimulatedSlice::begin_alone(const engine::EngineCore::Alone& request) {
  CAUSEWAY_CHECK(!alone_, "a request is alone where another one is");
  if (!depends_on_itself_ || !core_.may_run_alone(request)) return false;
  if (!executor_.steps_alone(request, alone_steps_)) return false;
  if (alone_steps_.longest >= core_.step_timeout()) return false;
  const auto until = core_.calm_until();
  if (until && alone_steps_.told.back() >= *until) return false;
  alone_ = Alone{.request = request, .came = clock_.now()};
  return true;
}

void SimulatedSlice::end_alone() {
  const Alone alone = *std::exchange(alone_, std::nullopt);
  const TokenId last = executor_.run_alone(alone.request, alone_steps_, alone.came);
  core_.run_alone(alone.request, {.came = alone.came,
                                  .last_end = alone_steps_.told.back(),
                                  .busy = alone_steps_.busy,
                                  .last_token = last});
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
