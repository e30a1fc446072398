// Any text, and changes of answers with calls (edited_file.h), through the parser of tool calls, in
// any format: cut where the first bytes say it gives
// what it gives whole; arguments of calls that are told whole are JSON objects; nothing is
// invented.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json_numbers.h"
#include "base/testing/edited_file.h"
#include "text/tool_calls/tool_call_parser.h"

namespace causeway::text {
namespace {

const std::vector<std::string> kAnswers = {
    "Let me see. <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"\\u00e9\", null]}}\n"
    "</tool_call>\n<tool_call>{\"arguments\": {}, \"name\": \"g\"}</tool_call> Done.",
    "{\"name\": \"f\", \"parameters\": {\"a\": {\"b\": \"}\"}}}; {\"name\": \"g\", \"parameters\": "
    "{}}",
    "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"x\": -1.5e3}}",
    "So: [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": true}, \"id\": \"123456789\"}, "
    "{\"name\": \"g\", \"arguments\": {}}]",
    "So: [TOOL_CALLS]f[ARGS]{\"a\": [true]}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{} Done."};
constexpr std::string_view kWords[] = {
    "<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]",   "name",    "arguments",
    "parameters",  "; ",           "\\u0001",        "\\ud83d\\ude00", "\\ud800", "\xC3\xA9",
    "[ARGS]",      "[CALL_ID]"};

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
      // Nor does it take 1e999, which is grammar as well.
      std::string plain;
      const auto json =
          nlohmann::json::parse(plain_json_numbers(delta.arguments, plain), nullptr, false);
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
  const ToolCallParser::Options options{.format = static_cast<ToolCallFormat>(data[0] % 5),
                                        .pieces = data[0] / 5 % 2 == 0
                                                      ? ToolCallParser::Pieces::kWhole
                                                      : ToolCallParser::Pieces::kAsTheyCome,
                                        .calls_max = data[0] / 10 % 2 == 0 ? 1 << 20 : 1,
                                        .name_first = data[0] / 20 % 2 != 0};
  const std::string text =
      causeway::testing::edited_file({kAnswers, kWords},
                                     {reinterpret_cast<const char*>(data) + 2, size - 2})
          .text;
  const Parsed whole = parse(options, text, text.size() + 1);
  CAUSEWAY_CHECK(parse(options, text, data[1] % 32 + 1u) == whole);
  CAUSEWAY_CHECK(whole.content.size() + whole.arguments.size() <= text.size());
  return 0;
}
