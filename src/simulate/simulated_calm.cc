// Fast-forward: steps of a SimulatedExecutor that are alike (docs/design/simulate.md).
#include <algorithm>

#include "base/check.h"
#include "simulate/simulated_executor.h"

namespace causeway::simulate {

void SimulatedExecutor::repeated_ends(std::int64_t steps, std::vector<Nanos>& ends) const {
  ends.clear();
  const Faults& faults = options_.faults;
  const bool chance = faults.error_rate > 0 || faults.refuse_rate > 0 || faults.slow_rate > 0 ||
                      faults.hang_rate > 0;
  if (chance || shadow_ || copies_ || options_.frames_move || streamed_) return;
  if (options_.memory != nullptr) return;  // others may begin to read
  if (resident_.size() != 2 || stream_.size() != 2 || !ended_.empty()) return;
  if (mover_ != nullptr && mover_->copies_at(clock_.now())) return;
  const Step& second = *resident_.back();
  // The first may have to be launched yet, but no other.
  const StreamItem& first = stream_.front();
  if (first.waits_until.value_or(clock_.now()) < launches_.until()) return;
  if (!launches_.has_graph(second.batch)) return;
  if (groups_read(second) != groups_read(*resident_.front())) return;
  const ModelShape& shape = *second.model->shape;
  StepTokens tokens = tokens_of(second.batch);
  const StepDurations durations(work_of(tokens, shape), options_.profile);
  const auto kv_per_token = static_cast<double>(shape.kv_per_token.count);
  Nanos end = first.ends;
  if (first.waits_until) end = *first.waits_until + computes(*first.step, *first.waits_until);
  ends.reserve(static_cast<std::size_t>(steps + 1));
  ends.push_back(end);
  for (std::int64_t i = 0; i < steps; ++i) {
    end +=
        durations.of(tokens.pairs * shape.flops_per_context_token, tokens.kv_tokens * kv_per_token);
    ends.push_back(end);
    tokens.advance(tokens.tokens);
  }
}

void SimulatedExecutor::begin_launched() {
  StreamItem& first = stream_.front();
  if (first.waits_until && *first.waits_until < clock_.now()) run(first, *first.waits_until);
}

bool SimulatedExecutor::begins_answers() const {
  const auto& entries = resident_.front()->batch.entries;
  return std::any_of(entries.begin(), entries.end(), [](const request::BatchEntry& entry) {
    return entry.token_count > 1 || entry.context + entry.token_count <= entry.prompt_tokens;
  });
}

void SimulatedExecutor::repeat(std::span<const Nanos> ends, Nanos next_end) {
  const std::int64_t times = std::ssize(ends);
  CAUSEWAY_CHECK(times > 0 && resident_.size() == 2 && stream_.size() == 2, "no steps to repeat");
  Step& running = *resident_.front();
  Step& next = *resident_.back();
  const auto more = static_cast<std::int32_t>(times);
  if (begins_answers()) {
    running.batch.tokens = next.batch.tokens;
    running.batch.entries = next.batch.entries;
    for (request::BatchEntry& entry : running.batch.entries) entry.context -= 1;
  }
  for (Step* step : {&running, &next}) {
    step->batch.step = StepId(step->batch.step.value + times);
    step->result.step = step->batch.step;
    step->submitted = step->next_from = ends.back();
    for (request::BatchEntry& entry : step->batch.entries) entry.context += more;
  }
  running.began = ends.back();
  running.result.sampled.clear();
  sample(running);
  for (const request::BatchEntry& entry : next.batch.entries) {
    computed_[entry.request] = entry.context + entry.token_count;
  }
  counters_.steps += times;
  counters_.steps_ahead += times;
  counters_.tokens_pending += times * std::ssize(next.batch.tokens);
  counters_.busy += next_end - ends.front();
  stream_.front().ends = next_end;
}

}  // namespace causeway::simulate
