// What a schema says of strings, so that XGrammar writes JSON: as they come, it lets strings of a
// bounded length hold control characters, and writes patterns into JSON as if nothing had to be
// escaped.
#pragma once

#include <string>
#include <string_view>

namespace causeway::grammar {

// The schema in which `minLength` and `maxLength` are patterns, and patterns are json_pattern()s.
// `json` is JSON.
std::string with_json_strings(const std::string& json);

// The expression for how JSON writes the strings that `pattern` matches. Where a class, or `.`,
// allows characters that JSON escapes, these are left out.
std::string json_pattern(std::string_view pattern);

}  // namespace causeway::grammar
