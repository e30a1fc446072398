// Calls in every format: as models write them, malformed, cut short; and each text cut at every
// position gives the same.
#include "text/tool_calls/tool_call_parser.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "base/testing/test_data.h"
#include "text/chat_template.h"

namespace causeway::text::tool_call_parser_test {
namespace {

using Pieces = ToolCallParser::Pieces;

struct Call {
  std::string name, arguments;
  bool operator==(const Call&) const = default;
};
struct Parsed {
  std::string content;
  std::vector<Call> calls;
  std::string order = {};  // the content, with [I] where call I begins
  bool operator==(const Parsed& other) const {
    return content == other.content && calls == other.calls;
  }
};

void PrintTo(const Parsed& parsed, std::ostream* out) {
  *out << '"' << parsed.content << '"';
  for (const Call& call : parsed.calls) *out << ' ' << call.name << '(' << call.arguments << ')';
}

void take(ToolCallParser& parser, Parsed& out) {
  const std::string content = parser.take_content();
  out.content += content;
  std::size_t told = 0;
  for (const ToolCallDelta& delta : parser.take_calls()) {
    const auto index = static_cast<std::size_t>(delta.index);
    ASSERT_EQ(index < out.calls.size(), delta.name.empty());
    ASSERT_LE(index, out.calls.size());
    ASSERT_LE(told, delta.text_before);
    ASSERT_LE(delta.text_before, content.size());
    out.order += content.substr(told, delta.text_before - told);
    told = delta.text_before;
    if (index == out.calls.size()) {
      out.calls.push_back({delta.name, ""});
      out.order += "[" + std::to_string(index) + "]";
    }
    out.calls[index].arguments += delta.arguments;
  }
  out.order += content.substr(told);
}

Parsed parse(const ToolCallParser::Options& options, const std::vector<std::string>& pieces) {
  ToolCallParser parser(options);
  Parsed out;
  for (const std::string& piece : pieces) {
    parser.push(piece);
    take(parser, out);
  }
  parser.finish();
  take(parser, out);
  EXPECT_EQ(parser.told(), static_cast<int>(out.calls.size()));
  return out;
}

// Cut at each position, and byte by byte.
Parsed parse_cut(const ToolCallParser::Options& options, const std::string& text) {
  const Parsed whole = parse(options, {text});
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const Parsed cut = parse(options, {text.substr(0, at), text.substr(at)});
    EXPECT_EQ(cut, whole) << text << " at " << at;
    EXPECT_EQ(cut.order, whole.order) << text << " at " << at;
  }
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  const Parsed single = parse(options, bytes);
  EXPECT_EQ(single, whole) << text;
  EXPECT_EQ(single.order, whole.order) << text;
  return whole;
}

struct Case {
  std::string text;
  Parsed want;
};

void expect(ToolCallFormat format, const std::vector<Case>& cases) {
  for (const auto& [text, want] : cases) {
    for (const Pieces pieces : {Pieces::kWhole, Pieces::kAsTheyCome}) {
      EXPECT_EQ(parse_cut({.format = format, .pieces = pieces}, text), want) << text;
    }
  }
}

TEST(ToolCallParser, Hermes) {
  expect(
      ToolCallFormat::kHermes,
      {{"", {}},
       {"Hello <there>.\n", {"Hello <there>.\n", {}}},
       {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
        {"", {{"f", "{\"a\": 1}"}}}},
       {"Let me see.\n\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n",
        {"Let me see.", {{"f", "{}"}}}},
       {"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
        "\"g\", \"arguments\": {\"b\": [1, {\"c\": \"</tool_call>\"}]}}\n</tool_call>",
        {"", {{"f", "{}"}, {"g", "{\"b\": [1, {\"c\": \"</tool_call>\"}]}"}}}},
       {"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> and more",
        {"and more", {{"f", "{}"}}}},
       // The closing mark is missing: at the end, and before the next.
       {"<tool_call>{\"name\":\"f\",\"arguments\":{}}", {"", {{"f", "{}"}}}},
       {"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_", {"", {{"f", "{}"}}}},
       {"<tool_call>{\"name\":\"f\",\"arguments\":{}}<tool_call>{\"name\":\"g\",\"arguments\":{}}",
        {"", {{"f", "{}"}, {"g", "{}"}}}},
       {"<tool_call>{\"name\":\"f\",\"arguments\":{}}}</tool_call>",
        {"}</tool_call>", {{"f", "{}"}}}},
       // Other members, another order, the other name of arguments, escapes.
       {"<tool_call>{\"id\": 7, \"parameters\": {\"x\": \"\\u00e9\\n\"}, \"name\": "
        "\"gr\\u00f6\\\"\"}</tool_call>",
        {"", {{"grö\"", "{\"x\": \"\\u00e9\\n\"}"}}}},
       {"<<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", {"<", {{"f", "{}"}}}},
       {"<tool_<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
        {"<tool_", {{"f", "{}"}}}}});
}

TEST(ToolCallParser, TellsWhereCallsStand) {
  const std::string call = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";
  for (const Pieces pieces : {Pieces::kWhole, Pieces::kAsTheyCome}) {
    const ToolCallParser::Options options{.format = ToolCallFormat::kHermes, .pieces = pieces};
    EXPECT_EQ(parse_cut(options, "One\n" + call + "\ntwo " + call + call + " three").order,
              "One[0]two[1][2]three");
  }
}

TEST(ToolCallParser, WhatIsNoCallIsContentAsItStands) {
  for (const char* text :
       {"<tool_call>",
        "<tool_call> ",
        "<tool_call>f(1)</tool_call>",
        "<tool_call>[]</tool_call>",
        "<tool_call>{}</tool_call>",
        "<tool_call>{\"name\":\"f\"}</tool_call>",
        "<tool_call>{\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":5,\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"\",\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"f\",\"arguments\":\"{}\"}</tool_call>",
        "<tool_call>{\"name\":\"f\",\"arguments\":[]}</tool_call>",
        "<tool_call>{\"name\":\"f\",\"name\":\"g\",\"arguments\":{}}</tool_call>",
        "<tool_call>{'name':'f','arguments':{}}</tool_call>",
        "<tool_call>{\"name\":\"f\" \"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"f\nx\",\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"\\ud800\",\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"f\",\"x\":01,\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"f\",\"x\":tru,\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"f\"",
        "\n\n<tool_ca"}) {
    expect(ToolCallFormat::kHermes, {{text, {text, {}}}});
  }
  const std::string call = "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>";
  expect(
      ToolCallFormat::kHermes,
      {{"<tool_call>{bad}</tool_call>\n" + call, {"<tool_call>{bad}</tool_call>", {{"g", "{}"}}}},
       {call + "<tool_call>{bad}</tool_call>", {"<tool_call>{bad}</tool_call>", {{"g", "{}"}}}},
       {"<tool_call>{" + call, {"<tool_call>{", {{"g", "{}"}}}}});
}

TEST(ToolCallParser, ADefectWithinArguments) {
  const std::string text = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1]}</tool_call>";
  const ToolCallFormat format = ToolCallFormat::kHermes;
  EXPECT_EQ(parse_cut({.format = format}, text), (Parsed{text, {}}));
  EXPECT_EQ(parse_cut({.format = format, .pieces = Pieces::kAsTheyCome}, text),
            (Parsed{"]}</tool_call>", {{"f", "{\"a\":1"}}}));
  const std::string cut = text.substr(0, text.find(']'));
  EXPECT_EQ(parse_cut({.format = format}, cut), (Parsed{cut, {}}));
  EXPECT_EQ(parse_cut({.format = format, .pieces = Pieces::kAsTheyCome}, cut),
            (Parsed{"", {{"f", "{\"a\":1"}}}));
}

TEST(ToolCallParser, Llama3Json) {
  expect(
      ToolCallFormat::kLlama3Json,
      {{"Hello {world}", {"Hello {world}", {}}},
       {"{\"name\": \"f\", \"parameters\": {\"a\": 1}}", {"", {{"f", "{\"a\": 1}"}}}},
       {"\n <|python_tag|>{\"name\": \"f\", \"parameters\": {}}", {"", {{"f", "{}"}}}},
       {"{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"arguments\": {}}",
        {"", {{"f", "{}"}, {"g", "{}"}}}},
       {"{\"name\": \"f\", \"parameters\": {}}<|python_tag|>{\"name\": \"g\", \"parameters\": "
        "{}}",
        {"", {{"f", "{}"}, {"g", "{}"}}}},
       {"{\"name\": \"f\", \"parameters\": {}}; done", {"; done", {{"f", "{}"}}}},
       {"{\"colour\": \"red\"}", {"{\"colour\": \"red\"}", {}}},
       {"<|python_tag|>search.call(query=\"x\")", {"<|python_tag|>search.call(query=\"x\")", {}}},
       {"Sure. {\"name\": \"f\", \"parameters\": {}}",
        {"Sure. {\"name\": \"f\", \"parameters\": {}}", {}}},
       {"Sure. <|python_tag|>{\"name\": \"f\", \"parameters\": {}}", {"Sure.", {{"f", "{}"}}}}});
}

TEST(ToolCallParser, Mistral) {
  expect(
      ToolCallFormat::kMistral,
      {{"[1, 2] [TOOL", {"[1, 2] [TOOL", {}}},
       {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": [1]}}]",
        {"", {{"f", "{\"a\": [1]}"}}}},
       {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"arguments\": {}, \"name\": "
        "\"g\"}]\n",
        {"", {{"f", "{}"}, {"g", "{}"}}}},
       {"Well: [TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}] so", {"Well:so", {{"f", "{}"}}}},
       {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}", {"", {{"f", "{}"}}}},
       {"[TOOL_CALLS] {\"name\": \"f\", \"arguments\": {}}",
        {"[TOOL_CALLS] {\"name\": \"f\", \"arguments\": {}}", {}}},
       {"[TOOL_CALLS] []", {"[TOOL_CALLS] []", {}}},
       {"[TOOL_CALLS] [[{}]]", {"[TOOL_CALLS] [[{}]]", {}}},
       {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}, {bad}]",
        {", {bad}]", {{"f", "{}"}}}}});
}

TEST(ToolCallParser, MistralArgs) {
  expect(
      ToolCallFormat::kMistralArgs,
      {{"[1, 2] [ARGS]{} [TOOL", {"[1, 2] [ARGS]{} [TOOL", {}}},
       {"[TOOL_CALLS]f[ARGS]{\"a\": [1, \"[TOOL_CALLS]g[ARGS]{}\"]}",
        {"", {{"f", "{\"a\": [1, \"[TOOL_CALLS]g[ARGS]{}\"]}"}}}},
       {"[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g.h-é[ARGS]{\"b\": 1}\n",
        {"", {{"f", "{}"}, {"g.h-é", "{\"b\": 1}"}}}},
       {"Well: [TOOL_CALLS] f[ARGS] \n{} [TOOL_CALLS]g[ARGS]{}so",
        {"Well:so", {{"f", "{}"}, {"g", "{}"}}}},
       // Version 11 gives a call an id.
       {"[TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{\"a\": 1}", {"", {{"f", "{\"a\": 1}"}}}},
       {"x[TOOL_CALLS]a[TOOL_CALLS]f[ARGS]{}", {"x[TOOL_CALLS]a", {{"f", "{}"}}}},
       {"[TOOL_CALLS]a[CALL_ID]b[TOOL_CALLS]f[ARGS]{}", {"[TOOL_CALLS]a[CALL_ID]b", {{"f", "{}"}}}},
       {"[TOOL_CALLS][TOOL_CALLS]f[ARGS]{}", {"[TOOL_CALLS]", {{"f", "{}"}}}},
       {"[TOOL_CALLS]f[ARGS]{}]", {"]", {{"f", "{}"}}}},
       {"[TOOL_CALLS]f[ARGS]{}{}", {"{}", {{"f", "{}"}}}}});
  for (const char* text :
       {"[TOOL_CALLS]", "[TOOL_CALLS]f", "[TOOL_CALLS]f[ARGS]", "[TOOL_CALLS]f{}",
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}]", "[TOOL_CALLS][ARGS]{}",
        "[TOOL_CALLS]f g[ARGS]{}", "[TOOL_CALLS]f [ARGS]{}", "[TOOL_CALLS]f[ARGS][]",
        "[TOOL_CALLS]f[ARGS]\"{}\"", "[TOOL_CALLS]f[CALL_ID][ARGS]{}", "[TOOL_CALLS]f[ARGS]{a}",
        "[TOOL_CALLS]f[CALL_ID]1[CALL_ID]2[ARGS]{}", "[TOOL_CALLS]f[ARGS][CALL_ID]1{}"}) {
    EXPECT_EQ(parse_cut({.format = ToolCallFormat::kMistralArgs}, text), (Parsed{text, {}}));
  }
}

TEST(ToolCallParser, MistralsNamesAndIdsAreNotForEver) {
  for (const std::string part : {"", "f[CALL_ID]", "f[ARGS]"}) {
    ToolCallParser parser({.format = ToolCallFormat::kMistralArgs});
    const std::string text =
        "[TOOL_CALLS]" + part + std::string(4096, part.ends_with("S]") ? ' ' : 'x');
    parser.push(text);
    EXPECT_GE(parser.take_content().size(), text.size() - 1024) << part;
  }
}

TEST(ToolCallParser, NoneHasNoCalls) {
  const std::string text = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
  EXPECT_EQ(parse_cut({}, text), (Parsed{text, {}}));
}

TEST(ToolCallParser, CallsBeyondTheMostAreDropped) {
  const std::string one = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>";
  for (const Pieces pieces : {Pieces::kWhole, Pieces::kAsTheyCome}) {
    EXPECT_EQ(parse_cut({ToolCallFormat::kHermes, pieces, 1}, one + "\n" + one + " x"),
              (Parsed{"x", {{"f", "{\"a\":1}"}}}));
  }
}

TEST(ToolCallParser, ArgumentsComeAsTheyAreWritten) {
  ToolCallParser parser({.format = ToolCallFormat::kHermes, .pieces = Pieces::kAsTheyCome});
  parser.push("<tool_call>{\"name\": \"f\", \"argum");
  EXPECT_TRUE(parser.take_calls().empty());
  parser.push("ents\": {\"a\"");
  auto calls = parser.take_calls();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].name, "f");
  EXPECT_EQ(calls[0].arguments, "{\"a\"");
  parser.push(": 1");
  calls = parser.take_calls();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].name, "");
  EXPECT_EQ(calls[0].arguments, ": 1");
}

TEST(ToolCallParser, HoldsBackLittle) {
  ToolCallParser parser({.format = ToolCallFormat::kHermes});
  parser.push("text" + std::string(100'000, ' '));
  EXPECT_GE(parser.take_content().size(), 100'004u - 1024u);
  ToolCallParser deep({.format = ToolCallFormat::kHermes});
  const std::string nested =
      "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":" + std::string(1000, '[');
  deep.push(nested);
  EXPECT_EQ(deep.take_content(), nested);
}

// As a form that forces the call writes it: a name has 128 bytes at most, of which each may need
// six.
TEST(ToolCallParser, NamesMayBeLongWhereTheyAreEscaped) {
  std::string written;
  for (int i = 0; i < 128; ++i) written += "\\u0001";
  const std::string call = R"(<tool_call>{"name": ")" + written + R"(", "arguments": {}})";
  ToolCallParser parser({.format = ToolCallFormat::kHermes});
  parser.push(call + "</tool_call>");
  const auto calls = parser.take_calls();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].name, std::string(128, '\x01'));
}

// Random texts of pieces of calls: cuts do not matter, and what is a call in whole is one in
// pieces.
TEST(ToolCallParser, RandomTextsCutAnywhere) {
  const std::uint64_t seed = 20260101;
  Random random(seed);
  const std::vector<std::string> words = {"<tool_call>",
                                          "</tool_call>",
                                          "<|python_tag|>",
                                          "[TOOL_CALLS]",
                                          "[TOOL_CALLS]f",
                                          "[ARGS]",
                                          "[CALL_ID]",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          ",",
                                          ";",
                                          ":",
                                          "\"name\"",
                                          "\"arguments\"",
                                          "\"f\"",
                                          "{}",
                                          " ",
                                          "\n",
                                          "1",
                                          "\"",
                                          "\\",
                                          "x",
                                          "é",
                                          "{\"name\":\"f\",\"arguments\":{\"k\":\"v\"}}",
                                          "{\"name\":\"g\",\"parameters\":{}}",
                                          "<"};
  for (int i = 0; i < rounds(3000); ++i) {
    std::string text;
    for (auto n = random.between(1, 14); n > 0; --n) {
      text += words[static_cast<std::size_t>(random.below(std::ssize(words)))];
    }
    const auto format = static_cast<ToolCallFormat>(random.between(1, 4));
    const auto pieces = random.chance(0.5) ? Pieces::kWhole : Pieces::kAsTheyCome;
    const Parsed whole = parse_cut({.format = format, .pieces = pieces}, text);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ": " << text;
    ASSERT_LE(whole.content.size(), text.size());
  }
}

TEST(ToolCallFormat, IsKnownByTheTemplate) {
  EXPECT_EQ(tool_call_format_of("{% for m in messages %}{{ m.content }}{% endfor %}"),
            ToolCallFormat::kNone);
  EXPECT_EQ(tool_call_format_of("… within <tool_call></tool_call> XML tags"),
            ToolCallFormat::kHermes);
  EXPECT_EQ(tool_call_format_of("[TOOL_CALLS] ["), ToolCallFormat::kMistral);
  EXPECT_EQ(tool_call_format_of("<|start_header_id|> {{- '\"parameters\": ' }}"),
            ToolCallFormat::kLlama3Json);
  EXPECT_EQ(tool_call_format_of("<tool_call>\n<function=f>"), ToolCallFormat::kNone);
  EXPECT_EQ(tool_call_format_of("[TOOL_CALLS]f[ARGS]{}"), ToolCallFormat::kMistralArgs);
  EXPECT_EQ(tool_call_format_named("llama3_json"), ToolCallFormat::kLlama3Json);
  EXPECT_EQ(tool_call_format_named("none"), ToolCallFormat::kNone);
  EXPECT_FALSE(tool_call_format_named("auto"));
}

TEST(ToolCallFormat, ABareNameHasNoBlanksAndNoMarks) {
  for (const char* name : {"f", "get_weather-2", "a.b", "é", "a]\"{"}) {
    EXPECT_TRUE(can_name_tool(ToolCallFormat::kMistralArgs, name)) << name;
  }
  for (const char* name : {"a b", " a", "a\n", "a[ARGS]", "[", "\x7f"}) {
    EXPECT_FALSE(can_name_tool(ToolCallFormat::kMistralArgs, name)) << name;
    EXPECT_TRUE(can_name_tool(ToolCallFormat::kHermes, name)) << name;
  }
}

TEST(ToolCallFormat, OfPublishedTemplates) {
  CAUSEWAY_TEST_DATA_OR_SKIP(folder, "templates");
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    const std::string name = entry.path().filename().string();
    const auto chat = ChatTemplate::compile(read_bytes(entry.path()));
    ASSERT_TRUE(chat.ok()) << name;
    if (name.starts_with("Qwen")) {
      EXPECT_EQ(chat->tool_calls(), ToolCallFormat::kHermes) << name;
    }
    if (name.starts_with("meta-llama")) {
      EXPECT_EQ(chat->tool_calls(), ToolCallFormat::kLlama3Json) << name;
    }
    EXPECT_TRUE(chat->takes_tools()) << name;
    ++found;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace causeway::text::tool_call_parser_test
