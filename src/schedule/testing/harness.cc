#include "schedule/testing/harness.h"

#include "base/check.h"

namespace causeway::schedule {

Harness::Harness(const HarnessOptions& options, std::unique_ptr<Policy> policy)
    : kv_({.frames = options.frames, .prefix_caching = options.prefix_caching}),
      scheduler_(options.schedule, policy == nullptr && !options.schedule.rotates()
                                       ? make_policy(options.schedule.policy)
                                       : std::move(policy)) {}

void Harness::add_model(ModelId model, std::int64_t tokens_per_block) {
  kv_.add_model(model, Tokens(tokens_per_block));
  scheduler_.add_model(model, Tokens(tokens_per_block));
}

void Harness::add(std::int64_t id, ModelId model, std::int64_t prompt, std::int64_t output,
                  std::int32_t priority, int family, bool scores) {
  Sequence& sequence = sequences_[RequestId(id)];
  sequence.model = model;
  sequence.scores = scores;
  for (std::int64_t i = 0; i < prompt; ++i) {
    sequence.tokens.push_back(static_cast<TokenId>(family != 0 ? family + 7 * i : 1000 * id + i));
  }
  sequence.length_max = static_cast<std::size_t>(prompt + output);
  sequence.handle = scheduler_.add({.request = RequestId(id),
                                    .model = model,
                                    .tokens = &sequence.tokens,
                                    .slo = {},
                                    .priority = priority,
                                    .arrival = Nanos(id),
                                    .length_max = Tokens(prompt + output),
                                    .scores = scores});
}

void Harness::execute() {
  for (const Preemption& preemption : decision_.preempted) {
    kv_.release(preemption.request, StepId());
  }
  for (const Admission& admission : decision_.admitted) {
    const Sequence& sequence = sequences_.at(admission.request);
    const std::span<const TokenId> looked_up(sequence.tokens);
    const Tokens cached = kv_.open(admission.request, sequence.model,
                                   sequence.scores ? looked_up.first(0) : looked_up);
    CAUSEWAY_CHECK(cached == admission.cached, "open() found another prefix than was planned");
  }
  ++steps_;
  for (const Run& run : decision_.runs) {
    const Tokens end = run.context + run.tokens;
    CAUSEWAY_CHECK(kv_.grow(run.request, end), "grow() failed although it was planned");
    const std::span<const TokenId> tokens(sequences_.at(run.request).tokens);
    kv_.commit(run.request, tokens.first(static_cast<std::size_t>(end.count)), StepId(steps_));
  }
}

void Harness::complete(Nanos now, Nanos took) {
  if (!decision_.model.valid()) return;
  kv_.step_done(StepId(steps_));
  scheduler_.step_done(decision_, now, took);
  for (const Run& run : decision_.runs) {
    if (!run.samples) continue;
    Sequence& sequence = sequences_.at(run.request);
    sequence.tokens.push_back(static_cast<TokenId>(sequence.tokens.size()));
    if (sequence.tokens.size() < sequence.length_max) continue;
    scheduler_.remove(sequence.handle);
    kv_.release(run.request, StepId());
    sequences_.erase(run.request);
    ++ended_;
  }
}

const Decision& Harness::step(Nanos now) {
  decide(now);
  execute();
  complete(now);
  return decision_;
}

const Run* Harness::run_of(std::int64_t id) const {
  for (const Run& run : decision_.runs) {
    if (run.request == RequestId(id)) return &run;
  }
  return nullptr;
}

}  // namespace causeway::schedule
