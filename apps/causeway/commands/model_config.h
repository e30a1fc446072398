// The --model-config option of the benches: a model's shapes, and its name, from its config.json.
#pragma once

#include <string>

#include "base/result.h"
#include "model/config.h"

namespace causeway::app {

// kInvalidArgument and kUnsupported name the file.
Result<model::ModelConfig> read_model_config(const std::string& file);

// The name of a model by its file: of DIRECTORY/config.json that of the folder.
std::string model_name_of(const std::string& file);

}  // namespace causeway::app
