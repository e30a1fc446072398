// XGrammar lets strings of a bounded length hold control characters, which JSON does not.
#pragma once

#include <string>

namespace causeway::grammar {

// The schema, or a structural tag with schemas, in which `minLength` and `maxLength` are patterns
// of characters that need no escape. `json` is JSON.
std::string bounded_by_patterns(const std::string& json);

}  // namespace causeway::grammar
