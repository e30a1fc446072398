// Stands between an engine and its executor and keeps, of every step, what it had to do, how long
// the device took, and when its result was there.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bench/step_floor.h"
#include "engine/step_executor.h"

namespace causeway::bench {

struct StepRecord {
  StepWork work;
  Nanos on_device;  // as the executor measured it
  Nanos returned;   // by the clock
};

class StepRecorder final : public engine::StepExecutor {
 public:
  // All borrowed.
  StepRecorder(engine::StepExecutor& inner, const model::ModelCard& card, const Clock& clock)
      : inner_(inner), card_(card), clock_(clock) {}

  const Capabilities& capabilities() const override { return inner_.capabilities(); }

  Status submit(request::Batch batch, weights::StepWeights weights) override {
    const StepWork work = work_of(batch, card_);
    CAUSEWAY_TRY(inner_.submit(std::move(batch), weights));
    in_flight_.push_back(work);
    return {};
  }

  std::optional<request::StepResult> wait(Nanos timeout) override {
    auto result = inner_.wait(timeout);
    if (!result) return result;
    const std::lock_guard lock(mutex_);
    records_.push_back({in_flight_.front(), result->duration, clock_.now()});
    in_flight_.pop_front();
    return result;
  }

  void begin_copies(std::span<const kv::KvCopy> copies) override { inner_.begin_copies(copies); }
  std::vector<kv::KvCopyEnd> poll_copies() override { return inner_.poll_copies(); }
  kv::KvCopyRates copy_rates() const override { return inner_.copy_rates(); }
  Status health() const override { return inner_.health(); }

  // Of the steps since the last call. Any thread.
  std::vector<StepRecord> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(records_, {});
  }

 private:
  engine::StepExecutor& inner_;
  const model::ModelCard& card_;
  const Clock& clock_;
  std::deque<StepWork> in_flight_;  // the engine's thread's own
  std::mutex mutex_;                // guards what follows
  std::vector<StepRecord> records_;
};

}  // namespace causeway::bench
