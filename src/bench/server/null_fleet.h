// A Fleet without models behind it: every request is answered at once, so that what is measured is
// the server alone.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "fleet/fleet.h"

namespace causeway::server {

// The first token of a request comes as soon as its thread wakes, one more every `token_gap` (of
// all requests in one batch, as a step of an engine does), until max_tokens.
class NullFleet final : public fleet::Fleet {
 public:
  struct Options {
    Nanos token_gap = millis(20);
    // The second token waits until this many requests run: all streams are open at one time.
    std::int64_t gather = 0;
  };
  NullFleet(const Options& options, engine::OutputSink& sink, const Clock& clock);
  ~NullFleet() override;

  std::vector<const fleet::CatalogueEntry*> catalogue() const override { return listed_; }
  const fleet::CatalogueEntry* find(std::string_view name) const override;
  fleet::ModelStatus status(ModelId model) const override;
  Status submit(request::Request request) override;
  Status probe(request::Request request) override { return submit(std::move(request)); }
  Status ask(const fleet::Ask&) override { return unsupported("there is nothing to ask for"); }
  bool asleep() const override { return false; }
  fleet::ReloadReport last_reload() const override { return {}; }
  void cancel(RequestId request) override;
  request::Observation observe() const override;
  std::vector<std::pair<ModelId, request::Observation>> observe_models() const override;

 private:
  struct Running {
    RequestId id;
    std::int64_t tokens_left = 0;
    bool started = false;
  };
  void play();
  // A token of each request that has none yet, or (`all`) of every one.
  std::vector<request::Output> step(bool all);

  Options options_;
  engine::OutputSink& sink_;
  const Clock& clock_;
  std::unique_ptr<fleet::CatalogueEntry> model_;
  std::vector<const fleet::CatalogueEntry*> listed_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Running> running_;
  std::size_t unstarted_ = 0;  // of running_, without a token yet
  bool gathered_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace causeway::server
