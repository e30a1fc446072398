// Looks over JSON text before a tree is built of it. A tree costs memory and recursion that the
// text's author chooses: nesting of 100,000 overflows the stack of a recursive library, and an
// object with very many members is searched one by one.
#pragma once

#include <cstddef>
#include <string_view>

#include "server/api/api_error.h"

namespace causeway::server {

struct JsonScanLimits {
  int depth_max = 64;  // objects and arrays within each other
  std::size_t object_members_max = 256;
  std::size_t inner_members_max = 1024;  // of an object that is a member of the body: logit_bias
  std::size_t values_max = 2'000'000;    // bounds the tree's memory to some 32 bytes each
};

// An error when `text` is not UTF-8, empty, or beyond a limit. It does not say that the text is
// JSON: the parser does, on text that is now safe to parse. Linear time, no allocation.
MaybeError scan_json(std::string_view text, const JsonScanLimits& limits);

}  // namespace causeway::server
