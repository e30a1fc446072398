#include "fleet/generation_config.h"

#include <type_traits>

#include <nlohmann/json.hpp>

#include "weights/checked_json.h"

namespace causeway::fleet {
namespace {

using nlohmann::json;

// Reads an optional number within [low, high]; a whole one where T is an integer.
template <typename T>
Status read_number(const json& object, const char* key, double low, double high,
                   std::optional<T>& out) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  const std::string is = std::string("'") + key + "' is " + weights::shown_json(*found);
  if (!found->is_number()) return corrupt(is + ", not a number");
  const double value = found->get<double>();
  if (!(value >= low && value <= high)) return corrupt(is + ", out of range");
  if (std::is_integral_v<T> && !found->is_number_integer()) return corrupt(is + ", not an integer");
  out = static_cast<T>(value);
  return {};
}

Status read_eos(const json& object, std::vector<TokenId>& out) {
  const auto found = object.find("eos_token_id");
  if (found == object.end() || found->is_null()) return {};
  const json list = found->is_array() ? *found : json::array({*found});
  for (const json& id : list) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
      return corrupt("'eos_token_id' holds " + weights::shown_json(id) +
                     ", which is not a token id");
    }
    out.push_back(id.get<TokenId>());
  }
  return {};
}

}  // namespace

Result<GenerationConfig> parse_generation_config(std::string_view text) {
  CAUSEWAY_ASSIGN(const json object, weights::parse_json(text));
  if (!object.is_object()) return corrupt("not a JSON object");
  GenerationConfig config;
  auto& defaults = config.defaults;
  CAUSEWAY_TRY(read_number(object, "temperature", 0, 100, defaults.temperature));
  CAUSEWAY_TRY(read_number(object, "top_p", 1e-6, 1, defaults.top_p));
  CAUSEWAY_TRY(read_number(object, "top_k", -1, 1e9, defaults.top_k));
  CAUSEWAY_TRY(read_number(object, "min_p", 0, 1, defaults.min_p));
  CAUSEWAY_TRY(read_number(object, "repetition_penalty", 1e-6, 1e6, defaults.repetition_penalty));
  CAUSEWAY_TRY(read_eos(object, config.eos));
  return config;
}

Result<GenerationConfig> load_generation_config(const std::filesystem::path& directory) {
  const auto path = directory / "generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return GenerationConfig();
  CAUSEWAY_ASSIGN(const std::string text, weights::read_small_file(path, mib(1)));
  return parse_generation_config(text).with_context(path.string());
}

}  // namespace causeway::fleet
