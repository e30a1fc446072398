#include "simulate/simulated_executor.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"

namespace causeway::simulate {

SimulatedExecutor::SimulatedExecutor(const SimulatedExecutorOptions& options, const Clock& clock,
                                     const SimulatedMover* mover)
    : options_(options),
      clock_(clock),
      mover_(mover),
      capabilities_{.steps_in_flight_max = options.steps_in_flight_max},
      random_(options.seed) {
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

std::vector<SimulatedExecutor::Read> SimulatedExecutor::reads_of(const request::Batch& batch,
                                                                 weights::StepWeights weights) {
  std::vector<Read> reads;
  const Model& model = models_.at(batch.model);
  if (model.source != WeightSource::kCache) return reads;
  const weights::CachedModel& cached = model.shape.cached;
  for (std::size_t i = 0; i < cached.groups.size(); ++i) {
    weights::WeightView view;
    if (!weights.empty()) view = weights[static_cast<std::size_t>(cached.layout_groups[i])];
    if (view.place == weights::WeightPlace::kHome) {
      if (!cached.groups[i].readable_at_home) blame("a step reads at home what it cannot");
      continue;
    }
    const auto copy = mover_->copy_of(batch.model, static_cast<int>(i));
    const bool staged = view.place == weights::WeightPlace::kStaged;
    if (!copy || (staged && copy->arrival != view.value)) {
      blame("a step reads weights that are neither cached nor on their way");
    } else if (!staged && (copy->failed || copy->ends > clock_.now())) {
      blame("a step reads weights before they are there");
    } else {
      reads.push_back({.group = static_cast<int>(i), .arrival = copy->arrival});
    }
  }
  return reads;
}

Nanos SimulatedExecutor::end_of_reads(const Step& step, Nanos at, Nanos computes) const {
  Nanos end = at + computes;
  if (step.reads.empty()) return end;
  const auto& groups = models_.at(step.batch.model).shape.cached.groups;
  Bytes all, left;
  for (const Read& read : step.reads) all += groups[static_cast<std::size_t>(read.group)].bytes;
  for (auto read = step.reads.rbegin(); read != step.reads.rend(); ++read) {
    left += groups[static_cast<std::size_t>(read->group)].bytes;
    const auto copy = mover_->copy_of(step.batch.model, read->group);
    if (!copy || copy->arrival != read->arrival || copy->ends <= at) continue;
    const double part = static_cast<double>(left.count) / static_cast<double>(all.count);
    end = std::max(end, copy->ends + nanos_from_seconds(to_seconds(computes) * part));
  }
  return end;
}

bool SimulatedExecutor::poisoned(const Step& step) {
  bool poisoned = false;
  for (const Read& read : step.reads) {
    const auto copy = mover_->copy_of(step.batch.model, read.group);
    if (!copy || copy->arrival != read.arrival) blame("weights are taken from a step in flight");
    poisoned = poisoned || !copy || copy->failed;
  }
  return poisoned;
}

void SimulatedExecutor::sample(const request::Batch& batch, const ModelShape& shape,
                               request::StepResult& result) {
  std::size_t row = 0;
  for (const request::BatchEntry& entry : batch.entries) {
    if (!entry.samples) continue;
    TokenId token = 0;
    if (shadow_) {
      token = shadow_->sampled()[row++];
    } else {
      const auto position = static_cast<std::uint64_t>(entry.context + entry.token_count);
      const auto request = static_cast<std::uint64_t>(entry.request.value);
      token = static_cast<TokenId>(mix64(mix64(request) ^ position) %
                                   static_cast<std::uint64_t>(shape.vocab));
    }
    request::SampledToken sampled{.request = entry.request, .token = {}};
    sampled.token.token = token;
    result.sampled.push_back(std::move(sampled));
  }
}

// What the step in flight uses for one request must not yet be another's to write: quarantine.
std::string SimulatedExecutor::check_hands_off(const request::Batch& batch) const {
  if (!shadow_ || steps_.empty()) return "";
  const request::Batch& running = steps_.back().batch;
  std::map<std::int64_t, std::set<RequestId>> users;
  for (const request::BatchEntry& entry : running.entries) {
    for (std::int32_t f = 0; f < entry.frame_count; ++f) {
      users[running.frames[static_cast<std::size_t>(entry.frame_begin + f)].value].insert(
          entry.request);
    }
  }
  const std::int64_t block = models_.at(batch.model).shape.tokens_per_block.count;
  for (const request::BatchEntry& entry : batch.entries) {
    for (std::int64_t f = entry.context / block; f < entry.frame_count; ++f) {
      const FrameId frame = batch.frames[static_cast<std::size_t>(entry.frame_begin + f)];
      const auto used = users.find(frame.value);
      if (used != users.end() && !used->second.contains(entry.request)) {
        return "frame " + std::to_string(frame.value) + " is given away while a step uses it";
      }
    }
  }
  return "";
}

void SimulatedExecutor::look_at_frames(const request::Batch& batch) {
  if (!options_.frames_move) return;
  for (const FrameId frame : batch.frames) {
    const auto memory = mover_->frame_memory(frame);
    if (!memory) return blame("frame " + std::to_string(frame.value) + " is used without memory");
    const auto [before, first] = frame_memory_.emplace(frame, *memory);
    if (shadow_ && !first && before->second != *memory) shadow_->spoil(frame);
    before->second = *memory;
  }
}

void SimulatedExecutor::look_back_at_frames(const request::Batch& batch) {
  if (!options_.frames_move) return;
  for (const FrameId frame : batch.frames) {
    if (mover_->frame_memory(frame) == frame_memory_.at(frame)) continue;
    blame("memory of frame " + std::to_string(frame.value) + " is taken from a step in flight");
  }
}

SimulatedExecutor::Step SimulatedExecutor::draw(request::Batch batch) {
  Step step;
  step.result.step = batch.step;
  step.batch = std::move(batch);
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

Status SimulatedExecutor::begin(Step& step, Nanos at) {
  const auto& [shape, source] = models_.at(step.batch.model);
  if (shadow_) {
    const std::string wrong = shadow_->begin(step.batch, shape.tokens_per_block, shape.vocab);
    if (!wrong.empty()) {
      blame(wrong);
      return Error{ErrorCode::kDevice, "simulated: a batch that breaks the rules: " + wrong};
    }
  }
  const StepWork work = work_of(step.batch, shape);
  const Bytes link = source == WeightSource::kLink ? work.weights : Bytes(0);
  counters_.link_bytes += link;
  Nanos computes = step_duration(work, link, options_.profile);
  computes = Nanos(static_cast<std::int64_t>(static_cast<double>(computes.count) * step.slowed));
  if (step.hangs) computes = options_.faults.hang;
  step.ends_at = end_of_reads(step, at, computes);
  step.result.duration = step.ends_at - at;
  counters_.busy += step.result.duration;
  counters_.weights_wait += step.result.duration - computes;
  if (step.result.error.empty()) sample(step.batch, shape, step.result);
  return {};
}

Status SimulatedExecutor::submit(request::Batch batch, weights::StepWeights weights) {
  if (std::ssize(steps_) >= capabilities_.steps_in_flight_max) {
    return unavailable("a step is in flight");
  }
  if (!models_.contains(batch.model)) {
    return not_found("the simulated device does not have this model");
  }
  counters_.steps += 1;
  if (random_.chance(options_.faults.refuse_rate)) {
    counters_.faults += 1;
    return Error{ErrorCode::kDevice, "simulated: the device refuses the step"};
  }
  const std::string wrong = check_hands_off(batch);
  if (!wrong.empty()) blame(wrong);
  look_at_frames(batch);
  std::vector<Read> reads = reads_of(batch, weights);
  Step step = draw(std::move(batch));
  step.reads = std::move(reads);
  counters_.steps_ahead += steps_.empty() ? 0 : 1;
  counters_.tokens_pending +=
      std::count_if(step.batch.tokens.begin(), step.batch.tokens.end(), request::is_pending);
  if (steps_.empty()) CAUSEWAY_TRY(begin(step, clock_.now()));
  steps_.push_back(std::move(step));
  return {};
}

// What it computed is there, and the step behind it begins.
void SimulatedExecutor::end(Step& step) {
  look_back_at_frames(step.batch);
  const bool is_void = poisoned(step);
  if (is_void) {
    counters_.poisoned += 1;
    for (request::SampledToken& sampled : step.result.sampled) sampled.token.token ^= 1;
  }
  if (shadow_ && (is_void || !step.result.error.empty())) {
    shadow_->fail();
  } else if (shadow_) {
    shadow_->complete();
  }
  if (steps_.empty()) return;
  Step& next = steps_.front();
  request::resolve_pending(next.batch, step.result.sampled);
  const Status begun = begin(next, step.ends_at);
  if (!begun.ok()) next.result.error = begun.error().message;
}

std::optional<request::StepResult> SimulatedExecutor::wait(Nanos) {
  CAUSEWAY_CHECK(!steps_.empty(), "no step is in flight");
  if (clock_.now() < steps_.front().ends_at) return std::nullopt;
  Step step = std::move(steps_.front());
  steps_.pop_front();
  end(step);
  return std::move(step.result);
}

std::optional<Nanos> SimulatedExecutor::ends_at() const {
  if (steps_.empty()) return std::nullopt;
  return steps_.front().ends_at;
}

}  // namespace causeway::simulate
