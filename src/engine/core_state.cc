#include "engine/core_state.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/dcheck.h"
#include "base/log.h"
#include "engine/nan_logits.h"

namespace causeway::engine {

using request::FinishReason;

namespace {

// The part of a step's duration before its kernels run and after its token is computed. Behind
// steps in flight it passes while they run. A step that started earlier would only occupy the
// device, which others use.
constexpr Nanos kBesideKernels = micros(1500);

constexpr Nanos kDay = seconds(86'400);

// A given token of a row of NaN alone has no log-probability to tell.
bool has_no_token(const request::SampledToken& scored) { return scored.token.token == kNoToken; }

}  // namespace

Status EngineCore::State::check_takes(ModelId model) const {
  if (!lost.empty()) return unavailable(lost);
  if (hung) return unavailable("the device does not answer: its step has not ended");
  if (models.contains(model)) return {};
  return invalid_argument("model " + std::to_string(model.value) + " is not in the engine");
}

bool EngineCore::State::in_step(ModelId model) const {
  const StepLane& lane = lane_of(model);
  for (std::int64_t step = lane.ended; step < lane.started; ++step) {
    if (lane.at(step).decision.model == model) return true;
  }
  return false;
}

bool EngineCore::State::may_start() const {
  if (lanes[0].has_room()) return true;
  if (!lanes[1].has_room()) return false;
  return std::any_of(streamed.begin(), streamed.end(),
                     [&](ModelId model) { return scheduler.sequences(model) > 0; });
}

StepId EngineCore::State::oldest_beside(const StepLane& lane) const {
  StepId oldest(steps_started);
  for (const StepLane& other : lanes) {
    const std::int64_t first = &other == &lane ? other.ended + 1 : other.ended;
    if (first < other.started) oldest = std::min(oldest, other.at(first).id);
  }
  CAUSEWAY_DCHECK(oldest.value <= steps_started, "a step in flight was never started");
  return oldest;
}

StepLane* EngineCore::State::lane_of(StepId step) {
  for (StepLane& lane : lanes) {
    if (lane.in_flight() > 0 && lane.oldest().id == step) return &lane;
  }
  return nullptr;
}

Sequence& EngineCore::State::sequence_of(RequestId request) {
  const auto at = sequences.find(request);
  CAUSEWAY_CHECK(at != sequences.end(), "the engine does not know this request");
  return *at->second;
}

void EngineCore::State::apply_decision(const schedule::Decision& decision, Nanos now) {
  CAUSEWAY_DCHECK(decision.runs.empty() || decision.model.valid(), "a step of no model");
  for (const schedule::Preemption& preemption : decision.preempted) {
    Sequence& sequence = sequence_of(preemption.request);
    tell_full(preemption.request);
    release_frames(sequence);
    end_rotation(sequence, now);
    sequence.preemptions += 1;
    models.at(sequence.request.model).counters.preemptions += 1;
  }
  for (const schedule::Admission& one : decision.admitted) {
    if (!one.brings) admit(one, now);
  }
  for (const schedule::Admission& one : decision.admitted) {
    if (one.brings) admit(one, now);
  }
  for (const schedule::Rotation& victim : decision.rotated_out) rotate_out(victim.request, now);
  for (const schedule::Rotation& comer : decision.rotated_in) {
    CAUSEWAY_CHECK(kv.rotate_in(comer.request), "the scheduler promised frames that are not there");
    end_rotation(sequence_of(comer.request), now);
  }
}

void EngineCore::State::admit(const schedule::Admission& admission, Nanos now) {
  CAUSEWAY_DCHECK(!kv.is_open(admission.request), "a request is admitted that has a table");
  Sequence& sequence = sequence_of(admission.request);
  const kv::PrefixStats before = kv.prefix_stats();
  const ModelId model = sequence.request.model;
  const Tokens cached = admission.brings
                            ? kv.open_with_twins(admission.request, model, sequence.prefix())
                            : kv.open(admission.request, model, sequence.prefix());
  const kv::PrefixStats after = kv.prefix_stats();
  request::Observation& counters = models.at(model).counters;
  counters.prefix_queried_tokens += after.queried_tokens - before.queried_tokens;
  counters.prefix_hit_tokens += after.hit_tokens - before.hit_tokens;
  counters.prefix_host_tokens += after.host_tokens - before.host_tokens;
  CAUSEWAY_CHECK(cached == admission.cached, "the cached prefix is not what was planned with");
  if (admission.brings) {
    const std::int64_t block = models.at(model).facts.tokens_per_block.count;
    rotation->brings(admission.request, (after.host_tokens - before.host_tokens) / block, now);
  }
  if (sequence.queued.count >= 0) return;
  sequence.cached = std::min(cached, sequence.prompt);
  sequence.queued = now - sequence.request.arrival;
  const Nanos weights_came = models.at(model).weights_came;
  sequence.weights = std::max(std::min(weights_came, now) - sequence.came, Nanos(0));
}

void EngineCore::State::tell_full(RequestId victim) {
  if (!rotation || told_full ||
      options.schedule.preemption == schedule::PreemptionKind::kRecompute ||
      !rotation->may_leave(victim)) {
    return;
  }
  const std::int64_t wanted = rotation->out_cost(victim).twins;
  const kv::TwinCounts twins = kv.twin_counts();
  CAUSEWAY_DCHECK(wanted >= 0 && twins.available() >= 0, "twins are miscounted");
  if (wanted <= twins.available()) return;
  told_full = true;
  spdlog::warn(
      "host memory for KV is full: {} of {} blocks are held, and a request of {} more is computed "
      "again instead of leaving; more host memory for KV would help (this is said once)",
      twins.held, kv.twins(), wanted);
}

// What a step in flight computes for the sequence still counts: its token is taken when the step
// ends.
void EngineCore::State::rotate_out(RequestId request, Nanos now) {
  Sequence& sequence = sequence_of(request);
  const StepId user = last_user(sequence);
  CAUSEWAY_DCHECK(rotation.has_value(), "a request leaves where KV does not rotate");
  const bool copies = kv.rotate_out_cost(request).copies > 0;
  CAUSEWAY_CHECK(kv.rotate_out(request, user), "the scheduler chose one that cannot leave");
  if (copies) rotation->leaves(request);
  sequence.rotations += 1;
  models.at(sequence.request.model).counters.rotations += 1;
  if (std::ssize(sequence.rotated) < request::kRotationTimesMax) {
    sequence.rotated.push_back({.out = now - sequence.request.arrival});
  }
}

void EngineCore::State::end_rotation(Sequence& sequence, Nanos now) {
  if (sequence.rotated.empty()) return;
  request::RotationTimes& last = sequence.rotated.back();
  if (last.in < Nanos(0)) last.in = now - sequence.request.arrival;
  CAUSEWAY_DCHECK(last.in >= last.out, "a request comes back before it went");
}

schedule::RotationInputs EngineCore::State::rotation_inputs(Nanos now) {
  if (!rotation) return {};
  return rotation->inputs(weights_in(), now);
}

WeightsIn EngineCore::State::weights_in() const {
  WeightsIn weights{.resident = false};
  if (cache != nullptr) weights.arriving = cache->residency().arriving_bytes();
  std::int64_t of_streamed = 0;
  for (const ModelId model : streamed) {
    const std::int64_t requests = scheduler.sequences(model);
    of_streamed += requests;
    // Only one streamed model is stepped at a time.
    if (requests > 0) weights.pass = std::max(weights.pass, models.at(model).pass_bytes());
  }
  weights.resident = scheduler.sequences() > of_streamed;
  return weights;
}

void EngineCore::State::measure_step(const StepLane& lane, ModelId model, Nanos took) {
  CAUSEWAY_DCHECK(took >= Nanos(0), "a step took less than no time");
  if (!rotation) return;
  rotation->step_took(took, &lane != &resident());
  ModelEntry& entry = models.at(model);
  const auto& experts = entry.facts.weights.experts;
  if (experts) entry.missed.step_ended(expert_counters(model), experts->expert_bytes());
}

void EngineCore::State::end_copies(Nanos now) {
  if (rotation) recompute(rotation->poll(now), now);
}

void EngineCore::State::recompute(const std::vector<RequestId>& requests, Nanos now) {
  for (const RequestId request : requests) {
    const auto at = sequences.find(request);
    if (at == sequences.end()) continue;  // it ended with the step that lost it
    Sequence& sequence = *at->second;
    CAUSEWAY_DCHECK(kv.is_open(request), "KV was lost of a request that has none");
    const bool voided = scheduler.lost(sequence.handle);
    release_frames(sequence);
    end_rotation(sequence, now);
    if (voided) disown_steps(sequence);
    // The token for which the sequence was held will not come.
    if (voided && sequence.matcher != nullptr) scheduler.hold(sequence.handle, false);
    sequence.preemptions += 1;
    models.at(sequence.request.model).counters.preemptions += 1;
  }
}

std::int64_t EngineCore::State::scored_rows(const Sequence& sequence, const schedule::Run& run) {
  if (!sequence.scoring) return 0;
  // The row of the prompt's last token predicts what follows the prompt.
  const Tokens end = std::min(run.context + run.tokens, sequence.prompt - Tokens(1));
  return std::max(Tokens(0), end - run.context).count;
}

// Rows that are computed again after a preemption give the same values as before.
void EngineCore::State::keep_scores(Sequence& sequence, const schedule::Run& run,
                                    std::span<const request::SampledToken> scored) {
  if (!sequence.scoring) return;
  const auto first = static_cast<std::size_t>(run.context.count);
  const bool wanted = sequence.request.sampling.prompt_logprobs >= 0;  // false: they are pooled
  CAUSEWAY_DCHECK(!wanted || first + scored.size() <= sequence.scores.size(),
                  "rows behind the prompt scored");
  for (std::size_t i = 0; i < scored.size() && wanted; ++i) {
    sequence.scores[first + i] = scored[i].token;
  }
  if (run.samples) sequence.scoring = false;
}

void EngineCore::State::pool(Sequence& sequence, const schedule::Run& run,
                             std::span<const request::SampledToken> rows) {
  if (sequence.request.pooling == request::Pooling::kNone) return;
  std::vector<double>& sum = sequence.pooled;
  CAUSEWAY_DCHECK(sequence.request.max_tokens == Tokens(1),
                  "an embedding comes with other than one token");
  if (run.context == Tokens(0)) sum.clear();
  if (sequence.request.pooling == request::Pooling::kLast) rows = rows.last(run.samples ? 1 : 0);
  for (const request::SampledToken& row : rows) {
    CAUSEWAY_DCHECK(sum.empty() || sum.size() == row.hidden.size(), "a row of another size");
    sum.resize(row.hidden.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(row.hidden[i]);
  }
  if (!run.samples || sequence.request.pooling == request::Pooling::kLast) return;
  for (double& value : sum) value /= static_cast<double>(sequence.prompt.count);
}

request::BatchEntry EngineCore::State::add_entry(const schedule::Run& run, const StepLane& lane,
                                                 StepId step, request::Batch& batch) {
  const Sequence& sequence = sequence_of(run.request);
  const Tokens end = run.context + run.tokens;
  CAUSEWAY_CHECK(kv.grow(run.request, end), "the scheduler promised frames that are not there");
  const std::span<const TokenId> known(sequence.tokens);
  const bool pending = end.count > std::ssize(known);
  CAUSEWAY_CHECK(!pending || (run.tokens.count == 1 && run.context.count == std::ssize(known) &&
                              sequence.runs[StepLane::slot_of(lane.started - 1)] >= 0),
                 "a step reads a token that is not known, nor sampled by the step before");
  const TokenId chosen_before = request::pending_token(sequence.sampled_row);
  const std::span<const FrameId> table = kv.table(run.request);
  CAUSEWAY_DCHECK(
      std::ssize(table) * models.at(batch.model).facts.tokens_per_block.count >= end.count,
      "the frames of a row do not hold its tokens");
  request::BatchEntry entry;
  entry.request = run.request;
  entry.token_begin = static_cast<std::int32_t>(batch.tokens.size());
  entry.token_count = static_cast<std::int32_t>(run.tokens.count);
  entry.frame_begin = static_cast<std::int32_t>(batch.frames.size());
  entry.frame_count = static_cast<std::int32_t>(table.size());
  entry.context = static_cast<std::int32_t>(run.context.count);
  entry.samples = run.samples;
  entry.sampling = sequence.request.sampling;
  entry.prompt_tokens = static_cast<std::int32_t>(sequence.prompt.count);
  const auto scored = known.subspan(static_cast<std::size_t>(run.context.count) + 1,
                                    static_cast<std::size_t>(scored_rows(sequence, run)));
  entry.scored.assign(scored.begin(), scored.end());
  entry.hidden = sequence.request.pooling != request::Pooling::kNone;
  if (run.samples) entry.edits = edits_of(sequence, end);
  if (run.samples && entry.sampling.penalised()) {
    entry.history = sequence.tokens;
    if (pending) entry.history.push_back(chosen_before);
  }
  batch.frames.insert(batch.frames.end(), table.begin(), table.end());
  if (pending) {
    batch.tokens.push_back(chosen_before);  // committed once its token is known
    return entry;
  }
  kv.commit(run.request, known.first(static_cast<std::size_t>(end.count)), step);
  const auto chunk = known.subspan(static_cast<std::size_t>(run.context.count),
                                   static_cast<std::size_t>(run.tokens.count));
  batch.tokens.insert(batch.tokens.end(), chunk.begin(), chunk.end());
  return entry;
}

request::Batch EngineCore::State::make_batch(const StepLane& lane, const StepInFlight& step) {
  request::Batch batch = executor.spare_batch();
  batch.step = step.id;
  batch.model = step.decision.model;
  batch.entries.reserve(step.decision.runs.size());
  std::size_t tokens = 0;
  for (const schedule::Run& run : step.decision.runs) {
    tokens += static_cast<std::size_t>(run.tokens.count);
  }
  batch.tokens.reserve(tokens);
  CAUSEWAY_DCHECK(!step.decision.runs.empty(), "a step that computes nothing");
  for (const schedule::Run& run : step.decision.runs) {
    batch.entries.push_back(add_entry(run, lane, step.id, batch));
  }
  if (rotation) rotation->add_copies(batch);
  return batch;
}

void EngineCore::State::update_weights(Nanos now) {
  awaiting_weights = false;
  weights_look.reset();
  if (cache == nullptr || weights_rest(now)) return;
  const std::size_t requests_before = sequences.size();
  demand.clear();
  for (const ModelId id : asked) {
    demand.push_back({.model = id,
                      .requests = scheduler.sequences(id),
                      .arrived = std::exchange(models.at(id).arrived, 0)});
  }
  cache->demand(demand, now);
  // It looks at every sequence, and what it frees helps the next decision at the earliest.
  if (border && may_start()) move_border(now);
  cache->decide(now);
  if (border) border->hand_over();
  weights_look = cache->next_quantum_end(now);
  if (border && border->again()) {
    weights_look = std::min(weights_look.value_or(*border->again()), *border->again());
  }
  for (const weights::ModelDemand& wanted : demand) {
    const auto why = cache->take_failure(wanted.model);
    if (!why) continue;
    for (const RequestId request : all_requests()) {
      Sequence& sequence = sequence_of(request);
      if (sequence.request.model == wanted.model) end(sequence, FinishReason::kError, *why);
    }
  }
  for (const weights::ModelDemand& wanted : demand) {
    const bool done = scheduler.sequences(wanted.model) == 0 && wanted.requests == 0;
    if (done && cache->residency().rests(wanted.model)) asked.erase(wanted.model);
  }
  CAUSEWAY_DCHECK(sequences.size() <= requests_before, "a request begins where some end");
  // A decision with requests that have ended meanwhile is made again.
  if (sequences.size() < requests_before) weights_look = now;
}

Nanos EngineCore::State::in_flight_for(Nanos now) const {
  Nanos sum{};
  const StepLane& lane = lanes[0];
  for (std::int64_t id = lane.ended; id < lane.started; ++id) {
    const StepInFlight& step = lane.at(id);
    const Nanos since = id == lane.ended ? now - step.started : Nanos(0);
    CAUSEWAY_DCHECK(step.computes >= Nanos(0), "a step is expected to take less than no time");
    sum += std::max(step.computes - since, Nanos(0));
  }
  return sum;
}

void EngineCore::State::move_border(Nanos now) {
  const schedule::FramesWanted wanted = scheduler.frames_wanted(kv);
  border->decide(wanted, now);
  if (const auto why = border->take_failure()) {
    spdlog::warn("KV frames get no more memory: {}", *why);
    end_larger_than(kv.frames(), *why);
  } else if (wanted.largest > kv.frames() && wanted.largest > border->frames_limit()) {
    end_larger_than(border->frames_limit(), "the weights of models leave it no more");
  }
}

std::int64_t EngineCore::State::end_larger_than(std::int64_t frames, const std::string& why) {
  std::int64_t ended = 0;
  for (const RequestId request : all_requests()) {
    Sequence& sequence = sequence_of(request);
    const std::int64_t block = models.at(sequence.request.model).facts.tokens_per_block.count;
    const std::int64_t needed = (std::ssize(sequence.tokens) + block - 1) / block;
    if (needed <= frames) continue;
    CAUSEWAY_DCHECK(block > 0 && frames >= 0, "a model has blocks, and a pool frames");
    end(sequence, FinishReason::kError,
        "the request needs " + std::to_string(needed) + " KV frames and can have " +
            std::to_string(frames) + ": " + why);
    ++ended;
  }
  return ended;
}

bool EngineCore::State::make_way(Nanos now) {
  if (in_flight() > 0 || !border) return false;
  if (border->stuck() && !weights_look && !weights_arrive()) {
    return end_larger_than(border->frames_limit(), "the weights of models leave it no more") > 0;
  }
  if (!border->starved()) return false;
  scheduler.preempt_all(deciding);
  apply_decision(deciding, now);
  return !deciding.preempted.empty();
}

bool EngineCore::State::end_unreachable(Nanos now) {
  CAUSEWAY_DCHECK(cache != nullptr, "where all weights are resident every model is reachable");
  bool ended = false;
  for (const RequestId request : all_requests()) {
    Sequence& sequence = sequence_of(request);
    if (weights_allow(sequence.request.model, now)) continue;
    end(sequence, FinishReason::kError,
        "the weights of its model need memory that copies of KV to or from host memory hold, which "
        "have not ended");
    ended = true;
  }
  return ended;
}

bool EngineCore::State::end_stranded(Nanos now) {
  // Requests that wait for weights need not wait for these copies, unless only the memory that the
  // copies hold can come to the weights.
  const bool stuck = border && border->stuck() && !weights_arrive();
  const bool waits = rotation && rotation->given_up() && !rotation->under_way() &&
                     in_flight() == 0 && !sequences.empty() && (!awaiting_weights || stuck);
  if (!waits) {
    stranded_until.reset();
    return false;
  }
  if (!stranded_until) stranded_until = now + kStrandedMax;
  if (now < *stranded_until) return false;
  stranded_until.reset();
  const kv::FrameCounts counts = kv.counts();
  const std::int64_t held = counts.stranded + counts.copying;
  const bool larger = end_larger_than(counts.available() + counts.referenced,
                                      "copies of KV to or from host memory have not ended, and "
                                      "hold " +
                                          std::to_string(held)) > 0;
  return larger || (stuck && end_unreachable(now));
}

bool EngineCore::State::weights_arrive() const {
  CAUSEWAY_DCHECK(cache != nullptr, "where all weights are resident none arrive");
  for (const auto& [id, model] : models) {
    if (!cache->knows(id)) continue;
    for (int group = 0; group < std::ssize(model.facts.weights.groups); ++group) {
      if (cache->residency().place(id, group) == weights::GroupPlace::kArriving) return true;
    }
  }
  return false;
}

// kAtOnce starts whatever is left to copy, kAllCached not before all is there. Behind other steps a
// model's weights should be there in its turn; otherwise the step may wait for the last of them.
Nanos EngineCore::State::computes_behind_weights() const {
  if (options.step_start == StepStart::kAtOnce) return kDay;
  return options.step_start == StepStart::kAllCached ? -kDay : Nanos(0);
}

Nanos EngineCore::State::computes_beside_weights(ModelId model, Nanos now) const {
  const bool always =
      options.step_start == StepStart::kAtOnce || options.step_start == StepStart::kAllCached;
  if (always || in_flight() > 0) return computes_behind_weights();
  if (options.step_start == StepStart::kWhenIdle) return kDay;
  return models.at(model).facts.step_of(scheduler.tokens_wanted(model, now)) + kBesideKernels;
}

bool EngineCore::State::weights_allow(ModelId model, Nanos now) {
  if (cache == nullptr || !cache->knows(model)) return true;
  const Nanos begins = now + in_flight_for(now);
  const auto readiness = cache->readiness(model, computes_beside_weights(model, now), begins);
  if (readiness.now) {
    note_weights(model, now);
    // If this decision does not step it either, others may have its room.
    if (cache->offer(model, now)) weights_look = now;
    return true;
  }
  awaiting_weights = true;
  if (readiness.at) weights_look = std::min(weights_look.value_or(*readiness.at), *readiness.at);
  return false;
}

Status EngineCore::State::end_weights(const StepLane& lane, Nanos now,
                                      std::span<const std::uint32_t> experts_chosen) {
  CAUSEWAY_DCHECK(lane.in_flight() > 0, "no step of the lane reads weights");
  const ModelId model = lane.oldest().decision.model;
  if (cache == nullptr || !cache->knows(model)) return {};
  cache->take_events(now);
  return cache->step_ended(model, now, experts_chosen);
}

void EngineCore::State::launch(Nanos now) {
  StepLane& lane = lane_of(deciding.model);
  CAUSEWAY_DCHECK(lane.has_room() && lost.empty(), "a step is started where none may be");
  StepInFlight& step = lane.next();
  std::swap(step.decision, deciding);
  step.id = StepId(steps_started);
  step.started = now;
  step.sequences.clear();
  step.scored.clear();
  step.abandoned_frames.clear();
  step.refused.clear();
  step.weights.clear();
  request::Batch batch = make_batch(lane, step);
  step.awaits_masks = batch.awaits_masks();
  step.computes = models.at(batch.model).facts.step_of(Tokens(std::ssize(batch.tokens)));
  CAUSEWAY_DCHECK(std::ssize(batch.entries) == std::ssize(step.decision.runs),
                  "another number of entries than runs");
  std::int64_t row = 0;
  for (const schedule::Run& run : step.decision.runs) {
    Sequence& sequence = sequence_of(run.request);
    sequence.runs[StepLane::slot_of(lane.started)] = std::ssize(step.sequences);
    step.scored.push_back(scored_rows(sequence, run));
    row += step.scored.back();
    if (run.samples) sequence.sampled_row = row++;
    const bool formed = run.samples && sequence.matcher != nullptr;
    if (formed && !goes_ahead(sequence)) scheduler.hold(run.sequence, true);
    step.sequences.push_back(&sequence);
  }
  ++steps_started;
  ++lane.started;
  if (cache != nullptr && cache->knows(step.decision.model)) {
    cache->step_begins(step.decision.model, step.weights);
  }
  const Status started = executor.submit(std::move(batch), step.weights);
  if (!started.ok()) step.refused = "the device refused a step: " + started.error().message;
  end_refused(lane, now);
}

std::vector<RequestId> EngineCore::State::in_steps(const schedule::Decision* decided) const {
  std::vector<RequestId> requests;
  for (const StepLane& lane : lanes) {
    for (std::int64_t step = lane.ended; step < lane.started; ++step) {
      for (const Sequence* sequence : lane.at(step).sequences) {
        if (sequence != nullptr) requests.push_back(sequence->request.id);
      }
    }
  }
  if (decided != nullptr) {
    for (const schedule::Run& run : decided->runs) {
      CAUSEWAY_DCHECK(sequences.contains(run.request),
                      "a step is decided for a request that has ended");
      requests.push_back(run.request);
    }
  }
  std::sort(requests.begin(), requests.end());
  requests.erase(std::unique(requests.begin(), requests.end()), requests.end());
  return requests;
}

void EngineCore::State::tell_watch(const schedule::Decision* decided) const {
  if (options.watch == nullptr || hung || !lost.empty()) return;
  options.watch->steps(in_steps(decided));
}

void EngineCore::State::end_refused(StepLane& lane, Nanos now) {
  while (lane.in_flight() > 0 && !lane.oldest().refused.empty()) {
    const std::string why = lane.oldest().refused;
    (void)end_weights(lane, now).ok();  // it fails anyway
    fail_step(lane, why, now);
  }
}

std::span<Sequence* const> EngineCore::State::retire_step(StepLane& lane, Nanos now) {
  CAUSEWAY_DCHECK(lane.in_flight() > 0, "a step ends that is not in flight");
  StepInFlight& step = lane.oldest();
  retired.clear();
  retired.swap(step.sequences);
  step.abandoned_frames.clear();
  for (Sequence* sequence : retired) {
    if (sequence != nullptr) sequence->runs[StepLane::slot_of(lane.ended)] = -1;
  }
  models.at(step.decision.model).counters.steps += 1;
  ++lane.ended;
  if (lane.in_flight() > 0) lane.oldest().started = std::max(lane.oldest().started, now);
  return retired;
}

void EngineCore::State::finish_step(StepLane& lane, const request::StepResult& result, Nanos now) {
  CAUSEWAY_DCHECK(lane.oldest().id == result.step, "a step ends before an older one of its lane");
  const auto& runs = lane.oldest().decision.runs;
  const auto& scored = lane.oldest().scored;
  const auto wanted = std::count_if(runs.begin(), runs.end(),
                                    [](const schedule::Run& run) { return run.samples; }) +
                      std::accumulate(scored.begin(), scored.end(), std::int64_t{0});
  const Status weights = end_weights(lane, now, result.experts_chosen);
  if (!weights.ok()) {
    fail_step(lane, weights.error().message, now);
  } else if (!result.error.empty()) {
    fail_step(lane, result.error, now);
  } else if (std::ssize(result.sampled) != wanted) {
    fail_step(lane,
              "the device sampled " + std::to_string(result.sampled.size()) + " tokens where " +
                  std::to_string(wanted) + " were due",
              now);
  } else {
    complete_step(lane, result, now);
  }
  end_refused(lane, now);
}

void EngineCore::State::fail_step(StepLane& lane, const std::string& why, Nanos now) {
  const StepInFlight& step = lane.oldest();
  kv.step_failed(step.id, oldest_beside(lane));
  scheduler.step_failed(step.decision, now);
  // What the step in flight computes for them depends on KV that is not there.
  for (Sequence* sequence : retire_step(lane, now)) {
    if (sequence != nullptr) end(*sequence, FinishReason::kError, why);
  }
  if (!rotation) return;
  // Other sequences were to have in host memory what the step should have filled.
  std::vector<RequestId> requests;
  kv.take_lost(requests);
  recompute(requests, now);
}

void EngineCore::State::complete_step(StepLane& lane, const request::StepResult& result,
                                      Nanos now) {
  const StepInFlight& step = lane.oldest();
  CAUSEWAY_DCHECK(result.error.empty() && result.duration >= Nanos(0),
                  "a step that failed is completed");
  kv.step_done(step.id, oldest_beside(lane));
  scheduler.step_done(step.decision, now, result.duration);
  // The device's own measurement counts: if it included what the step waited for, such as copies of
  // KV, the budget of these copies would feed itself.
  measure_step(lane, step.decision.model, result.duration);
  device_busy += result.duration;
  const std::span<Sequence* const> computed = retire_step(lane, now);
  request::Observation& counters = models.at(step.decision.model).counters;
  CAUSEWAY_DCHECK(computed.size() == step.decision.runs.size(),
                  "another number of sequences than runs");
  std::size_t sample = 0;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const schedule::Run& run = step.decision.runs[i];
    const auto scores =
        std::span(result.sampled).subspan(sample, static_cast<std::size_t>(step.scored[i]));
    sample += scores.size();
    const request::OutputToken* token = run.samples ? &result.sampled[sample++].token : nullptr;
    Sequence* sequence = computed[i];
    if (sequence == nullptr) continue;
    keep_scores(*sequence, run, scores);
    pool(*sequence, run, {scores.data(), scores.size() + (run.samples ? 1 : 0)});
    const std::int64_t of_prompt = (sequence->prompt - run.context).count;
    counters.prompt_tokens += std::clamp<std::int64_t>(of_prompt, 0, run.tokens.count);
    if (token != nullptr) end_switch(*sequence, now);
    if (std::any_of(scores.begin(), scores.end(), has_no_token)) {
      end(*sequence, FinishReason::kError, kNanLogits);
      continue;
    }
    if (token == nullptr || !take_token(*sequence, *token)) continue;
    if (sequence->matcher != nullptr) follow(*sequence, token->token, now);
    commit_ahead(*sequence);
  }
}

bool EngineCore::State::take_token(Sequence& sequence, const request::OutputToken& token) {
  const request::Request& request = sequence.request;
  const auto& stops = request.stop_tokens;
  CAUSEWAY_DCHECK(sequence.output_tokens() < request.max_tokens.count,
                  "a sequence that has all its tokens gets another");
  if (token.token == kNoToken) {
    end(sequence, FinishReason::kError, kNanLogits);
    return false;
  }
  if (std::find(stops.begin(), stops.end(), token.token) != stops.end()) {
    end(sequence, FinishReason::kStop, "");
    return false;
  }
  sequence.tokens.push_back(token.token);
  models.at(request.model).counters.generated_tokens += 1;
  if (sequence.output_tokens() >= request.max_tokens.count) {
    end(sequence, FinishReason::kLength, "", {token});
    return false;
  }
  add_output(sequence).tokens.push_back(token);
  return true;
}

void EngineCore::State::commit_ahead(Sequence& sequence) {
  const StepLane& lane = lane_of(sequence.request.model);
  if (lane.in_flight() == 0) return;
  const StepInFlight& step = lane.oldest();
  const std::int64_t index = sequence.runs[StepLane::slot_of(lane.ended)];
  if (index < 0) return;
  const schedule::Run& run = step.decision.runs[static_cast<std::size_t>(index)];
  CAUSEWAY_CHECK((run.context + run.tokens).count == std::ssize(sequence.tokens),
                 "the step in flight computes another token than was sampled");
  kv.commit(sequence.request.id, sequence.tokens, step.id);
}

void EngineCore::State::begin_switch(ModelId model, Nanos now) {
  auto& switching = models.at(model).switching;
  if (switching || cache == nullptr || !cache->knows(model)) return;
  const Bytes missing = cache->missing_bytes(model);
  CAUSEWAY_DCHECK(missing >= Bytes(0), "a model misses less than nothing");
  if (missing == Bytes(0)) return;
  switching = ModelEntry::Switching{now, missing, cache->copy_time(missing)};
}

void EngineCore::State::note_weights(ModelId model, Nanos now) {
  ModelEntry& entry = models.at(model);
  if (!entry.switching || std::exchange(entry.switching->may_step, true)) return;
  CAUSEWAY_DCHECK(now >= entry.switching->began, "weights have come before they were missing");
  entry.weights_came = now;
}

std::optional<request::ModelSwitch> EngineCore::State::switch_ending(const ModelEntry& model,
                                                                     Nanos now) {
  const auto& switching = model.switching;
  if (!switching) return std::nullopt;
  CAUSEWAY_DCHECK(now >= switching->began, "a switch ends before it began");
  return request::ModelSwitch{.missing = switching->missing,
                              .predicted = switching->predicted,
                              .took = now - switching->began};
}

void EngineCore::State::end_switch(Sequence& sequence, Nanos now) {
  ModelEntry& model = models.at(sequence.request.model);
  if (!model.switching) return;
  sequence.switched = switch_ending(model, now);
  model.switching.reset();
}

request::Output& EngineCore::State::add_output(Sequence& sequence) {
  request::Output& output = outputs.emplace_back();
  output.request = sequence.request.id;
  output.cached_prompt = sequence.cached;
  output.queued = sequence.queued;
  output.preemptions = sequence.preemptions;
  output.held = sequence.request.held;
  output.weights = sequence.weights;
  output.switched = std::exchange(sequence.switched, std::nullopt);
  output.attempt = sequence.request.attempt;
  // The token of a step that was in flight may come while the sequence is in host memory.
  const bool away = !sequence.rotated.empty() && sequence.rotated.back().in < Nanos(0);
  if (!away) output.rotations = std::exchange(sequence.rotated, {});
  if (sequence.scoring) return output;
  output.prompt = std::exchange(sequence.scores, {});
  output.embedding.assign(sequence.pooled.begin(), sequence.pooled.end());
  return output;
}

void EngineCore::State::end(Sequence& sequence, FinishReason reason, std::string error,
                            std::vector<request::OutputToken> last_tokens) {
  const RequestId id = sequence.request.id;
  const ModelId model = sequence.request.model;
  CAUSEWAY_DCHECK(sequences.contains(id), "a request ends twice");
  scheduler.remove(sequence.handle);
  if (scheduler.sequences(model) == 0) models.at(model).switching.reset();
  if (kv.is_open(id)) release_frames(sequence);
  disown_steps(sequence);
  request::Output& output = add_output(sequence);
  output.tokens = std::move(last_tokens);
  output.finished = true;
  if (!sequence.rotated.empty()) output.rotations = std::move(sequence.rotated);
  output.reason = reason;
  output.error = std::move(error);
  output.lost = reason == FinishReason::kError && (hung || !lost.empty());
  sequences.erase(id);
}

StepId EngineCore::State::last_user(const Sequence& sequence) {
  StepLane& lane = lane_of(sequence.request.model);
  StepInFlight* last = nullptr;
  for (std::int64_t step = lane.ended; step < lane.started; ++step) {
    if (sequence.runs[StepLane::slot_of(step)] < 0) continue;
    // The later step still reads and writes them.
    last = &lane.at(step);
  }
  if (last == nullptr) return {};
  CAUSEWAY_DCHECK(last->decision.model == sequence.request.model, "a step of another model");
  auto& abandoned = last->abandoned_frames;
  const auto table = kv.table(sequence.request.id);
  abandoned.insert(abandoned.end(), table.begin(), table.end());
  return last->id;
}

void EngineCore::State::release_frames(const Sequence& sequence) {
  const StepId user = last_user(sequence);
  kv.release(sequence.request.id, user);
}

void EngineCore::State::disown_steps(Sequence& sequence) {
  StepLane& lane = lane_of(sequence.request.model);
  for (std::int64_t step = lane.ended; step < lane.started; ++step) {
    const std::int64_t index = sequence.runs[StepLane::slot_of(step)];
    CAUSEWAY_DCHECK(index < std::ssize(lane.at(step).sequences), "a row that the step has not");
    if (index >= 0) lane.at(step).sequences[static_cast<std::size_t>(index)] = nullptr;
    sequence.runs[StepLane::slot_of(step)] = -1;
  }
}

std::vector<RequestId> EngineCore::State::all_requests() const {
  std::vector<RequestId> ids;
  ids.reserve(sequences.size());
  for (const auto& [id, sequence] : sequences) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace causeway::engine
