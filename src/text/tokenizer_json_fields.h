// Reading fields of a parsed JSON file, with errors that name them. Private to the tokenizer's .cc
// files: the parser's header is heavy.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/bpe_vocabulary.h"
#include "text/tokenizer_added.h"

namespace causeway::text::json {

using Element = simdjson::dom::element;

// At most 256 MiB and 256 levels deep. Numbers that only Python takes are floats that no field of a
// tokenizer may be. The element is valid as long as the parser.
Result<Element> parse(simdjson::dom::parser& parser, std::string_view text);

// The member, or none when it is absent or null or `object` is no object.
std::optional<Element> member(Element object, std::string_view name);

// An absent or null member gives `fallback`; one of another type is kCorrupt. `where` names
// `object`.
Result<bool> get_bool(Element object, std::string_view name, bool fallback,
                      const std::string& where);
Result<std::string_view> get_string(Element object, std::string_view name,
                                    std::string_view fallback, const std::string& where);
Result<simdjson::dom::array> get_array(Element object, std::string_view name,
                                       const std::string& where);
Result<simdjson::dom::object> get_object(Element object, std::string_view name,
                                         const std::string& where);
// An id in [0, kVocabularyIdsMax).
Result<TokenId> token_id(Element value, const std::string& where);

// The fields of an added token but its id.
Result<AddedToken> added_token(Element value, const std::string& where);

}  // namespace causeway::text::json
