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
  Tokens cached{0};  // tokens of the prompt that were in the cache at first admission
  Nanos queued{-1};  // time from arrival to first admission; negative: not admitted yet
  std::int32_t preemptions = 0;
  std::int32_t rotations = 0;                   // how often its KV went to host memory
  Nanos came;                                   // when it came to this engine
  Nanos weights;  // the part of `queued` in which weights of its model were missing
  // Sent with its next output; the last entry may be open.
  std::vector<request::RotationTimes> rotated;
  schedule::Handle handle;
  // By step in flight of its model's lane (StepLane::slot_of): the sequence's index in that step;
  // -1: it is not in the step.
  std::array<std::int64_t, kStepsInFlightMax> runs = {-1, -1};
  std::int64_t sampled_row = -1;  // its row in the newest step that samples it
  // For a prompt whose log-probabilities are wanted and not delivered yet: those that are known of
  // its tokens after the first.
  std::vector<request::OutputToken> scores;
  bool scoring = false;        // some rows of the prompt are not scored yet
  std::vector<double> pooled;  // [hidden], the sum so far; empty: no rows were added yet
  std::optional<request::ModelSwitch> switched;  // sent with its next token
  // For a sequence whose output must match a grammar (core_masks.cc).
  std::unique_ptr<request::TokenMatcher> matcher;
  Nanos mask_since;          // when the next mask began to be computed
  Nanos mask_patience = {};  // how much longer the loop may wait for it
  // After step_back() the sequence is held until so many steps of its lane have ended.
  std::int64_t void_until = 0;

  std::int64_t output_tokens() const {
    return static_cast<std::int64_t>(tokens.size()) - prompt.count;
  }
  // Whether logits or hidden states of its prompt's rows are, or were, wanted. Then no part of the
  // prompt is looked up in the prefix cache.
  bool scores_prompt() const {
    return request.sampling.prompt_logprobs >= 0 || request.pooling == request::Pooling::kMean;
  }
  // The tokens that are looked up in the prefix cache.
  std::span<const TokenId> prefix() const {
    return scores_prompt() ? std::span<const TokenId>() : std::span(tokens);
  }
};

struct ModelEntry {
  ModelFacts facts;
  std::int64_t arrived = 0;       // requests since the cache was last told
  request::Observation counters;  // the counters that count since the start
  ExpertTraffic missed = {};      // for a model whose experts are cached one by one
  // From the request that found weights missing until the model's first token.
  struct Switching {
    Nanos began;
    Bytes missing;
    Nanos predicted;
    bool may_step = false;
  };
  std::optional<Switching> switching = {};
  Nanos weights_came = {};  // when a step could begin, after weights had been missing

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
  // Whether a lane has room, and models with requests that could use it.
  bool may_start() const;
  // The oldest step in flight other than the oldest one of this lane; otherwise the next step.
  StepId oldest_beside(const StepLane& lane) const;

  // How much longer the steps in flight of resident models are expected to take.
  Nanos in_flight_for(Nanos now) const;

  // When the oldest step will count as hanging.
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
  // Whether the last demand still holds and the cache changes nothing by itself.
  bool weights_rest(Nanos now) const;
  // Moves memory between KV and weights, and ends the requests that have no room afterwards.
  void move_border(Nanos now);
  // Ends the requests that need more frames, and returns their number.
  std::int64_t end_larger_than(std::int64_t frames, const std::string& why);
  // Called when nothing runs and a model waits for memory that sequences hold: the sequences give
  // it up, or end if they and the model can never fit together. Returns whether any did.
  bool make_way(Nanos now);
  // Called when nothing runs and given-up copies of KV, which may still end, hold frames. Requests
  // that need more than the other frames, or whose models do, wait for these copies for a limited
  // time. Returns whether any request was ended.
  bool end_stranded(Nanos now);
  // Ends the requests of models that may not be stepped. Returns whether there were any.
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
  // How much of a step's computing may be left when the last of its weights arrive.
  Nanos computes_beside_weights(ModelId model, Nanos now) const;
  // The same for a step that is submitted while another one is in flight.
  Nanos computes_behind_weights() const;

  Bytes cached_bytes(ModelId model) const {
    return cache != nullptr && cache->knows(model) ? cache->cached_bytes(model) : Bytes(0);
  }
  weights::ExpertCache::Counters expert_counters(ModelId model) const {
    return cache != nullptr ? cache->expert_counters(model) : weights::ExpertCache::Counters();
  }
  // begin_switch() notes a request that may find weights of the model missing; end_switch() notes a
  // token of the model.
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
  // The sequence has left host memory, or has lost its KV there.
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
  // Defined in core_masks.cc. begin_matching(): a request with a constraint has come;
  // follow(): its next token has come.
  void begin_matching(Sequence& sequence, Nanos now);
  void follow(Sequence& sequence, TokenId token, Nanos now);
  // Whether the sequence may be in a step before the token that its mask depends on is known; the
  // step then awaits the mask.
  bool goes_ahead(const Sequence& sequence) const;
  // Takes in masks that have been computed: releases their sequences, ends sequences that can have
  // no mask, and supplies the step that awaits masks when all of them are there.
  void take_masks(Nanos now);
  void look_at_masks(Nanos now);
  // False: the mask is not there, and must be polled again.
  bool take_mask(Sequence& sequence, request::MaskState state, Nanos now);
  // The mask is late: holds the sequence or, if the step was decided ahead, waits a little.
  void wait_for_mask(Sequence& sequence, Nanos now);
  // Discards what a step in flight computes for a sequence whose mask is late.
  void step_back(Sequence& sequence, Nanos now);
  void supply_masks();
  // The number of the run's rows that are to be scored, which are its first rows.
  static std::int64_t scored_rows(const Sequence& sequence, const schedule::Run& run);
  // Keeps the scores of the run's rows.
  static void keep_scores(Sequence& sequence, const schedule::Run& run,
                          std::span<const request::SampledToken> scored);
  // Adds the hidden states of the sequence's rows to its sum. The first chunk of a prompt begins a
  // new sum.
  static void pool(Sequence& sequence, const schedule::Run& run,
                   std::span<const request::SampledToken> rows);
  // The edits of the logits that choose the token at position `end`.
  request::LogitEdits edits_of(const Sequence& sequence, Tokens end) const;
  // Gives the decided step to the executor. A step that the executor refuses fails at once, or when
  // the step in flight in its lane has ended.
  void launch(Nanos now);
  // In ascending order: the requests of the steps in flight that have not ended, and those of
  // `decided`.
  std::vector<RequestId> in_steps(const schedule::Decision* decided) const;
  // Tells the watch which requests are in steps. After the device hangs or is lost the watch is
  // told nothing more, because a request that was in a step then may be the cause.
  void tell_watch(const schedule::Decision* decided) const;
  // Fails refused steps when the steps before them have ended.
  void end_refused(StepLane& lane, Nanos now);

  // Tells the cache that the lane's oldest step has ended. An error: some of its weights did not
  // arrive.
  Status end_weights(const StepLane& lane, Nanos now,
                     std::span<const std::uint32_t> experts_chosen = {});
  // The lane whose oldest step this is; nullptr: there is none.
  StepLane* lane_of(StepId step);
  void finish_step(StepLane& lane, const request::StepResult& result, Nanos now);
  void fail_step(StepLane& lane, const std::string& why, Nanos now);
  void complete_step(StepLane& lane, const request::StepResult& result, Nanos now);
  // Removes the lane's oldest step from those in flight, and returns its sequences, which are those
  // of `retired`.
  std::span<Sequence* const> retire_step(StepLane& lane, Nanos now);
  // False: the sequence has ended with this token.
  bool take_token(Sequence& sequence, const request::OutputToken& token);
  // Commits the token that the step in flight computes for the sequence, if there is one.
  void commit_ahead(Sequence& sequence);
  // Appends an output without tokens, which is not the last.
  request::Output& add_output(Sequence& sequence);
  void end(Sequence& sequence, request::FinishReason reason, std::string error,
           std::vector<request::OutputToken> last_tokens = {});
  // The last step in flight that computes the sequence and so uses its frames; invalid: there is
  // none.
  StepId last_user(const Sequence& sequence);
  // The sequence takes no more results of the steps in flight. Call last_user() before.
  void disown_steps(Sequence& sequence);
  void release_frames(const Sequence& sequence);
  // Fast-forward; defined in core_calm.cc.
  bool has_room_alone(const Alone& alone) const;
  void end_alone(Sequence& sequence, const AloneSteps& steps);
  // Whether two steps are in flight that were not refused, and only their ends are awaited.
  bool awaits_two_steps() const;
  bool is_calm() const;
  std::int64_t calm_steps() const;
  // How many times the step may be followed by one like it before one of its sequences ends.
  std::int64_t steps_before_ends(const StepInFlight& step) const;
  // How many frames that takes.
  std::int64_t frames_wanted(const StepInFlight& step, std::int64_t steps) const;
  bool alternate() const;
  std::int64_t calm_rounds() const;
  void run_calm_rounds(std::span<const Nanos> ends, const SampledTokens& sampled);
  void add_calm_tokens(const StepInFlight& step, std::int64_t count, StepId last_done,
                       const SampledTokens& sampled);
  std::optional<Nanos> calm_arrivals_until(Nanos now, std::span<const Nanos> ends) const;
  void run_calm_steps(std::int64_t steps, Nanos last_end, const SampledTokens& sampled);
  // The number of prompt tokens that the step computes.
  std::int64_t prompt_tokens_of(const StepInFlight& step) const;

  // The requests that have not ended, by id, so that an action on all of them always happens in the
  // same order.
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
  std::map<double, std::int64_t> alphas;  // by value: the number of requests with it
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences;
  std::array<StepLane, 2> lanes;   // of resident models; of streamed models
  schedule::Decision deciding;     // the decision in progress
  std::int64_t steps_started = 0;  // the next step's id
  std::vector<ModelId> streamed;   // the streamed models
  // Whether the last decision passed over models because their weights are on their way, and when
  // the first of them may be stepped, if that is known.
  bool awaiting_weights = false;
  std::optional<Nanos> weights_look;
  std::vector<RequestId> awaiting_masks;     // sequences, some of which may have ended
  std::optional<Nanos> masks_look;           // when they are polled again
  std::vector<weights::ModelDemand> demand;  // of one update; kept for its capacity
  // The models of which the cache is told: those with requests, and those whose weights the cache
  // is still moving.
  std::set<ModelId> asked;
  // When requests end that wait for given-up copies of KV.
  std::optional<Nanos> stranded_until;
  bool told_full = false;
  bool hung = false;
  std::string lost;               // why the device is lost; empty: it is not lost
  std::vector<RequestId> suspects;  // the requests that were in a step at that time
  Nanos device_busy;
  std::vector<request::Output> outputs;
  std::vector<Sequence*> retired;  // of the step that ended last
};

}  // namespace causeway::engine
