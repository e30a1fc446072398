// Any template source over a fixed conversation: compiles or is refused, renders or fails, within
// small limits, and never does anything else.
#include <cstddef>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/chat_template.h"

namespace {

using Json = nlohmann::ordered_json;

const Json& conversation() {
  static const Json kMessages = Json::parse(R"([
    {"role": "system", "content": "Be brief. "},
    {"role": "user", "content": "Gr\u00fc\u00dfe \ud83d\udc4b\n"},
    {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f",
      "arguments": {"x": 1, "y": [1.5, null, true]}}}]},
    {"role": "user", "content": [{"type": "text", "text": "parts"}]}])");
  return kMessages;
}

const Json& variables() {
  static const Json kVariables = Json::parse(R"({"s": "Hello, World", "u": "a\u00f1\ud83d\ude00b",
    "n": 42, "f": 2.5, "yes": true, "lst": [3, 1, 2], "d": {"b": 2, "a": {"x": [0]}},
    "h": "<a href='x'>see www.a.de (b@c.de)</a> &amp; a-b--c",
    "recs": [{"k": "b", "v": 2}, {"k": "A", "v": 1}]})");
  return kVariables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  causeway::text::JinjaLimits limits;
  limits.steps_max = 200'000;
  limits.output_bytes_max = 1 << 20;
  limits.memory_bytes_max = 8 << 20;
  const std::string source(reinterpret_cast<const char*>(data), size);
  const auto compiled = causeway::text::ChatTemplate::compile(source, limits);
  if (!compiled.ok()) {
    CAUSEWAY_CHECK(!compiled.error().message.empty(), "an error without a message");
    return 0;
  }
  causeway::text::ChatTemplateInput input{.messages = conversation()};
  input.tools = &conversation();
  input.extra = &variables();
  input.bos_token = "<s>";
  const auto first = compiled->render(input);
  const auto second = compiled->render(input);
  CAUSEWAY_CHECK(first.ok() == second.ok(), "two renderings of one input differ");
  CAUSEWAY_CHECK(!first.ok() || *first == *second, "two renderings of one input differ");
  return 0;
}
