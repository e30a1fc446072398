#include "engine/engine_core.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/dcheck.h"
#include "engine/core_state.h"

namespace causeway::engine {

using request::FinishReason;

EngineCore::EngineCore(const CoreOptions& options, StepExecutor& executor,
                       weights::WeightCache* cache)
    : state_(std::make_unique<State>(options, executor, cache)) {}
EngineCore::~EngineCore() = default;

Status EngineCore::add_model(ModelId model, const ModelFacts& facts) {
  if (!model.valid() || facts.tokens_per_block.count < 1 || facts.max_model_len.count < 1 ||
      facts.vocab < 0) {
    return invalid_argument("a model needs an id, a block of at least a token and a context");
  }
  if (state_->models.contains(model)) {
    return invalid_argument("model " + std::to_string(model.value) + " is in the engine already");
  }
  std::vector<double> alphas = {facts.alpha};
  for (const auto& [alpha, models] : state_->alphas) alphas.push_back(alpha);
  CAUSEWAY_TRY(schedule::check_alphas(alphas));
  if (facts.weights.streams() && !state_->executor.capabilities().streams) {
    return unsupported("this device does not run models whose weights are streamed");
  }
  if (state_->cache != nullptr && !facts.weights.groups.empty()) {
    CAUSEWAY_TRY(state_->cache->add_model(model, facts.weights));
    state_->cache->set_pinned(model, facts.pinned);
  }
  state_->models.emplace(model, ModelEntry{.facts = facts, .arrived = 0, .counters = {}});
  state_->alphas[facts.alpha] += 1;
  state_->kv.add_model(model, facts.tokens_per_block);
  state_->scheduler.add_model(model, facts.tokens_per_block, facts.weights.streams(), facts.alpha);
  state_->scheduler.set_step_cost(model, {.min = facts.step_min,
                                          .seconds_per_token = facts.seconds_per_token,
                                          .table = facts.step_table});
  if (facts.weights.streams()) state_->streamed.push_back(model);
  if (state_->rotation && facts.seconds_per_token > 0) {
    state_->rotation->set_prefill_rate(model, 1 / facts.seconds_per_token);
  }
  return {};
}

void EngineCore::add_twins(std::int64_t count) {
  if (state_->rotation) state_->kv.add_twins(count);
}

Status EngineCore::remove_model(ModelId model) {
  if (!state_->models.contains(model)) {
    return not_found("model " + std::to_string(model.value) + " is not in the engine");
  }
  const std::int64_t left = state_->scheduler.sequences(model);
  if (left > 0 || state_->in_step(model)) {
    return unavailable("model " + std::to_string(model.value) + " still has " +
                       std::to_string(left) + " requests or a step: let them end first");
  }
  if (state_->cache != nullptr && state_->cache->knows(model)) {
    CAUSEWAY_TRY(state_->cache->remove_model(model));
  }
  state_->kv.remove_model(model);
  state_->scheduler.remove_model(model);
  std::erase(state_->streamed, model);
  state_->asked.erase(model);
  if (state_->rotation) state_->rotation->forget(model);
  CAUSEWAY_DCHECK(state_->scheduler.sequences() == requests(), "a request outlives its model");
  const auto found = state_->models.find(model);
  const auto alpha = state_->alphas.find(found->second.facts.alpha);
  if (--alpha->second == 0) state_->alphas.erase(alpha);
  state_->models.erase(model);
  return {};
}

Status EngineCore::submit(request::Request request, Nanos now) {
  CAUSEWAY_TRY(state_->check_takes(request.model));
  const ModelFacts& facts = state_->models.at(request.model).facts;
  CAUSEWAY_ASSIGN(CheckedRequest checked,
                  CheckedRequest::check(std::move(request), facts, state_->frames_limit()));
  return submit(std::move(checked), now);
}

Status EngineCore::submit(CheckedRequest checked, Nanos now) {
  CAUSEWAY_TRY(state_->check_takes(checked->model));
  const auto model = state_->models.find(checked->model);
  CAUSEWAY_TRY(check_frames(*checked, model->second.facts, state_->frames_limit()));
  request::Request request = std::move(checked).take();
  auto [place, inserted] = state_->sequences.try_emplace(request.id);
  if (!inserted) {
    return invalid_argument("request " + std::to_string(request.id.value) + " is in the engine");
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = std::move(request.prompt);
  sequence->prompt = Tokens(static_cast<std::int64_t>(sequence->tokens.size()));
  // As after a preemption: what was delivered already is computed again with the prompt.
  sequence->tokens.insert(sequence->tokens.end(), request.output.begin(), request.output.end());
  // The log-probabilities of the prompt came with the first output.
  if (!request.output.empty()) request.sampling.prompt_logprobs = -1;
  std::vector<TokenId>().swap(request.output);
  // A clock never runs backwards: an arrival in the future would overtake others by lag.
  request.arrival = std::min(request.arrival, now);
  sequence->request = std::move(request);
  sequence->came = now;
  sequence->scoring = sequence->scores_prompt();
  if (sequence->request.sampling.prompt_logprobs >= 0) {
    sequence->scores.resize(sequence->tokens.size() - 1);
  }
  sequence->handle =
      state_->scheduler.add({.request = sequence->request.id,
                             .model = sequence->request.model,
                             .tokens = &sequence->tokens,
                             .slo = sequence->request.slo,
                             .priority = sequence->request.priority,
                             .arrival = sequence->request.arrival,
                             .length_max = sequence->prompt + sequence->request.max_tokens,
                             .scores = sequence->scoring});
  CAUSEWAY_DCHECK(sequence->output_tokens() < sequence->request.max_tokens.count,
                  "a request is taken that has ended");
  state_->begin_matching(*sequence, now);
  place->second = std::move(sequence);
  model->second.arrived += 1;
  if (state_->cache != nullptr && state_->cache->knows(model->first)) {
    state_->asked.insert(model->first);
  }
  state_->begin_switch(model->first, now);
  if (state_->options.watch != nullptr) state_->options.watch->queued(place->first);
  return {};
}

void EngineCore::cancel(RequestId request, Nanos) {
  const auto at = state_->sequences.find(request);
  if (at != state_->sequences.end()) state_->end(*at->second, FinishReason::kCancelled, "");
}

void EngineCore::cancel_all(Nanos now) {
  for (const RequestId request : state_->all_requests()) cancel(request, now);
}

bool EngineCore::step_in_flight() const { return state_->in_flight() > 0; }

bool EngineCore::start_step(Nanos now) {
  state_->end_copies(now);
  state_->take_masks(now);
  // Weights come and go even while no step may start.
  if (!state_->may_start()) state_->update_weights(now);
  bool launched = false;
  while (state_->may_start()) {
    schedule::Decision& decision = state_->deciding;
    state_->update_weights(now);
    const auto may_step = [&](ModelId model) {
      return state_->lane_of(model).has_room() && state_->weights_allow(model, now);
    };
    state_->scheduler.schedule(now, state_->kv, decision, may_step, state_->rotation_inputs(now));
    if (!decision.model.valid()) {
      // With rotation some sequences may have to leave before others can run.
      if (!decision.empty()) {
        state_->apply_decision(decision, now);
        continue;
      }
      if (state_->rotation) state_->rotation->begin_copies();  // a sequence may still be leaving
      if (state_->make_way(now) || state_->end_stranded(now)) continue;
      CAUSEWAY_CHECK(step_in_flight() || requests() == 0 || state_->awaits_memory() ||
                         !state_->awaiting_masks.empty(),
                     "requests wait, but the scheduler finds nothing to run");
      break;
    }
    state_->stranded_until.reset();
    state_->tell_watch(&decision);
    state_->apply_decision(decision, now);
    // A refused step has ended its requests, so each round leaves fewer.
    state_->launch(now);
    launched = true;
  }
  if (state_->rotation && !launched) state_->rotation->begin_copies();
  state_->tell_watch(nullptr);
  return step_in_flight();
}

bool EngineCore::copies_under_way() const {
  return state_->rotation && state_->rotation->under_way();
}

void EngineCore::finish_step(const request::StepResult& result, Nanos now) {
  StepLane* const lane = state_->lane_of(result.step);
  CAUSEWAY_CHECK(lane != nullptr, "the result is not of a lane's oldest step in flight");
  state_->hung = false;
  state_->end_copies(now);
  state_->finish_step(*lane, result, now);
}

std::optional<Nanos> EngineCore::next_wakeup() const {
  std::optional<Nanos> next = state_->may_start() ? state_->weights_look : std::nullopt;
  for (const auto& other : {state_->step_deadline(), state_->stranded_until, state_->masks_look}) {
    if (other) next = std::min(next.value_or(*other), *other);
  }
  return next;
}

Nanos EngineCore::step_timeout() const { return state_->step_timeout; }

void EngineCore::check_timeout(Nanos now) {
  const std::optional<Nanos> deadline = state_->step_deadline();
  if (!deadline || now < *deadline) return;
  state_->hung = true;
  const std::string why = "the device hangs: a step has not ended within " +
                          std::to_string(state_->step_timeout.count / 1'000'000) + " ms";
  for (const RequestId request : state_->all_requests()) {
    state_->end(state_->sequence_of(request), FinishReason::kError, why);
  }
}

void EngineCore::lose(const std::string& why) {
  CAUSEWAY_DCHECK(!why.empty(), "a device is lost for no reason");
  if (!state_->lost.empty()) return;
  state_->lost = why;
  state_->suspects = state_->in_steps(nullptr);
  // The requests that the step failed when it found the loss were lost, too.
  for (request::Output& output : state_->outputs) {
    output.lost = output.finished && output.reason == FinishReason::kError;
    if (output.lost) state_->suspects.push_back(output.request);
  }
  for (const RequestId request : state_->all_requests()) {
    state_->end(state_->sequence_of(request), FinishReason::kError, why);
  }
}

std::vector<request::Output> EngineCore::take_outputs() {
  return std::exchange(state_->outputs, {});
}

void EngineCore::take_outputs(std::vector<request::Output>& outputs) {
  CAUSEWAY_DCHECK(&outputs != &state_->outputs, "outputs are taken into other memory");
  outputs.clear();
  outputs.swap(state_->outputs);
}

std::int64_t EngineCore::requests() const {
  return static_cast<std::int64_t>(state_->sequences.size());
}
bool EngineCore::hung() const { return state_->hung; }
const std::vector<RequestId>& EngineCore::suspects() const { return state_->suspects; }
const kv::KvCache& EngineCore::kv() const { return state_->kv; }

request::Observation EngineCore::observe() const {
  request::Observation sum;
  for (const auto& [id, model] : state_->models) {
    sum.preemptions += model.counters.preemptions;
    sum.rotations += model.counters.rotations;
    sum.steps += model.counters.steps;
    sum.prompt_tokens += model.counters.prompt_tokens;
    sum.generated_tokens += model.counters.generated_tokens;
    sum.weights_cached += state_->cached_bytes(id);
    const weights::ExpertCache::Counters experts = state_->expert_counters(id);
    sum.expert_hits += experts.hits;
    sum.expert_misses += experts.misses;
  }
  const kv::FrameCounts counts = state_->kv.counts();
  const kv::PrefixStats prefix = state_->kv.prefix_stats();
  sum.requests_running = state_->scheduler.running();
  sum.requests_waiting = state_->scheduler.waiting();
  sum.requests_rotary = state_->scheduler.rotary();
  sum.frames_total = state_->kv.frames_max() - counts.gone;
  sum.frames_used = counts.referenced + counts.quarantined;
  CAUSEWAY_DCHECK(sum.frames_used <= sum.frames_total, "more frames are used than there are");
  sum.frames_stranded = counts.stranded;
  sum.twins_total = state_->kv.twins();
  sum.twins_used = sum.twins_total - state_->kv.twin_counts().free;
  if (state_->rotation) sum.kv_copies = state_->rotation->counts();
  sum.prefix_queried_tokens = prefix.queried_tokens;
  sum.prefix_hit_tokens = prefix.hit_tokens;
  sum.prefix_host_tokens = prefix.host_tokens;
  sum.device_busy = state_->device_busy;
  sum.hung = state_->hung;
  sum.lost = state_->lost;
  return sum;
}

std::vector<std::pair<ModelId, request::Observation>> EngineCore::observe_models() const {
  std::vector<std::pair<ModelId, request::Observation>> all;
  const request::Observation slice = observe();
  for (const auto& [id, model] : state_->models) {
    request::Observation observation = model.counters;
    observation.requests_running = state_->scheduler.running(id);
    observation.requests_waiting = state_->scheduler.waiting(id);
    observation.requests_rotary = state_->scheduler.rotary(id);
    observation.frames_total = slice.frames_total;  // the pool belongs to all models
    observation.frames_used = slice.frames_used;
    observation.weights_cached = state_->cached_bytes(id);
    const weights::ExpertCache::Counters experts = state_->expert_counters(id);
    observation.expert_hits = experts.hits;
    observation.expert_misses = experts.misses;
    all.emplace_back(id, observation);
  }
  return all;
}

}  // namespace causeway::engine
