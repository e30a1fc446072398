// The metrics that Prometheus scrapes. Names and buckets are vLLM's, with this project's prefix, so
// that existing dashboards need one replacement, or none with MetricsOptions::vllm_names; every
// series of a model carries model_name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fleet/fleet.h"
#include "server/tracing/trace_exporter.h"

namespace causeway::server {

// How a request to the engine ended.
enum class Ending { kStop, kLength, kAbort, kError };

// The measurements of one engine request, reported at its end. Times below zero: it did not happen.
struct Finished {
  Ending ending = Ending::kStop;
  std::int64_t prompt_tokens = 0;
  std::int64_t generated_tokens = 0;
  Nanos ttft{-1};
  Nanos e2e{-1};
  Nanos queued{-1};
  Nanos tpot{-1};  // mean time of a token after the first
  request::Slo slo;
};

// A prompt all of whose choices have ended.
struct FinishedPrompt {
  std::int64_t choices = 1;               // `n`
  std::int64_t max_tokens = 0;            // of each, that the request allowed
  std::int64_t generated_tokens_max = 0;  // of the longest
};

struct MetricsOptions {
  bool vllm_names = false;  // metrics that vLLM has, too, are repeated under its names: "vllm:…"
};

// Thread-safe. A model has series from the start, or from when it is first seen, and keeps them
// after it is removed.
class Metrics {
 public:
  explicit Metrics(const fleet::Fleet& fleet, const MetricsOptions& options = {});
  ~Metrics();

  void first_token(const fleet::CatalogueEntry& model, Nanos after);
  void next_token(const fleet::CatalogueEntry& model, Nanos after);
  void tokens(const fleet::CatalogueEntry& model, std::int64_t prompt, std::int64_t generated);
  void finished(const fleet::CatalogueEntry& model, const Finished& measured);
  void prompt_finished(const fleet::CatalogueEntry& model, const FinishedPrompt& measured);
  void switched(const fleet::CatalogueEntry& model, Nanos took);
  // Sets the number of traces so far.
  void traces(const TraceCounts& counts);

  // All series as text, with the present counters of the fleet. Time in proportion to the
  // catalogue.
  std::string exposition(const fleet::Fleet& fleet);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace causeway::server
