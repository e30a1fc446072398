// The state of an EngineCore between its calls. Internal to this room.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/id_map.h"
#include "engine/engine_core.h"
#include "engine/kv_rotation.h"
#include "engine/memory_border.h"
#include "engine/step_lane.h"
#include "request/constraint.h"

namespace causeway::engine {

struct Sequence {
  request::Request request;
  std::vector<TokenId> tokens;  // prompt and output so far
  Tokens prompt;
  Tokens cached{0};  // of the prompt, found in the cache at first admission
  Nanos queued{-1};  // from arrival to first admission; negative: not yet
  std::int32_t preemptions = 0;
  std::int32_t rotations = 0;                   // how often its KV went to host memory
  Nanos came;                                   // when it came to this engine
  Nanos weights;                                // the part of `queued` without its model's weights
  std::vector<request::RotationTimes> rotated;  // go out with its next output; the last may be open
  schedule::Handle handle;
  // The sequence's place in each step in flight of its model's lane (StepLane::slot_of); -1: it is
  // not part of that step.
  std::array<std::int64_t, kStepsInFlightMax> runs = {-1, -1};
  std::int64_t sampled_row = -1;  // in the newest step that samples it
  // For a prompt whose log-probabilities are wanted and not delivered yet: those of its tokens
  // after the first, as far as they are known.
  std::vector<request::OutputToken> scores;
  bool scoring = false;                          // rows of the prompt are still to be scored
  std::vector<double> pooled;                    // [hidden], the sum so far; empty: nothing yet
  std::optional<request::ModelSwitch> switched;  // goes out with its next token
  // For a sequence whose output must match a grammar (core_masks.cc).
  std::unique_ptr<request::TokenMatcher> matcher;
  Nanos mask_since;          // when the next mask began to be computed
  Nanos mask_patience = {};  // how much longer the loop may wait for it
  // It stepped back: it is held until so many steps of its lane have ended.
  std::int64_t void_until = 0;

  std::int64_t output_tokens() const {
    return static_cast<std::int64_t>(tokens.size()) - prompt.count;
  }
  // Whether logits or hidden states of its rows are, or were, wanted: then none of it is found in
  // the prefix cache.
  bool scores_prompt() const {
    return request.sampling.prompt_logprobs >= 0 || request.pooling == request::Pooling::kMean;
  }
  // The number of its tokens that are looked up in the prefix cache.
  std::span<const TokenId> prefix() const {
    return scores_prompt() ? std::span<const TokenId>() : std::span(tokens);
  }
};

struct ModelEntry {
  ModelFacts facts;
  std::int64_t arrived = 0;       // requests since the cache was last told
  request::Observation counters;  // only those that count since the start
  ExpertTraffic missed = {};      // of a model whose experts are cached one by one
  // From when a request found weights missing until a token is there.
  struct Switching {
    Nanos began;
    Bytes missing;
    Nanos predicted;
    bool may_step = false;
  };
  std::optional<Switching> switching = {};
  Nanos weights_came = {};  // when a step could begin, after weights were missing

  // How many bytes cross the link in a step of a streamed model.
  Bytes pass_bytes() const {
    return facts.weights.experts ? missed.a_step() : facts.weights.streamed_bytes();
  }
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
            .hash_seed = options_in.prefix_hash_seed,
            .twins = options_in.twins_used()}),
        step_timeout(options_in.step_timeout.value_or(executor_in.capabilities().step_timeout)),
        scheduler(options_in.schedule),
        lanes{StepLane(std::clamp(std::min(options_in.steps_in_flight_max,
                                           executor_in.capabilities().steps_in_flight_max),
                                  1, kStepsInFlightMax)),
              StepLane(1)} {
    if (cache != nullptr && options.border) border.emplace(*options.border, kv, *cache);
    if (kv.twins() > 0) {
      rotation.emplace(KvRotationOptions{options.frame, options.rotation}, kv, executor);
    }
  }

  bool streams(ModelId model) const { return models.at(model).facts.weights.streams(); }
  StepLane& lane_of(ModelId model) { return lanes[streams(model) ? 1 : 0]; }
  const StepLane& lane_of(ModelId model) const { return lanes[streams(model) ? 1 : 0]; }
  StepLane& resident() { return lanes[0]; }
  int in_flight() const { return lanes[0].in_flight() + lanes[1].in_flight(); }
  // Whether some lane has room, and models that could use it.
  bool may_start() const;
  // The oldest step in flight other than the oldest one of this lane; otherwise the next step.
  StepId oldest_beside(const StepLane& lane) const;

  // How much longer the steps in flight of resident models are expected to take.
  Nanos in_flight_for(Nanos now) const;

  // When the oldest step counts as hanging.
  std::optional<Nanos> step_deadline() const {
    std::optional<Nanos> first;
    for (const StepLane& lane : lanes) {
      if (lane.in_flight() == 0 || hung) continue;
      const Nanos deadline = lane.oldest().started + step_timeout;
      first = std::min(first.value_or(deadline), deadline);
    }
    return first;
  }

  // Tells the cache what each model wants, and ends the requests of models whose weights cannot be
  // brought.
  void update_weights(Nanos now);
  // What the cache was told last is still so, and it changes nothing by itself.
  bool weights_rest(Nanos now) const;
  // Moves memory between KV and weights, and ends the requests that have no room afterwards.
  void move_border(Nanos now);
  // Returns how many requests it ended.
  std::int64_t end_larger_than(std::int64_t frames, const std::string& why);
  // Called when nothing runs and a model waits for memory that sequences hold. They give it up, or
  // end if they and the model can never fit together. True: they did.
  bool make_way(Nanos now);
  // Called when nothing runs and copies of KV that were given up hold frames, which may still end.
  // Requests that need more than the other frames, or whose model does, wait for it, but not for
  // ever. True: some ended.
  bool end_stranded(Nanos now);
  // Ends the requests of models that may not be stepped. True: there were some.
  bool end_unreachable(Nanos now);
  bool weights_arrive() const;
  // Whether requests may wait for weights or for memory.
  bool awaits_memory() const {
    return awaiting_weights || (border && border->under_way()) ||
           (rotation && rotation->under_way()) || stranded_until;
  }
  // Whether the engine takes requests for the model. kUnavailable: the device is lost or hangs;
  // kInvalidArgument: the engine does not know the model.
  Status check_takes(ModelId model) const;
  // The most frames that a request may need.
  std::int64_t frames_limit() const { return border ? border->frames_limit() : options.frames; }
  // Whether a step of the model may be submitted now. If only time is missing, notes when to ask
  // again.
  bool weights_allow(ModelId model, Nanos now);
  // How much of a step of the model may be left to compute when the last of its weights arrive.
  Nanos computes_beside_weights(ModelId model, Nanos now) const;
  // The same behind a step in flight.
  Nanos computes_behind_weights() const;

  Bytes cached_bytes(ModelId model) const {
    return cache != nullptr && cache->knows(model) ? cache->cached_bytes(model) : Bytes(0);
  }
  weights::ExpertCache::Counters expert_counters(ModelId model) const {
    return cache != nullptr ? cache->expert_counters(model) : weights::ExpertCache::Counters();
  }
  // Notes a request that may find the model's weights missing; notes a token of the model.
  void begin_switch(ModelId model, Nanos now);
  void end_switch(Sequence& sequence, Nanos now);
  static std::optional<request::ModelSwitch> switch_ending(const ModelEntry& model, Nanos now);
  // Weights of the model that were missing suffice for a step from now on.
  void note_weights(ModelId model, Nanos now);

  // Whether a step of the model is in flight.
  bool in_step(ModelId model) const;
  Sequence& sequence_of(RequestId request);
  // Applies the decision to the block tables.
  void apply_decision(const schedule::Decision& decision, Nanos now);
  void admit(const schedule::Admission& admission, Nanos now);
  void rotate_out(RequestId request, Nanos now);
  // The sequence is no longer in host memory.
  static void end_rotation(Sequence& sequence, Nanos now);
  // The facts that a decision needs beside the cache; none where KV does not rotate.
  schedule::RotationInputs rotation_inputs(Nanos now);
  WeightsIn weights_in() const;
  // The lane's step has ended: passes its duration to the rotation, and counts missed experts.
  void measure_step(const StepLane& lane, ModelId model, Nanos took);
  // Logs, once, that a sequence is computed again because host memory has no room for its KV.
  void tell_full(RequestId victim);
  // Learns which copies of KV have ended; sequences that these have lost wait again.
  void end_copies(Nanos now);
  // Gives up what is left of these requests' KV.
  void recompute(const std::vector<RequestId>& requests, Nanos now);
  request::Batch make_batch(const StepLane& lane, const StepInFlight& step);
  request::BatchEntry add_entry(const schedule::Run& run, const StepLane& lane, StepId step,
                                request::Batch& batch);
  // In core_masks.cc. A request with a constraint has come; its next token has come.
  void begin_matching(Sequence& sequence, Nanos now);
  void follow(Sequence& sequence, TokenId token, Nanos now);
  // Whether it may be in a step before the token that its mask needs is known: that step awaits the
  // mask.
  bool goes_ahead(const Sequence& sequence) const;
  // Releases sequences whose masks are there, ends those that will have none, and supplies the step
  // that awaits masks when all are there.
  void take_masks(Nanos now);
  void look_at_masks(Nanos now);
  // False: its mask is not there, and is to be polled again.
  bool take_mask(Sequence& sequence, request::MaskState state, Nanos now);
  // The mask is late: the sequence is held, or if it was decided ahead, waited for a little.
  void wait_for_mask(Sequence& sequence, Nanos now);
  // Discards what a step in flight computes for a sequence whose mask is late.
  void step_back(Sequence& sequence, Nanos now);
  void supply_masks();
  // How many of the run's rows are to be scored; they are its first.
  static std::int64_t scored_rows(const Sequence& sequence, const schedule::Run& run);
  // The rows have been scored.
  static void keep_scores(Sequence& sequence, const schedule::Run& run,
                          std::span<const request::SampledToken> scored);
  // For a sequence that is pooled: adds the hidden states of its rows. The first chunk of a prompt
  // begins a new sum.
  static void pool(Sequence& sequence, const schedule::Run& run,
                   std::span<const request::SampledToken> rows);
  // The edits of the logits of the token that takes place `end`.
  request::LogitEdits edits_of(const Sequence& sequence, Tokens end) const;
  // Gives the decided step to the executor. A refused step fails at once, or when the step in
  // flight in its lane has ended.
  void launch(Nanos now);
  // The requests of the steps in flight that have not ended, and those of `decided`, in ascending
  // order.
  std::vector<RequestId> in_steps(const schedule::Decision* decided) const;
  // Tells the watch which requests are in steps. Once the device hangs or is lost it is told
  // nothing more: a request that was in a step then may be the cause.
  void tell_watch(const schedule::Decision* decided) const;
  // Fails refused steps whose turn it is.
  void end_refused(StepLane& lane, Nanos now);

  // The lane's oldest step no longer reads weights. An error: some of them did not arrive.
  Status end_weights(const StepLane& lane, Nanos now,
                     std::span<const std::uint32_t> experts_chosen = {});
  // The lane whose oldest step this is; nullptr: there is none.
  StepLane* lane_of(StepId step);
  void finish_step(StepLane& lane, const request::StepResult& result, Nanos now);
  void fail_step(StepLane& lane, const std::string& why, Nanos now);
  void complete_step(StepLane& lane, const request::StepResult& result, Nanos now);
  // The lane's oldest step is no longer in flight. Returns its sequences.
  std::vector<Sequence*> retire_step(StepLane& lane, Nanos now);
  // False: the sequence has ended with the token.
  bool take_token(Sequence& sequence, const request::OutputToken& token);
  // The token that the step in flight computes for the sequence, if any, is known from now on.
  void commit_ahead(Sequence& sequence);
  // Appends an output without tokens; finished = false.
  request::Output& add_output(Sequence& sequence);
  void end(Sequence& sequence, request::FinishReason reason, std::string error,
           std::vector<request::OutputToken> last_tokens = {});
  // The last step in flight that computes the sequence, and uses its frames until it ends; invalid:
  // there is none.
  StepId last_user(const Sequence& sequence);
  // The sequence takes no results of the steps in flight. Call it after last_user().
  void disown_steps(Sequence& sequence);
  void release_frames(const Sequence& sequence);
  // Fast-forward (core_calm.cc).
  bool has_room_alone(const Alone& alone) const;
  void end_alone(Sequence& sequence, const AloneSteps& steps);
  bool is_calm() const;
  std::int64_t calm_steps() const;
  std::optional<Nanos> calm_arrivals_until(Nanos now, std::span<const Nanos> ends) const;
  void run_calm_steps(std::int64_t steps, Nanos last_end, const SampledTokens& sampled);
  // How many tokens of prompts it computes.
  std::int64_t prompt_tokens_of(const StepInFlight& step) const;

  // The requests that have not ended, in the order of their ids, so that an action on all of them
  // happens in the same order every time.
  std::vector<RequestId> all_requests() const;

  CoreOptions options;
  StepExecutor& executor;
  weights::WeightCache* const cache;
  kv::KvCache kv;
  const Nanos step_timeout;
  schedule::Scheduler scheduler;
  std::optional<MemoryBorder> border;
  std::optional<KvRotation> rotation;
  IdMap<ModelId, ModelEntry> models;
  std::map<double, std::int64_t> alphas;  // how many requests have each value
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences;
  std::array<StepLane, 2> lanes;   // of resident models, of streamed ones
  schedule::Decision deciding;     // the decision that is being made
  std::int64_t steps_started = 0;  // the id of the next step
  std::vector<ModelId> streamed;   // models
  // Whether the last decision passed over models because their weights are on their way, and when
  // the first of them may be stepped, as far as that is known.
  bool awaiting_weights = false;
  std::optional<Nanos> weights_look;
  std::vector<RequestId> awaiting_masks;     // some may have ended
  std::optional<Nanos> masks_look;           // when to poll them again
  std::vector<weights::ModelDemand> demand;  // of one update; kept for its capacity
  // The models that the cache is told of: those with requests, and those whose weights it still
  // handles.
  std::set<ModelId> asked;
  // When requests that wait for copies of KV that were given up are ended.
  std::optional<Nanos> stranded_until;
  bool told_full = false;
  bool hung = false;
  std::string lost;               // why the device is lost; empty: it is not
  std::vector<RequestId> struck;  // those in a step at that time
  Nanos device_busy;
  std::vector<request::Output> outputs;
};

}  // namespace causeway::engine
