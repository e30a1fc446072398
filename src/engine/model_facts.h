// The facts of a model with which an engine accepts, schedules and refuses its requests.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "schedule/rotation_policy.h"
#include "schedule/step_table.h"
#include "weights/weight_cache.h"

namespace causeway::engine {

struct ModelFacts {
  Tokens tokens_per_block;  // kv::BlockLayout::tokens
  Tokens max_model_len;     // prompt and output together
  std::int64_t vocab = 0;   // prompt token ids must lie below; 0: not checked
  // For a model whose weights are cached; no groups where a step reads all of them at home.
  weights::CachedModel weights = {};
  bool pinned = false;                     // in the cache, once it is there
  double alpha = schedule::kAlphaDefault;  // of policy rotary: schedule::check_alpha()
  // How long a step is expected to compute: the longer of the two times.
  Nanos step_min = Nanos(0);
  double seconds_per_token = 0;
  // What steps took when they were measured, for the choice of chunks; empty: nothing is known.
  schedule::StepTable step_table = {};

  Nanos step_of(Tokens tokens) const {
    return std::max(step_min,
                    nanos_from_seconds(seconds_per_token * static_cast<double>(tokens.count)));
  }
};

}  // namespace causeway::engine
