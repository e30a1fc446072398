#include "base/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_numbers.h"

namespace causeway {
namespace {

using nlohmann::ordered_json;

// Throws what the parser throws.
ordered_json python_json(std::string_view text) {
  std::string buffer;
  const std::string_view plain = plain_json_numbers(text, buffer);
  if (plain.data() == text.data()) return ordered_json::parse(text);
  return ordered_json::parse(plain, [](int, ordered_json::parse_event_t, ordered_json& value) {
    if (value.is_number_float()) value = python_number(value.get<double>());
    return true;
  });
}

}  // namespace

nlohmann::json json_tree(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

ordered_json ordered_json_tree(std::string_view text) {
  return ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Result<ordered_json> python_json_tree(std::string_view text) {
  try {
    return python_json(text);
  } catch (const nlohmann::json::exception& failure) {
    // The library's own name of the error stands in brackets in front of the words.
    std::string_view what = failure.what();
    if (what.starts_with('[')) what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
    return invalid_argument(std::string(what));
  }
}

std::string json_text(const ordered_json& tree) {
  return tree.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace causeway
