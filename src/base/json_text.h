// JSON texts to trees and back. nlohmann's parser and writer are templates, which every file that
// uses them compiles again, at a tenth of a joined unit's time; here they are compiled once.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace causeway {

// The tree of a text; a discarded value (is_discarded()) where the text is no JSON.
nlohmann::json json_tree(std::string_view text);
nlohmann::ordered_json ordered_json_tree(std::string_view text);

// The same of a text that has numbers as Python's json writes them (json_numbers.h): its infinities
// and NaN are floats of the tree. The error is in the parser's words, with line and column.
Result<nlohmann::ordered_json> python_json_tree(std::string_view text);

// On one line. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& tree);

}  // namespace causeway
