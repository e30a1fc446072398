// Expressions as XGrammar can follow them.
#pragma once

#include <string>
#include <string_view>

namespace causeway::grammar {

// The same expression, but that `\S`, and `\s` in a class that is negated, are written out, with
// ASCII's white space. XGrammar's `\s` holds U+00A0 besides, which it cannot leave out of a class:
// it would warn, and so refuse what nearly every expression of strangers has.
std::string plain_regex(std::string_view text);

}  // namespace causeway::grammar
