// Stands between an engine and its executor and counts, of every step of one token, which experts
// were chosen and where they were.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/step_executor.h"

namespace causeway::bench {

struct ExpertCounts {
  std::int64_t steps = 0;
  std::int64_t hits = 0;                  // in HBM
  std::int64_t misses = 0;                // at home
  std::vector<std::int64_t> chosen = {};  // [layers][experts]

  // Of all choices, those of each layer's most popular quarter of `experts`.
  double popular_share(std::int64_t experts) const {
    std::int64_t popular = 0, all = 0;
    for (auto first = chosen.begin(); first != chosen.end(); first += experts) {
      std::vector<std::int64_t> layer(first, first + experts);
      std::sort(layer.rbegin(), layer.rend());
      for (std::int64_t i = 0; i < experts; ++i) {
        const std::int64_t count = layer[static_cast<std::size_t>(i)];
        popular += i < experts / 4 ? count : 0;
        all += count;
      }
    }
    return all > 0 ? static_cast<double>(popular) / static_cast<double>(all) : 0;
  }
};

// Of one model, alone in its slice, whose experts are cached one by one.
class ExpertRecorder final : public engine::StepExecutor {
 public:
  // Borrowed both; the counts are read when no step is in flight.
  ExpertRecorder(engine::StepExecutor& inner, ExpertCounts& counts)
      : inner_(inner), counts_(counts) {}

  const Capabilities& capabilities() const override { return inner_.capabilities(); }
  Status submit(request::Batch batch, weights::StepWeights weights) override {
    decodes_ = batch.tokens.size() == 1;
    slots_.clear();
    for (const weights::WeightView& view : weights) {
      slots_.insert(slots_.end(), view.slots.begin(), view.slots.end());
    }
    return inner_.submit(std::move(batch), weights);
  }
  std::optional<request::StepResult> wait(Nanos timeout) override {
    auto result = inner_.wait(timeout);
    if (result && decodes_) count(result->experts_chosen);
    return result;
  }
  void begin_copies(std::span<const kv::KvCopy> copies) override { inner_.begin_copies(copies); }
  std::vector<kv::KvCopyEnd> poll_copies() override { return inner_.poll_copies(); }
  kv::KvCopyRates copy_rates() const override { return inner_.copy_rates(); }
  Status health() const override { return inner_.health(); }
  bool warm_up(ModelId model, const std::function<bool()>& stop) override {
    return inner_.warm_up(model, stop);
  }

 private:
  void count(const std::vector<std::uint32_t>& chosen) {
    if (chosen.empty() || chosen.size() != slots_.size()) return;
    counts_.steps += 1;
    counts_.chosen.resize(chosen.size());
    for (std::size_t e = 0; e < chosen.size(); ++e) {
      counts_.chosen[e] += chosen[e];
      if (chosen[e] > 0) (slots_[e] >= 0 ? counts_.hits : counts_.misses) += 1;
    }
  }

  engine::StepExecutor& inner_;
  ExpertCounts& counts_;
  bool decodes_ = false;
  std::vector<std::int32_t> slots_;  // of the step in flight
};

}  // namespace causeway::bench
