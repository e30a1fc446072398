#include "server/api/json_scan.h"

#include <array>

#include "base/check.h"
#include "text/utf8.h"

namespace causeway::server {
namespace {

constexpr int kDepthCapacity = 256;

// The offset behind the closing quote of the string that starts behind `at`, or the text's end.
std::size_t skip_string(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (text[at] == '\\') {
      at += 2;
    } else if (text[at++] == '"') {
      return at;
    }
  }
  return text.size();
}

struct Scan {
  const JsonScanLimits& limits;
  std::array<std::size_t, kDepthCapacity> members{};
  int depth = 0;
  std::size_t values = 0;
  bool in_object = false;  // the outermost is one

  MaybeError open(char c) {
    if (depth == 0) in_object = c == '{';
    if (depth == limits.depth_max) {
      return bad_request("the JSON body is nested deeper than " + std::to_string(limits.depth_max) +
                         " levels");
    }
    members[static_cast<std::size_t>(depth++)] = 0;
    return count();
  }
  MaybeError member() {
    const std::size_t most =
        depth == 2 && in_object ? limits.inner_members_max : limits.object_members_max;
    if (depth > 0 && ++members[static_cast<std::size_t>(depth - 1)] > most) {
      return bad_request("an object of the JSON body has more than " + std::to_string(most) +
                         " members");
    }
    return {};
  }
  MaybeError count() {
    if (++values > limits.values_max) {
      return bad_request("the JSON body has more than " + std::to_string(limits.values_max) +
                         " values");
    }
    return {};
  }
  MaybeError step(char c) {
    switch (c) {
      case '{':
      case '[': return open(c);
      case '}':
      case ']':
        if (depth > 0) --depth;
        return {};
      case ':': return member();
      case ',': return count();
      default: return {};
    }
  }
};

}  // namespace

MaybeError scan_json(std::string_view text, const JsonScanLimits& limits) {
  CAUSEWAY_CHECK(limits.depth_max > 0 && limits.depth_max <= kDepthCapacity);
  if (text.empty()) return bad_request("the body is empty; a JSON object is expected");
  if (const auto at = text::first_invalid_utf8(text)) {
    return bad_request("the body is not UTF-8: invalid byte at offset " + std::to_string(*at));
  }
  Scan scan{limits};
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at++];
    if (c == '"') {
      at = skip_string(text, at);
    } else if (auto error = scan.step(c)) {
      return error;
    }
  }
  return {};
}

}  // namespace causeway::server
