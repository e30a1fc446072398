// A scheduler with a real KvCache and the smallest possible engine, for tests and benchmarks.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "kv/kv_cache.h"
#include "schedule/scheduler.h"

namespace causeway::schedule {

struct HarnessOptions {
  Options schedule;
  std::int64_t frames = 64;
  bool prefix_caching = true;
};

class Harness {
 public:
  explicit Harness(const HarnessOptions& options, std::unique_ptr<Policy> policy = nullptr);

  void add_model(ModelId model, std::int64_t tokens_per_block);
  // A sequence of `prompt` tokens that ends after `output` more; tokens are those of `family`, so
  // that sequences of one family share prefixes (0: all different).
  void add(std::int64_t id, ModelId model, std::int64_t prompt, std::int64_t output,
           std::int32_t priority = 0, int family = 0, bool scores = false);
  // Decides, executes and completes a step at `now`; removes what has ended.
  const Decision& step(Nanos now);
  // Its three parts, for measuring the first alone.
  void decide(Nanos now) { scheduler_.schedule(now, kv_, decision_); }
  void execute();
  void complete(Nanos now, Nanos took = Nanos(0));

  const Decision& decision() const { return decision_; }
  Scheduler& scheduler() { return scheduler_; }
  const kv::KvCache& kv() const { return kv_; }
  bool has(std::int64_t id) const { return sequences_.contains(RequestId(id)); }
  std::int64_t left() const { return static_cast<std::int64_t>(sequences_.size()); }
  std::int64_t ended() const { return ended_; }
  // The run of a request in the last decision; null: it has none.
  const Run* run_of(std::int64_t id) const;

 private:
  struct Sequence {
    ModelId model;
    std::vector<TokenId> tokens;
    std::size_t length_max = 0;
    Handle handle;
    bool scores = false;
  };

  kv::KvCache kv_;
  Scheduler scheduler_;
  Decision decision_;
  std::map<RequestId, Sequence> sequences_;
  std::int64_t steps_ = 0;
  std::int64_t ended_ = 0;
};

}  // namespace causeway::schedule
