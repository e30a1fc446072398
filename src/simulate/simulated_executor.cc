#include "simulate/simulated_executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace causeway::simulate {
namespace {

constexpr std::size_t kRangesEnqueued = 2;  // that have not ended, as on a GPU

}  // namespace

SimulatedExecutor::SimulatedExecutor(const SimulatedExecutorOptions& options, const Clock& clock,
                                     const SimulatedMover* mover)
    : options_(options),
      clock_(clock),
      mover_(mover),
      capabilities_{.steps_in_flight_max = options.steps_in_flight_max,
                    .streams = mover != nullptr},
      random_(options.seed),
      frames_(options.frames_move ? mover : nullptr) {
  if (options_.shadow_frames > 0) {
    shadow_.emplace(options_.shadow_frames, options_.tokens_per_block_max);
  }
}

void SimulatedExecutor::add_model(ModelId model, const ModelShape& shape, WeightSource source) {
  CAUSEWAY_CHECK(source != WeightSource::kCache || mover_ != nullptr, "a cache needs a mover");
  CAUSEWAY_CHECK(models_.emplace(model, Model{shape, source}).second,
                 "the executor knows this model already");
}

void SimulatedExecutor::remove_model(ModelId model) {
  CAUSEWAY_CHECK(models_.erase(model) == 1, "the executor does not know this model");
}

void SimulatedExecutor::blame(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void SimulatedExecutor::sample(Step& step) {
  const ModelShape& shape = step.model->shape;
  std::size_t row = 0;
  for (const request::BatchEntry& entry : step.batch.entries) {
    if (!entry.samples) continue;
    TokenId token = 0;
    if (shadow_) {
      token = step.shadow.sampled.at(row++);
    } else {
      const auto request = static_cast<std::uint64_t>(entry.request.value);
      const auto position = static_cast<std::uint64_t>(entry.context + entry.token_count);
      token = static_cast<TokenId>(mix64(mix64(request) ^ position) %
                                   static_cast<std::uint64_t>(shape.vocab));
    }
    request::SampledToken sampled{.request = entry.request, .token = {}};
    sampled.token.token = token;
    step.result.sampled.push_back(std::move(sampled));
  }
}

SimulatedExecutor::Step SimulatedExecutor::draw(request::Batch batch) {
  Step step;
  step.model = &models_.at(batch.model);
  step.result.step = batch.step;
  step.batch = std::move(batch);
  step.submitted = step.next_from = clock_.now();
  if (random_.chance(options_.faults.slow_rate)) step.slowed = options_.faults.slow_factor;
  if (random_.chance(options_.faults.hang_rate)) {
    step.hangs = true;
    counters_.hangs += 1;
  }
  if (random_.chance(options_.faults.error_rate)) {
    counters_.faults += 1;
    step.result.error = "simulated: the step failed";
  }
  return step;
}

Status SimulatedExecutor::check_room(const request::Batch& batch) const {
  const auto model = models_.find(batch.model);
  if (model == models_.end()) {
    return not_found("the simulated device does not have this model");
  }
  const bool streams = model->second.shape.cached.streams();
  if (streams ? streamed_ != nullptr : std::ssize(resident_) >= capabilities_.steps_in_flight_max) {
    return unavailable("a step is in flight");
  }
  return {};
}

Status SimulatedExecutor::submit(request::Batch batch, weights::StepWeights weights) {
  advance();
  CAUSEWAY_TRY(check_room(batch));
  counters_.steps += 1;
  if (random_.chance(options_.faults.refuse_rate)) {
    counters_.faults += 1;
    return Error{ErrorCode::kDevice, "simulated: the device refuses the step"};
  }
  const ModelShape& shape = models_.at(batch.model).shape;
  if (shadow_) {
    for (const auto& running : resident_) {
      blame(frames_given_away(running->batch, batch, shape.tokens_per_block));
    }
    if (streamed_) blame(frames_given_away(streamed_->batch, batch, shape.tokens_per_block));
  }
  blame(frames_.submitted(batch, shadow_ ? &*shadow_ : nullptr));
  std::vector<Read> reads = reads_of(batch, weights);
  auto step = std::make_unique<Step>(draw(std::move(batch)));
  step->reads = std::move(reads);
  if (shape.cached.streams()) {
    submit_streamed(std::move(step), weights);
    return {};
  }
  counters_.steps_ahead += resident_.empty() ? 0 : 1;
  counters_.tokens_pending +=
      std::count_if(step->batch.tokens.begin(), step->batch.tokens.end(), request::is_pending);
  counters_.between_ranges += streamed_ ? 1 : 0;
  resident_.push_back(std::move(step));
  enqueue({.step = resident_.back().get(), .range = {}}, clock_.now());
  return {};
}

// A step that fails is enqueued up to some range, or to its end.
void SimulatedExecutor::submit_streamed(std::unique_ptr<Step> step, weights::StepWeights weights) {
  step->ranges = ranges_of(step->batch, weights);
  if (!step->result.error.empty()) {
    const auto last = random_.between(1, std::ssize(step->ranges));
    counters_.abandoned += last < std::ssize(step->ranges) ? 1 : 0;
    step->ranges.resize(static_cast<std::size_t>(last));
  }
  streamed_ = std::move(step);
  advance();
}

void SimulatedExecutor::advance() {
  const Nanos now = clock_.now();
  while (true) {
    const std::optional<Nanos> range = next_range_at();
    const std::optional<Nanos> end = turn_ends_at();
    if (range && *range <= now && (!end || *range < *end)) {
      streamed_->next_from = *range;
      enqueue({.step = streamed_.get(), .range = streamed_->enqueued++}, *range);
    } else if (end && *end <= now) {
      end_turn();
    } else {
      break;
    }
  }
  look_for_lost();
  if (!streamed_) return;
  counters_.streamed_longest = std::max(counters_.streamed_longest, now - streamed_->submitted);
}

void SimulatedExecutor::enqueue(Turn turn, Nanos at) {
  stream_.push_back(turn);
  if (stream_.size() == 1) begin(stream_.front(), at);
}

Nanos SimulatedExecutor::computes(const Step& step, Nanos at) const {
  const bool copies = mover_ != nullptr && mover_->copies_at(at);
  const Nanos computes =
      step_duration(work_of(step.batch, step.model->shape), options_.profile, copies);
  return Nanos(static_cast<std::int64_t>(static_cast<double>(computes.count) * step.slowed));
}

void SimulatedExecutor::begin(Turn& turn, Nanos at) {
  Step& step = *turn.step;
  if (turn.range.value_or(0) == 0) begin_step(step, at);
  Nanos takes = computes(step, at);
  if (turn.range) {
    const Range& range = step.ranges[*turn.range];
    const Nanos overhead = std::min(options_.profile.step_overhead, takes);
    takes = nanos_from_seconds(to_seconds(takes - overhead) * range.part);
    if (*turn.range == 0) takes += overhead;
  }
  if (step.hangs && turn.range.value_or(0) == 0) takes = options_.faults.hang;
  turn.ends = turn.range ? at + takes : end_of_reads(step, at, takes);
  counters_.busy += turn.ends - at;
  counters_.weights_wait += turn.ends - at - takes;
}

void SimulatedExecutor::begin_step(Step& step, Nanos at) {
  step.began = at;
  if (shadow_) {
    const ModelShape& shape = step.model->shape;
    const std::string wrong =
        shadow_->begin(step.batch, shape.tokens_per_block, shape.vocab, step.shadow);
    if (!wrong.empty()) {
      blame(wrong);
      step.result.error = "simulated: a batch that breaks the rules: " + wrong;
    }
  }
  if (step.result.error.empty()) sample(step);
}

void SimulatedExecutor::end_turn() {
  const Turn turn = stream_.front();
  stream_.pop_front();
  if (turn.range) {
    end_range(*turn.range, turn.ends);
  } else {
    end_resident(turn.ends);
  }
  if (!stream_.empty()) begin(stream_.front(), turn.ends);
}

// The step behind it learns what it chose.
void SimulatedExecutor::end_resident(Nanos at) {
  const std::unique_ptr<Step> step = std::move(resident_.front());
  resident_.pop_front();
  step->is_void = poisoned(*step);
  end_step(*step, at);
  if (resident_.empty()) return;
  Step& next = *resident_.front();
  request::resolve_pending(next.batch, step->result.sampled);
  next.shadow.after_failure = step->is_void || !step->result.error.empty();
}

void SimulatedExecutor::end_range(std::size_t index, Nanos at) {
  Step& step = *streamed_;
  look_back(step, step.ranges[index]);
  if (step.enqueued - step.ended == kRangesEnqueued) step.next_from = at;
  if (++step.ended < step.ranges.size()) return;
  step.is_void = poisoned(step) || step.is_void;
  end_step(step, at);
  counters_.streamed_steps += 1;
  counters_.streamed_longest = std::max(counters_.streamed_longest, at - step.submitted);
  streamed_.reset();
}

// What it computed is there.
void SimulatedExecutor::end_step(Step& step, Nanos at) {
  blame(frames_.ended(step.batch));
  step.result.duration = at - step.began;
  if (step.is_void) {
    counters_.poisoned += 1;
    for (request::SampledToken& sampled : step.result.sampled) sampled.token.token ^= 1;
  }
  if (shadow_ && !step.is_void && step.result.error.empty()) shadow_->complete(step.shadow);
  ended_.push_back(step.result);
}

std::optional<request::StepResult> SimulatedExecutor::wait(Nanos) {
  CAUSEWAY_CHECK(!resident_.empty() || streamed_ || !ended_.empty(), "no step is in flight");
  advance();
  if (ended_.empty()) return std::nullopt;
  request::StepResult result = std::move(ended_.front());
  ended_.pop_front();
  return result;
}

std::optional<Nanos> SimulatedExecutor::next_range_at() const {
  if (!streamed_ || streamed_->enqueued == streamed_->ranges.size()) return std::nullopt;
  if (streamed_->enqueued - streamed_->ended == kRangesEnqueued) return std::nullopt;
  return arrival_of(*streamed_, streamed_->ranges[streamed_->enqueued]);
}

std::optional<Nanos> SimulatedExecutor::turn_ends_at() const {
  if (stream_.empty()) return std::nullopt;
  return stream_.front().ends;
}

std::optional<Nanos> SimulatedExecutor::next_event() const {
  if (!ended_.empty()) return clock_.now();
  const std::optional<Nanos> range = next_range_at();
  const std::optional<Nanos> end = turn_ends_at();
  if (!range || !end) return range ? range : end;
  return std::min(*range, *end);
}

}  // namespace causeway::simulate
