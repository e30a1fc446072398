// Expressions as XGrammar can follow them.
#pragma once

#include <string>
#include <string_view>

namespace causeway::grammar {

// The same expression, but that `.`, `\s`, `\S` and classes which XGrammar would misread are
// written as what they match (char_class.h). White space is ASCII's; `.` is any character.
std::string plain_regex(std::string_view text);

}  // namespace causeway::grammar
