// The script of a character as the pre-tokenizer UnicodeScripts has it, and a text cut by it.
//
// That is the property Script of Unicode 9, which the library that defines UnicodeScripts was made
// with, and two rules of SentencePiece: Hiragana, Katakana and the mark of long vowels (U+30FC)
// count as Han; a space, and what Unicode 9 leaves unassigned, belongs to the script before it.
#pragma once

#include <string_view>
#include <vector>

namespace causeway::text {

// Characters of one script have one number above 0, those of any script 0.
int script_of(char32_t code);

// Appends the parts of `text` (valid UTF-8) that are of one script each. Characters of any script
// that the text begins with are in no part: the library drops them.
void split_by_script(std::string_view text, std::vector<std::string_view>& parts);

}  // namespace causeway::text
