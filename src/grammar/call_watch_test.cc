// The watch finds every call that the parsers of the text would tell.
#include "grammar/call_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "text/reasoning/reasoning_parser.h"
#include "text/tool_calls/tool_call_parser.h"

namespace causeway::grammar::call_watch_test {
namespace {

using Found = CallWatch::Found;
using text::ReasoningFormat;
using text::ToolCallFormat;

CallMarks marks_of(ToolCallFormat format, ReasoningFormat reasoning = ReasoningFormat::kNone,
                   bool thinks = false) {
  const auto [open, close] = text::reasoning_marks(reasoning);
  return {.mark = std::string(text::tool_call_mark(format)),
          .bare = format == ToolCallFormat::kLlama3Json ? "{\"name\":" : "",
          .think_open = std::string(open),
          .think_close = std::string(close),
          .thinks = thinks};
}

// Where the first call is found: how many bytes come before it; -1: nowhere.
std::ptrdiff_t found_at(const CallMarks& marks, const std::string& text) {
  CallWatch watch(marks);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (watch.step(text[i]) != Found::kNothing) return static_cast<std::ptrdiff_t>(i) + 1;
  }
  return -1;
}

TEST(CallWatch, FindsMarksWhereverTheyStand) {
  const CallMarks hermes = marks_of(ToolCallFormat::kHermes);
  EXPECT_EQ(found_at(hermes, "a <tool_call>"), 13);
  EXPECT_EQ(found_at(hermes, "<<tool_<tool_call>{"), 18);
  EXPECT_EQ(found_at(hermes, "{\"name\": <tool_cal>"), -1);
  const CallMarks llama = marks_of(ToolCallFormat::kLlama3Json);
  EXPECT_EQ(found_at(llama, "a <|python_tag|>"), 16);
  EXPECT_EQ(found_at(llama, " {\n\"name\" :"), 11);
  EXPECT_EQ(found_at(llama, "a {\"name\":"), -1);
  EXPECT_EQ(found_at(llama, "{\"na me\":"), -1);
  EXPECT_EQ(found_at(llama, "{\"name<|python_tag|>"), 20);
}

TEST(CallWatch, BehindACallSeparatorsMayStand) {
  const CallMarks llama = marks_of(ToolCallFormat::kLlama3Json);
  CallWatch watch(llama);
  const auto feed = [&](const std::string& text) {
    Found last = Found::kNothing;
    for (const char c : text) last = watch.step(c);
    return last;
  };
  EXPECT_EQ(feed("; {\"name\":"), Found::kNothing) << "there was none before";
  watch.after_call();
  EXPECT_EQ(feed(" ; {\"name\":"), Found::kBare);
  watch.after_call();
  EXPECT_EQ(feed(",x{\"name\":"), Found::kNothing);
}

TEST(CallWatch, PassesOverThinking) {
  const CallMarks begun = marks_of(ToolCallFormat::kHermes, ReasoningFormat::kQwen3, true);
  EXPECT_EQ(found_at(begun, "<tool_call></think>"), -1);
  EXPECT_EQ(found_at(begun, "<tool_call></think><tool_call>"), 30);
  const CallMarks may = marks_of(ToolCallFormat::kHermes, ReasoningFormat::kQwen3);
  EXPECT_EQ(found_at(may, " <think><tool_call>"), -1);
  EXPECT_EQ(found_at(may, "x<think><tool_call>"), 19);
  EXPECT_EQ(found_at(may, std::string(1024, ' ') + "<think><tool_call>"), 1024 + 18);
}

TEST(CallWatch, APlaceIsAllThatCounts) {
  for (const auto format :
       {ToolCallFormat::kHermes, ToolCallFormat::kLlama3Json, ToolCallFormat::kMistral}) {
    const CallMarks marks = marks_of(format, ReasoningFormat::kQwen3, true);
    for (std::size_t place = 0; place < CallWatch::places(marks); ++place) {
      EXPECT_EQ(CallWatch::at(marks, place).place(), place);
    }
  }
}

// Texts of pieces of marks. What stands before the first call that the parser tells has been found.
TEST(CallWatch, FindsWhatTheParserTells) {
  const std::vector<std::string> pieces = {"<tool_call>",
                                           "</tool_call>",
                                           "<|python_tag|>",
                                           "[TOOL_CALLS]",
                                           "<think>",
                                           "</think>",
                                           "{\"name\":",
                                           "{ \"name\" : ",
                                           "\"f\", \"arguments\": {}}",
                                           " ",
                                           "\n",
                                           "[",
                                           "]",
                                           ";",
                                           ",",
                                           "{",
                                           "}",
                                           "\"",
                                           "<",
                                           "x",
                                           "{\"a\": 1, \"name\": \"f\", \"arguments\": {}}",
                                           "\"name\":",
                                           "f[ARGS]",
                                           "{}"};
  Random random(24);
  int calls = 0;
  for (int round = 0; round < rounds(200'000); ++round) {
    const auto format = static_cast<ToolCallFormat>(1 + random.below(4));
    const auto reasoning = random.chance(0.5) ? ReasoningFormat::kQwen3 : ReasoningFormat::kNone;
    const bool thinks = reasoning != ReasoningFormat::kNone && random.chance(0.5);
    const CallMarks marks = marks_of(format, reasoning, thinks);
    text::ReasoningParser thinking({.format = reasoning, .begun = thinks});
    text::ToolCallParser parser({.format = format, .name_first = true});
    std::string text;
    for (int i = 0; i < 8; ++i) {
      text += pieces[static_cast<std::size_t>(random.below(std::ssize(pieces)))];
    }
    thinking.push(text);
    thinking.finish();
    parser.push(thinking.take_content());
    parser.finish();
    if (parser.told() == 0) continue;
    ++calls;
    ASSERT_NE(found_at(marks, text), -1) << text;
  }
  EXPECT_GT(calls, 20);
}

}  // namespace
}  // namespace causeway::grammar::call_watch_test
