#include "simulate/simulated_executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace causeway::simulate {

SimulatedExecutor::SimulatedExecutor(const SimulatedExecutorOptions& options, const Clock& clock)
    : options_(options), clock_(clock), random_(options.seed) {
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

Bytes SimulatedExecutor::make_resident(ModelId model, const ModelShape& shape) {
  if (options_.profile.link_bytes_per_second <= 0) return Bytes(0);
  const auto at = std::find(resident_.begin(), resident_.end(), model);
  if (at != resident_.end()) {
    resident_.splice(resident_.begin(), resident_, at);
    return Bytes(0);
  }
  if (shape.weights > options_.weight_memory) return shape.weights_always;  // streamed every step
  while (resident_bytes_ + shape.weights > options_.weight_memory) {
    resident_bytes_ -= models_.at(resident_.back()).weights;
    resident_.pop_back();
  }
  resident_.push_front(model);
  resident_bytes_ += shape.weights;
  counters_.model_loads += 1;
  return shape.weights;
}

void SimulatedExecutor::sample(const request::Batch& batch, const ModelShape& shape) {
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
    result_->sampled.push_back(std::move(sampled));
  }
}

Status SimulatedExecutor::submit(request::Batch batch) {
  if (result_) return unavailable("a step is in flight");
  const auto at = models_.find(batch.model);
  if (at == models_.end()) return not_found("the simulated device does not have this model");
  const ModelShape& shape = at->second;
  counters_.steps += 1;
  if (random_.chance(options_.faults.refuse_rate)) {
    counters_.faults += 1;
    return Error{ErrorCode::kDevice, "simulated: the device refuses the step"};
  }
  if (shadow_) {
    std::string wrong = shadow_->begin(batch, shape.tokens_per_block, shape.vocab);
    if (!wrong.empty()) {
      if (violation_.empty()) violation_ = wrong;
      return Error{ErrorCode::kDevice, "simulated: a batch that breaks the rules: " + wrong};
    }
  }
  const Bytes link = make_resident(batch.model, shape);
  counters_.link_bytes += link;
  Nanos duration = step_duration(work_of(batch, shape), link, options_.profile);
  if (random_.chance(options_.faults.slow_rate)) {
    duration = Nanos(static_cast<std::int64_t>(static_cast<double>(duration.count) *
                                               options_.faults.slow_factor));
  }
  if (random_.chance(options_.faults.hang_rate)) {
    duration = options_.faults.hang;
    counters_.hangs += 1;
  }
  result_.emplace();
  result_->step = batch.step;
  result_->duration = duration;
  if (random_.chance(options_.faults.error_rate)) {
    counters_.faults += 1;
    result_->error = "simulated: the step failed";
  } else {
    sample(batch, shape);
  }
  counters_.busy += duration;
  ends_at_ = clock_.now() + duration;
  return {};
}

std::optional<request::StepResult> SimulatedExecutor::wait(Nanos) {
  CAUSEWAY_CHECK(result_.has_value(), "no step is in flight");
  if (clock_.now() < ends_at_) return std::nullopt;
  if (shadow_ && result_->error.empty()) shadow_->complete();
  if (shadow_ && !result_->error.empty()) shadow_->fail();
  return std::exchange(result_, std::nullopt);
}

std::optional<Nanos> SimulatedExecutor::ends_at() const {
  if (!result_) return std::nullopt;
  return ends_at_;
}

}  // namespace causeway::simulate
