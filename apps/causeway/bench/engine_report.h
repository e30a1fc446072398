// What a run of an engine was worth, from the records of its steps. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bench/samples.h"
#include "bench/step_recorder.h"

namespace causeway::bench {

// The steps of a run that were alike: of single tokens, by their number of sequences.
struct Band {
  std::int64_t sequences_max = 0;  // and more than the band before; 0: steps with prompts
  std::int64_t steps = 0;
  Nanos on_device;
  Nanos floor;
};

// All requests at once, until the last has ended.
struct RunReport {
  std::int64_t requests = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t steps = 0;
  std::int64_t decode_steps = 0;  // of single tokens only
  Nanos total;                    // from the first submission to the last end
  Nanos floor;                    // Σ of the steps'
  Nanos decode_floor;             // of it, of the steps of single tokens
  Nanos on_device;                // Σ of the steps' times on the GPU
  Nanos decode_on_device;
  DeviceLimits
      limits;  // the mean of those before and behind it: a GPU that has worked for long is slower
  std::vector<Band> bands;
  Samples gaps;  // ms: between two tokens of a request
  double ratio() const { return to_seconds(total) / to_seconds(floor); }
  // Of the total, when the GPU ran no step.
  double idle() const { return 1 - to_seconds(on_device) / to_seconds(total); }
};
RunReport report_run(const std::vector<StepRecord>& steps, const DeviceLimits& limits, Nanos total);

// A decode step of `batch` sequences in the engine's loop: means over the steps of a run that
// computed a token of each sequence, one after the other.
struct DecodeReport {
  std::int64_t batch = 0;
  std::int64_t steps = 0;
  Nanos in_engine;  // from one result to the next, by the clock
  Nanos on_device;  // of it, the GPU ran the step: between two events of its stream
  Samples between;  // ms: in_engine of each
  Nanos alone;      // the forward pass enqueued back to back, without engine and sampling
  Nanos floor;
  // Of the engine's step, when the GPU waited for the host.
  double not_overlapped() const { return 1 - to_seconds(on_device) / to_seconds(in_engine); }
};
DecodeReport report_decode(const std::vector<StepRecord>& steps, std::int64_t batch,
                           const DeviceLimits& limits);

struct EngineReport {
  DeviceLimits limits;  // at its beginning; of the decode steps
  std::vector<RunReport> runs;
  std::vector<DecodeReport> decodes;
};
void print_report(const EngineReport& report);
nlohmann::ordered_json report_json(const EngineReport& report);

}  // namespace causeway::bench
