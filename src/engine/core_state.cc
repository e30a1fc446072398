#include "engine/core_state.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::engine {

using request::FinishReason;

Sequence& EngineCore::State::sequence_of(RequestId request) {
  const auto at = sequences.find(request);
  CAUSEWAY_CHECK(at != sequences.end(), "the engine does not know this request");
  return *at->second;
}

void EngineCore::State::apply_decision(Nanos now) {
  for (const schedule::Preemption& preemption : decision.preempted) {
    Sequence& sequence = sequence_of(preemption.request);
    release_frames(sequence);
    sequence.preemptions += 1;
    models.at(sequence.request.model).counters.preemptions += 1;
  }
  for (const schedule::Admission& admission : decision.admitted) {
    Sequence& sequence = sequence_of(admission.request);
    const kv::PrefixStats before = kv.prefix_stats();
    const Tokens cached = kv.open(admission.request, sequence.request.model, sequence.tokens);
    const kv::PrefixStats after = kv.prefix_stats();
    request::Observation& counters = models.at(sequence.request.model).counters;
    counters.prefix_queried_tokens += after.queried_tokens - before.queried_tokens;
    counters.prefix_hit_tokens += after.hit_tokens - before.hit_tokens;
    CAUSEWAY_CHECK(cached == admission.cached, "the cached prefix is not what was planned with");
#if CAUSEWAY_CANARY == 3
    // planted bug: what was generated before a preemption is forgotten in part
    if (sequence.preemptions > 0 && sequence.output_tokens() > 0) sequence.tokens.back() ^= 1;
#endif
    if (sequence.queued.count >= 0) continue;
    sequence.cached = std::min(cached, sequence.prompt);
    sequence.queued = now - sequence.request.arrival;
  }
}

request::Batch EngineCore::State::make_batch(StepId id) {
  request::Batch batch;
  batch.step = id;
  batch.model = decision.model;
  batch.entries.reserve(decision.runs.size());
  for (const schedule::Run& run : decision.runs) {
    Sequence& sequence = sequence_of(run.request);
    const Tokens end = run.context + run.tokens;
    CAUSEWAY_CHECK(kv.grow(run.request, end), "the scheduler promised frames that are not there");
    const std::span<const TokenId> known(sequence.tokens);
    kv.commit(run.request, known.first(static_cast<std::size_t>(end.count)), id);
    const auto chunk = known.subspan(static_cast<std::size_t>(run.context.count),
                                     static_cast<std::size_t>(run.tokens.count));
    const std::span<const FrameId> table = kv.table(run.request);
    request::BatchEntry entry;
    entry.request = run.request;
    entry.token_begin = static_cast<std::int32_t>(batch.tokens.size());
    entry.token_count = static_cast<std::int32_t>(chunk.size());
    entry.frame_begin = static_cast<std::int32_t>(batch.frames.size());
    entry.frame_count = static_cast<std::int32_t>(table.size());
    entry.context = static_cast<std::int32_t>(run.context.count);
    entry.samples = run.samples;
    entry.sampling = sequence.request.sampling;
    entry.prompt_tokens = static_cast<std::int32_t>(sequence.prompt.count);
    if (run.samples && entry.sampling.penalised()) entry.history = sequence.tokens;
    batch.tokens.insert(batch.tokens.end(), chunk.begin(), chunk.end());
    batch.frames.insert(batch.frames.end(), table.begin(), table.end());
    batch.entries.push_back(std::move(entry));
  }
  return batch;
}

bool EngineCore::State::launch(Nanos now) {
  step.id = StepId(steps_started++);
  step.started = now;
  step.sequences.clear();
  for (const schedule::Run& run : decision.runs) {
    Sequence& sequence = sequence_of(run.request);
    sequence.run_index = static_cast<std::int64_t>(step.sequences.size());
    step.sequences.push_back(&sequence);
  }
  const Status started = executor.submit(make_batch(step.id));
  if (started.ok()) return true;
  fail_step("the device refused a step: " + started.error().message, now);
  return false;
}

void EngineCore::State::fail_step(const std::string& why, Nanos now) {
#if CAUSEWAY_CANARY == 2
  kv.step_done(step.id);  // planted bug: what was never computed enters the prefix cache
#else
  kv.step_failed(step.id);
#endif
  scheduler.step_failed(decision, now);
  std::vector<Sequence*> affected;
  affected.swap(step.sequences);
  step.abandoned_frames.clear();
  step.id = StepId();
  models.at(decision.model).counters.steps += 1;
  for (Sequence* sequence : affected) {
    if (sequence == nullptr) continue;
    sequence->run_index = -1;
    end(*sequence, FinishReason::kError, why);
  }
}

void EngineCore::State::complete_step(const request::StepResult& result, Nanos now) {
  kv.step_done(step.id);
  scheduler.step_done(decision, now);
  std::vector<Sequence*> computed;
  computed.swap(step.sequences);
  step.abandoned_frames.clear();
  step.id = StepId();
  request::Observation& counters = models.at(decision.model).counters;
  counters.steps += 1;
  std::size_t sample = 0;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const schedule::Run& run = decision.runs[i];
    const request::OutputToken* token = run.samples ? &result.sampled[sample++].token : nullptr;
    Sequence* sequence = computed[i];
    if (sequence == nullptr) continue;
    sequence->run_index = -1;
    const std::int64_t of_prompt = (sequence->prompt - run.context).count;
    counters.prompt_tokens += std::clamp<std::int64_t>(of_prompt, 0, run.tokens.count);
    if (token != nullptr) take_token(*sequence, *token);
  }
}

void EngineCore::State::take_token(Sequence& sequence, const request::OutputToken& token) {
  const request::Request& request = sequence.request;
  const auto& stops = request.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token.token) != stops.end()) {
    end(sequence, FinishReason::kStop, "");
    return;
  }
  sequence.tokens.push_back(token.token);
  models.at(request.model).counters.generated_tokens += 1;
  if (sequence.output_tokens() >= request.max_tokens.count) {
    end(sequence, FinishReason::kLength, "", {token});
    return;
  }
  add_output(sequence).tokens.push_back(token);
}

request::Output& EngineCore::State::add_output(const Sequence& sequence) {
  request::Output& output = outputs.emplace_back();
  output.request = sequence.request.id;
  output.cached_prompt = sequence.cached;
  output.queued = sequence.queued;
  output.preemptions = sequence.preemptions;
  return output;
}

void EngineCore::State::end(Sequence& sequence, FinishReason reason, std::string error,
                            std::vector<request::OutputToken> last_tokens) {
  const RequestId id = sequence.request.id;
  scheduler.remove(sequence.handle);
  if (kv.is_open(id)) release_frames(sequence);
  if (sequence.run_index >= 0) {
    step.sequences[static_cast<std::size_t>(sequence.run_index)] = nullptr;
  }
  request::Output& output = add_output(sequence);
  output.tokens = std::move(last_tokens);
  output.finished = true;
  output.reason = reason;
  output.error = std::move(error);
  sequences.erase(id);
}

void EngineCore::State::release_frames(const Sequence& sequence) {
  StepId last_user;
  if (sequence.run_index >= 0) {
    const auto table = kv.table(sequence.request.id);
    step.abandoned_frames.insert(step.abandoned_frames.end(), table.begin(), table.end());
    // The step in flight still reads and writes them.
    last_user = step.id;
  }
#if CAUSEWAY_CANARY == 1
  last_user = StepId();  // planted bug: frames that the step in flight uses are given away
#endif
  kv.release(sequence.request.id, last_user);
}

std::vector<RequestId> EngineCore::State::all_requests() const {
  std::vector<RequestId> ids;
  ids.reserve(sequences.size());
  for (const auto& [id, sequence] : sequences) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace causeway::engine
