// What thinking models write, in every format, cut at every position; and which text is whose.
#include "text/reasoning/reasoning_parser.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "base/testing/test_data.h"
#include "text/chat_template.h"

namespace causeway::text::reasoning_parser_test {
namespace {

using Format = ReasoningFormat;

struct Parted {
  std::string reasoning, content;
  std::int64_t reasoning_bytes = 0;
  bool operator==(const Parted&) const = default;
};

void PrintTo(const Parted& parted, std::ostream* out) {
  *out << '"' << parted.reasoning << "\" | \"" << parted.content << "\", "
       << parted.reasoning_bytes;
}

Parted part(const ReasoningParser::Options& options, const std::vector<std::string>& pieces) {
  ReasoningParser parser(options);
  Parted out;
  for (const std::string& piece : pieces) {
    parser.push(piece);
    out.reasoning += parser.take_reasoning();
    out.content += parser.take_content();
    EXPECT_TRUE(out.content.empty() || parser.in_content());
  }
  parser.finish();
  out.reasoning += parser.take_reasoning();
  out.content += parser.take_content();
  out.reasoning_bytes = parser.reasoning_bytes();
  return out;
}

// Cut at each position, byte by byte, and in random pieces.
Parted part_cut(const ReasoningParser::Options& options, const std::string& text) {
  const Parted whole = part(options, {text});
  for (std::size_t at = 0; at <= text.size(); ++at) {
    EXPECT_EQ(part(options, {text.substr(0, at), text.substr(at)}), whole) << text << " at " << at;
  }
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  EXPECT_EQ(part(options, bytes), whole) << text;
  Random random(text.size());
  for (int i = 0; i < 10; ++i) {
    std::vector<std::string> pieces(1);
    for (const char c : text) {
      if (random.chance(0.3)) pieces.emplace_back();
      pieces.back() += c;
    }
    EXPECT_EQ(part(options, pieces), whole) << text;
  }
  return whole;
}

struct ReasoningCase {
  std::string text;
  Parted want;
};

void expect_parted(const ReasoningParser::Options& options,
                   const std::vector<ReasoningCase>& cases) {
  for (const auto& [text, want] : cases) EXPECT_EQ(part_cut(options, text), want) << text;
}

TEST(ReasoningParser, ModelsThatOpenIt) {
  expect_parted({.format = Format::kQwen3},
                {{"<think>\nLet me see.\n\nYes.\n</think>\n\nIt is 4.\n",
                  {"Let me see.\n\nYes.", "It is 4.\n", 34}},
                 {"\n <think>a</think>b", {"a", "b", 18}},
                 {"<think>\n\n</think>\n\nHello", {"", "Hello", 17}},
                 {"<think></think>", {"", "", 15}},
                 {"<think>a < b </ c </thin </think>d", {"a < b </ c </thin", "d", 33}},
                 {"<think>a</</think>b", {"a</", "b", 18}},
                 // Marks count once.
                 {"<think>a<think>b</think>c</think> <think>d</think>",
                  {"a<think>b", "c</think> <think>d</think>", 24}},
                 // Its end is missing: by length, within white space, within the mark.
                 {"<think>a", {"a", "", 8}},
                 {"<think>a\n", {"a", "", 9}},
                 {"<think>a\n</thi", {"a\n</thi", "", 14}},
                 {"<think>", {"", "", 7}}});
}

TEST(ReasoningParser, WhatDoesNotBeginWithTheMarkIsContent) {
  for (const char* text :
       {"", " ", "Hello", " Hello\n", "<", "<think", "\n<think", "<thing>", "<<think>a</think>b",
        "a <think>b</think>c", "</think>a", "[THINK]a[/THINK]b", "< think>a</think>"}) {
    expect_parted({.format = Format::kQwen3}, {{text, {"", text, 0}}});
    expect_parted({.format = Format::kNone}, {{text, {"", text, 0}}});
  }
  expect_parted({.format = Format::kNone}, {{"<think>a</think>b", {"", "<think>a</think>b", 0}}});
}

TEST(ReasoningParser, PromptsThatOpenIt) {
  for (const Format format : {Format::kQwen3, Format::kDeepSeekR1}) {
    expect_parted({.format = format, .begun = true},
                  {{"Let me see.\n</think>\n\nIt is 4.", {"Let me see.", "It is 4.", 20}},
                   {"\n\n</think>a", {"", "a", 10}},
                   {"</think>", {"", "", 8}},
                   {"a", {"a", "", 1}},
                   {"", {"", "", 0}},
                   {"<think>a</think>b", {"<think>a", "b", 16}}});
  }
}

TEST(ReasoningParser, Mistral) {
  expect_parted({.format = Format::kMistral},
                {{"[THINK]a [1] [/ b[/THINK]c", {"a [1] [/ b", "c", 25}},
                 {"<think>a</think>", {"", "<think>a</think>", 0}}});
}

TEST(ReasoningParser, IsToldAsItComes) {
  ReasoningParser parser({.format = Format::kQwen3});
  parser.push("<think>\nLet me ");
  EXPECT_EQ(parser.take_reasoning(), "Let me");
  EXPECT_EQ(parser.reasoning_bytes(), 15);
  parser.push("see.");
  EXPECT_EQ(parser.take_reasoning(), " see.");
  EXPECT_FALSE(parser.in_content());
  parser.push("</think>");
  EXPECT_TRUE(parser.in_content());
  parser.push("\nIt");
  EXPECT_EQ(parser.take_content(), "It");
  EXPECT_EQ(parser.reasoning_bytes(), 27);
}

TEST(ReasoningParser, HoldsBackLittle) {
  for (const bool begun : {false, true}) {
    ReasoningParser parser({.format = Format::kQwen3, .begun = begun});
    parser.push((begun ? "a" : "<think>a") + std::string(100'000, ' '));
    EXPECT_GE(parser.take_reasoning().size(), 100'001u - 1024u);
  }
  ReasoningParser white({.format = Format::kQwen3});
  white.push(std::string(100'000, '\n'));
  EXPECT_EQ(white.take_content().size(), 100'000u);
}

// Random texts of marks and their parts.
TEST(ReasoningParser, RandomTextsCutAnywhere) {
  const std::uint64_t seed = 20260801;
  Random random(seed);
  const std::vector<std::string> words = {"<think>", "</think>", "[THINK]", "[/THINK]", "<", "</",
                                          "th",      "ink>",     " ",       "\n",       "x", "é"};
  for (int i = 0; i < rounds(3000); ++i) {
    std::string text;
    for (auto n = random.between(1, 12); n > 0; --n) {
      text += words[static_cast<std::size_t>(random.below(std::ssize(words)))];
    }
    const auto format = static_cast<Format>(random.between(1, 3));
    const Parted whole = part_cut({.format = format, .begun = random.chance(0.5)}, text);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ": " << text;
    ASSERT_LE(whole.reasoning.size() + whole.content.size(), text.size());
    ASSERT_TRUE(text.ends_with(whole.content)) << text;
  }
}

TEST(ReasoningFormat, IsKnownByTheTemplate) {
  EXPECT_EQ(reasoning_format_of("{{ messages[0].content }}"), Format::kNone);
  EXPECT_EQ(reasoning_format_of("{{ c.split('</think>')[-1] }}"), Format::kQwen3);
  EXPECT_EQ(reasoning_format_of("[THINK]{{ t }}[/THINK]"), Format::kMistral);
  EXPECT_EQ(reasoning_format_named("deepseek_r1"), Format::kDeepSeekR1);
  EXPECT_EQ(reasoning_format_named("none"), Format::kNone);
  EXPECT_FALSE(reasoning_format_named("auto"));
}

TEST(ReasoningFormat, PromptsSayWhereTheAnswerBegins) {
  EXPECT_TRUE(begins_reasoning(Format::kQwen3, "user: hi assistant: <think>\n"));
  EXPECT_FALSE(begins_reasoning(Format::kQwen3, "user: hi assistant: <think>\n\n</think>\n\n"));
  EXPECT_FALSE(begins_reasoning(Format::kQwen3, "user: what is <think> ? assistant:"));
  EXPECT_FALSE(begins_reasoning(Format::kQwen3, ""));
  EXPECT_FALSE(begins_reasoning(Format::kMistral, "<think>"));
  EXPECT_FALSE(begins_reasoning(Format::kNone, "<think>"));
  EXPECT_TRUE(begins_reasoning(Format::kDeepSeekR1, "assistant:"));
  EXPECT_TRUE(begins_reasoning(Format::kDeepSeekR1, "assistant: <think>\n"));
  EXPECT_FALSE(begins_reasoning(Format::kDeepSeekR1, "assistant: </think> "));
  EXPECT_TRUE(continues_reasoning(Format::kQwen3, "<think>a"));
  EXPECT_TRUE(continues_reasoning(Format::kQwen3, "<think>a</think>b<think>c"));
  EXPECT_FALSE(continues_reasoning(Format::kQwen3, "<think>a</think>b"));
  EXPECT_FALSE(continues_reasoning(Format::kDeepSeekR1, "b"));
  EXPECT_FALSE(continues_reasoning(Format::kNone, "<think>a"));
}

TEST(ReasoningFormat, OfPublishedTemplates) {
  CAUSEWAY_TEST_DATA_OR_SKIP(folder, "templates");
  const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", "hi"}}};
  int thinking = 0, others = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    const std::string name = entry.path().filename().string();
    const auto chat = ChatTemplate::compile(read_bytes(entry.path()));
    ASSERT_TRUE(chat.ok()) << name;
    const bool thinks = name.starts_with("Qwen-Qwen3");
    EXPECT_EQ(chat->reasoning(), thinks ? Format::kQwen3 : Format::kNone) << name;
    const auto prompt = chat->render({.messages = messages});
    ASSERT_TRUE(prompt.ok()) << name;
    EXPECT_FALSE(begins_reasoning(chat->reasoning(), *prompt)) << name << ": " << *prompt;
    ++(thinks ? thinking : others);
  }
  EXPECT_GT(thinking, 0);
  EXPECT_GT(others, 0);
}

}  // namespace
}  // namespace causeway::text::reasoning_parser_test
