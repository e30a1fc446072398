// Base64 as files of tokenizers write bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace causeway::text {

// The bytes that `text` writes, or none when it is no base64: padded to fours, nothing between.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace causeway::text
