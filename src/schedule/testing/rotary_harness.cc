#include "schedule/testing/rotary_harness.h"

#include "base/check.h"

namespace causeway::schedule {

RotaryHarness::RotaryHarness(const RotaryOptions& options)
    : budget(options.budget),
      kv_({.frames = options.frames}),
      twins_(kv_, options.twins, options.eager),
      with_twins_(options.twins > 0),
      steps_in_flight_(static_cast<std::size_t>(options.steps_in_flight)),
      scheduler_(options.schedule) {}

void RotaryHarness::add_model(ModelId model, std::int64_t tokens_per_block, double alpha) {
  kv_.add_model(model, Tokens(tokens_per_block));
  scheduler_.add_model(model, Tokens(tokens_per_block), false, alpha);
}

void RotaryHarness::add(const RotarySequence& one) {
  Sequence& sequence = sequences_[RequestId(one.id)];
  sequence.model = one.model;
  for (std::int64_t i = 0; i < one.prompt; ++i) {
    sequence.tokens.push_back(static_cast<TokenId>((one.id * 1'000 + i) % 1'000'000'007));
  }
  sequence.length_max = static_cast<std::size_t>(one.prompt + one.output);
  sequence.handle = scheduler_.add({.request = RequestId(one.id),
                                    .model = one.model,
                                    .tokens = &sequence.tokens,
                                    .slo = one.slo,
                                    .priority = one.priority,
                                    .arrival = one.arrival,
                                    .length_max = Tokens(one.prompt + one.output)});
}

StepId RotaryHarness::last_user(RequestId sequence) const {
  StepId last;
  for (const Step& step : in_flight_) {
    for (const Run& run : step.decision.runs) {
      if (run.request == sequence) last = step.id;
    }
  }
  return last;
}

void RotaryHarness::remove(std::int64_t id) {
  const RequestId request(id);
  scheduler_.remove(sequences_.at(request).handle);
  if (kv_.is_open(request)) kv_.release(request, last_user(request));
  twins_.released(request);
  sequences_.erase(request);
}

void RotaryHarness::lose(std::int64_t id) {
  const RequestId request(id);
  Sequence& sequence = sequences_.at(request);
  if (kv_.is_open(request)) {
    kv_.release(request, last_user(request));
    sequence.voided = last_user(request).valid();
  }
  twins_.released(request);
  scheduler_.lost(sequence.handle);
}

bool RotaryHarness::start(Nanos now) {
  decide(now);
  return execute();
}

bool RotaryHarness::execute() {
  const bool runs = decision_.model.valid();
  const StepId step(counters_.steps);
  for (const Preemption& one : decision_.preempted) {
    counters_.recomputed += sequences_.at(one.request).computed;
    kv_.release(one.request, last_user(one.request));
    twins_.released(one.request);
  }
  for (const Admission& one : decision_.admitted) {
    const Sequence& sequence = sequences_.at(one.request);
    const Tokens cached = kv_.open(one.request, sequence.model, sequence.tokens);
    CAUSEWAY_CHECK(cached == one.cached, "open() found another prefix than was planned");
    twins_.opened(one.request, sequence.model);
  }
  for (const Rotation& one : decision_.rotated_out) {
    const std::int64_t copies = twins_.out_cost(one.request).copies;
    counters_.copies_out += copies;
    counters_.rotations += 1;
    // The copies go with the step, and hold the frames until it has ended.
    const StepId copied = copies > 0 && runs ? step : last_user(one.request);
    twins_.rotate_out(one.request, Tokens(sequences_.at(one.request).computed), copied, copied);
  }
  for (const Rotation& one : decision_.rotated_in) {
    counters_.copies_in +=
        twins_.in_cost(one.request).copies;  // at the most: what is cached needs none
    twins_.rotate_in(one.request, sequences_.at(one.request).tokens, step);
  }
  for (const Run& run : decision_.runs) {
    Sequence& sequence = sequences_.at(run.request);
    const Tokens end = run.context + run.tokens;
    CAUSEWAY_CHECK(kv_.grow(run.request, end), "grow() failed although it was planned");
    sequence.computed = end.count;
    if (end.count <= std::ssize(sequence.tokens)) {
      const std::span<const TokenId> tokens(sequence.tokens);
      kv_.commit(run.request, tokens.first(static_cast<std::size_t>(end.count)), step);
    }
  }
  if (!runs) return false;
  in_flight_.push_back({step, decision_});
  counters_.steps += 1;
  return true;
}

void RotaryHarness::finish(Nanos now) {
  const Step step = std::move(in_flight_.front());
  in_flight_.pop_front();
  kv_.step_done(step.id);
  twins_.step_done(step.id);
  scheduler_.step_done(step.decision, now);
  for (const Run& run : step.decision.runs) {
    const auto at = sequences_.find(run.request);
    if (at == sequences_.end()) continue;
    Sequence& sequence = at->second;
    if (sequence.voided) {
      sequence.voided = last_user(run.request).valid();
      continue;
    }
    if (!run.samples) continue;
    sequence.tokens.push_back(static_cast<TokenId>(sequence.tokens.size()));
    if (sequence.tokens.size() < sequence.length_max) continue;
    remove(run.request.value);
    ++ended_;
  }
}

bool RotaryHarness::round(Nanos now) {
  while (in_flight_.size() < steps_in_flight_) {
    if (start(now)) continue;
    if (decision_.empty()) break;
  }
  if (in_flight_.empty()) return false;
  finish(now);
  return true;
}

const Run* RotaryHarness::run_of(std::int64_t id) const {
  for (const Run& run : decision_.runs) {
    if (run.request == RequestId(id)) return &run;
  }
  return nullptr;
}

Status RotaryHarness::check() const {
  CAUSEWAY_TRY(kv_.check_integrity());
  return scheduler_.check_integrity(kv_);
}

}  // namespace causeway::schedule
