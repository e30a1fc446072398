#include "weights/weight_map.h"

#include <nlohmann/json.hpp>

#include "weights/checked_json.h"
#include "weights/safetensors.h"

namespace causeway::weights {
namespace {

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

Result<TensorsOfShard> parse_weight_map(std::string_view text) {
  CAUSEWAY_ASSIGN(const auto root, parse_json(text));
  const auto map = root.find("weight_map");
  if (!root.is_object() || map == root.end() || !map->is_object() || map->empty()) {
    return corrupt("no \"weight_map\" from tensors to files");
  }
  TensorsOfShard shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get_ref<const std::string&>())) {
      return corrupt(shown_name(tensor) + ": \"weight_map\" must give a plain file name in the " +
                     "model's directory");
    }
    shards[shard.get<std::string>()].push_back(tensor);
  }
  if (shards.size() > kShardsMax) return corrupt("too many files");
  return shards;
}

}  // namespace causeway::weights
