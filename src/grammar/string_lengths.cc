#include "grammar/string_lengths.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace causeway::grammar {
namespace {

using Json = nlohmann::ordered_json;  // the order of properties is that of the answer

constexpr std::array<std::string_view, 3> kData = {"enum", "const", "default"};

// As the schema has it; "" where it bounds nothing.
std::string bound(const Json& node, const char* key) {
  const auto at = node.find(key);
  if (at == node.end() || !at->is_number_unsigned()) return {};
  return std::to_string(at->get<std::uint64_t>());
}

void rewrite(Json& node) {
  if (node.is_array()) {
    for (Json& item : node) rewrite(item);
  }
  if (!node.is_object()) return;
  for (const auto& [key, value] : node.items()) {
    if (std::find(kData.begin(), kData.end(), key) == kData.end()) rewrite(value);
  }
  const std::string least = bound(node, "minLength"), most = bound(node, "maxLength");
  if ((least.empty() && most.empty()) || node.contains("pattern") || node.contains("format")) {
    return;
  }
  node.erase("minLength");
  node.erase("maxLength");
  node["pattern"] =
      R"(^[^"\\\x00-\x1f\x7f]{)" + (least.empty() ? std::string("0") : least) + "," + most + "}$";
}

}  // namespace

std::string bounded_by_patterns(const std::string& json) {
  Json schema = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  rewrite(schema);
  return schema.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace causeway::grammar
