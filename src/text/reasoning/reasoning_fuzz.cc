// Any text, and changes of answers with thinking (edited_file.h), through the parser of reasoning,
// in any format: cut where the first bytes say it gives what it gives whole; nothing is invented,
// and content is the end of the text.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "text/reasoning/reasoning_parser.h"

namespace causeway::text {
namespace {

const std::vector<std::string> kAnswers = {"<think>\nLet me see.\n</think>\n\nIt is 4.",
                                           " [THINK]Well, [/THINK] yes <think>no</think>",
                                           "so it is\n</think>\n\n"};
constexpr std::string_view kWords[] = {"<think>",  "</think>", "[THINK]",
                                       "[/THINK]", "\n\n",     "</thin"};

struct PartedText {
  std::string reasoning, content;
  std::int64_t reasoning_bytes = 0;
  bool operator==(const PartedText&) const = default;
};

PartedText part_text(const ReasoningParser::Options& options, std::string_view text,
                     std::size_t cut) {
  ReasoningParser parser(options);
  PartedText out;
  for (std::size_t at = 0; at < text.size(); at += cut) {
    parser.push(text.substr(at, cut));
    out.reasoning += parser.take_reasoning();
    out.content += parser.take_content();
    CAUSEWAY_CHECK(out.content.empty() || parser.in_content());
  }
  parser.finish();
  out.reasoning += parser.take_reasoning();
  out.content += parser.take_content();
  out.reasoning_bytes = parser.reasoning_bytes();
  return out;
}

}  // namespace
}  // namespace causeway::text

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::text;  // NOLINT: the fuzzer's entry must be global
  if (size < 2) return 0;
  const ReasoningParser::Options options{.format = static_cast<ReasoningFormat>(data[0] % 4),
                                         .begun = data[0] / 4 % 2 == 1};
  const std::string text =
      causeway::testing::edited_file({kAnswers, kWords},
                                     {reinterpret_cast<const char*>(data) + 2, size - 2})
          .text;
  const PartedText whole = part_text(options, text, text.size() + 1);
  CAUSEWAY_CHECK(part_text(options, text, data[1] % 32 + 1u) == whole);
  CAUSEWAY_CHECK(whole.reasoning.size() + whole.content.size() <= text.size());
  CAUSEWAY_CHECK(whole.reasoning_bytes >= 0 &&
                 whole.reasoning_bytes <= static_cast<std::int64_t>(text.size()));
  CAUSEWAY_CHECK(text.ends_with(whole.content));
  return 0;
}
