// The fields of everything that is sent, each once, for writing and for reading. A field that is
// missing here does not arrive.
#pragma once

#include "worker/messages.h"
#include "worker/wire.h"

namespace causeway::worker {

template <typename V>
void fields(V& v, Of<V, Error>& error) {
  v.one_of(error.code, ErrorCode::kDevice);
  v.text(error.message);
}

// Requests and what comes back.

template <typename V>
void fields(V& v, Of<V, request::SamplingParams>& s) {
  v(s.temperature, s.top_p, s.top_k, s.min_p, s.presence_penalty, s.frequency_penalty,
    s.repetition_penalty, s.seed, s.top_logprobs, s.prompt_logprobs);
}
template <typename V>
void fields(V& v, Of<V, request::TokenBias>& bias) {
  v(bias.token, bias.bias);
}
template <typename V>
void fields(V& v, Of<V, request::Slo>& slo) {
  v(slo.ttft, slo.tpot, slo.ttft_slack, slo.tpot_slack);
}
template <typename V>
void fields(V& v, Of<V, request::ConstraintText>& constraint) {
  v.one_of(constraint.kind, request::ConstraintKind::kCallsInText);
  v(constraint.text);
}
// Less the constraint, which Submit has as text.
template <typename V>
void fields(V& v, Of<V, request::Request>& r) {
  v.one_of(r.pooling, request::Pooling::kMean);
  v(r.id, r.model, r.prompt, r.sampling, r.max_tokens, r.stop_tokens, r.min_tokens, r.logit_bias,
    r.allowed_tokens, r.slo, r.priority, r.arrival, r.output, r.attempt, r.held);
}
template <typename V>
void fields(V& v, Of<V, request::TokenLogprob>& one) {
  v(one.token, one.logprob);
}
template <typename V>
void fields(V& v, Of<V, request::OutputToken>& token) {
  v(token.token, token.logprob, token.top);
}
template <typename V>
void fields(V& v, Of<V, request::ModelSwitch>& one) {
  v.count(one.missing.count);
  v.count(one.predicted.count);
  v.count(one.took.count);
}
template <typename V>
void fields(V& v, Of<V, request::RotationTimes>& times) {
  v(times.out, times.in);
}
template <typename V>
void fields(V& v, Of<V, request::Output>& o) {
  v(o.request, o.tokens, o.prompt, o.embedding, o.finished);
  v.one_of(o.reason, request::FinishReason::kError);
  v.text(o.error);
  v.one_of(o.code, ErrorCode::kDevice);
  v.count(o.cached_prompt.count);
  v(o.queued, o.preemptions, o.held, o.weights, o.rotations, o.switched, o.attempt, o.lost);
}
template <typename V>
void fields(V& v, Of<V, request::KvCopyCounts>& c) {
  v.count(c.eager_out);
  v.count(c.rotation_out);
  v.count(c.rotation_in);
  v.count(c.prefix_in);
  v.count(c.failed);
}
template <typename V>
void fields(V& v, Of<V, request::Observation>& o) {
  v.count(o.requests_running);
  v.count(o.requests_waiting);
  v.count(o.requests_rotary);
  v.count(o.frames_total);
  v.count(o.frames_used);
  v.count(o.frames_stranded);
  v.count(o.twins_total);
  v.count(o.twins_used);
  v.count(o.weights_cached.count);
  v.count(o.preemptions);
  v.count(o.rotations);
  v(o.kv_copies);
  v.count(o.steps);
  v.count(o.device_busy.count);
  v.count(o.prompt_tokens);
  v.count(o.generated_tokens);
  v.count(o.prefix_queried_tokens);
  v.count(o.prefix_hit_tokens);
  v.count(o.prefix_host_tokens);
  v.count(o.expert_hits);
  v.count(o.expert_misses);
  v.count(o.link_bytes.count);
  v.count(o.requests_resumed);
  v(o.hung);
  v.text(o.lost);
}

// How slices are opened.

template <typename V>
void fields(V& v, Of<V, schedule::LagOptions>& o) {
  v.one_of(o.early, schedule::DisplacesEarly::kAll);
  v(o.ahead_share, o.late_after);
}
template <typename V>
void fields(V& v, Of<V, schedule::RotationPolicyOptions>& o) {
  v(o.lag, o.predicted_error, o.predicted_seed);
}
template <typename V>
void fields(V& v, Of<V, schedule::StepTime>& time) {
  v(time.tokens, time.alone, time.beside);
}
template <typename V>
void fields(V& v, Of<V, schedule::StepTable>& table) {
  v(table.decodes, table.times);
}
template <typename V>
void fields(V& v, Of<V, schedule::ShapeTable>& table) {
  v(table.shape, table.processors, table.table);
}
template <typename V>
void fields(V& v, Of<V, schedule::ChunkProfile>& profile) {
  v.text(profile.file);
  v(profile.machine, profile.tables);
}
template <typename V>
void fields(V& v, Of<V, schedule::ChunkOptions>& o) {
  v(o.automatic, o.ttft_share, o.tpot_share, o.efficiency_min, o.least, o.profile);
}
template <typename V>
void fields(V& v, Of<V, schedule::Options>& o) {
  v.one_of(o.policy, schedule::PolicyKind::kPastFuture);
  v.one_of(o.preemption, schedule::PreemptionKind::kAuto);
  v(o.tokens_per_step_max, o.chunk, o.running_max, o.rotation);
}
template <typename V>
void fields(V& v, Of<V, schedule::BudgetLimits>& limits) {
  v(limits.frames_share_max, limits.rate_share_min);
}
template <typename V>
void fields(V& v, Of<V, engine::EngineOptions>& o) {
  v(o.core.prefix_caching, o.core.prefix_hash_seed, o.core.rotation, o.core.schedule,
    o.core.step_timeout, o.core.steps_in_flight_max);
  v.one_of(o.core.step_start, engine::StepStart::kWhenIdle);
  v(o.requests_max);
}
template <typename V>
void fields(V& v, Of<V, SlicePlan>& plan) {
  v(plan.processors, plan.unit, plan.share, plan.kv, plan.kv_frame, plan.kv_host, plan.weights,
    plan.ring);
  v.one_of(plan.experts, weights::ExpertPolicy::kMap);
  v(plan.memory_utilization, plan.engine);
}
template <typename V>
void fields(V& v, Of<V, PlannedModel>& model) {
  v(model.id, model.name, model.directory, model.max_model_len, model.pinned, model.max_resident);
}
template <typename V>
void fields(V& v, Of<V, transfer::LinkRates>& rates) {
  v(rates.in, rates.out);
}
template <typename V>
void fields(V& v, Of<V, WorkerPlan>& plan) {
  v.one_of(plan.backend, Backend::kCuda);
  v(plan.gpu, plan.slices, plan.models, plan.link_least);
}

// Messages.

template <typename V>
void fields(V& v, Of<V, Hello>& m) {
  v(m.magic, m.protocol);
  v.text(m.version);
}
template <typename V>
void fields(V& v, Of<V, Prepare>& m) {
  v(m.plan);
}
template <typename V>
void fields(V&, Of<V, Prepared>&) {}
template <typename V>
void fields(V&, Of<V, Open>&) {}
template <typename V>
void fields(V& v, Of<V, Opened::Slice>& slice) {
  v.count(slice.frames);
  v.count(slice.room.budget.count);
  v.count(slice.room.extent.count);
  v.count(slice.limits.memory.count);
  v(slice.limits.link_bytes_per_second, slice.limits.memory_bytes_per_second,
    slice.limits.flops_per_second);
}
template <typename V>
void fields(V& v, Of<V, Opened>& m) {
  v(m.slices);
}
template <typename V>
void fields(V& v, Of<V, Failed>& m) {
  v(m.error);
}
template <typename V>
void fields(V& v, Of<V, Attach>& m) {
  v(m.call, m.slice, m.model, m.name, m.directory, m.max_model_len, m.max_resident, m.alpha, m.tpot,
    m.pinned, m.bytes, m.eos);
  v.one_of(m.tool_calls, text::ToolCallFormat::kMistralArgs);
}
template <typename V>
void fields(V& v, Of<V, Attached>& m) {
  v(m.call, m.error);
  v.count(m.streamed.count);
  v.count(m.predicted_tpot.count);
}
template <typename V>
void fields(V& v, Of<V, Detach>& m) {
  v(m.call, m.slice, m.model, m.timeout);
}
template <typename V>
void fields(V& v, Of<V, Detached>& m) {
  v(m.call, m.error);
}
template <typename V>
void fields(V& v, Of<V, Submit>& m) {
  v(m.slice, m.request, m.formed, m.form);
}
template <typename V>
void fields(V& v, Of<V, Cancel>& m) {
  v(m.slice, m.request);
}
template <typename V>
void fields(V& v, Of<V, Outputs>& m) {
  v(m.slice, m.outputs);
}
template <typename V>
void fields(V& v, Of<V, Observed>& m) {
  v(m.slice, m.all, m.models);
  v.count(m.link_busy.count);
}
template <typename V>
void fields(V&, Of<V, Alive>&) {}
template <typename V>
void fields(V& v, Of<V, Queued>& m) {
  v(m.slice, m.request);
}
template <typename V>
void fields(V& v, Of<V, Stepping>& m) {
  v(m.slice, m.requests);
}
template <typename V>
void fields(V& v, Of<V, transfer::LinkWants>& wants) {
  for (auto& rate : wants.in) v(rate);
  for (auto& rate : wants.out) v(rate);
}
template <typename V>
void fields(V& v, Of<V, transfer::LinkAsk>& m) {
  v(m.at, m.applied, m.wants);
}
template <typename V>
void fields(V& v, Of<V, transfer::LinkLease>& m) {
  v(m.number, m.asked, m.length, m.share, m.offer);
}

}  // namespace causeway::worker
