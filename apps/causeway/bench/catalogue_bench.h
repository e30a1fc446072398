// A catalogue of models of several sizes under requests whose models follow Zipf's law, in this
// process, on random weights made in host memory: how long requests wait for their first token, and
// whether anything grows with time that should not.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "bench/samples.h"
#include "bench/slice_parts.h"
#include "model/config.h"

namespace causeway::bench {

struct CatalogueSettings {
  model::ModelConfig config;  // of the largest; others have fewer layers
  SliceSettings slice;
  std::int64_t models = 20;
  double zipf = 1.0;
  double rate = 4;        // requests a second, Poisson
  double duration = 300;  // seconds of arrivals
  std::int64_t prompt = 256;
  std::int64_t output = 32;
  std::uint64_t seed = 1;
  std::function<void(const std::string& what)> progress;
};

// What the process holds.
struct Holdings {
  Bytes device;  // memory of the device in use, by anyone
  Bytes pinned;  // host regions
  std::int64_t descriptors = 0;
};

struct CatalogueReport {
  std::int64_t requests = 0;
  std::int64_t failed = 0;
  std::string first_error;
  Bytes weights;  // of all models
  Bytes cache;
  Bytes crossed;  // over the link
  double seconds = 0;
  Samples first;   // tokens, ms after their requests were due
  Holdings early;  // after a fifth of the time
  Holdings late;   // at the end
};

Result<CatalogueReport> bench_catalogue(const CatalogueSettings& settings, const Clock& clock);

void print_report(const CatalogueReport& report);
nlohmann::ordered_json report_json(const CatalogueReport& report);

}  // namespace causeway::bench
