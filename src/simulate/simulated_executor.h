// StepExecutor without a device: a step takes the time that the cost model says, in virtual time,
// and samples tokens by hashing. Everything else (engine, scheduler, KV bookkeeping) is what
// serves.
//
// Steps run one after the other; one that is submitted while another runs begins when that ends.
//
// wait() never blocks: virtual time stands still while anybody waits, so that the driver moves the
// clock to ends_at() first.
//
// A step whose groups are still on their way when it begins computes each after its arrival: it
// ends no earlier than an arrival and the computing that is left from that group on, a part of the
// whole by bytes. What a step reads must be there, or on its way, until the step has ended; a step
// of which a copy failed chooses wrong tokens and leaves its places in the KV spoilt.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "engine/step_executor.h"
#include "simulate/cost_model.h"
#include "simulate/shadow_kv.h"
#include "simulate/simulated_mover.h"

namespace causeway::simulate {

// What goes wrong, by chance.
struct Faults {
  double error_rate = 0;   // of steps that run and fail
  double refuse_rate = 0;  // of steps that are not started
  double slow_rate = 0;    // of steps that take slow_factor times as long
  double slow_factor = 10;
  double hang_rate = 0;  // of steps that take `hang`
  Nanos hang = seconds(3600);
  double copy_error_rate = 0;  // of copies of weights that fail
};

// Where steps read a model's weights.
enum class WeightSource : std::uint8_t {
  kMemory,  // they are always there
  kCache,   // where the mover brought them
  kLink,    // every step fetches what it reads: a model larger than the cache
};

struct SimulatedExecutorOptions {
  HardwareProfile profile;
  Faults faults;
  std::uint64_t seed = 1;
  // Keep a ShadowKv of so many frames: tokens then follow from what the frames hold. 0: they follow
  // from request and position, which is enough where only times are of interest.
  std::int64_t shadow_frames = 0;
  // Memory moves between the frames and weights, by the mover: frames are used only while they have
  // some, and forget what they held when it is taken.
  bool frames_move = false;
  std::int64_t tokens_per_block_max = 1;
  int steps_in_flight_max = 1;
};

struct SimulatedCounters {
  std::int64_t steps = 0;
  std::int64_t steps_ahead = 0;     // of them, submitted while another ran
  std::int64_t tokens_pending = 0;  // of those, tokens that were not known yet
  std::int64_t faults = 0;          // steps refused or failed
  std::int64_t hangs = 0;
  std::int64_t poisoned = 0;  // steps that read weights of which a copy failed
  Bytes link_bytes;           // that steps fetched themselves (WeightSource::kLink)
  Nanos busy;
  Nanos weights_wait;  // of that, for weights on their way
};

class SimulatedExecutor final : public engine::StepExecutor {
 public:
  // Clock and mover are borrowed; without a mover no model is of WeightSource::kCache.
  SimulatedExecutor(const SimulatedExecutorOptions& options, const Clock& clock,
                    const SimulatedMover* mover = nullptr);

  // A model of WeightSource::kCache is in the mover already, and leaves it after the executor.
  void add_model(ModelId model, const ModelShape& shape, WeightSource source);
  void remove_model(ModelId model);

  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch batch, weights::StepWeights weights) override;
  // The result, if the step has ended by the clock. Never blocks.
  std::optional<request::StepResult> wait(Nanos timeout) override;

  // When the oldest step in flight ends; nullopt: none is.
  std::optional<Nanos> ends_at() const;
  const SimulatedCounters& counters() const { return counters_; }
  // The first batch that broke a rule (ShadowKv); empty: none did.
  const std::string& violation() const { return violation_; }

 private:
  struct Model {
    ModelShape shape;
    WeightSource source = WeightSource::kMemory;
  };
  struct Read {
    int group = 0;  // of the reading order
    std::uint32_t arrival = 0;
  };
  struct Step {
    request::Batch batch;
    std::vector<Read> reads;     // from the cache, in order
    request::StepResult result;  // its tokens once it has begun
    double slowed = 1;           // by chance
    bool hangs = false;
    Nanos ends_at;  // once it has begun
  };

  // What the step reads from the cache. Notes what is neither there nor on its way.
  std::vector<Read> reads_of(const request::Batch& batch, weights::StepWeights weights);
  // When a step of `computes` that begins `at` has read all that is on its way.
  Nanos end_of_reads(const Step& step, Nanos at, Nanos computes) const;
  // Whether something that the step read did not arrive. Notes what was taken away from it.
  bool poisoned(const Step& step);
  void blame(const std::string& what);
  void sample(const request::Batch& batch, const ModelShape& shape, request::StepResult& result);
  std::string check_hands_off(const request::Batch& batch) const;
  // Notes frames without memory, and spoils those that have got other memory since they were last
  // used.
  void look_at_frames(const request::Batch& batch);
  // Notes frames whose memory was taken from the step that used them.
  void look_back_at_frames(const request::Batch& batch);
  Step draw(request::Batch batch);
  // The step runs from `at` on. An error: its batch breaks the rules.
  Status begin(Step& step, Nanos at);
  void end(Step& step);

  SimulatedExecutorOptions options_;
  const Clock& clock_;
  const SimulatedMover* const mover_;
  Capabilities capabilities_;
  Random random_;
  std::map<ModelId, Model> models_;
  std::optional<ShadowKv> shadow_;
  std::map<FrameId, std::int64_t> frame_memory_;  // as last used: SimulatedMover::frame_memory()
  std::deque<Step> steps_;                        // in flight; the first runs
  SimulatedCounters counters_;
  std::string violation_;
};

}  // namespace causeway::simulate
