// StepExecutor without a device: a step takes the time that the cost model says, in virtual time,
// and samples tokens by hashing. Everything else (engine, scheduler, KV bookkeeping) is what
// serves.
//
// The device is one stream of items, which run one after the other in the order in which they were
// enqueued. A step of a resident model is one item, enqueued when it is submitted. A step of a
// streamed model is an item for each of its ranges (model/step_ranges.h): one is enqueued when its
// weights are there, and no more than two that have not ended, so that other models' steps run in
// between.
//
//   stream   │ range 0 │ range 1 │ step of A │ range 2 │ step of A │ …
//                                   ^ enqueued while range 1 ran; range 2 when its copy had ended
//
// wait() never blocks: virtual time stands still while a thread waits, so that the driver moves the
// clock to next_event() first.
//
// The engine's thread launches a resident step before the device can begin it (HostLaunches), and
// does nothing else until busy_until().
//
// With SimulatedCopies KV rotates: a step that awaits copies in begins, alone on the stream, when
// they have ended; the first range of a streamed one is enqueued then.
//
// A resident step whose groups are still on their way when it begins computes each after its
// arrival: it ends no earlier than an arrival and the computing that is left from that group on, a
// part of the whole by bytes. What a step reads must be there, or on its way, until the step has
// ended; of a streamed group, until the range has ended that reads it. A step of which a copy
// failed chooses wrong tokens and leaves its places in the KV spoilt.
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
#include "model/step_ranges.h"
#include "simulate/cost_model.h"
#include "simulate/frame_watch.h"
#include "simulate/host_launches.h"
#include "simulate/shadow_kv.h"
#include "simulate/shared_memory.h"
#include "simulate/simulated_copies.h"
#include "simulate/simulated_mover.h"

namespace causeway::simulate {

// What goes wrong, by chance.
struct Faults {
  // Of steps that run and fail. One of a streamed model is not enqueued to its end, or runs to it.
  double error_rate = 0;
  double refuse_rate = 0;  // of steps that are not started
  double slow_rate = 0;    // of steps that take slow_factor times as long
  double slow_factor = 10;
  double hang_rate = 0;  // of steps that take `hang`
  Nanos hang = seconds(3600);
  double copy_error_rate = 0;  // of copies of weights that fail

  bool any() const {
    return error_rate > 0 || refuse_rate > 0 || slow_rate > 0 || hang_rate > 0 ||
           copy_error_rate > 0;
  }
};

// Where steps read a model's weights.
enum class WeightSource : std::uint8_t {
  kMemory,  // they are always there
  kCache,   // where the mover brought them, in a ring or for good
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
  std::optional<SimulatedCopiesOptions> copies = {};  // of KV; nullopt: it does not rotate
  // A resident step reads at home what has not arrived, where that is sooner (home_read.h).
  bool reads_at_home = false;
  // That it shares with other slices, as that user; borrowed. Null: it has the profile's alone.
  SharedMemory* memory = nullptr;
  int memory_user = 0;
};

struct SimulatedCounters {
  std::int64_t steps = 0;
  std::int64_t steps_ahead = 0;     // of resident models, submitted while another ran
  std::int64_t tokens_pending = 0;  // of those, tokens that were not known yet
  std::int64_t tokens_again = 0;    // computed though they had been: their KV was lost
  std::int64_t faults = 0;          // steps refused or failed
  std::int64_t hangs = 0;
  std::int64_t poisoned = 0;        // steps that read weights of which a copy failed
  std::int64_t streamed_steps = 0;  // that have ended
  std::int64_t between_ranges = 0;  // resident steps that ran while a streamed one was in flight
  std::int64_t abandoned = 0;       // streamed steps that were not enqueued to their end
  Nanos busy;
  Nanos weights_wait;         // of that, for weights on their way
  Bytes home_read;            // of weights that were on their way, by resident steps
  Nanos kv_wait;              // not of it: of resident steps whose time had come, for copies of KV
  Nanos kv_wait_longest;      // of one step
  Nanos launch_wait_longest;  // likewise, once its time had come
  Nanos streamed_longest;     // from its submission to its end, or to now
};

class SimulatedExecutor final : public engine::StepExecutor {
 public:
  // Clock and mover are borrowed; without a mover no model is of WeightSource::kCache.
  SimulatedExecutor(const SimulatedExecutorOptions& options, const Clock& clock,
                    SimulatedMover* mover = nullptr);

  // A model of WeightSource::kCache is in the mover already, and leaves it after the executor.
  void add_model(ModelId model, ModelShape shape, WeightSource source);
  // The same with a shape that stays where it is until the model is removed.
  void borrow_model(ModelId model, const ModelShape& shape, WeightSource source);
  void remove_model(ModelId model);

  const Capabilities& capabilities() const override { return capabilities_; }
  Status submit(request::Batch batch, weights::StepWeights weights) override;
  // The result of a step that has ended by the clock. Never blocks.
  std::optional<request::StepResult> wait(Nanos timeout) override;

  // Copies begin by the clock.
  void begin_copies(std::span<const kv::KvCopy> copies) override;
  std::vector<kv::KvCopyEnd> poll_copies() override;
  kv::KvCopyRates copy_rates() const override;

  // When wait() or poll_copies() is to be called next: a step ends, or part of one does, or a range
  // can be enqueued, or a copy of KV ends; nullopt: not before something else happens.
  std::optional<Nanos> next_event() const;
  // When the device has done what it does now; nullopt: nothing, or it waits for copies of KV.
  std::optional<Nanos> item_ends_at() const;
  // Until then the engine's thread launches what it has submitted: it neither hears of ends nor
  // submits more, and what it has to tell it tells then.
  Nanos busy_until() const { return launches_.until(); }
  const SimulatedCounters& counters() const { return counters_; }
  // The request has all its tokens: it is not computed again.
  void forget(RequestId request) { computed_.erase(request); }
  // Fast-forward (simulated_calm.cc). Fills `ends` with when the first step ends, and `steps`
  // that follow it, which are as the one behind it, each of a token more for each of its sequences.
  // Empty: that cannot be told: something may go wrong by chance, or copies are under way.
  void repeated_ends(std::int64_t steps, std::vector<Nanos>& ends) const;
  // As if the first so many of them had ended, at the times that it told, and were waited for, and
  // as many had been submitted.
  void repeat(std::span<const Nanos> ends, Nanos next_end);
  // The same of all steps of a request that finds nothing else and runs alone
  // (simulated_alone.cc).
  struct AloneStart {
    Nanos at;        // its first step is submitted
    Nanos computes;  // what the engine expects that one to take
    // When the copies on the link end, of weights that its steps read.
    std::span<const Nanos> copies;
    // Whether the step behind it may be submitted when so many of them have been told, the last of
    // them at `told`; it begins at `begins` at the earliest.
    std::function<weights::Residency::Readiness(std::int64_t ended, Nanos told, Nanos begins)>
        behind;
  };
  struct AloneSteps {
    std::vector<Nanos> told;  // each of its tokens
    std::vector<Nanos> copies_told;
    Nanos start;
    Nanos first_token;  // the engine hears of it
    Nanos busy;
    Nanos weights_wait;  // of that
    Nanos longest;       // that the engine waits for one of the steps
    Nanos launch_wait_longest;
    bool ahead = false;  // the second was submitted before the first had ended
  };
  // False: that cannot be told.
  bool steps_alone(const engine::EngineCore::Alone& alone, const AloneStart& start,
                   AloneSteps& steps) const;
  // All of them have ended.
  void run_alone(const engine::EngineCore::Alone& alone, const AloneSteps& steps);
  TokenId last_token(const engine::EngineCore::Alone& alone) const;
  // Less than any step of the model takes.
  Nanos step_least(ModelId model) const { return models_.at(model).step_least; }
  // When the step that runs began, or when it will have been launched.
  Nanos began() const { return stream_.front().waits_until.value_or(resident_.front()->began); }
  // The same, or from when the engine waits for it.
  Nanos awaited_since() const {
    return stream_.front().waits_until ? resident_.front()->submitted : began();
  }
  // It begins, if it was launched before now.
  void begin_launched();
  // Whether the step that runs gives a sequence its first token, or may.
  bool begins_answers() const;
  // The token that it samples there.
  TokenId token_at(RequestId request, std::int64_t place) const {
    return token_at(request, place, resident_.front()->model->of_vocab);
  }

  // The first rule that was broken: by a batch (ShadowKv), or by what became of weights that a step
  // reads; empty: none was.
  const std::string& violation() const {
    return violation_.empty() && copies_ ? copies_->violation() : violation_;
  }
  const SimulatedCopies* copies() const { return copies_ ? &*copies_ : nullptr; }

 private:
  struct Model {
    const ModelShape* shape = nullptr;
    std::unique_ptr<const ModelShape> own;  // null: it is borrowed
    WeightSource source = WeightSource::kMemory;
    Nanos step_least = {};
    Remainder of_vocab;
  };
  struct Read {
    int group = 0;  // of the reading order
    std::uint32_t arrival = 0;
  };
  struct StreamedRead {
    int group = 0;  // streamed group
    std::uint32_t pass = 0;
    device::Semaphore* consumed = nullptr;
    std::uint32_t consumed_value = 0;
  };
  struct Range {
    std::vector<StreamedRead> reads;
    double part = 0;  // of what the step computes
  };
  struct Step {
    request::Batch batch;
    const Model* model = nullptr;
    // All its groups were there when it was submitted: `reads` is empty, and nothing of them had
    // been taken away so often.
    bool reads_all = false;
    std::int64_t taken_before = 0;
    std::vector<Read> reads;     // from the cache, in order
    request::StepResult result;  // its tokens once it has begun
    ShadowKv::Step shadow;
    double slowed = 1;  // by chance
    bool hangs = false;
    bool is_void = false;  // it read a group of which the copy failed
    Nanos submitted;
    Nanos launched;  // of a resident model
    Nanos began;
    // Of a streamed model.
    std::vector<Range> ranges;  // those that are enqueued before it is abandoned, or all
    std::size_t enqueued = 0;   // of them
    std::size_t ended = 0;      // likewise
    Nanos next_from;            // the next is enqueued then at the earliest
  };
  struct Ended {
    request::StepResult result;
    bool streams = false;
    bool is_void = false;  // of the step
  };
  // Of the device: a resident step, or a range of a streamed one.
  struct StreamItem {
    Step* step = nullptr;
    std::optional<std::size_t> range;
    std::optional<Nanos> waits_until = {};  // its time has come, but no launch, or no copy of KV
    Nanos ends = {};                        // once it runs
  };

  static TokenId token_at(RequestId request, std::int64_t place, const Remainder& of_vocab) {
    const auto position = static_cast<std::uint64_t>(place);
    const std::uint64_t mixed = mix64(mix64(static_cast<std::uint64_t>(request.value)) ^ position);
    return static_cast<TokenId>(of_vocab.of(mixed));
  }
  // Notes the first thing that is wrong; empty: nothing is.
  void blame(const std::string& what);
  Status check_room(const request::Batch& batch) const;
  std::unique_ptr<Step> draw(request::Batch batch);
  void count_again(const request::Batch& batch);
  void submit_streamed(std::unique_ptr<Step> step, weights::StepWeights weights);
  // Lets happen what happens up to now.
  void advance();
  void enqueue(StreamItem item, Nanos at);
  // The first item runs from `at` on, or waits for its launch and for copies of KV.
  void begin(StreamItem& item, Nanos at);
  void run(StreamItem& item, Nanos at);
  // When the stream has its next event; nullopt: it is empty.
  std::optional<Nanos> stream_event_at() const;
  // What the step reads of the KV, and what it chooses.
  void begin_step(Step& step, Nanos at);
  // The profile, beside what others read.
  HardwareProfile granted() const;
  // How long the whole step computes, by what else the device does then.
  Nanos computes(const Step& step, Nanos at) const;
  void sample(Step& step);
  void end_item();
  void end_resident(Nanos at);
  void end_range(std::size_t index, Nanos at);
  // Its result is the last that has ended.
  void end_step(Step& step, Nanos at);
  // What a resident step chose is known to the one behind it.
  static void learn(Step& next, const Ended& before);
  // From one that has ended, and of which the host has not heard.
  void learn_from_ended(Step& next) const;
  // When the next range may be enqueued, as far as that is known.
  std::optional<Nanos> next_range_at() const;

  // simulated_reads.cc: what steps read of their model's weights. Notes what is neither there nor
  // on its way.
  void set_reads(Step& step, weights::StepWeights weights);
  std::vector<Read> reads_of(const request::Batch& batch, weights::StepWeights weights);
  static std::int64_t groups_read(const Step& step);
  // Whether nothing runs, goes wrong or comes that a request that is alone does not read.
  bool may_run_alone(const Model& model, const engine::EngineCore::Alone& alone, bool copies) const;
  // When its first step ends, which begins then and takes so long once its weights are there.
  Nanos first_end_alone(const Model& model, ModelId id, Nanos begins, Nanos takes) const;
  // When a step of `computes` that begins `at` has read all that is on its way.
  Nanos end_of_reads(const Step& step, Nanos at, Nanos computes);
  // The same of one that waits for all of it.
  Nanos end_of_arrivals(const Step& step, Nanos at, Nanos computes) const;
  // Whether something that the step read did not arrive. Notes what was taken away from it.
  bool poisoned(const Step& step);
  std::vector<Range> ranges_of(const request::Batch& batch, weights::StepWeights weights);
  std::optional<StreamedRead> streamed_read(const request::Batch& batch, int group,
                                            const weights::WeightView& view);
  // When all is there that the range reads; nullopt: a copy has not begun.
  std::optional<Nanos> arrival_of(const Step& step, const Range& range) const;
  bool lost(const Step& step, const StreamedRead& read) const;
  void look_for_lost();
  // The range has read its groups: they were there, and may be overwritten now.
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
  FrameWatch frames_;
  // Of each request that may be computed again, tokens at the most.
  std::unordered_map<RequestId, std::int64_t> computed_;
  // In flight.
  std::deque<std::unique_ptr<Step>> resident_;
  std::unique_ptr<Step> streamed_;
  std::deque<StreamItem> stream_;  // the first runs
  std::deque<Ended> ended_;        // that wait() has not returned
  SimulatedCounters counters_;
  std::string violation_;
};

}  // namespace causeway::simulate
