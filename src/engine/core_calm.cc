// Fast-forward: steps that change nothing but time and tokens (docs/design/simulate.md).
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"
#include "engine/core_state.h"

namespace causeway::engine {
namespace {

// Whether the next token depends on its place only, cannot end the sequence, and is all that is
// wanted of a step.
bool is_plain(const Sequence& sequence) {
  const request::Request& request = sequence.request;
  return request.stop_tokens.empty() && request.logit_bias.empty() &&
         request.allowed_tokens.empty() && !request.sampling.penalised() &&
         request.pooling == request::Pooling::kNone && !sequence.scoring &&
         sequence.matcher == nullptr;
}

// Whether a step gives a token to each of those that the step behind it computes.
bool samples_all(const schedule::Decision& step, const schedule::Decision& behind) {
  return std::equal(step.runs.begin(), step.runs.end(), behind.runs.begin(), behind.runs.end(),
                    [](const schedule::Run& run, const schedule::Run& next) {
                      return run.samples && run.request == next.request;
                    });
}

// A step with prompts has passed: in its place there is one like the other, a token before it.
void decode_in_place_of(StepInFlight& step, const StepInFlight& other) {
  const auto is_prompt = [](const schedule::Run& run) { return run.tokens.count != 1; };
  auto& runs = step.decision.runs;
  if (std::none_of(runs.begin(), runs.end(), is_prompt)) return;
  step.decision = other.decision;
  step.computes = other.computes;
  for (schedule::Run& run : runs) run.context -= Tokens(1);
}

// Whether two steps read their weights in the same places, and will while no request arrives.
bool alike(const std::vector<weights::WeightView>& a, const std::vector<weights::WeightView>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return one.place == other.place && one.place != weights::WeightPlace::kStaged;
  });
}

}  // namespace

bool EngineCore::State::awaits_two_steps() const {
  if (border || rotation || hung || !lost.empty() || awaits_memory()) return false;
  const StepLane& lane = lanes[0];
  if (lanes[1].in_flight() > 0 || lane.in_flight_max != kStepsInFlightMax) return false;
  if (lane.in_flight() != kStepsInFlightMax || !outputs.empty() || weights_look) return false;
  return lane.oldest().refused.empty() && lane.newest().refused.empty();
}

bool EngineCore::State::is_calm() const {
  if (!awaits_two_steps()) return false;
  const StepInFlight& first = lanes[0].oldest();
  const StepInFlight& second = lanes[0].newest();
  const ModelId model = first.decision.model;
  if (second.decision.model != model || models.at(model).switching) return false;
  if (cache != nullptr && cache->knows(model)) {
    const bool alone = asked.size() == 1 && *asked.begin() == model;
    if (!alone || models.at(model).arrived > 0 || !cache->residency().quiet_until()) return false;
    std::vector<weights::WeightView> now;
    cache->views_now(model, now);
    if (!alike(first.weights, now) || !alike(second.weights, now)) return false;
  }
  return samples_all(first.decision, second.decision) && scheduler.only_decodes(second.decision);
}

std::int64_t EngineCore::State::calm_steps() const {
  if (!is_calm()) return 0;
  const StepLane& lane = lanes[0];
  const StepInFlight& first = lane.at(lane.ended);
  const StepInFlight& second = lane.at(lane.ended + 1);
  if (first.sequences != second.sequences) return 0;
  const std::int64_t steps = steps_before_ends(first);
  return steps >= 1 && frames_wanted(second, steps) <= kv.counts().available() ? steps : 0;
}

// The steps in flight sample two of a sequence's tokens. The step that samples its last token ends
// it, and so differs from those before.
std::int64_t EngineCore::State::steps_before_ends(const StepInFlight& step) const {
  std::int64_t steps = INT64_MAX;
  for (const Sequence* sequence : step.sequences) {
    if (sequence == nullptr || !is_plain(*sequence)) return 0;
    const std::int64_t left = sequence->request.max_tokens.count - sequence->output_tokens();
    steps = std::min(steps, left - kStepsInFlightMax);
  }
  return steps;
}

std::int64_t EngineCore::State::frames_wanted(const StepInFlight& step, std::int64_t steps) const {
  std::int64_t frames = 0;
  for (const schedule::Run& run : step.decision.runs) {
    frames += kv.frames_to_grow(run.request, run.context + run.tokens + Tokens(steps));
  }
  CAUSEWAY_DCHECK(frames >= 0, "calm steps give frames back");
  return frames;
}

bool EngineCore::State::alternate() const {
  if (!awaits_two_steps()) return false;
  const StepInFlight& first = lanes[0].oldest();
  const StepInFlight& second = lanes[0].newest();
  if (!scheduler.alternate(first.decision, second.decision)) return false;
  if (cache != nullptr && (asked.size() != 2 || !cache->residency().quiet_until())) return false;
  return std::all_of(lanes[0].steps.begin(), lanes[0].steps.end(), [this](const auto& step) {
    const ModelId model = step.decision.model;
    const ModelEntry& entry = models.at(model);
    if (entry.switching || entry.arrived > 0 || !step.weights.empty()) return false;
    if (cache != nullptr && !(asked.contains(model) && cache->residency().all_cached(model))) {
      return false;
    }
    // The time of a first token counts, too.
    return std::all_of(step.sequences.begin(), step.sequences.end(), [](const Sequence* one) {
      return one != nullptr && one->output_tokens() > 0;
    });
  });
}

std::int64_t EngineCore::State::calm_rounds() const {
  if (!alternate()) return 0;
  const StepInFlight& first = lanes[0].oldest();
  const StepInFlight& second = lanes[0].newest();
  const std::int64_t rounds = std::min(steps_before_ends(first), steps_before_ends(second));
  if (rounds < 1) return 0;
  const std::int64_t frames = frames_wanted(first, rounds) + frames_wanted(second, rounds);
  return frames <= kv.counts().available() ? rounds : 0;
}

std::int64_t EngineCore::State::prompt_tokens_of(const StepInFlight& step) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < step.sequences.size(); ++i) {
    const schedule::Run& run = step.decision.runs[i];
    const std::int64_t of_prompt = (step.sequences[i]->prompt - run.context).count;
    sum += std::clamp<std::int64_t>(of_prompt, 0, run.tokens.count);
  }
  return sum;
}

void EngineCore::State::run_calm_steps(std::int64_t steps, Nanos last_end,
                                       const SampledTokens& sampled) {
  StepLane& lane = lanes[0];
  StepInFlight& first = lane.at(lane.ended);
  StepInFlight& second = lane.at(lane.ended + 1);
  CAUSEWAY_DCHECK(first.sequences.size() == second.decision.runs.size(),
                  "both steps are of the same sequences");
  const StepId last_done(first.id.value + steps - 1), in_flight(first.id.value + steps);
  add_calm_tokens(second, steps, last_done, sampled);
  kv.step_done(last_done, in_flight);
  for (const Sequence* sequence : first.sequences) {
    kv.commit(sequence->request.id, sequence->tokens, in_flight);
  }
  scheduler.repeat_step(second.decision, steps, last_end);
  decode_in_place_of(first, second);
  for (StepInFlight* step : {&first, &second}) {
    step->id = StepId(step->id.value + steps);
    step->started = last_end;
    for (schedule::Run& run : step->decision.runs) run.context += Tokens(steps);
  }
  if (steps % kStepsInFlightMax != 0) std::swap(first, second);
  CAUSEWAY_DCHECK(lane.in_flight() == kStepsInFlightMax, "two steps stay in flight");
  lane.ended += steps;
  lane.started += steps;
  steps_started += steps;
}

// To each of the step's sequences. The step that is then in flight computes the last of them.
void EngineCore::State::add_calm_tokens(const StepInFlight& step, std::int64_t count,
                                        StepId last_done, const SampledTokens& sampled) {
  for (std::size_t i = 0; i < step.sequences.size(); ++i) {
    Sequence& sequence = *step.sequences[i];
    const schedule::Run& run = step.decision.runs[i];
    const RequestId id = run.request;
    CAUSEWAY_CHECK(kv.grow(id, run.context + run.tokens + Tokens(count)), "calm steps lack frames");
    for (std::int64_t n = 0; n < count; ++n) {
      sequence.tokens.push_back(sampled(sequence.request, std::ssize(sequence.tokens)));
    }
    const std::span<const TokenId> known(sequence.tokens);
    kv.commit(id, known.first(known.size() - 1), last_done);
  }
}

// After an odd number of rounds the models have changed places in the lane. Of the last two steps
// that have ended the first was of the model whose step is now the second in flight.
void EngineCore::State::run_calm_rounds(std::span<const Nanos> ends, const SampledTokens& sampled) {
  const std::int64_t steps = std::ssize(ends), rounds = steps / 2;
  StepLane& lane = lanes[0];
  StepInFlight& first = lane.oldest();
  StepInFlight& second = lane.newest();
  const StepId first_id(first.id.value + steps), second_id(second.id.value + steps);
  const StepId last_done(first_id.value - 1);
  for (const StepInFlight* step : {&first, &second}) {
    add_calm_tokens(*step, rounds, last_done, sampled);
  }
  if (rounds % 2 != 0) {
    std::swap(first, second);
    for (const StepInFlight* step : {&first, &second}) {
      for (Sequence* sequence : step->sequences) std::swap(sequence->runs[0], sequence->runs[1]);
    }
  }
  first.id = first_id;
  second.id = second_id;
  kv.step_done(last_done, first_id);
  for (StepInFlight* step : {&first, &second}) {
    for (const Sequence* sequence : step->sequences) {
      kv.commit(sequence->request.id, sequence->tokens, step->id);
    }
    step->started = ends.back();
    for (schedule::Run& run : step->decision.runs) run.context += Tokens(rounds);
  }
  scheduler.repeat_step(second.decision, rounds, ends[ends.size() - 2]);
  scheduler.repeat_step(first.decision, rounds, ends.back());
  lane.ended += steps;
  lane.started += steps;
  steps_started += steps;
}

bool EngineCore::rests_until(Nanos at) const {
  const State& state = *state_;
  if (state.border || state.rotation || state.hung || !state.lost.empty()) return false;
  if (state.may_start() || state.awaits_memory() || state.weights_look) return false;
  if (!state.outputs.empty() || !state.awaiting_masks.empty()) return false;
  const std::optional<Nanos> deadline = state.step_deadline();
  if (deadline && *deadline <= at) return false;
  return state.cache == nullptr || state.weights_rest(at);
}

bool EngineCore::State::weights_rest(Nanos now) const {
  CAUSEWAY_DCHECK(cache != nullptr, "no weights come or go where all are resident");
  const std::optional<Nanos> until = cache->residency().quiet_until();
  if (!until || now >= *until || border || !streamed.empty()) return false;
  return std::equal(asked.begin(), asked.end(), demand.begin(), demand.end(),
                    [this](ModelId id, const weights::ModelDemand& told) {
                      return id == told.model && told.requests > 0 && models.at(id).arrived == 0 &&
                             scheduler.sequences(id) == told.requests;
                    });
}

std::optional<Nanos> EngineCore::State::calm_arrivals_until(Nanos now,
                                                            std::span<const Nanos> ends) const {
  if (cache == nullptr || border || rotation || hung || !lost.empty()) return std::nullopt;
  if (!outputs.empty() || !awaiting_masks.empty() || stranded_until || !streamed.empty()) {
    return std::nullopt;
  }
  CAUSEWAY_DCHECK(std::is_sorted(ends.begin(), ends.end()),
                  "copies do not end one after the other");
  const std::int64_t calm = cache->residency().calm_arrivals();
  if (calm == 0 || calm >= std::ssize(ends)) return std::nullopt;
  const std::span<const Nanos> looked_at = ends.first(static_cast<std::size_t>(calm + 1));
  // No step can be started before one ends,
  if (!may_start()) return looked_at.back();
  // or one model waits for its weights, and there are no other requests.
  if (in_flight() > 0 || asked.size() != 1 || scheduler.varies_with_time()) return std::nullopt;
  const ModelId model = *asked.begin();
  if (scheduler.sequences(model) != scheduler.sequences()) return std::nullopt;
  return cache->residency().await_arrivals(model, computes_beside_weights(model, now), weights_look,
                                           looked_at);
}

std::optional<Nanos> EngineCore::calm_arrivals_until(Nanos now, std::span<const Nanos> ends) const {
  return state_->calm_arrivals_until(now, ends);
}

bool EngineCore::State::has_room_alone(const Alone& alone) const {
  if (border || rotation || hung || !lost.empty()) return false;
  if (options.prefix_caching || options.watch != nullptr) return false;
  if (in_flight() > 0 || !outputs.empty() || stranded_until) return false;
  if (!awaiting_masks.empty() || !streamed.empty()) return false;
  const bool two = lanes[0].in_flight_max == kStepsInFlightMax;
  if (!two || scheduler.varies_with_time()) return false;
  if (alone.prompt > scheduler.prompt_tokens_max()) return false;
  const std::int64_t block = models.at(alone.model).facts.tokens_per_block.count;
  const std::int64_t computed = (alone.prompt + alone.output).count - 1;
  CAUSEWAY_DCHECK(block > 0 && computed > 0, "a request without a prompt or an answer");
  return (computed + block - 1) / block <= kv.counts().available();
}

std::optional<EngineCore::AloneWaiting> EngineCore::waits_alone() const {
  const State& state = *state_;
  if (state.sequences.size() != 1 || state.asked.size() != 1) return std::nullopt;
  const Sequence& sequence = *state.sequences.begin()->second;
  const request::Request& request = sequence.request;
  if (!is_plain(sequence) || sequence.queued.count >= 0) return std::nullopt;
  if (sequence.output_tokens() > 0 || *state.asked.begin() != request.model) return std::nullopt;
  const Alone alone{.request = request.id,
                    .model = request.model,
                    .prompt = sequence.prompt,
                    .output = request.max_tokens,
                    .queued = sequence.came - request.arrival};
  if (!state.has_room_alone(alone)) return std::nullopt;
  const ModelFacts& facts = state.models.at(request.model).facts;
  return AloneWaiting{.request = alone,
                      .came = sequence.came,
                      .computes = facts.step_of(alone.prompt),
                      .beside = state.computes_beside_weights(request.model, sequence.came),
                      .beside_behind = state.computes_behind_weights()};
}

bool EngineCore::may_run_alone(const Alone& alone) const {
  const State& state = *state_;
  if (!state.sequences.empty() || !state.asked.empty()) return false;
  if (state.awaits_memory() || !state.has_room_alone(alone)) return false;
  if (state.cache == nullptr || !state.cache->knows(alone.model)) return true;
  const weights::Residency& residency = state.cache->residency();
  return residency.quiet_until() && residency.all_cached(alone.model);
}

void EngineCore::run_alone(const Alone& alone, const AloneSteps& steps) {
  State& state = *state_;
  CAUSEWAY_DCHECK(steps.last_end >= steps.first_token && steps.first_token >= steps.first_step,
                  "a request's steps end in their order");
  const std::int64_t count = alone.output.count;
  request::Observation& counters = state.models.at(alone.model).counters;
  counters.steps += count;
  counters.generated_tokens += count;
  counters.prompt_tokens += alone.prompt.count;
  state.device_busy += steps.busy;
  const auto waiting = state.sequences.find(alone.request);
  const bool submitted = waiting != state.sequences.end();
  if (submitted) {
    state.end_alone(*waiting->second, steps);
  } else {
    request::Output& output = state.outputs.emplace_back();
    output.request = alone.request;
    output.queued = alone.queued;
    output.tokens.emplace_back().token = steps.last_token;
    output.finished = true;
    output.reason = request::FinishReason::kLength;
  }
  state.scheduler.ran_alone(alone.model, count, steps.last_end);
  if (state.cache != nullptr && state.cache->knows(alone.model)) {
    if (!submitted) {
      state.demand = {{.model = alone.model, .requests = 1, .arrived = 1}};
      state.cache->demand(state.demand, steps.came);
    }
    std::vector<weights::WeightView> views;
    state.cache->step_begins(alone.model, views);
    CAUSEWAY_CHECK(state.cache->step_ended(alone.model, steps.last_end).ok(),
                   "a request that is alone reads what is there");
  }
}

// As its first step, that step's end and the last one would have left it.
void EngineCore::State::end_alone(Sequence& sequence, const AloneSteps& steps) {
  const ModelId model = sequence.request.model;
  CAUSEWAY_DCHECK(steps.first_step >= sequence.came && sequence.queued.count < 0,
                  "a request that waits has begun");
  note_weights(model, steps.first_step);
  sequence.queued = steps.first_step - sequence.request.arrival;
  const Nanos weights_came = models.at(model).weights_came;
  sequence.weights = std::max(std::min(weights_came, steps.first_step) - sequence.came, Nanos(0));
  end_switch(sequence, steps.first_token);
  std::vector<request::OutputToken> last(1);
  last[0].token = steps.last_token;
  end(sequence, request::FinishReason::kLength, "", std::move(last));
}

Nanos EngineCore::ends_from(const StepsAhead& ahead, const StepLeast& step_least,
                            std::span<const RequestId> but) const {
  const State& state = *state_;
  if (state.border || state.rotation || state.hung || !state.lost.empty()) return ahead.next;
  if (!state.streamed.empty()) return ahead.next;
  // A step that hangs ends this. The steps that are skipped are known not to hang.
  const std::optional<Nanos> deadline = ahead.passed > 0 ? std::nullopt : state.step_deadline();
  Nanos first(INT64_MAX);
  for (const auto& [id, sequence] : state.sequences) {
    if (std::find(but.begin(), but.end(), id) != but.end()) continue;
    const request::Request& request = sequence->request;
    if (!request.stop_tokens.empty() || sequence->matcher != nullptr) return ahead.next;
    const std::int64_t left = request.max_tokens.count - sequence->output_tokens() - ahead.passed;
    const Nanos more = step_least(request.model) * std::max<std::int64_t>(0, left - 2);
    const Nanos ends = left < 2 ? ahead.next : ahead.second + more;
    const Nanos hangs = std::min(deadline.value_or(ends), ahead.next + state.step_timeout);
    first = std::min({first, ends, hangs});
  }
  return std::max(first, ahead.next);
}

bool EngineCore::ends_with_step(std::vector<RequestId>& requests) const {
  const State& state = *state_;
  requests.clear();
  if (state.border || state.rotation || state.hung || !state.lost.empty()) return false;
  const StepLane& lane = state.lanes[0];
  if (lane.in_flight() == 0 || !lane.oldest().refused.empty()) return false;
  const StepInFlight& step = lane.oldest();
  for (std::size_t i = 0; i < step.sequences.size(); ++i) {
    const Sequence* sequence = step.sequences[i];
    if (sequence == nullptr || !step.decision.runs[i].samples) continue;
    if (!is_plain(*sequence)) return false;
    const bool last = sequence->output_tokens() + 1 >= sequence->request.max_tokens.count;
    if (last) requests.push_back(sequence->request.id);
  }
  return true;
}

std::int64_t EngineCore::calm_steps() const { return state_->calm_steps(); }

std::optional<Nanos> EngineCore::calm_until() const {
  return state_->cache == nullptr ? std::nullopt : state_->cache->residency().quiet_until();
}

std::int64_t EngineCore::calm_rounds() const { return state_->calm_rounds(); }

namespace {

void list_requests(const StepInFlight& step, std::vector<RequestId>& requests) {
  requests.clear();
  for (const schedule::Run& run : step.decision.runs) requests.push_back(run.request);
}

}  // namespace

void EngineCore::calm_requests(std::vector<RequestId>& requests) const {
  CAUSEWAY_DCHECK(state_->lanes[0].in_flight() > 0, "calm steps are in flight");
  list_requests(state_->lanes[0].oldest(), requests);
}

void EngineCore::round_requests(std::vector<RequestId>& first,
                                std::vector<RequestId>& second) const {
  CAUSEWAY_DCHECK(state_->lanes[0].in_flight() == 2, "one step of each model is in flight");
  list_requests(state_->lanes[0].oldest(), first);
  list_requests(state_->lanes[0].newest(), second);
}

void EngineCore::run_calm_rounds(std::span<const Nanos> ends, Nanos busy,
                                 const SampledTokens& sampled) {
  State& state = *state_;
  const std::int64_t rounds = std::ssize(ends) / 2;
  CAUSEWAY_CHECK(rounds >= 1 && std::ssize(ends) == 2 * rounds,
                 "other than two steps of a round end");
  CAUSEWAY_DCHECK(rounds <= state.calm_rounds(), "these rounds are not alike");
  state.run_calm_rounds(ends, sampled);
  state.device_busy += busy;
  const auto passed = [&](const StepInFlight& step, Nanos last_end) {
    const ModelId model = step.decision.model;
    request::Observation& counters = state.models.at(model).counters;
    counters.steps += rounds;
    counters.generated_tokens += rounds * std::ssize(step.decision.runs);
    if (state.cache == nullptr) return;
    std::vector<weights::WeightView> views;
    CAUSEWAY_CHECK(state.cache->step_ended(model, last_end).ok(),
                   "a calm round read what was not there");
    state.cache->step_begins(model, views);
  };
  passed(state.lanes[0].newest(), ends[ends.size() - 2]);
  passed(state.lanes[0].oldest(), ends.back());
}

void EngineCore::run_calm_steps(std::int64_t steps, Nanos last_end, Nanos busy,
                                const SampledTokens& sampled) {
  State& state = *state_;
  CAUSEWAY_CHECK(steps >= 1, "no steps are passed");
  CAUSEWAY_DCHECK(steps <= state.calm_steps(), "these steps are not alike");
  const schedule::Decision& decision = state.lanes[0].oldest().decision;
  const ModelId model = decision.model;
  request::Observation& counters = state.models.at(model).counters;
  counters.steps += steps;
  counters.generated_tokens += steps * std::ssize(decision.runs);
  counters.prompt_tokens += state.prompt_tokens_of(state.lanes[0].oldest());
  state.device_busy += busy;
  state.run_calm_steps(steps, last_end, sampled);
  if (state.cache != nullptr && state.cache->knows(model)) {
    // The model was in use until then.
    std::vector<weights::WeightView> views;
    CAUSEWAY_CHECK(state.cache->step_ended(model, last_end).ok(),
                   "a calm step read what was not there");
    state.cache->step_begins(model, views);
  }
}

}  // namespace causeway::engine
