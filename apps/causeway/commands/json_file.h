// The --json option of the benches: results for programs beside the table for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace causeway::app {

// Writes `document` to `file`; "-" is standard output, "" nowhere.
Status write_json(const std::string& file, const nlohmann::ordered_json& document);

}  // namespace causeway::app
