#include "text/tokenizer_steps.h"

#include "text/bpe_model.h"

namespace causeway::text {

using json::Element;

Error unknown_component(const std::string& where, std::string_view type) {
  return unsupported(where + ": '" + std::string(type) + "' is not supported");
}

Result<std::string_view> step_type(Element step, const std::string& where) {
  CAUSEWAY_ASSIGN(const std::string_view type, json::get_string(step, "type", "", where));
  if (type.empty()) return corrupt(where + ".type is missing");
  return type;
}

Result<PreTokenizer::Metaspace> read_metaspace(Element step, const std::string& where) {
  constexpr std::size_t kMarkBytesMax = 16;
  using Prepend = PreTokenizer::Metaspace::Prepend;
  PreTokenizer::Metaspace metaspace;
  CAUSEWAY_ASSIGN(metaspace.mark, json::get_string(step, "replacement", kWordMark, where));
  if (metaspace.mark.empty() || metaspace.mark.size() > kMarkBytesMax) {
    return corrupt(where + ".replacement is empty or longer than 16 bytes");
  }
  CAUSEWAY_ASSIGN(metaspace.split, json::get_bool(step, "split", true, where));
  CAUSEWAY_ASSIGN(const bool prefix, json::get_bool(step, "add_prefix_space", true, where));
  CAUSEWAY_ASSIGN(const auto scheme,
                  json::get_string(step, "prepend_scheme", prefix ? "always" : "never", where));
  if (scheme == "always") {
    metaspace.prepend = Prepend::kAlways;
  } else if (scheme == "first") {
    metaspace.prepend = Prepend::kFirst;
  } else if (scheme == "never") {
    metaspace.prepend = Prepend::kNever;
  } else {
    return unknown_component(where + ".prepend_scheme", scheme);
  }
  return metaspace;
}

}  // namespace causeway::text
