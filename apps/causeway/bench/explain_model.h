// What a model's steps on a GPU consist of, as text: the programs of decode and prefill
// (model/step_program.h). Needs no GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"

namespace causeway::app {

struct ExplainSettings {
  model::ModelConfig config;
  int sm_count = 132;  // of an H100 or H200
  std::vector<std::int64_t> decode_batches;
  std::int64_t decode_context = 1024;
  std::int64_t prefill_tokens = 8192;
};

// All weights cached. What only a GPU could say is assumed, and the text says what.
Result<std::string> explain_model(const ExplainSettings& settings);

}  // namespace causeway::app
