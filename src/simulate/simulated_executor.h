// StepExecutor without a device: a step takes the time that the cost model says, in virtual time,
// and tokens are sampled by hashing. Everything else (engine, scheduler, KV bookkeeping) is the
// code that serves.
//
// The device is one stream of items, which run one after the other in the order in which they were
// enqueued. A step of a resident model is one item, enqueued when it is submitted. A step of a
// streamed model is one item for each of its ranges (model/step_ranges.h). A range is enqueued when
// its weights are there and fewer than two ranges are outstanding, so that other models' steps run
// in between.
//
//   stream   │ range 0 │ range 1 │ step of A │ range 2 │ step of A │ …
//                                   ^ enqueued while range 1 ran; range 2 when its copy had ended
//
// wait() never blocks: virtual time stands still while a thread waits, so the driver moves the
// clock to next_event() first.
//
// The engine's thread launches a resident step before the device can begin it (HostLaunches), and
// does nothing else until busy_until().
//
// With SimulatedCopies KV rotates. A step that awaits copies begins, alone on the stream, when they
// have ended; for a streamed step this holds for its first range.
//
// A resident step may begin while some of its groups are still on their way, and then computes each
// group after its arrival. So it ends no earlier than each arrival plus the computing that is left
// from that group on, a part of the whole in proportion to bytes. What a step reads must be there,
// or on its way, until the step has ended; for a streamed group, until the range that reads it has
// ended. A step that reads a group whose copy failed chooses wrong tokens and leaves its places in
// the KV spoilt.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/id_map.h"
#include "base/random.h"
#include "base/remainder.h"
#include "engine/engine_core.h"
#include "engine/step_executor.h"
#include "fleet/step_alpha.h"
#include "model/step_ranges.h"
#include "simulate/cost_model.h"
#include "simulate/frame_watch.h"
#include "simulate/home_read.h"
#include "simulate/host_launches.h"
#include "simulate/shadow_kv.h"
#include "simulate/shared_memory.h"
#include "simulate/simulated_copies.h"
#include "simulate/simulated_mover.h"

namespace causeway::simulate {

// Faults that happen at random.
struct Faults {
  // Share of steps that run and fail. A step of a streamed model is then abandoned before its end,
  // or runs to its end and fails.
  double error_rate = 0;
  double refuse_rate = 0;  // share of steps that are not started
  double slow_rate = 0;    // share of steps that take slow_factor times as long
  double slow_factor = 10;
  double hang_rate = 0;  // share of steps that take `hang`
  Nanos hang = seconds(3600);
  double copy_error_rate = 0;  // share of copies of weights that fail

  bool any() const {
    return error_rate > 0 || refuse_rate > 0 || slow_rate > 0 || hang_rate > 0 ||
           copy_error_rate > 0;
  }
};

// Where steps read a model's weights.
enum class WeightSource : std::uint8_t {
  kMemory,  // device memory; weights are always there
  kCache,   // where the mover brought them: the cache or a ring
};

struct SimulatedExecutorOptions {
  HardwareProfile profile;
  Faults faults;
  std::uint64_t seed = 1;
  // Keeps a ShadowKv of so many frames, and tokens follow from the contents of frames. 0: tokens
  // follow from request and position, which is enough when only times matter.
  std::int64_t shadow_frames = 0;
  // The mover moves memory between frames and weights. A frame may be used only while it has
  // memory, and loses its contents with it.
  bool frames_move = false;
  std::int64_t tokens_per_block_max = 1;
  int steps_in_flight_max = 1;
  std::optional<SimulatedCopiesOptions> copies = {};  // copies of KV; nullopt: KV does not rotate
  // A resident step reads groups at home that have not arrived, when that is sooner (home_read.h).
  bool reads_at_home = false;
  // The α of what is read at home (hybrid_gemm.h); nullopt: it costs its bytes over the link alone.
  std::optional<fleet::StepAlphaOptions> alpha = {};
  // The memory bandwidth that is shared with other slices, as user `memory_user`; borrowed. Null:
  // the slice has all of the profile's bandwidth.
  SharedMemory* memory = nullptr;
  int memory_user = 0;
};

struct SimulatedCounters {
  std::int64_t steps = 0;
  std::int64_t steps_ahead = 0;     // resident steps that were submitted while another one ran
  std::int64_t tokens_pending = 0;  // tokens of those steps that were not known yet
  std::int64_t tokens_again = 0;    // tokens computed again because their KV was lost
  std::int64_t faults = 0;          // steps that were refused or failed
  std::int64_t hangs = 0;
  std::int64_t poisoned = 0;        // steps that read weights whose copy failed
  std::int64_t streamed_steps = 0;  // streamed steps that have ended
  std::int64_t between_ranges = 0;  // resident steps that ran while a streamed step was in flight
  std::int64_t abandoned = 0;       // streamed steps that were not enqueued to their end
  Nanos busy;
  Nanos weights_wait;     // the part of `busy` that waited for weights
  Bytes home_read;        // bytes over the link for what resident steps read at home
  std::int64_t alpha_steps = 0;  // steps that did so with an α
  double alpha_sum = 0;          // of these
  Nanos kv_wait;          // time that resident steps waited for copies of KV; not part of `busy`
  Nanos kv_wait_longest;  // the longest such wait of one step
  Nanos launch_wait_longest;  // the longest wait of a step for its launch
  // The longest time from a streamed step's submission to its end, or to now.
  Nanos streamed_longest;
};

class SimulatedExecutor final : public engine::StepExecutor {
 public:
  // Clock and mover are borrowed. Without a mover no model may have WeightSource::kCache.
  SimulatedExecutor(const SimulatedExecutorOptions& options, const Clock& clock,
                    SimulatedMover* mover = nullptr);

  // A model with WeightSource::kCache must be added to the mover before, and removed from it after.
  void add_model(ModelId model, ModelShape shape, WeightSource source);
  // The same with a borrowed shape, which must stay until the model is removed.
  void borrow_model(ModelId model, const ModelShape& shape, WeightSource source);
  void remove_model(ModelId model);

  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch batch, weights::StepWeights weights) override;
  request::Batch spare_batch() override;
  // The engine has taken the result that wait() returned: its memory may serve another step.
  void take_back(request::StepResult&& result);
  // The result of a step that has ended by the clock's time. Never blocks.
  std::optional<request::StepResult> wait(Nanos timeout) override;

  // The copies begin at the clock's time.
  void begin_copies(std::span<const kv::KvCopy> copies) override;
  std::vector<kv::KvCopyEnd> poll_copies() override;
  kv::KvCopyRates copy_rates() const override;

  // When wait() or poll_copies() should be called next: at the end of a step, of a part of one, or
  // of a copy of KV, or when a range can be enqueued. nullopt: nothing will happen by itself.
  std::optional<Nanos> next_event() const;
  // When the device has done its present item; nullopt: it is idle, or waits for copies of KV.
  std::optional<Nanos> item_ends_at() const;
  // Until then the engine's thread launches submitted steps: it neither learns of ends nor submits
  // more steps, and reports its outputs only afterwards.
  Nanos busy_until() const { return launches_.until(); }
  const SimulatedCounters& counters() const { return counters_; }
  // The request has all of its tokens, so none of them will be computed again.
  void forget(RequestId request) { computed_.erase(request); }
  // Fast-forward (simulated_calm.cc). Fills `ends` with the end of the first step, and the ends of
  // `steps` more steps after it. These are like the second step in flight, each with one more token
  // for each of its sequences. Empty: the ends cannot be foreseen, because faults may happen at
  // random or copies are under way.
  void repeated_ends(std::int64_t steps, std::vector<Nanos>& ends) const;
  // Has the effect of these steps ending at the times that repeated_ends() gave: each was waited
  // for, and as many new ones were submitted.
  void repeat(std::span<const Nanos> ends, Nanos next_end);
  // The same where two models alternate (EngineCore::calm_rounds()): the ends of the steps of so
  // many rounds, and of the two steps after them.
  void round_ends(std::int64_t rounds, std::vector<Nanos>& ends) const;
  // Has the effect of rounds whose steps ended at these times.
  void repeat_rounds(std::span<const Nanos> ends, Nanos next_end);
  // The same for all steps of a request that runs alone on an idle slice (simulated_alone.cc).
  struct AloneStart {
    Nanos at;        // when its first step is submitted
    Nanos computes;  // how long the engine expects that step to take
    // The ends of the copies on the link, all of weights that its steps read.
    std::span<const Nanos> copies;
    // Whether the second step may be submitted when `ended` of the copies have been reported, the
    // last of them at `told`. The second step begins at `begins` at the earliest.
    std::function<weights::Residency::Readiness(std::int64_t ended, Nanos told, Nanos begins)>
        behind;
  };
  struct AloneSteps {
    std::vector<Nanos> told;  // when the engine learns of each token
    std::vector<Nanos> copies_told;
    Nanos start;
    Nanos first_token;  // when the engine learns of the first token
    Nanos busy;
    Nanos weights_wait;  // the part of `busy` that waited for weights
    Nanos longest;       // the longest time that the engine waits for one of the steps
    Nanos launch_wait_longest;
    bool ahead = false;  // the second step was submitted before the first had ended
  };
  // False: the steps cannot be foreseen.
  bool steps_alone(const engine::EngineCore::Alone& alone, const AloneStart& start,
                   AloneSteps& steps) const;
  // Has the effect of all these steps, which have ended.
  void run_alone(const engine::EngineCore::Alone& alone, const AloneSteps& steps);
  TokenId last_token(const engine::EngineCore::Alone& alone) const;
  // A time shorter than any step of the model.
  Nanos step_least(ModelId model) const { return models_.at(model).step_least; }
  // When the running step began, or when it will have been launched.
  Nanos began() const { return stream_.front().waits_until.value_or(resident_.front()->began); }
  // The time from which the engine waits for the running step.
  Nanos awaited_since() const {
    return stream_.front().waits_until ? resident_.front()->submitted : began();
  }
  // Begins the running step if it was launched before now.
  void begin_launched();
  // Whether the running step gives, or may give, a sequence its first token.
  bool begins_answers() const;
  // The token that a step samples for this place of the request.
  TokenId token_at(const request::Request& request, std::int64_t place) const {
    return token_at(request.id, place, models_.at(request.model).of_vocab);
  }

  // The first rule that was broken, by a batch (ShadowKv) or by the weights that a step read;
  // empty: none was.
  const std::string& violation() const {
    return violation_.empty() && copies_ ? copies_->violation() : violation_;
  }
  const SimulatedCopies* copies() const { return copies_ ? &*copies_ : nullptr; }

 private:
  struct Model {
    const ModelShape* shape = nullptr;
    std::unique_ptr<const ModelShape> own;  // null: the shape is borrowed
    WeightSource source = WeightSource::kMemory;
    Nanos step_least = {};
    Remainder of_vocab;
  };
  struct Read {
    int group = 0;  // index in the reading order
    std::uint32_t arrival = 0;
  };
  struct StreamedRead {
    int group = 0;  // index among the streamed groups
    std::uint32_t pass = 0;
    device::Semaphore* consumed = nullptr;
    std::uint32_t consumed_value = 0;
  };
  struct Range {
    std::vector<StreamedRead> reads;
    double part = 0;  // the share of the step's computing
  };
  struct Step {
    request::Batch batch;
    const Model* model = nullptr;
    // All groups were there when the step was submitted: `reads` is empty, and taken_before is how
    // often groups had been taken away from the model until then.
    bool reads_all = false;
    std::int64_t taken_before = 0;
    std::vector<Read> reads;     // groups read from the cache, in order
    request::StepResult result;  // tokens are set when the step begins
    ShadowKv::Step shadow;
    double slowed = 1;  // a factor, by the fault slow_rate
    double alpha = 0;
    std::optional<fleet::StepSeen> seen;  // for the tuner, once it runs
    bool hangs = false;
    bool is_void = false;  // it read a group whose copy failed
    Nanos submitted;
    Nanos launched;  // for a resident model
    Nanos began;
    // For a streamed model.
    std::vector<Range> ranges;
    std::size_t enqueued = 0;  // how many ranges were enqueued
    std::size_t ended = 0;     // how many ranges have ended
    Nanos next_from;           // the earliest time to enqueue the next range
  };
  struct Ended {
    request::StepResult result;
    bool streams = false;
    bool is_void = false;  // Step::is_void
  };
  // An item of the device's stream: a resident step, or a range of a streamed one.
  struct StreamItem {
    Step* step = nullptr;
    std::optional<std::size_t> range;
    // The item could run, but waits until then for its launch or for a copy of KV.
    std::optional<Nanos> waits_until = {};
    Nanos ends = {};  // set when it runs
  };

  static TokenId token_at(RequestId request, std::int64_t place, const Remainder& of_vocab) {
    const auto position = static_cast<std::uint64_t>(place);
    const std::uint64_t mixed = mix64(mix64(static_cast<std::uint64_t>(request.value)) ^ position);
    return static_cast<TokenId>(of_vocab.of(mixed));
  }
  // Keeps the first violation; an empty text is none.
  void blame(const std::string& what);
  Status check_room(const request::Batch& batch) const;
  std::unique_ptr<Step> draw(request::Batch batch);
  void count_again(const request::Batch& batch);
  void submit_streamed(std::unique_ptr<Step> step, weights::StepWeights weights);
  // Does everything that happens until now.
  void advance();
  void enqueue(StreamItem item, Nanos at);
  // The first item runs from `at` on, or waits for its launch and for copies of KV.
  void begin(StreamItem& item, Nanos at);
  void run(StreamItem& item, Nanos at);
  // The next event of the stream; nullopt: the stream is empty.
  std::optional<Nanos> stream_event_at() const;
  // Reads the step's KV and chooses its tokens.
  void begin_step(Step& step, Nanos at);
  // The profile with the bandwidth that is left beside other slices.
  HardwareProfile granted() const;
  // How long the whole step computes, given what else the device does at that time.
  Nanos computes(const Step& step, Nanos at) const;
  void sample(Step& step);
  void end_item();
  void end_resident(Nanos at);
  void end_range(std::size_t index, Nanos at);
  // The step's memory may serve another one.
  void keep_spare(std::unique_ptr<Step> step);
  // Appends the step's result to ended_.
  void end_step(Step& step, Nanos at);
  // Tells the next resident step the tokens that this one chose.
  static void learn(Step& next, const Ended& before);
  // The same from a step that has ended and that the host has not learnt of yet.
  void learn_from_ended(Step& next) const;
  // When the next range may be enqueued, as far as that is known.
  std::optional<Nanos> next_range_at() const;

  // Defined in simulated_reads.cc: what steps read of their model's weights. set_reads() blames
  // groups that are neither there nor on their way.
  void set_reads(Step& step, weights::StepWeights weights);
  std::vector<Read> reads_of(const request::Batch& batch, weights::StepWeights weights);
  static std::int64_t groups_read(const Step& step);
  // Whether the ends of two steps in flight, and of steps like them, follow from the cost model.
  bool foresees_ends() const;
  // When the running step ends, also if it has to be launched yet.
  Nanos first_end() const;
  // Whether the device is idle, no fault can happen, and no copies are coming except those that the
  // request reads.
  bool may_run_alone(const Model& model, const engine::EngineCore::Alone& alone, bool copies) const;
  // When the first step ends that begins at `begins` and computes for `takes` once its weights are
  // there.
  Nanos first_end_alone(const Model& model, ModelId id, Nanos begins, Nanos takes) const;
  // When a step that begins at `at` and computes for `computes` has read all groups that are on
  // their way.
  Nanos end_of_reads(const Step& step, Nanos at, Nanos computes);
  // A step whose kernels read at home with an α (simulated_home.cc).
  struct HomeStep {
    Nanos computes;
    Nanos end;
    HomeRead read;
    double link_bytes = 0;
    double hbm_bytes = 0;   // of the whole step
    bool by_alpha = false;  // another α would move other bytes
  };
  // `missing` of the groups that are on their way is read at home, beside what always is.
  HomeStep home_step(const Step& step, Nanos at, Bytes missing) const;
  // The better of waiting and of reading at home.
  HomeStep run_at_home(Step& step, Nanos at);
  void end_at_home(Step& step, Nanos at);
  Nanos budget_of(const request::Batch& batch) const;
  // The bytes of groups that the step reads and that have not arrived.
  Bytes missing_at(const Step& step, Nanos at) const;
  // What is left of the rate at which kernels read at home.
  double rate_left_at_home() const;
  // The same for a step that begins only when all of them have arrived.
  Nanos end_of_arrivals(const Step& step, Nanos at, Nanos computes) const;
  // Whether something that the step read, which has ended then, did not arrive. Blames groups that
  // were taken away from it.
  bool poisoned(const Step& step, Nanos ended);
  std::vector<Range> ranges_of(const request::Batch& batch, weights::StepWeights weights);
  std::optional<StreamedRead> streamed_read(const request::Batch& batch, int group,
                                            const weights::WeightView& view);
  // When everything is there that the range reads; nullopt: a copy has not begun.
  std::optional<Nanos> arrival_of(const Step& step, const Range& range) const;
  bool lost(const Step& step, const StreamedRead& read) const;
  void look_for_lost();
  // The range has ended: checks that its groups were there, and lets copies overwrite them.
  void look_back(Step& step, const Range& range);

  SimulatedExecutorOptions options_;
  const Clock& clock_;
  SimulatedMover* const mover_;
  Capabilities capabilities_;
  Random random_;
  IdMap<ModelId, Model> models_;
  std::optional<ShadowKv> shadow_;
  std::optional<SimulatedCopies> copies_;
  HostLaunches launches_;
  std::optional<fleet::StepAlpha> alpha_;
  FrameWatch frames_;
  // By request that may be computed again: the most tokens that were computed of it.
  std::unordered_map<RequestId, std::int64_t> computed_;
  // The steps in flight.
  std::vector<std::unique_ptr<Step>> resident_;
  std::unique_ptr<Step> streamed_;
  std::vector<StreamItem> stream_;  // the first item runs
  std::vector<Ended> ended_;        // results that wait() has not returned yet
  // Steps that have ended, and their results: kept for their memory.
  std::vector<std::unique_ptr<Step>> spare_;
  std::vector<request::Batch> spare_batches_;
  std::vector<std::vector<request::SampledToken>> spare_samples_;
  SimulatedCounters counters_;
  std::string violation_;
};

}  // namespace causeway::simulate
