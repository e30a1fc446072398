#include "text/tokenizer_json_fields.h"

#include "base/json_numbers.h"

namespace causeway::text::json {
namespace {

constexpr std::size_t kJsonBytesMax = std::size_t{256} << 20;
constexpr std::size_t kDepthMax = 256;

template <typename T>
Result<T> get(Element object, std::string_view name, T fallback, const char* type,
              const std::string& where) {
  const auto value = member(object, name);
  if (!value) return fallback;
  T out;
  if (value->get(out) != simdjson::SUCCESS) {
    return corrupt(where + "." + std::string(name) + " is not " + type);
  }
  return out;
}

template <typename T>
Result<T> require(Element object, std::string_view name, const char* type,
                  const std::string& where) {
  if (!member(object, name)) return corrupt(where + "." + std::string(name) + " is missing");
  return get<T>(object, name, T(), type, where);
}

}  // namespace

Result<Element> parse(simdjson::dom::parser& parser, std::string_view text) {
  if (text.size() > kJsonBytesMax) {
    return corrupt(std::to_string(text.size()) + " bytes of JSON; at most 256 MiB are read");
  }
  Element root;
  auto error = parser.allocate(text.size(), kDepthMax);
  if (error == simdjson::SUCCESS) error = parser.parse(text.data(), text.size()).get(root);
  if (error == simdjson::SUCCESS) return root;
  // Most files have no such numbers, and a vocabulary is long: the second look only when needed.
  std::string buffer;
  const std::string_view plain = plain_json_numbers(text, buffer);
  if (plain.data() != text.data()) error = parser.parse(plain.data(), plain.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return corrupt(std::string("not readable as JSON: ") + simdjson::error_message(error));
  }
  return root;
}

std::optional<Element> member(Element object, std::string_view name) {
  Element value;
  if (object.at_key(name).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

Result<bool> get_bool(Element object, std::string_view name, bool fallback,
                      const std::string& where) {
  return get<bool>(object, name, fallback, "true or false", where);
}

Result<std::string_view> get_string(Element object, std::string_view name,
                                    std::string_view fallback, const std::string& where) {
  return get<std::string_view>(object, name, fallback, "a string", where);
}

Result<simdjson::dom::array> get_array(Element object, std::string_view name,
                                       const std::string& where) {
  return require<simdjson::dom::array>(object, name, "an array", where);
}

Result<simdjson::dom::object> get_object(Element object, std::string_view name,
                                         const std::string& where) {
  return require<simdjson::dom::object>(object, name, "an object", where);
}

Result<TokenId> token_id(Element value, const std::string& where) {
  std::int64_t id = 0;
  if (value.get(id) != simdjson::SUCCESS || id < 0 || id >= kVocabularyIdsMax) {
    return corrupt(where + " is not an id from 0 to " + std::to_string(kVocabularyIdsMax - 1));
  }
  return static_cast<TokenId>(id);
}

Result<AddedToken> added_token(Element value, const std::string& where) {
  AddedToken token;
  CAUSEWAY_ASSIGN(token.content, get_string(value, "content", "", where));
  if (token.content.empty()) return corrupt(where + ".content is missing or empty");
  if (token.content.size() > kAddedTokenBytesMax) {
    return unsupported(where + ".content has " + std::to_string(token.content.size()) +
                       " bytes; at most " + std::to_string(kAddedTokenBytesMax) + " are supported");
  }
  CAUSEWAY_ASSIGN(token.single_word, get_bool(value, "single_word", false, where));
  CAUSEWAY_ASSIGN(token.lstrip, get_bool(value, "lstrip", false, where));
  CAUSEWAY_ASSIGN(token.rstrip, get_bool(value, "rstrip", false, where));
  CAUSEWAY_ASSIGN(token.special, get_bool(value, "special", false, where));
  CAUSEWAY_ASSIGN(token.normalized, get_bool(value, "normalized", !token.special, where));
  return token;
}

}  // namespace causeway::text::json
