// generation_config.json: sampling defaults and the tokens that end a generation.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fleet/fleet.h"

namespace causeway::fleet {

struct GenerationConfig {
  GenerationDefaults defaults;
  std::vector<TokenId> eos;
};

// kCorrupt names the field that is out of range, or says where the text is no JSON.
Result<GenerationConfig> parse_generation_config(std::string_view text);
// Reads it from a model's directory. An absent file gives an empty config. Errors name the file.
Result<GenerationConfig> load_generation_config(const std::filesystem::path& directory);

}  // namespace causeway::fleet
