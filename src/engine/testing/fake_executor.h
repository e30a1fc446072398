// A StepExecutor for tests of engines and of the rooms above: steps take no time unless they are
// held, and every sampled token is `token_base` plus its position.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "engine/step_executor.h"

namespace causeway::engine {

class FakeExecutor final : public StepExecutor {
 public:
  static constexpr TokenId kTokenBase = 1000;

  explicit FakeExecutor(int steps_in_flight_max = 1,
                        Nanos step_timeout = Capabilities{}.step_timeout)
      : capabilities_{.steps_in_flight_max = steps_in_flight_max, .step_timeout = step_timeout} {}

  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch batch, weights::StepWeights weights) override;
  std::optional<request::StepResult> wait(Nanos timeout) override;
  Status health() const override;

  // From any thread. While held, steps do not end.
  void hold();
  void release();
  // The next step submitted fails with this, or is refused.
  void fail_next(std::string error);
  void refuse_next();
  // Steps fail with this error from now on, and health() returns it.
  void lose(std::string error);
  std::int64_t steps() const;
  // The last batch taken.
  request::Batch last_batch() const;

 private:
  const Capabilities capabilities_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable released_;
  std::deque<request::StepResult> results_;  // of the steps in flight
  request::Batch last_batch_;
  std::string next_error_;
  std::string lost_;
  bool refuse_ = false;
  bool held_ = false;
  std::int64_t steps_ = 0;
};

}  // namespace causeway::engine
