// generation_config.json: sampling defaults and the tokens that end a generation.
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "fleet/fleet.h"

namespace causeway::fleet {

struct GenerationConfig {
  GenerationDefaults defaults;
  std::vector<TokenId> eos;
};

// An absent file gives an empty config. kCorrupt names the field that is out of range.
Result<GenerationConfig> load_generation_config(const std::filesystem::path& directory);

}  // namespace causeway::fleet
