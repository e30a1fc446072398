// StepExecutor without a device: a step takes the time that the cost model says, in virtual time,
// and samples tokens by hashing. Everything else (engine, scheduler, KV bookkeeping) is what
// serves.
//
// Steps run one after the other; one that is submitted while another runs begins when that ends.
//
// wait() never blocks: virtual time stands still while anybody waits, so that the driver moves the
// clock to ends_at() first. Weights are cached in the device's memory, least recently used models
// first out, and come over the link in the step that needs them (read-through).
#pragma once

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "engine/step_executor.h"
#include "simulate/cost_model.h"
#include "simulate/shadow_kv.h"

namespace causeway::simulate {

// What goes wrong, by chance.
struct Faults {
  double error_rate = 0;   // of steps that run and fail
  double refuse_rate = 0;  // of steps that are not started
  double slow_rate = 0;    // of steps that take slow_factor times as long
  double slow_factor = 10;
  double hang_rate = 0;  // of steps that take `hang`
  Nanos hang = seconds(3600);
};

struct SimulatedExecutorOptions {
  HardwareProfile profile;
  Bytes weight_memory;  // of the device's memory, for weights
  Faults faults;
  std::uint64_t seed = 1;
  // Keep a ShadowKv of so many frames: tokens then follow from what the frames hold. 0: they follow
  // from request and position, which is enough where only times are of interest.
  std::int64_t shadow_frames = 0;
  std::int64_t tokens_per_block_max = 1;
  int steps_in_flight_max = 1;
};

struct SimulatedCounters {
  std::int64_t steps = 0;
  std::int64_t steps_ahead = 0;     // of them, submitted while another ran
  std::int64_t tokens_pending = 0;  // of those, tokens that were not known yet
  std::int64_t faults = 0;          // steps refused or failed
  std::int64_t hangs = 0;
  std::int64_t model_loads = 0;
  Bytes link_bytes;
  Nanos busy;
};

class SimulatedExecutor final : public engine::StepExecutor {
 public:
  SimulatedExecutor(const SimulatedExecutorOptions& options, const Clock& clock);

  void add_model(ModelId model, const ModelShape& shape);
  void remove_model(ModelId model);

  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch batch) override;
  // The result, if the step has ended by the clock. Never blocks.
  std::optional<request::StepResult> wait(Nanos timeout) override;

  // When the oldest step in flight ends; nullopt: none is.
  std::optional<Nanos> ends_at() const;
  const SimulatedCounters& counters() const { return counters_; }
  // The first batch that broke a rule (ShadowKv); empty: none did.
  const std::string& violation() const { return violation_; }

 private:
  struct Step {
    request::Batch batch;
    request::StepResult result;  // its tokens once it has begun
    double slowed = 1;           // by chance
    bool hangs = false;
    Nanos ends_at;  // once it has begun
  };

  // What comes over the link for a step that reads `read` of the model's weights.
  Bytes make_resident(ModelId model, const ModelShape& shape, Bytes read);
  void sample(const request::Batch& batch, const ModelShape& shape, request::StepResult& result);
  std::string check_hands_off(const request::Batch& batch) const;
  Step draw(request::Batch batch);
  // The step runs from `at` on. An error: its batch breaks the rules.
  Status begin(Step& step, Nanos at);
  void end(const Step& step);

  SimulatedExecutorOptions options_;
  const Clock& clock_;
  Capabilities capabilities_;
  Random random_;
  std::map<ModelId, ModelShape> models_;
  std::list<ModelId> resident_;  // most recently used first
  Bytes resident_bytes_;
  std::optional<ShadowKv> shadow_;
  std::deque<Step> steps_;  // in flight; the first runs
  SimulatedCounters counters_;
  std::string violation_;
};

}  // namespace causeway::simulate
