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
  Nanos on_device;      // as the executor measured it
  Nanos returned;       // by the clock
  bool queued = false;  // another was under way when it was submitted
};

// Of the time from one result to the next, when the device ran no step: over the steps that were
// submitted while another was under way, so that what passed between the two was the host's. 0
// where there are none.
inline double not_overlapped(const std::vector<StepRecord>& steps) {
  Nanos between, on_device;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (!steps[i].queued) continue;
    between += steps[i].returned - steps[i - 1].returned;
    on_device += steps[i].on_device;
  }
  return between > Nanos(0) ? 1 - to_seconds(on_device) / to_seconds(between) : 0;
}

class StepRecorder final : public engine::StepExecutor {
 public:
  // All borrowed.
  StepRecorder(engine::StepExecutor& inner, const model::ModelCard& card, const Clock& clock)
      : inner_(inner), card_(card), clock_(clock) {}

  const Capabilities& capabilities() const override { return inner_.capabilities(); }

  Status submit(request::Batch batch, weights::StepWeights weights) override {
    const StepWork work = work_of(batch, card_);
    CAUSEWAY_TRY(inner_.submit(std::move(batch), weights));
    StepRecord record;
    record.work = work;
    record.queued = !in_flight_.empty();
    in_flight_.push_back(record);
    return {};
  }

  std::optional<request::StepResult> wait(Nanos timeout) override {
    auto result = inner_.wait(timeout);
    if (!result) return result;
    const std::lock_guard lock(mutex_);
    StepRecord record = in_flight_.front();
    in_flight_.pop_front();
    record.on_device = result->duration;
    record.returned = clock_.now();
    records_.push_back(record);
    return result;
  }

  void begin_copies(std::span<const kv::KvCopy> copies) override { inner_.begin_copies(copies); }
  std::vector<kv::KvCopyEnd> poll_copies() override { return inner_.poll_copies(); }
  kv::KvCopyRates copy_rates() const override { return inner_.copy_rates(); }
  Status health() const override { return inner_.health(); }
  bool warm_up(ModelId model, const std::function<bool()>& stop) override {
    return inner_.warm_up(model, stop);
  }

  // Of the steps since the last call. Any thread.
  std::vector<StepRecord> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(records_, {});
  }

 private:
  engine::StepExecutor& inner_;
  const model::ModelCard& card_;
  const Clock& clock_;
  std::deque<StepRecord> in_flight_;  // the engine's thread's own
  std::mutex mutex_;                  // guards what follows
  std::vector<StepRecord> records_;
};

}  // namespace causeway::bench
