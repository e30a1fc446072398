// What an EngineCore remembers between its calls. Internal to this room.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine_core.h"

namespace causeway::engine {

struct Sequence {
  request::Request request;
  std::vector<TokenId> tokens;  // prompt and output so far
  Tokens prompt;
  Tokens cached{0};  // of the prompt, found in the prefix cache when first admitted
  Nanos queued{-1};  // from arrival to when it was first admitted; negative: not yet
  std::int32_t preemptions = 0;
  schedule::Handle handle;
  std::int64_t run_index = -1;  // in the step in flight; -1: not part of it

  std::int64_t output_tokens() const {
    return static_cast<std::int64_t>(tokens.size()) - prompt.count;
  }
};

struct ModelEntry {
  ModelFacts facts;
  request::Observation counters;  // those since start only
};

struct StepInFlight {
  StepId id;  // invalid: none
  Nanos started;
  std::vector<Sequence*> sequences;       // beside Decision::runs; null: ended meanwhile
  std::vector<FrameId> abandoned_frames;  // of those that ended meanwhile: still in use by the step
};

class EngineCore::State {
 public:
  State(const CoreOptions& options_in, StepExecutor& executor_in)
      : options(options_in),
        executor(executor_in),
        kv({.frames = options_in.frames,
            .prefix_caching = options_in.prefix_caching,
            .hash_seed = options_in.prefix_hash_seed}),
        scheduler(options_in.schedule) {}

  Sequence& sequence_of(RequestId request);
  // Carries out what the decision says of block tables.
  void apply_decision(Nanos now);
  request::Batch make_batch(StepId step);
  // Hands the decided step to the executor. False: it was refused, and its requests have ended.
  bool launch(Nanos now);

  void fail_step(const std::string& why, Nanos now);
  void complete_step(const request::StepResult& result, Nanos now);
  void take_token(Sequence& sequence, const request::OutputToken& token);
  // Appends an output without tokens; finished = false.
  request::Output& add_output(const Sequence& sequence);
  void end(Sequence& sequence, request::FinishReason reason, std::string error,
           std::vector<request::OutputToken> last_tokens = {});
  void release_frames(const Sequence& sequence);
  // Those alive, in order of their ids: what is done to all is done in the same order every time.
  std::vector<RequestId> all_requests() const;

  CoreOptions options;
  StepExecutor& executor;
  kv::KvCache kv;
  schedule::Scheduler scheduler;
  std::map<ModelId, ModelEntry> models;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences;
  schedule::Decision decision;
  StepInFlight step;
  std::int64_t steps_started = 0;
  bool hung = false;
  std::vector<request::Output> outputs;
};

}  // namespace causeway::engine
