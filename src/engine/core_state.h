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
  Tokens cached{0};  // of the prompt, found in the prefix cache when first admitted
  Nanos queued{-1};  // from arrival to when it was first admitted; negative: not yet
  std::int32_t preemptions = 0;
  std::int32_t rotations = 0;  // how often it went to host memory
  Nanos came;                  // to this engine
  Nanos weights;               // for how long of `queued` its model's weights were missing
  std::vector<request::RotationTimes> rotated;  // go out with its next output; the last may be open
  schedule::Handle handle;
  // The sequence's place in each step in flight of its model's lane (StepLane::slot_of); -1: it is
  // not part of that step.
  std::array<std::int64_t, kStepsInFlightMax> runs = {-1, -1};
  std::int64_t sampled_row = -1;  // in the newest step that samples it
  // For a prompt whose log-probabilities are wanted and have not been put out: those of its tokens
  // behind the first, as far as they are known.
  std::vector<request::OutputToken> scores;
  bool scoring = false;                          // rows of the prompt are to be scored yet
  std::vector<double> pooled;                    // [hidden], the sum so far; empty: nothing yet
  std::optional<request::ModelSwitch> switched;  // goes out with its next token
  // For a sequence whose output must match a grammar (core_masks.cc).
  std::unique_ptr<request::TokenMatcher> matcher;
  Nanos mask_since;          // when the next mask began to be computed
  Nanos mask_patience = {};  // how long the loop may yet wait for it, in all
  // It stepped back: it stays held until so many steps of its lane have ended.
  std::int64_t void_until = 0;

  std::int64_t output_tokens() const {
    return static_cast<std::int64_t>(tokens.size()) - prompt.count;
  }
  // Logits or hidden states of its rows are, or were, wanted: none of it is found in the prefix
  // cache.
  bool scores_prompt() const {
    return request.sampling.prompt_logprobs >= 0 || request.pooling == request::Pooling::kMean;
  }
  // The tokens of it that are looked up in the prefix cache.
  std::span<const TokenId> prefix() const {
    return scores_prompt() ? std::span<const TokenId>() : std::span(tokens);
  }
};

struct ModelEntry {
  ModelFacts facts;
  std::int64_t arrived = 0;       // requests since the cache was last told
  request::Observation counters;  // those since start only
  ExpertTraffic missed = {};      // of one whose experts are cached one by one
  // Since a request found weights missing, until a token is there.
  struct Switching {
    Nanos began;
    Bytes missing;
    Nanos predicted;
    bool may_step = false;
  };
  std::optional<Switching> switching = {};
  Nanos weights_came = {};  // when a step could begin, the last time that weights were missing

  // How many bytes cross the link at a step of a streamed model.
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
  // Some lane has room, and models that could use it.
  bool may_start() const;
  // The oldest of the steps in flight beside the oldest one of this lane; or the next step.
  StepId oldest_beside(const StepLane& lane) const;

  // How long the steps of resident models that are in flight are expected to take yet.
  Nanos in_flight_for(Nanos now) const;

  // When the oldest step is taken to hang.
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
  // Moves memory between KV and weights, and ends the requests that it leaves no room for.
  void move_border(Nanos now);
  // How many requests it ended.
  std::int64_t end_larger_than(std::int64_t frames, const std::string& why);
  // Nothing runs, and a model waits for memory that sequences hold: these give it up, or end if it
  // and they can never be there together. True: they did.
  bool make_way(Nanos now);
  // Nothing runs, and copies of KV that were given up hold frames. They may yet end; requests that
  // need more than there is beside these, or whose model does, wait for it, but not for ever. True:
  // some ended.
  bool end_stranded(Nanos now);
  // Ends the requests of models that may not be stepped. True: there were some.
  bool end_unreachable(Nanos now);
  bool weights_arrive() const;
  // Requests may wait for weights, or for memory.
  bool awaits_memory() const {
    return awaiting_weights || (border && border->under_way()) ||
           (rotation && rotation->under_way()) || stranded_until;
  }
  // How many frames a request may need.
  // Whether a request for the model may come. kUnavailable: the device is lost or hangs;
  // kInvalidArgument: the model is not here.
  Status check_takes(ModelId model) const;
  std::int64_t frames_limit() const { return border ? border->frames_limit() : options.frames; }
  // Whether a step of the model may be submitted now; if only time is missing, notes when to ask
  // again.
  bool weights_allow(ModelId model, Nanos now);
  // How much of a step of the model may be left to compute when the last of its weights come.
  Nanos computes_beside_weights(ModelId model, Nanos now) const;

  Bytes cached_bytes(ModelId model) const {
    return cache != nullptr && cache->knows(model) ? cache->cached_bytes(model) : Bytes(0);
  }
  weights::ExpertCache::Counters expert_counters(ModelId model) const {
    return cache != nullptr ? cache->expert_counters(model) : weights::ExpertCache::Counters();
  }
  // A request has come that may find the model's weights missing; a token of the model has come.
  void begin_switch(ModelId model, Nanos now);
  void end_switch(Sequence& sequence, Nanos now);
  // Weights of the model that were missing suffice now for a step.
  void note_weights(ModelId model, Nanos now);

  // Whether a step of the model is in flight.
  bool in_step(ModelId model) const;
  Sequence& sequence_of(RequestId request);
  // Carries out what the decision says of block tables.
  void apply_decision(const schedule::Decision& decision, Nanos now);
  void admit(const schedule::Admission& admission, Nanos now);
  void rotate_out(RequestId request, Nanos now);
  // The sequence is in host memory no longer.
  static void end_rotation(Sequence& sequence, Nanos now);
  // The facts that a decision needs beside the cache; none where KV does not rotate.
  schedule::RotationInputs rotation_inputs(Nanos now);
  WeightsIn weights_in() const;
  // The lane's step has ended: tells the rotation how long it took, and counts missed experts.
  void measure_step(const StepLane& lane, ModelId model, Nanos took);
  // Says, once, that one is computed again because host memory has no room for its KV.
  void tell_full(RequestId victim);
  // Learns which copies of KV have ended; sequences that are lost by that wait again.
  void end_copies(Nanos now);
  // Gives up what is left of these requests' KV.
  void recompute(const std::vector<RequestId>& requests, Nanos now);
  request::Batch make_batch(const StepLane& lane, const StepInFlight& step);
  request::BatchEntry add_entry(const schedule::Run& run, const StepLane& lane, StepId step,
                                request::Batch& batch);
  // core_masks.cc. A request has come with a constraint; its next token has come.
  void begin_matching(Sequence& sequence, Nanos now);
  void follow(Sequence& sequence, TokenId token, Nanos now);
  // Whether it may be in a step before what its mask needs is known: that step awaits the mask.
  bool goes_ahead(const Sequence& sequence) const;
  // Releases those whose masks are there, ends those that will have none, and supplies the step
  // that awaits masks when all are there.
  void take_masks(Nanos now);
  void look_at_masks(Nanos now);
  // False: its mask is not there, and is to be looked at again.
  bool take_mask(Sequence& sequence, request::MaskState state, Nanos now);
  // It is late: the sequence is held, or if it went ahead, waited for a little.
  void wait_for_mask(Sequence& sequence, Nanos now);
  // Gives up what a step in flight computes for a sequence whose mask is late.
  void step_back(Sequence& sequence, Nanos now);
  void supply_masks();
  // How many of the rows that the run computes are to be scored; they are its first.
  static std::int64_t scored_rows(const Sequence& sequence, const schedule::Run& run);
  // They have been scored.
  static void keep_scores(Sequence& sequence, const schedule::Run& run,
                          std::span<const request::SampledToken> scored);
  // For a sequence that is pooled: adds its rows' hidden states; those of a prompt's first chunk
  // begin a new sum.
  static void pool(Sequence& sequence, const schedule::Run& run,
                   std::span<const request::SampledToken> rows);
  // How a request changes the logits of the token that takes place `end`.
  request::LogitEdits edits_of(const Sequence& sequence, Tokens end) const;
  // Hands the decided step to the executor. One that is refused fails at once, or when the step in
  // flight in its lane has ended.
  void launch(Nanos now);
  // The requests of the steps in flight that have not ended, and of `decided`, in ascending order.
  std::vector<RequestId> in_steps(const schedule::Decision* decided) const;
  // Tells the watch which requests are in steps. Once the device hangs or is lost nothing is told
  // any more: what was in a step then may be why.
  void tell_watch(const schedule::Decision* decided) const;
  // Fails the steps whose turn it is and that were refused.
  void end_refused(StepLane& lane, Nanos now);

  // The lane's oldest step reads no weights any more. An error: some of them did not arrive.
  Status end_weights(const StepLane& lane, Nanos now,
                     std::span<const std::uint32_t> experts_chosen = {});
  // The lane whose oldest step this is; nullptr: none.
  StepLane* lane_of(StepId step);
  void finish_step(StepLane& lane, const request::StepResult& result, Nanos now);
  void fail_step(StepLane& lane, const std::string& why, Nanos now);
  void complete_step(StepLane& lane, const request::StepResult& result, Nanos now);
  // The lane's oldest step is in flight no more. Returns its sequences.
  std::vector<Sequence*> retire_step(StepLane& lane, Nanos now);
  // False: the sequence has ended with it.
  bool take_token(Sequence& sequence, const request::OutputToken& token);
  // The token that the step in flight computes for the sequence, if any, is known now.
  void commit_ahead(Sequence& sequence);
  // Appends an output without tokens; finished = false.
  request::Output& add_output(Sequence& sequence);
  void end(Sequence& sequence, request::FinishReason reason, std::string error,
           std::vector<request::OutputToken> last_tokens = {});
  // The last step in flight that computes the sequence, which uses its frames until it ends;
  // invalid: none does.
  StepId last_user(const Sequence& sequence);
  // The sequence takes no results of the steps in flight. Called behind last_user().
  void disown_steps(Sequence& sequence);
  void release_frames(const Sequence& sequence);
  // Fast-forward (core_calm.cc).
  bool is_calm() const;
  std::int64_t calm_steps() const;
  std::optional<Nanos> calm_arrivals_until(Nanos now, std::span<const Nanos> ends) const;
  void run_calm_steps(std::int64_t steps, Nanos last_end, const SampledTokens& sampled);

  // The requests that have not ended, in order of their ids, so that what is done to all is done in
  // the same order every time.
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
  std::map<double, std::int64_t> alphas;  // of these, how many have each
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences;
  std::array<StepLane, 2> lanes;   // of resident models, of streamed ones
  schedule::Decision deciding;     // the one that is being made
  std::int64_t steps_started = 0;  // the id of the next
  std::vector<ModelId> streamed;   // models
  // Models that were passed over by the last decision, because their weights are on their way; and
  // when the first of them may be stepped, as far as that is known.
  bool awaiting_weights = false;
  std::optional<Nanos> weights_look;
  std::vector<RequestId> awaiting_masks;     // some may have ended
  std::optional<Nanos> masks_look;           // when to look at them again
  std::vector<weights::ModelDemand> demand;  // of one update, kept for its memory
  // Models of which the cache is told: those with requests, and those that it has not done with.
  std::set<ModelId> asked;
  // Requests that wait for copies of KV that were given up end then.
  std::optional<Nanos> stranded_until;
  bool told_full = false;
  bool hung = false;
  std::string lost;               // why the device is; empty: it is not
  std::vector<RequestId> struck;  // that were in a step then
  Nanos device_busy;
  std::vector<request::Output> outputs;
};

}  // namespace causeway::engine
