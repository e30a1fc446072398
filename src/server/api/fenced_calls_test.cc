// Answers of free text in which calls have a form: what a model may write in each family, byte by
// byte, and that the parser of the family reads it back.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "grammar/compile.h"
#include "grammar/compiler.h"
#include "server/api/call_forms.h"
#include "server/byte_model.h"
#include "text/reasoning/reasoning_parser.h"
#include "text/tool_calls/tool_call_parser.h"

namespace causeway::server::fenced_calls_test {
namespace {

using Json = nlohmann::ordered_json;
using text::ToolCallFormat;

constexpr auto kFormats = {ToolCallFormat::kHermes, ToolCallFormat::kLlama3Json,
                           ToolCallFormat::kMistral, ToolCallFormat::kMistralArgs};
// The first is strict, the second is not.
const char* const kTools = R"([
  {"type":"function","function":{"name":"paint","parameters":{"type":"object",
    "properties":{"colour":{"enum":["red","blue"]},"coats":{"type":"integer"}},
    "required":["colour","coats"],"additionalProperties":false}}},
  {"type":"function","function":{"name":"note","parameters":{"type":"object",
    "properties":{"uniqueItems":{"uniqueItems":true}}}}}])";
const std::string kPaint = R"({"colour": "red", "coats": 2})";

// One call as the family writes it, alone in its list.
std::string call_text(ToolCallFormat format, const std::string& name, const std::string& arguments,
                      bool marked = true) {
  if (format == ToolCallFormat::kMistralArgs) return "[TOOL_CALLS]" + name + "[ARGS]" + arguments;
  const std::string member = format == ToolCallFormat::kLlama3Json ? "parameters" : "arguments";
  const std::string call = "{\"name\": \"" + name + "\", \"" + member + "\": " + arguments + "}";
  if (format == ToolCallFormat::kHermes) return "<tool_call>\n" + call + "\n</tool_call>";
  if (format == ToolCallFormat::kMistral) return "[TOOL_CALLS] [" + call + "]";
  return marked ? "<|python_tag|>" + call : call;
}

class FencedCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!grammar::available()) GTEST_SKIP() << "this build has no XGrammar";
  }

  struct Options {
    bool one = false;
    bool thinks = false;  // the answer begins within thinking
    bool may_think = false;
  };

  std::shared_ptr<const request::Constraint> compile(ToolCallFormat format,
                                                     const Options& options) {
    entry_ = byte_model_entry(ModelId(static_cast<int>(format)), "m", Tokens(512));
    grammar::CallsInText calls =
        fenced_calls(format, Json::parse(kTools), {true, false}, options.one);
    if (options.may_think || options.thinks) {
      calls.marks.think_open = "<think>";
      calls.marks.think_close = "</think>";
      calls.marks.thinks = options.thinks;
    }
    std::promise<grammar::Compiler::Outcome> done;
    compiler_.compile({.model = entry_->id,
                       .tokenizer = entry_->tokenizer.get(),
                       .vocab = entry_->vocab,
                       .end = entry_->eos,
                       .marks = text::tool_call_marks(format)},
                      grammar::to_constraint(calls),
                      [&](const grammar::Compiler::Outcome& outcome) { done.set_value(outcome); });
    const auto outcome = done.get_future().get();
    EXPECT_TRUE(outcome.ok()) << outcome.error().message;
    return outcome.ok() ? *outcome : nullptr;
  }

  static bool allows(request::TokenMatcher& matcher, TokenId token) {
    EXPECT_EQ(matcher.wait(seconds(30)), request::MaskState::kReady);
    const auto mask = matcher.mask();
    if (mask.empty()) return true;
    return ((mask[static_cast<std::size_t>(token / 32)] >> (token % 32)) & 1) != 0;
  }

  // How much of `text` a model may write, a byte a token; all of it and the end: "".
  static std::string refused(const request::Constraint& constraint, const std::string& text) {
    const auto matcher = constraint.begin({});
    for (std::size_t i = 0; i < text.size(); ++i) {
      const TokenId token = static_cast<unsigned char>(text[i]);
      if (!allows(*matcher, token)) return "behind " + text.substr(0, i);
      matcher->advance(token);
    }
    return allows(*matcher, kByteModelEos) ? "" : "the end";
  }

  static bool ends_behind(const request::Constraint& constraint, const std::string& text) {
    const auto matcher = constraint.begin({text.begin(), text.end()});
    return allows(*matcher, kByteModelEos);
  }

  const RealClock clock_;
  std::unique_ptr<fleet::CatalogueEntry> entry_;
  grammar::Compiler compiler_{grammar::CompilerOptions(), clock_};
};

TEST_F(FencedCalls, TextIsFree) {
  for (const auto format : kFormats) {
    const auto constraint = compile(format, {});
    for (const std::string text :
         {"", "It is 5.", "{\"colour\": 1}", " {\"names\": [", "{\"name", "<tool_cal", "[TOOL_",
          "[{\"name\": 5}]", "\n\nif (a < b) { return \"name\": }", "<|python_tag", "</tool_call>",
          "{ \"type\": \"function\", \"name\": 5}", "<think>"}) {
      EXPECT_EQ(refused(*constraint, text), "") << static_cast<int>(format);
    }
    const auto matcher = constraint->begin({});
    EXPECT_EQ(matcher->wait(Nanos(0)), request::MaskState::kReady) << "nothing is computed";
    EXPECT_TRUE(matcher->mask().empty()) << "nothing is masked";
    matcher->advance('x');
    EXPECT_EQ(matcher->wait(Nanos(0)), request::MaskState::kReady);
    EXPECT_TRUE(matcher->mask().empty());
  }
}

TEST_F(FencedCalls, CallsAreAsTheirToolsSay) {
  for (const auto format : kFormats) {
    const auto constraint = compile(format, {});
    for (const std::string before : {"", "Let me see. ", "\n"}) {
      EXPECT_EQ(refused(*constraint, before + call_text(format, "paint", kPaint)), "");
      EXPECT_EQ(refused(*constraint, before + call_text(format, "note", "{}") + " Done."), "");
      EXPECT_EQ(refused(*constraint, before + call_text(format, "note", R"({"a": [{}, "]}"]})")),
                "");
    }
    for (const std::string name : {"pain", "paints", "Paint", "\\u0070aint"}) {
      EXPECT_NE(refused(*constraint, call_text(format, name, kPaint)), "") << name;
    }
    for (const std::string arguments :
         {R"({})", R"({"colour": "red"})", R"({"colour": "green", "coats": 2})",
          R"({"colour": "red", "coats": "2"})", R"({"colour": "red", "coats": 2, "more": 1})",
          R"("red")"}) {
      EXPECT_NE(refused(*constraint, call_text(format, "paint", arguments)), "") << arguments;
    }
    EXPECT_NE(refused(*constraint, call_text(format, "note", "[]")), "") << "not an object";
    const std::string whole = call_text(format, "note", "{}");
    const std::size_t part = std::min<std::size_t>(30, whole.size() - 1);
    EXPECT_NE(refused(*constraint, whole.substr(0, part)), "")
        << "a call that was begun does not end";
  }
}

// The first byte that does not follow is refused, not a later one.
TEST_F(FencedCalls, AreRefusedTokenByToken) {
  const auto hermes = compile(ToolCallFormat::kHermes, {});
  EXPECT_EQ(refused(*hermes, "a <tool_call> x"), "behind a <tool_call>");
  EXPECT_EQ(refused(*hermes, "<tool_call>\n{\"name\": \"paper\""),
            "behind <tool_call>\n{\"name\": \"pa");
  const auto llama = compile(ToolCallFormat::kLlama3Json, {});
  EXPECT_EQ(refused(*llama, "{\"name\": \"nut\""), "behind {\"name\": \"n");
  EXPECT_EQ(refused(*llama, "a <|python_tag|>brave()"), "behind a <|python_tag|>");
  const auto mistral = compile(ToolCallFormat::kMistral, {});
  EXPECT_EQ(refused(*mistral, "[TOOL_CALLS]  ["), "behind [TOOL_CALLS] ");
  EXPECT_EQ(refused(*mistral, "[TOOL_CALLS][{\"name\": \"note\", \"arguments\": {}}x"),
            "behind [TOOL_CALLS][{\"name\": \"note\", \"arguments\": {}}");
  const auto bare = compile(ToolCallFormat::kMistralArgs, {});
  EXPECT_EQ(refused(*bare, "a [TOOL_CALLS] note"), "behind a [TOOL_CALLS]");
  EXPECT_EQ(refused(*bare, "[TOOL_CALLS]notes"), "behind [TOOL_CALLS]note");
  EXPECT_EQ(refused(*bare, "[TOOL_CALLS]note[ARGS]{}x [TOOL_CALLS]x"),
            "behind [TOOL_CALLS]note[ARGS]{}x [TOOL_CALLS]");
}

TEST_F(FencedCalls, ALlamaCallNeedsNoMarkAtTheStart) {
  const auto constraint = compile(ToolCallFormat::kLlama3Json, {});
  const std::string bare = call_text(ToolCallFormat::kLlama3Json, "paint", kPaint, false);
  EXPECT_EQ(refused(*constraint, bare), "");
  EXPECT_EQ(refused(*constraint, " \n" + bare), "");
  EXPECT_EQ(refused(*constraint, "{ \"name\" :" + bare.substr(8)), "");
  EXPECT_NE(refused(*constraint, "{\n\t\"name\"\n: 5}"), "");
  EXPECT_EQ(refused(*constraint, "Say {\"name\": 5}"), "") << "not at the start";
  EXPECT_EQ(refused(*constraint, bare + "; " + bare + "," + bare), "");
  EXPECT_NE(refused(*constraint, bare + "; {\"name\": 5}"), "");
  EXPECT_EQ(refused(*constraint, bare + " and {\"name\": 5}"), "");
}

TEST_F(FencedCalls, SeveralMayFollowUnlessOneIsWanted) {
  for (const auto format : kFormats) {
    const std::string call = call_text(format, "paint", kPaint);
    const std::string other = call_text(format, "note", "{\"a\": 1}");
    const auto constraint = compile(format, {});
    EXPECT_EQ(refused(*constraint, call + "\n" + other + " and\n" + call), "");
    const auto single = compile(format, {.one = true});
    EXPECT_EQ(refused(*single, "First. " + call), "");
    EXPECT_EQ(refused(*single, call + "\n"), "behind " + call);
  }
  const std::string list = "[TOOL_CALLS] [{\"name\": \"note\", \"arguments\": {}}";
  const std::string more = ", {\"name\": \"note\", \"arguments\": {\"b\": 2}}";
  EXPECT_EQ(refused(*compile(ToolCallFormat::kMistral, {}), list + more + more + more + more + "]"),
            "");
  EXPECT_EQ(refused(*compile(ToolCallFormat::kMistral, {.one = true}), list + more),
            "behind " + list);
}

TEST_F(FencedCalls, ThinkingIsFree) {
  const std::string call = call_text(ToolCallFormat::kHermes, "paint", kPaint);
  const auto begun = compile(ToolCallFormat::kHermes, {.thinks = true});
  EXPECT_EQ(refused(*begun, "<tool_call> is a mark </thin</think>\n" + call), "");
  EXPECT_NE(refused(*begun, "Hm.</think><tool_call>x"), "");
  const auto opens = compile(ToolCallFormat::kHermes, {.may_think = true});
  EXPECT_EQ(refused(*opens, "\n<think><tool_call>x</think> " + call), "");
  EXPECT_NE(refused(*opens, "a <think><tool_call>x"), "") << "it is text";
  EXPECT_NE(refused(*opens, "<th<tool_call>x"), "");
}

TEST_F(FencedCalls, AnAnswerGoesOnBehindItsOutput) {
  for (const auto format : kFormats) {
    const auto constraint = compile(format, {});
    const std::string call = call_text(format, "paint", kPaint);
    const std::string text = call + "\n" + call + (format == ToolCallFormat::kMistral ? "." : "");
    const auto matcher = constraint->begin({});
    for (std::size_t i = 0; i < text.size(); ++i) {
      ASSERT_EQ(ends_behind(*constraint, text.substr(0, i)), allows(*matcher, kByteModelEos)) << i;
      matcher->advance(static_cast<unsigned char>(text[i]));
    }
    EXPECT_TRUE(ends_behind(*constraint, text));
  }
  const auto single = compile(ToolCallFormat::kHermes, {.one = true});
  const std::string call = call_text(ToolCallFormat::kHermes, "note", "{}");
  const auto beyond = single->begin([&] {
    const std::string text = call + "x";
    return std::vector<TokenId>(text.begin(), text.end());
  }());
  EXPECT_EQ(beyond->wait(seconds(30)), request::MaskState::kImpossible);
}

// A model that writes calls at random, where it may: each that the parser tells is a tool's.
TEST_F(FencedCalls, WhateverIsWrittenCallsAreReadBack) {
  Random random(12);
  int told = 0;
  for (int round = 0; round < 80; ++round) {
    const auto format = *(kFormats.begin() + round % 4);
    const bool bare = format == ToolCallFormat::kLlama3Json && random.chance(0.5);
    const auto constraint = compile(format, {});
    const auto matcher = constraint->begin({});
    std::string text;
    const auto write = [&](std::string_view bytes) {
      for (const char c : bytes) {
        if (!allows(*matcher, static_cast<unsigned char>(c))) return;
        text += c;
        matcher->advance(static_cast<unsigned char>(c));
      }
    };
    write(bare ? "{\"name\":" : text::tool_call_mark(format));
    for (int i = 0; i < 300; ++i) {
      const auto one = static_cast<TokenId>(' ' + random.below(95));
      TokenId token = one;
      while (!allows(*matcher, token) && token != one - 1) token = token == 126 ? 10 : token + 1;
      if (!allows(*matcher, token)) break;
      text += static_cast<char>(token);
      matcher->advance(token);
    }
    text::ToolCallParser parser({.format = format, .name_first = true});
    parser.push(text);
    parser.finish();
    for (const text::ToolCallDelta& call : parser.take_calls()) {
      ++told;
      const Json arguments = Json::parse(call.arguments, nullptr, false);
      ASSERT_TRUE(arguments.is_object()) << text;
      if (call.name == "note") continue;
      ASSERT_EQ(call.name, "paint") << text;
      EXPECT_TRUE(arguments["coats"].is_number()) << text;
      EXPECT_EQ(arguments.size(), 2u) << text;
    }
  }
  EXPECT_GT(told, 10);
}

}  // namespace
}  // namespace causeway::server::fenced_calls_test
