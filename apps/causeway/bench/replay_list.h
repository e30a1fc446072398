// What a replay asks for: which model, when, with how many tokens. Made from a recorded trace or a
// Poisson process, the same for the same options and number of models, so that a server and the
// simulator are asked the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "request/slo.h"
#include "simulate/workload.h"

namespace causeway::bench {

struct ReplayOptions {
  // Arrivals: of a trace (request/trace.h), `compress` times faster, from `skip` seconds of it on;
  // without one a Poisson process, or another Gamma's (gamma_arrivals).
  std::string trace = {};
  double compress = 1;
  double skip = 0;
  // For fleets: each of the trace's requests comes so many times, each at an instant of its own in
  // the minute of the trace's time after it, and of a model of its own: the catalogue is divided
  // into as many parts, one a copy, as far as it reaches.
  std::int64_t copies = 1;
  double rate = 10;
  double burstiness = 1;
  // Which of them: those of the first seconds (of the replay), and no more than so many; 0: all.
  double seconds = 90;
  std::int64_t requests_max = 0;
  // Lengths: drawn from those of another trace; else fixed; else the trace's own, or, where it has
  // none, 512 and 64 tokens. Longer ones are cut.
  std::string lengths = {};
  std::int64_t input = 0;  // 0: not fixed
  std::int64_t output = 0;
  std::int64_t input_max = 3072;
  std::int64_t output_max = 1024;
  // Models by Zipf's law; nullopt: as the trace has them, or by it where it has none.
  std::optional<double> zipf = {};
  request::Slo slo = {.ttft = millis(1000)};
  std::uint64_t seed = 1;
};

// By time, from 0 on. `models`: of a catalogue in which the first is the most popular. The models
// of a trace are mapped onto it by how often they are asked for in all of the trace; those beyond
// its size begin again at the first. kInvalidArgument: options out of their range, or nothing to
// replay; errors of request::load_trace().
Result<simulate::Workload> replay_list(const ReplayOptions& options, std::size_t models);

}  // namespace causeway::bench
