// Which tensors lie in which file, as model.safetensors.index.json has it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace causeway::weights {

inline constexpr std::size_t kShardsMax = 4096;

using TensorsOfShard = std::map<std::string, std::vector<std::string>>;

// kCorrupt unless every tensor has a plain file name, of kShardsMax names at most: never a path.
Result<TensorsOfShard> parse_weight_map(std::string_view text);

}  // namespace causeway::weights
