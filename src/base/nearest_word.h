// Which known word was probably meant, for errors that name one that is not known.
#pragma once

#include <span>
#include <string_view>

namespace causeway {

// Of `known` the word that takes the fewest changes of `word`: a character put in, left out or
// replaced, or two neighbours that change places. The first of several; empty where even it takes
// more than a change for three characters of `word`, or more than three. A word may come from
// outside: one of more than 64 bytes is like none.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known);

}  // namespace causeway
