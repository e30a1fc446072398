// A Fleet that answers by script: which tokens, how they end, when. One thread plays the engine.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "fleet/fleet.h"

namespace causeway::server::testing {

struct Script {
  std::vector<TokenId> tokens;
  std::size_t tokens_per_output = 1;
  request::FinishReason reason = request::FinishReason::kStop;
  std::string error;
  ErrorCode code = ErrorCode::kDevice;  // of the error
  bool held = false;                    // nothing beyond the first hold_at tokens before release()
  std::size_t hold_at = 0;
  bool endless = false;  // repeats the tokens until cancelled, a step a millisecond
  std::vector<request::TokenLogprob> top;  // of every token
  float logprob = -0.5f;
  // For each prompt token but the first, when a request asks: goes with the first output.
  float prompt_logprob = -0.25f;
  std::vector<request::TokenLogprob> prompt_top = {};
  std::vector<request::OutputToken> prompt = {};  // made of these by submit()
  std::vector<float> embedding = {};              // goes with the last output
  std::int64_t cached = 0;
  Nanos queued{-1};
  Nanos held_for, weights;
  std::vector<request::RotationTimes> rotations = {};  // go with the last output
  std::optional<request::ModelSwitch> switched;        // goes with the first output
};

// A script that says `text`, a token a byte.
Script says(std::string_view text);

class ScriptedFleet final : public fleet::Fleet {
 public:
  explicit ScriptedFleet(engine::OutputSink& sink);
  ~ScriptedFleet() override;

  // Before the server starts.
  fleet::CatalogueEntry& add_model(std::string name, Tokens max_model_len = Tokens(1000));
  // What to do with a request; an Error refuses it. Called on the server's threads.
  std::function<Result<Script>(const request::Request&)> on_submit;
  request::Observation counted;   // what observe() says beside what runs; set before it starts
  std::atomic<bool> hung{false};  // what observe() says of the device
  std::atomic<bool> lost{false};

  // What to do with an ask; an error refuses it. Else it ends at once, or when release() is called.
  std::function<Status(const fleet::Ask&)> on_ask;
  std::atomic<bool> asks_held{false};
  std::atomic<bool> asleep_now{false};
  fleet::ReloadReport reloaded;  // set before it starts
  // Told of each name that is looked for, before it is. Called on the server's threads.
  std::function<void(std::string_view)> on_find;
  // Changes what status() says of a model. Called on the server's threads.
  std::function<void(ModelId, fleet::ModelStatus&)> on_status;

  void release();  // lets held requests go
  std::int64_t submitted() const { return submitted_; }
  std::int64_t probed() const { return probed_; }        // of those submitted, and refused ones
  std::int64_t cancelled() const { return cancelled_; }  // that were running
  std::int64_t running() const;
  // Waits (10 s at most) until as many have been cancelled; false: they have not.
  bool wait_for_cancelled(std::int64_t count);
  bool wait_for_submitted(std::int64_t count);
  request::Request last() const;

  std::vector<const fleet::CatalogueEntry*> catalogue() const override { return listed_; }
  const fleet::CatalogueEntry* find(std::string_view name) const override;
  fleet::ModelStatus status(ModelId model) const override;
  Status submit(request::Request request) override;
  Status probe(request::Request request) override {
    ++probed_;
    return submit(std::move(request));
  }
  Status ask(const fleet::Ask& ask) override;
  bool asleep() const override { return asleep_now; }
  fleet::ReloadReport last_reload() const override { return reloaded; }
  void cancel(RequestId request) override;
  request::Observation observe() const override;
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const override;

 private:
  struct Running {
    Script script;
    std::size_t next = 0;
    bool cancelled = false;
  };
  void play();
  bool plays_endlessly() const;
  // One output of each running request that is not held.
  std::vector<request::Output> step();
  static request::Output advance(RequestId id, Running& running);

  engine::OutputSink& sink_;
  std::vector<std::unique_ptr<fleet::CatalogueEntry>> models_;
  std::vector<const fleet::CatalogueEntry*> listed_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<RequestId, Running> running_;
  request::Request last_;
  bool ending_ = false;
  std::atomic<std::int64_t> submitted_{0};
  std::atomic<std::int64_t> probed_{0};
  std::atomic<std::int64_t> cancelled_{0};
  std::thread thread_;
};

}  // namespace causeway::server::testing
