// What an EngineCore remembers between its calls. Internal to this room.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine_core.h"
#include "engine/memory_border.h"

namespace causeway::engine {

// One that runs and one that is enqueued behind it. With more, pending tokens would have to name
// the step that they come from.
inline constexpr int kStepsInFlightMax = 2;

struct Sequence {
  request::Request request;
  std::vector<TokenId> tokens;  // prompt and output so far
  Tokens prompt;
  Tokens cached{0};  // of the prompt, found in the prefix cache when first admitted
  Nanos queued{-1};  // from arrival to when it was first admitted; negative: not yet
  std::int32_t preemptions = 0;
  schedule::Handle handle;
  // By step in flight (StepId modulo kStepsInFlightMax), its place there; -1: not part of it.
  std::array<std::int64_t, kStepsInFlightMax> runs = {-1, -1};
  std::int64_t sampled_row = -1;                 // in the newest step that samples it
  std::optional<request::ModelSwitch> switched;  // goes out with its next token

  std::int64_t output_tokens() const {
    return static_cast<std::int64_t>(tokens.size()) - prompt.count;
  }
};

struct ModelEntry {
  ModelFacts facts;
  std::int64_t arrived = 0;       // requests since the cache was last told
  request::Observation counters;  // those since start only
  // Since a request found weights missing, until a token is there.
  struct Switching {
    Nanos began;
    Bytes missing;
    Nanos predicted;
  };
  std::optional<Switching> switching = {};
};

struct StepInFlight {
  StepId id;
  Nanos started;   // or, if later, when the one before it ended
  Nanos computes;  // as long as it is expected to
  schedule::Decision decision;
  std::vector<Sequence*> sequences;       // beside Decision::runs; null: ended meanwhile
  std::vector<FrameId> abandoned_frames;  // of those that ended meanwhile: still in use by the step
  std::vector<weights::WeightView> weights;  // as submitted
  std::string
      refused;  // why the executor did not take it; it fails when those before it have ended
};

class EngineCore::State {
 public:
  State(const CoreOptions& options_in, StepExecutor& executor_in, weights::WeightCache* cache_in)
      : options(options_in),
        executor(executor_in),
        cache(cache_in),
        kv({.frames = options_in.frames,
            .frames_max = options_in.frames_max(),
            .prefix_caching = options_in.prefix_caching,
            .hash_seed = options_in.prefix_hash_seed}),
        steps_in_flight_max(std::clamp(std::min(options_in.steps_in_flight_max,
                                                executor_in.capabilities().steps_in_flight_max),
                                       1, kStepsInFlightMax)),
        step_timeout(options_in.step_timeout.value_or(executor_in.capabilities().step_timeout)),
        scheduler(options_in.schedule) {
    if (cache != nullptr && options.border) border.emplace(*options.border, kv, *cache);
  }

  static std::size_t slot_of(std::int64_t step) {
    return static_cast<std::size_t>(step % kStepsInFlightMax);
  }
  int in_flight() const { return static_cast<int>(steps_started - steps_ended); }
  StepInFlight& oldest() { return steps[slot_of(steps_ended)]; }
  const StepInFlight& oldest() const { return steps[slot_of(steps_ended)]; }
  StepInFlight& next() { return steps[slot_of(steps_started)]; }
  // Nothing is enqueued behind a step that was refused.
  bool may_start() const {
    return in_flight() < steps_in_flight_max &&
           (in_flight() == 0 || steps[slot_of(steps_started - 1)].refused.empty());
  }

  // How long what is in flight is expected to take yet.
  Nanos in_flight_for(Nanos now) const;

  // When the oldest step is taken to hang.
  std::optional<Nanos> step_deadline() const {
    if (in_flight() == 0 || hung) return std::nullopt;
    return oldest().started + step_timeout;
  }

  // Tells the cache who wants what, and ends the requests of models whose weights cannot be
  // brought.
  void update_weights(Nanos now);
  // Moves memory between KV and weights, and ends the requests that it leaves no room for.
  void move_border(Nanos now);
  void end_larger_than(std::int64_t frames, const std::string& why);
  // Nothing runs, and a model waits for memory that sequences hold: these give it up. True: they
  // did.
  bool make_way(Nanos now);
  // Requests may wait for weights, or for memory.
  bool awaits_memory() const { return awaiting_weights || (border && border->under_way()); }
  // How many frames a request may need.
  std::int64_t frames_limit() const { return border ? border->frames_limit() : options.frames; }
  // Whether a step of the model may be submitted now; if only time is missing, notes when to ask
  // again.
  bool weights_allow(ModelId model, Nanos now);

  Bytes cached_bytes(ModelId model) const {
    return cache != nullptr && cache->knows(model) ? cache->cached_bytes(model) : Bytes(0);
  }
  // A request has come that may find the model's weights missing; a token of the model has come.
  void begin_switch(ModelId model, Nanos now);
  void end_switch(Sequence& sequence, Nanos now);

  // Whether a step of the model is in flight.
  bool in_step(ModelId model) const;
  Sequence& sequence_of(RequestId request);
  // Carries out what the decision says of block tables.
  void apply_decision(const schedule::Decision& decision, Nanos now);
  request::Batch make_batch(const StepInFlight& step);
  request::BatchEntry add_entry(const schedule::Run& run, StepId step, request::Batch& batch);
  // Hands the decided next step to the executor. One that is refused fails at once, or when the
  // step in flight has ended.
  void launch(Nanos now);
  // Fails the steps whose turn it is and that were refused.
  void end_refused(Nanos now);

  // The oldest step reads no weights any more. An error: some of them did not arrive.
  Status end_weights(Nanos now);
  void finish_step(const request::StepResult& result, Nanos now);
  void fail_step(const std::string& why, Nanos now);
  void complete_step(const request::StepResult& result, Nanos now);
  // The oldest step is in flight no more. Returns its sequences.
  std::vector<Sequence*> retire_step(Nanos now);
  // False: the sequence has ended with it.
  bool take_token(Sequence& sequence, const request::OutputToken& token);
  // The token that the step in flight computes for the sequence, if any, is known now.
  void commit_ahead(Sequence& sequence);
  // Appends an output without tokens; finished = false.
  request::Output& add_output(Sequence& sequence);
  void end(Sequence& sequence, request::FinishReason reason, std::string error,
           std::vector<request::OutputToken> last_tokens = {});
  void release_frames(const Sequence& sequence);
  // Those alive, in order of their ids: what is done to all is done in the same order every time.
  std::vector<RequestId> all_requests() const;

  CoreOptions options;
  StepExecutor& executor;
  weights::WeightCache* const cache;
  kv::KvCache kv;
  const int steps_in_flight_max;
  const Nanos step_timeout;
  schedule::Scheduler scheduler;
  std::optional<MemoryBorder> border;
  std::map<ModelId, ModelEntry> models;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences;
  std::array<StepInFlight, kStepsInFlightMax> steps;  // by slot_of
  std::int64_t steps_started = 0;                     // the id of the next
  std::int64_t steps_ended = 0;                       // the id of the oldest in flight
  // Models that were passed over by the last decision, because their weights are on their way; and
  // when the first of them may be stepped, as far as that is known.
  bool awaiting_weights = false;
  std::optional<Nanos> weights_look;
  std::vector<weights::ModelDemand> demand;  // of one update, kept for its memory
  bool hung = false;
  std::string lost;  // why the device is; empty: it is not
  std::vector<request::Output> outputs;
};

}  // namespace causeway::engine
