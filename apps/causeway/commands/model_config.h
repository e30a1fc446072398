// The --model-config option of the benches: a model's shapes from its config.json.
#pragma once

#include <string>

#include "base/result.h"
#include "model/config.h"

namespace causeway::app {

// kInvalidArgument and kUnsupported name the file.
Result<model::ModelConfig> read_model_config(const std::string& file);

}  // namespace causeway::app
