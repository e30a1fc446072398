// Any text through the parser of tool calls, in any format: cut where the first bytes say it gives
// what it gives whole; arguments of calls that are told whole are JSON objects; nothing is
// invented.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "text/tool_calls/tool_call_parser.h"

namespace causeway::text {
namespace {

struct Parsed {
  std::string content, names, arguments;
  bool operator==(const Parsed&) const = default;
};

void take(ToolCallParser& parser, bool whole, Parsed& out) {
  out.content += parser.take_content();
  for (const ToolCallDelta& delta : parser.take_calls()) {
    if (whole) {
      CAUSEWAY_CHECK(!delta.name.empty());
      // A lone surrogate is grammar, but no text: the library refuses it.
      const bool lone = delta.arguments.find("\\u") != std::string::npos ||
                        delta.arguments.find("\\U") != std::string::npos;
      const bool utf8 = std::all_of(delta.arguments.begin(), delta.arguments.end(),
                                    [](char c) { return static_cast<unsigned char>(c) < 0x80; });
      const auto json = nlohmann::json::parse(delta.arguments, nullptr, false);
      CAUSEWAY_CHECK(json.is_object() || lone || !utf8);
    }
    if (!delta.name.empty()) out.names += delta.name + "\n";
    out.arguments += delta.arguments;
  }
}

Parsed parse(const ToolCallParser::Options& options, std::string_view text, std::size_t cut) {
  ToolCallParser parser(options);
  const bool whole = options.pieces == ToolCallParser::Pieces::kWhole;
  Parsed out;
  for (std::size_t at = 0; at < text.size(); at += cut) {
    parser.push(text.substr(at, cut));
    take(parser, whole, out);
  }
  parser.finish();
  take(parser, whole, out);
  return out;
}

}  // namespace
}  // namespace causeway::text

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::text;  // NOLINT: the fuzzer's entry must be global
  if (size < 2) return 0;
  const ToolCallParser::Options options{.format = static_cast<ToolCallFormat>(data[0] % 4),
                                        .pieces = data[0] / 4 % 2 == 0
                                                      ? ToolCallParser::Pieces::kWhole
                                                      : ToolCallParser::Pieces::kAsTheyCome,
                                        .calls_max = data[0] / 8 % 2 == 0 ? 1 << 20 : 1,
                                        .name_first = data[0] / 16 % 2 != 0};
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Parsed whole = parse(options, text, text.size() + 1);
  CAUSEWAY_CHECK(parse(options, text, data[1] % 32 + 1u) == whole);
  CAUSEWAY_CHECK(whole.content.size() + whole.arguments.size() <= text.size());
  return 0;
}
