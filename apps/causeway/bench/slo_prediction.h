// What the simulator expects of a row of `bench slo`: the same arrivals, lengths, memory and policy
// on a hardware profile, in virtual time.
#pragma once

#include <vector>

#include "base/result.h"
#include "bench/slice_parts.h"
#include "bench/slo_report.h"
#include "client/load_generator.h"
#include "model/config.h"
#include "simulate/hardware_profile.h"

namespace causeway::bench {

struct SloPredictionSettings {
  simulate::HardwareProfile profile;
  model::ModelConfig config;
  SliceSettings slice;  // as the row's slice was opened; kv is given
  request::Slo slo;
  double alpha = schedule::kAlphaDefault;
};

// Weights are cached before the first request arrives, as a row's are. Requests that the engine
// refuses keep no target. Errors as simulate::run().
Result<SloPrediction> predict_slo(const SloPredictionSettings& settings,
                                  const std::vector<LoadRequest>& requests);

}  // namespace causeway::bench
