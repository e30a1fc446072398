// Which known word was probably meant, for errors that name one that is not known.
#pragma once

#include <span>
#include <string_view>

namespace causeway {

// The word of `known` that the fewest edits make of `word`: a character inserted, deleted or
// replaced, or two neighbours swapped. The first of several; empty where even it takes
// more than a change for three characters of `word`, or more than three. A word may come from
// outside: one of more than 64 bytes is like none.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known);

}  // namespace causeway
