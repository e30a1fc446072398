// Gives an executor that takes one step at a time a second step in flight, which is kept here until
// the first has ended and its pending tokens are known.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "engine/step_executor.h"

namespace causeway::engine {

class AheadExecutor final : public StepExecutor {
 public:
  explicit AheadExecutor(StepExecutor& inner)
      : inner_(inner),
        capabilities_{.steps_in_flight_max = 2, .step_timeout = inner.capabilities().step_timeout} {
  }

  const Capabilities& capabilities() const override { return capabilities_; }

  Status submit(request::Batch batch, weights::StepWeights weights) override {
    if (running_ && queued_) return unavailable("two steps are in flight");
    if (running_) {
      queued_ = std::move(batch);
      queued_weights_ = weights;
      ++steps_ahead_;
      return {};
    }
    CAUSEWAY_TRY(inner_.submit(std::move(batch), weights));
    running_ = true;
    return {};
  }

  std::optional<request::StepResult> wait(Nanos timeout) override {
    if (failed_) return std::exchange(failed_, std::nullopt);
    std::optional<request::StepResult> result = inner_.wait(timeout);
    if (!result) return result;
    running_ = false;
    if (queued_) start_queued(*result);
    return result;
  }

  std::int64_t steps_ahead() const { return steps_ahead_; }

 private:
  void start_queued(const request::StepResult& before) {
    request::Batch batch = *std::exchange(queued_, std::nullopt);
    const StepId step = batch.step;
    request::resolve_pending(batch, before.sampled);
    const Status started = inner_.submit(std::move(batch), queued_weights_);
    running_ = started.ok();
    if (started.ok()) return;
    failed_.emplace();
    failed_->step = step;
    failed_->error = started.error().message;
  }

  StepExecutor& inner_;
  const Capabilities capabilities_;
  bool running_ = false;
  std::optional<request::Batch> queued_;
  weights::StepWeights queued_weights_;
  std::optional<request::StepResult> failed_;  // what the inner one refused
  std::int64_t steps_ahead_ = 0;
};

}  // namespace causeway::engine
