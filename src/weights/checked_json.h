// JSON from outside, made safe to hold: nlohmann::json recurses when it copies, compares or prints,
// so a document nested 100,000 deep would overflow the stack. Such input is refused before a tree
// of it exists. Text and requests have readers of their own.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "base/units.h"

namespace causeway::weights {

inline constexpr int kJsonDepthMax = 16;

// kCorrupt, with the byte offset, when `text` is not one JSON value or nests deeper than
// `depth_max`. Numbers are read as Python reads them: integers beyond 64 bits are floats, and NaN
// and the infinities are there, so that a field which is not used may hold anything.
Result<nlohmann::json> parse_json(std::string_view text, int depth_max = kJsonDepthMax);

// A value as an error message shows it. Lists, objects and long texts are not repeated.
std::string shown_json(const nlohmann::json& value);

// A whole small file. kNotFound, kIo, and kCorrupt when it is larger than `bytes_max`; the message
// names the file.
Result<std::string> read_small_file(const std::filesystem::path& path, Bytes bytes_max);

}  // namespace causeway::weights
