// Fast-forward: steps of a SimulatedExecutor that are alike (docs/design/simulate.md).
#include <algorithm>

#include "base/check.h"
#include "simulate/simulated_executor.h"

namespace causeway::simulate {
namespace {

// Steps that are like one, each with another token for each of its sequences.
class AlikeSteps {
 public:
  AlikeSteps(const request::Batch& batch, const ModelShape& shape, const HardwareProfile& profile)
      : tokens_(tokens_of(batch)),
        durations_(work_of(tokens_, shape), profile),
        flops_per_pair_(shape.flops_per_context_token),
        kv_per_token_(static_cast<double>(shape.kv_per_token.count)) {}

  // How long the next one takes, beginning with the one that is given.
  Nanos next() {
    const Nanos takes =
        durations_.of(tokens_.pairs * flops_per_pair_, tokens_.kv_tokens * kv_per_token_);
    skip();
    return takes;
  }
  void skip() { tokens_.advance(tokens_.tokens); }

 private:
  StepTokens tokens_;
  StepDurations durations_;
  double flops_per_pair_;
  double kv_per_token_;
};

}  // namespace

bool SimulatedExecutor::foresees_ends() const {
  const Faults& faults = options_.faults;
  const bool chance = faults.error_rate > 0 || faults.refuse_rate > 0 || faults.slow_rate > 0 ||
                      faults.hang_rate > 0;
  if (chance || shadow_ || copies_ || options_.frames_move || streamed_) return false;
  if (options_.memory != nullptr) return false;  // others may begin to read
  if (resident_.size() != 2 || stream_.size() != 2 || !ended_.empty()) return false;
  if (mover_ != nullptr && mover_->copies_at(clock_.now())) return false;
  // The first may have to be launched yet, but no other.
  const StreamItem& first = stream_.front();
  return first.waits_until.value_or(clock_.now()) >= launches_.until() &&
         launches_.has_graph(resident_.back()->batch);
}

Nanos SimulatedExecutor::first_end() const {
  const StreamItem& first = stream_.front();
  if (!first.waits_until) return first.ends;
  return *first.waits_until + computes(*first.step, *first.waits_until);
}

void SimulatedExecutor::repeated_ends(std::int64_t steps, std::vector<Nanos>& ends) const {
  ends.clear();
  if (!foresees_ends()) return;
  const Step& second = *resident_.back();
  if (groups_read(second) != groups_read(*resident_.front())) return;
  AlikeSteps alike(second.batch, *second.model->shape, options_.profile);
  Nanos end = first_end();
  ends.reserve(static_cast<std::size_t>(steps + 1));
  ends.push_back(end);
  for (std::int64_t i = 0; i < steps; ++i) ends.push_back(end += alike.next());
}

void SimulatedExecutor::round_ends(std::int64_t rounds, std::vector<Nanos>& ends) const {
  ends.clear();
  if (!foresees_ends() || !launches_.has_graph(resident_.front()->batch)) return;
  const Step& first = *resident_.front();
  const Step& second = *resident_.back();
  AlikeSteps of_first(first.batch, *first.model->shape, options_.profile);
  AlikeSteps of_second(second.batch, *second.model->shape, options_.profile);
  of_first.skip();
  Nanos end = first_end();
  ends.reserve(static_cast<std::size_t>(2 * rounds + 2));
  ends.push_back(end);
  ends.push_back(end += of_second.next());
  for (std::int64_t round = 1; round <= rounds; ++round) {
    const bool changed = round % 2 != 0;  // the second model is stepped first
    ends.push_back(end += (changed ? of_second : of_first).next());
    ends.push_back(end += (changed ? of_first : of_second).next());
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

void SimulatedExecutor::repeat_rounds(std::span<const Nanos> ends, Nanos next_end) {
  const std::int64_t steps = std::ssize(ends), rounds = steps / 2;
  CAUSEWAY_CHECK(rounds > 0 && resident_.size() == 2 && stream_.size() == 2, "no rounds to repeat");
  const StepId first_id(resident_.front()->batch.step.value + steps);
  const StepId second_id(resident_.back()->batch.step.value + steps);
  // The first of the two steps that a round submits is behind one of its own model.
  counters_.tokens_pending += (rounds + 1) / 2 * std::ssize(resident_.back()->batch.tokens) +
                              rounds / 2 * std::ssize(resident_.front()->batch.tokens);
  if (rounds % 2 != 0) std::swap(resident_.front(), resident_.back());
  stream_.front().step = resident_.front().get();
  stream_.back().step = resident_.back().get();
  resident_.front()->batch.step = first_id;
  resident_.back()->batch.step = second_id;
  for (const auto& step : resident_) {
    step->result.step = step->batch.step;
    step->submitted = step->next_from = ends.back();
    for (request::BatchEntry& entry : step->batch.entries) {
      entry.context += static_cast<std::int32_t>(rounds);
      computed_[entry.request] = entry.context + entry.token_count;
    }
  }
  Step& running = *resident_.front();
  running.began = ends.back();
  running.result.sampled.clear();
  resident_.back()->result.sampled.clear();
  sample(running);
  counters_.steps += steps;
  counters_.steps_ahead += steps;
  counters_.busy += next_end - ends.front();
  stream_.front().ends = next_end;
}

}  // namespace causeway::simulate
