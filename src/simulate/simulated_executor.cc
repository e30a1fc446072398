#include "simulate/simulated_executor.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"

namespace causeway::simulate {

SimulatedExecutor::SimulatedExecutor(const SimulatedExecutorOptions& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      capabilities_{.steps_in_flight_max = options.steps_in_flight_max},
      random_(options.seed) {
  if (options_.shadow_frames > 0) {
    shadow_.emplace(options_.shadow_frames, options_.tokens_per_block_max);
  }
}

void SimulatedExecutor::add_model(ModelId model, const ModelShape& shape) {
  CAUSEWAY_CHECK(models_.emplace(model, shape).second, "the executor knows this model already");
}

void SimulatedExecutor::remove_model(ModelId model) {
  const auto at = models_.find(model);
  CAUSEWAY_CHECK(at != models_.end(), "the executor does not know this model");
  if (resident_.remove(model) > 0) resident_bytes_ -= at->second.weights;
  models_.erase(at);
}

Bytes SimulatedExecutor::make_resident(ModelId model, const ModelShape& shape, Bytes read) {
  if (options_.profile.link_bytes_per_second <= 0) return Bytes(0);
  const auto at = std::find(resident_.begin(), resident_.end(), model);
  if (at != resident_.end()) {
    resident_.splice(resident_.begin(), resident_, at);
    return Bytes(0);
  }
  if (shape.weights > options_.weight_memory) return read;  // streamed every step
  while (resident_bytes_ + shape.weights > options_.weight_memory) {
    resident_bytes_ -= models_.at(resident_.back()).weights;
    resident_.pop_back();
  }
  resident_.push_front(model);
  resident_bytes_ += shape.weights;
  counters_.model_loads += 1;
  return shape.weights;
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
  const std::int64_t block = models_.at(batch.model).tokens_per_block.count;
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
  const ModelShape& shape = models_.at(step.batch.model);
  if (shadow_) {
    const std::string wrong = shadow_->begin(step.batch, shape.tokens_per_block, shape.vocab);
    if (!wrong.empty()) {
      if (violation_.empty()) violation_ = wrong;
      return Error{ErrorCode::kDevice, "simulated: a batch that breaks the rules: " + wrong};
    }
  }
  const StepWork work = work_of(step.batch, shape);
  const Bytes link = make_resident(step.batch.model, shape, work.weights);
  counters_.link_bytes += link;
  Nanos duration = step_duration(work, link, options_.profile);
  duration = Nanos(static_cast<std::int64_t>(static_cast<double>(duration.count) * step.slowed));
  if (step.hangs) duration = options_.faults.hang;
  counters_.busy += duration;
  step.result.duration = duration;
  step.ends_at = at + duration;
  if (step.result.error.empty()) sample(step.batch, shape, step.result);
  return {};
}

Status SimulatedExecutor::submit(request::Batch batch) {
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
  if (!wrong.empty() && violation_.empty()) violation_ = wrong;
  Step step = draw(std::move(batch));
  counters_.steps_ahead += steps_.empty() ? 0 : 1;
  counters_.tokens_pending +=
      std::count_if(step.batch.tokens.begin(), step.batch.tokens.end(), request::is_pending);
  if (steps_.empty()) CAUSEWAY_TRY(begin(step, clock_.now()));
  steps_.push_back(std::move(step));
  return {};
}

// What it computed is there, and the step behind it begins.
void SimulatedExecutor::end(const Step& step) {
  if (shadow_ && step.result.error.empty()) shadow_->complete();
  if (shadow_ && !step.result.error.empty()) shadow_->fail();
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
