#include "grammar/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "base/json_numbers.h"
#include "base/random.h"
#include "grammar/behind_thinking.h"
#include "grammar/compile.h"
#include "grammar/plain_regex.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace causeway::grammar::compiler_test {
namespace {

using Json = nlohmann::json;
using request::ConstraintKind;
using request::ConstraintText;
using request::MaskState;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

// Numbers may be larger than any double.
Json parsed(const std::string& text) {
  std::string buffer;
  return Json::parse(plain_json_numbers(text, buffer), nullptr, false);
}

// Bytes, some words, a mark that is special, an end.
class ByteTokenizer final : public text::Tokenizer {
 public:
  ByteTokenizer() {
    for (int byte = 0; byte < 256; ++byte) tokens_.emplace_back(1, static_cast<char>(byte));
    for (const char* word : {"{\"", "\":", "\",", "true", "name", "age", " \"", "[CALL]", "</s>"}) {
      tokens_.emplace_back(word);
    }
  }
  Result<text::TokensUpTo> encode_up_to(std::string_view text, const text::EncodeOptions&,
                                        std::int64_t) const override {
    return text::TokensUpTo{.ids = {text.begin(), text.end()}, .count = std::ssize(text)};
  }
  std::string_view token_bytes(TokenId id) const override {
    return tokens_[static_cast<std::size_t>(id)];
  }
  bool is_special(TokenId id) const override { return id >= vocab_size() - 2; }
  std::optional<TokenId> find(std::string_view) const override { return {}; }
  std::int64_t vocab_size() const override { return std::ssize(tokens_); }
  std::optional<TokenId> bos() const override { return {}; }
  std::optional<TokenId> eos() const override { return static_cast<TokenId>(vocab_size() - 1); }

 private:
  std::vector<std::string> tokens_;
};

class CompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!available()) GTEST_SKIP() << "this build has no XGrammar";
  }

  Compiler::Outcome compile(ConstraintKind kind, std::string text, std::string_view mark = "") {
    const ModelTokens model{.model = ModelId(1),
                            .tokenizer = &tokenizer_,
                            .vocab = vocab_,
                            .end = end_,
                            .marks = {&mark, 1}};
    auto outcome = std::make_shared<std::promise<Compiler::Outcome>>();
    compiler_.compile(model, {kind, std::move(text)},
                      [outcome](const Compiler::Outcome& one) { outcome->set_value(one); });
    return outcome->get_future().get();
  }

  std::string why_not(ConstraintKind kind, std::string text) {
    const auto outcome = compile(kind, std::move(text));
    return outcome.ok() ? "" : outcome.error().message;
  }

  std::vector<TokenId> allowed(request::TokenMatcher& matcher) {
    EXPECT_EQ(matcher.wait(seconds(30)), MaskState::kReady);
    const auto mask = matcher.mask();
    EXPECT_EQ(std::ssize(mask), (vocab_ + 31) / 32);
    std::vector<TokenId> tokens;
    for (TokenId id = 0; id < vocab_; ++id) {
      const std::uint32_t word = mask[static_cast<std::size_t>(id / 32)];
      if (((word >> (id % 32)) & 1) != 0) tokens.push_back(id);
    }
    return tokens;
  }

  // Draws tokens until the end, which is preferred when it is allowed.
  std::string walk(const request::Constraint& constraint, Random& random) {
    const auto matcher = constraint.begin({});
    text::Detokenizer detokenizer(tokenizer_);
    std::string text;
    for (int i = 0; i < 5000; ++i) {
      const auto tokens = allowed(*matcher);
      if (tokens.empty()) break;
      if (tokens.back() == end_[0] && random.chance(0.5)) return text + detokenizer.finish();
      const auto token = tokens[static_cast<std::size_t>(random.below(std::ssize(tokens)))];
      if (token == end_[0]) return text + detokenizer.finish();
      text += detokenizer.push(token, /*skip_special=*/false);
      matcher->advance(token);
    }
    ADD_FAILURE() << "no end: " << text;
    return text;
  }

  // Whether an answer may be this text, a byte a token.
  bool accepts(const request::Constraint& constraint, const std::string& text) {
    std::vector<TokenId> bytes;
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    const auto matcher = constraint.begin(std::move(bytes));
    if (matcher->wait(seconds(30)) != MaskState::kReady) return false;
    const auto tokens = allowed(*matcher);
    return !tokens.empty() && tokens.back() == end_[0];
  }

  // How many blanks in a row may come behind `text`; something must be allowed behind them.
  int blanks_behind(const request::Constraint& constraint, const std::string& text) {
    const auto matcher = constraint.begin({text.begin(), text.end()});
    int blanks = 0;
    for (; blanks < 200; ++blanks) {
      const auto tokens = allowed(*matcher);
      EXPECT_FALSE(tokens.empty()) << text;
      if (std::find(tokens.begin(), tokens.end(), ' ') == tokens.end()) break;
      matcher->advance(' ');
    }
    return blanks;
  }

  const RealClock clock_;
  const ByteTokenizer tokenizer_;
  const std::int64_t vocab_ = 270;  // more rows than tokens
  const std::vector<TokenId> end_ = {264};
  Compiler compiler_{CompilerOptions(), clock_};
};

TEST_F(CompilerTest, WhatIsDrawnMatchesTheSchema) {
  const auto outcome = compile(ConstraintKind::kJsonSchema, R"({"type":"object","properties":{
      "name":{"type":"string","maxLength":9},"age":{"type":"integer"},
      "of":{"enum":["a","b"]}},"required":["name","age","of"]})");
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  Random random(3);
  for (int i = 0; i < 30; ++i) {
    const std::string text = walk(**outcome, random);
    const Json value = parsed(text);
    ASSERT_TRUE(value.is_object()) << text;
    EXPECT_TRUE(value["name"].is_string() && value["age"].is_number_integer()) << text;
    EXPECT_THAT(value["of"].get<std::string>(), AnyOf("a", "b"));
    EXPECT_EQ(value.size(), 3u) << text;
  }
}

TEST_F(CompilerTest, AFormBehindThinkingHoldsBehindIt) {
  const auto behind = [&](ConstraintKind kind, const std::string& text, bool thinks) {
    ConstraintText form = to_constraint(
        BehindThinking{.form = {kind, text}, .open = "<t>", .close = "</t>", .thinks = thinks});
    return compile(form.kind, std::move(form.text));
  };
  const auto json = behind(ConstraintKind::kJson, "", true);
  ASSERT_TRUE(json.ok()) << json.error().message;
  EXPECT_TRUE(accepts(**json, "4 {\"<b></t>{\"name\":1}"));
  EXPECT_FALSE(accepts(**json, "4 </t>5"));
  EXPECT_FALSE(accepts(**json, "{\"name\":1}")) << "all of it is thinking";
  // What the form says of thinking itself holds from the first token on.
  const auto own = behind(ConstraintKind::kRegex, "<t>[ab]</t>c", false);
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_TRUE(accepts(**own, "<t>a</t>c"));
  EXPECT_FALSE(accepts(**own, "<t>c</t>c"));
  EXPECT_EQ((*own)->text(), (ConstraintText{ConstraintKind::kRegex, "<t>[ab]</t>c"}));
  // The bound is that of the form: its quotes are escaped around it.
  const auto fits = [](std::size_t bytes) {
    const BehindThinking large{
        .form = {ConstraintKind::kRegex, std::string(bytes, '"')}, .open = "<t>", .close = "</t>"};
    return check_constraint(to_constraint(large)).ok();
  };
  EXPECT_TRUE(fits(std::size_t{60} << 10));
  EXPECT_FALSE(fits(std::size_t{70} << 10));
  EXPECT_FALSE(behind(ConstraintKind::kRegex, "(a", true).ok());
}

TEST_F(CompilerTest, PatternsOfStringsAreWrittenAsJson) {
  Random random(6);
  const std::pair<const char*, const char*> all[] = {{R"(^.{1,3}$)", R"([\s\S]{1,36})"},
                                                     {R"(^[^a]x$)", R"([^a]{1,36}x)"},
                                                     {R"(^[ -~]{2}$)", R"([ -~]{2})"},
                                                     {R"(^a"b\\c\nd$)", "a\"b\\\\c\nd"},
                                                     {R"(^\S\W\D\s[\s\w\-\]]$)", R"([\s\S]+)"}};
  for (const auto& [pattern, matches] : all) {
    const Json schema = {{"type", "string"}, {"pattern", pattern}};
    const auto outcome = compile(ConstraintKind::kJsonSchema, schema.dump());
    ASSERT_TRUE(outcome.ok()) << pattern << ": " << outcome.error().message;
    for (int i = 0; i < 20; ++i) {
      const std::string text = walk(**outcome, random);
      const Json value = parsed(text);
      ASSERT_TRUE(value.is_string()) << pattern << ": " << text;
      EXPECT_TRUE(std::regex_match(value.get<std::string>(), std::regex(matches)))
          << pattern << ": " << text;
    }
  }
}

// A tag as forced calls have them.
std::string tag_around(const Json& schema) {
  const Json content = {{"type", "json_schema"}, {"json_schema", schema}};
  const Json tag = {{"type", "tag"}, {"begin", "<c>"}, {"content", content}, {"end", "</c>"}};
  const Json tags = {{"type", "tags_with_separator"},
                     {"tags", Json::array({tag})},
                     {"separator", ";"},
                     {"at_least_one", true}};
  return Json{{"type", "structural_tag"}, {"format", tags}}.dump();
}

TEST_F(CompilerTest, WhiteSpaceBetweenThePartsOfJsonIsBounded) {
  const Json schema = Json::parse(R"({"type":"object","properties":{
      "a":{"type":"array","items":{"type":"integer"}},"b":{"type":"object",
      "properties":{"x":{"type":"array","items":{"type":"integer"}}},"required":["x"]}},
      "required":["a","b"]})");
  const std::vector<std::string> places = {"{",
                                           "{\"a\"",
                                           "{\"a\":",
                                           "{\"a\":[",
                                           "{\"a\":[1",
                                           "{\"a\":[1,",
                                           "{\"a\":[1]",
                                           "{\"a\":[1],",
                                           "{\"a\":[1],\"b\":",
                                           "{\"a\":[1],\"b\":{",
                                           "{\"a\":[],\"b\":{\"x\":[0",
                                           "{\"a\":[],\"b\":{\"x\":[]}"};
  const std::pair<ConstraintKind, std::string> forms[] = {
      {ConstraintKind::kJson, ""},
      {ConstraintKind::kJsonSchema, schema.dump()},
      {ConstraintKind::kStructuralTag, tag_around(schema)}};
  for (const auto& [kind, text] : forms) {
    const std::string before = kind == ConstraintKind::kStructuralTag ? "<c>" : "";
    const auto outcome = compile(kind, text);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    for (const std::string& place : places) {
      const auto open =
          std::count_if(place.begin(), place.end(), [](char c) { return c == '{' || c == '['; }) -
          std::count_if(place.begin(), place.end(), [](char c) { return c == '}' || c == ']'; });
      // XGrammar does not bound it within values that may be anything.
      if (kind == ConstraintKind::kJson && open > 1) continue;
      const int blanks = blanks_behind(**outcome, before + place);
      EXPECT_THAT(blanks, AllOf(Ge(1), Le(32))) << static_cast<int>(kind) << ": " << place;
    }
  }
}

TEST_F(CompilerTest, SchemasOfCallsAreWhatSchemasAreElsewhere) {
  Random random(7);
  const Json schema = {{"type", "string"}, {"pattern", "^\"[\\s\\S]\\\\$"}};
  const auto outcome = compile(ConstraintKind::kStructuralTag, tag_around(schema));
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  for (int i = 0; i < 20; ++i) {
    const std::string text = walk(**outcome, random);
    ASSERT_TRUE(text.starts_with("<c>") && text.find("</c>") != std::string::npos) << text;
    const Json value = parsed(text.substr(3, text.find("</c>") - 3));
    ASSERT_TRUE(value.is_string()) << text;
    const auto& said = value.get_ref<const std::string&>();
    EXPECT_TRUE(said.size() > 2 && said.front() == '"' && said.back() == '\\') << text;
  }
  EXPECT_THAT(why_not(ConstraintKind::kStructuralTag, tag_around({{"type", "nothing"}})),
              ::testing::Not(""));
}

TEST_F(CompilerTest, WhatIsNoWhiteSpaceMayBeAnythingElse) {
  Random random(8);
  for (const char* regex : {R"(\S{3})", R"([^\s,]{2,4})", R"(a\S[^\s]\\)"}) {
    const auto outcome = compile(ConstraintKind::kRegex, regex);
    ASSERT_TRUE(outcome.ok()) << regex << ": " << outcome.error().message;
    for (int i = 0; i < 20; ++i) {
      const std::string text = walk(**outcome, random);
      EXPECT_FALSE(text.empty());
      EXPECT_EQ(text.find_first_of(" \t\n\v\f\r"), std::string::npos) << regex << ": " << text;
    }
  }
}

TEST_F(CompilerTest, ClassesMayNameCharactersBeyondAscii) {
  struct Case {
    std::string regex;
    std::vector<std::string> yes, no;
  };
  const std::string many(200, 'b');
  const std::vector<Case> cases = {
      {"[^é]", {"e", "è", "中", "😀", "\n"}, {"é", "", "ee", "\xC3", "\xA9", "\xC3\xA9\xA9"}},
      {"[^a-zà-ü]+", {"A", "ÿß", "Ω中"}, {"a", "Aü", "à"}},
      {"[à-ü]", {"à", "é", "ü"}, {"ÿ", "a", "\xE9", "\xA0"}},
      {"[à-ü]{2}[a-z]{200}", {"éà" + many}, {"é" + many, "éÿ" + many, "é\xA0" + many}},
      {"[é]x|[一-龥]{2}", {"éx", "中文"}, {"é", "中", "中x", "\xE4"}},
      {R"([^\u00e9\x41bc]\s)", {"d ", "è\t"}, {"é ", "A ", "b ", "d\xA0", "d\xC2\xA0"}},
      {R"([^\S]\S)", {" é", "\tx"}, {"x ", "é "}},
      {R"([\s\S].)", {"é😀", "\n\n"}, {"é", "\xFFx", "x\xFF", "x\x80"}},
      {R"([\W])", {"é", " "}, {"a", "_", "\xE9"}},
      {R"([^\W])", {"a", "_"}, {"é", " "}},
      {"[^é][a-z]{200}", {"中" + many, "a" + many}, {"é" + many, "中" + many + "b", "中"}},
      {"([^é]{150,160})?x", {"x", many.substr(0, 149) + "中x"}, {"éx", "中x"}},
      {R"([\u{1F600}-\u{1F64F}]*)", {"", "😀😁🙏"}, {"😀a", "🚀"}},
      {R"([\^é])", {"^", "é"}, {"e", "\\", "a"}}};
  for (const Case& one : cases) {
    const auto outcome = compile(ConstraintKind::kRegex, one.regex);
    ASSERT_TRUE(outcome.ok()) << one.regex << ": " << outcome.error().message;
    for (const std::string& text : one.yes) {
      EXPECT_TRUE(accepts(**outcome, text)) << one.regex << ": " << text;
    }
    for (const std::string& text : one.no) {
      EXPECT_FALSE(accepts(**outcome, text)) << one.regex << ": " << text;
    }
  }
  const Json schema = {{"type", "string"}, {"pattern", "^[^é\"]{1,2}$"}};
  const auto outcome = compile(ConstraintKind::kJsonSchema, schema.dump());
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_TRUE(accepts(**outcome, "\"è中\""));
  EXPECT_FALSE(accepts(**outcome, "\"é\""));
}

// Random classes, and characters around their bounds.
TEST_F(CompilerTest, AClassMatchesWhatItNames) {
  Random random(9);
  const auto code = [&] {
    constexpr std::int64_t kBounds[] = {0x20,   0x30,    0x41,    0x5E,    0x7E,    0x80,    0xBF,
                                        0xFF,   0x7FF,   0x800,   0xFFF,   0x1000,  0xD7FF,  0xE000,
                                        0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0xFFFFF, 0x10FFFE};
    const auto near = kBounds[static_cast<std::size_t>(random.below(std::ssize(kBounds)))];
    return static_cast<char32_t>(std::max<std::int64_t>(1, near + random.between(-1, 1)));
  };
  const auto scalar = [](char32_t c) { return c < 0xD800 || c > 0xDFFF; };
  for (int round = 0; round < 60; ++round) {
    const bool negated = random.chance(0.5);
    std::vector<std::pair<char32_t, char32_t>> ranges;
    std::string text = negated ? "[^" : "[";
    for (auto n = random.between(1, 4); n > 0; --n) {
      auto first = code(), last = code();
      if (last < first) std::swap(first, last);
      ranges.emplace_back(first, last);
      std::array<char, 64> item;
      std::snprintf(item.data(), item.size(), "\\u{%x}-\\u{%x}", unsigned{first}, unsigned{last});
      text += item.data();
    }
    const auto outcome = compile(ConstraintKind::kRegex, "x" + text + "]y");
    if (!outcome.ok()) continue;  // it matches nothing
    for (int probe = 0; probe < 40; ++probe) {
      const char32_t c = code();
      if (!scalar(c)) continue;
      const bool named = std::any_of(ranges.begin(), ranges.end(), [c](const auto& range) {
        return c >= range.first && c <= range.second;
      });
      std::string said = "x";
      text::append_utf8(c, said);
      EXPECT_EQ(accepts(**outcome, said + "y"), named != negated)
          << text << "]: U+" << std::hex << unsigned{c};
    }
  }
}

TEST(PlainRegex, WritesOutWhatXgrammarMisreads) {
  EXPECT_EQ(plain_regex(R"([^a-z][\w\-\]]\d\\S)"), R"([^a-z][\w\-\]]\d\\S)") << "it need not";
  const std::string space = R"([\u0009-\u000d\u0020])", none = R"([^\u0009-\u000d\u0020])";
  EXPECT_EQ(plain_regex(R"(\S+\s[\S]\[\.)"), none + "+" + space + none + R"(\[\.)");
  EXPECT_EQ(plain_regex(R"([^a\s])"), R"([^\u0009-\u000d\u0020\u0061])");
  EXPECT_EQ(plain_regex(R"(.[\s\S])"), R"([^\u0000][^\u0000])");
  const std::string range = R"([\u00c3\u00c3]([\u00a0-\u00bc]|[\u00a0-\u00bc]))";
  EXPECT_EQ(plain_regex("[à-ü]"), "(" + range + "|" + range + ")");
  EXPECT_EQ(plain_regex(R"([\x5e])"), R"((\u005e))") << "not a class that is negated";
  for (const std::string text : {"a\\", "[a", "[^]", "[é\\", R"([é\p{L}])", "[z-é-a\\q]", "[]x]"}) {
    EXPECT_EQ(plain_regex(text), text) << "it is the compiler's to refuse";
  }
}

TEST_F(CompilerTest, AnyObjectRegexAndGrammar) {
  Random random(4);
  const auto object = compile(ConstraintKind::kJson, "");
  ASSERT_TRUE(object.ok()) << object.error().message;
  for (int i = 0; i < 5; ++i) {
    const std::string text = walk(**object, random);
    EXPECT_TRUE(parsed(text).is_object()) << text;
  }
  const auto regex = compile(ConstraintKind::kRegex, "[a-c]{2,4}-(x|yy)[0-9]?");
  ASSERT_TRUE(regex.ok());
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(std::regex_match(walk(**regex, random), std::regex("[a-c]{2,4}-(x|yy)[0-9]?")));
  }
  const auto choice = compile(ConstraintKind::kGrammar, "root ::= \"yes\" | \"n\\u006f\"\n");
  ASSERT_TRUE(choice.ok());
  for (int i = 0; i < 9; ++i) EXPECT_THAT(walk(**choice, random), AnyOf("yes", "no"));
}

TEST_F(CompilerTest, SpecialTokensWriteNothingButTheMarkOfCalls) {
  const auto without = compile(ConstraintKind::kRegex, "\\[CALL\\]");
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(allowed(*(*without)->begin({})), std::vector<TokenId>{'['});
}

TEST_F(CompilerTest, TheMarkIsText) {
  const auto with = compile(ConstraintKind::kRegex, "\\[CALL\\]", "[CALL]");
  ASSERT_TRUE(with.ok());
  EXPECT_EQ(allowed(*(*with)->begin({})), (std::vector<TokenId>{'[', 263}));
}

TEST_F(CompilerTest, OneThatGoesOnBeginsBehindItsOutput) {
  const auto regex = compile(ConstraintKind::kRegex, "abc");
  ASSERT_TRUE(regex.ok());
  EXPECT_EQ(allowed(*(*regex)->begin({'a', 'b'})), std::vector<TokenId>{'c'});
  EXPECT_EQ(allowed(*(*regex)->begin({'a', 'b', 'c'})), end_);
  EXPECT_EQ((*regex)->begin({'b'})->wait(seconds(30)), MaskState::kImpossible);
}

TEST_F(CompilerTest, WhatIsCompiledIsKept) {
  const auto first = compile(ConstraintKind::kRegex, "kept");
  const auto again = compile(ConstraintKind::kRegex, "kept");
  const auto other = compile(ConstraintKind::kGrammar, "root ::= \"kept\"\n");
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(first->get(), again->get());
  EXPECT_NE(first->get(), other->get());
  EXPECT_EQ((*other)->text(), (ConstraintText{ConstraintKind::kGrammar, "root ::= \"kept\"\n"}));
}

TEST_F(CompilerTest, WhatCannotBeUsedIsAnError) {
  EXPECT_THAT(why_not(ConstraintKind::kGrammar, "root ::= ("), ::testing::Not(""));
  EXPECT_THAT(why_not(ConstraintKind::kGrammar, "start ::= \"a\""), HasSubstr("root"));
  EXPECT_THAT(why_not(ConstraintKind::kRegex, "(a"), ::testing::Not(""));
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, R"({"type":"nothing"})"), ::testing::Not(""));
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, R"({"type":"array","uniqueItems":true})"),
              HasSubstr("uniqueItems"));
  // References in a circle, and rules that never end.
  EXPECT_THAT(why_not(ConstraintKind::kJsonSchema, R"({"$ref":"#"})"), HasSubstr("begins"));
  EXPECT_THAT(why_not(ConstraintKind::kGrammar, "root ::= a\na ::= b\nb ::= a\n"),
              HasSubstr("begins"));
}

TEST_F(CompilerTest, HostileGrammarsDoNoHarm) {
  std::string chain, doubling;
  for (int i = 0; i < 2000; ++i) {
    const std::string name = i == 0 ? "root" : "r" + std::to_string(i);
    chain += name + " ::= r" + std::to_string(i + 1) + " \"x\"\n";
    if (i < 40)
      doubling += name + " ::= " + ("r" + std::to_string(i + 1) + " ") +
                  ("r" + std::to_string(i + 1)) + "\n";
  }
  for (const std::string& text : {chain + "r2000 ::= \"y\"\n", doubling + "r40 ::= \"y\" | \"\"\n",
                                  std::string("root ::= s\ns ::= s s | s s s | \"a\" | \"\"\n"),
                                  std::string("root ::= root \"a\" | \"b\"\n")}) {
    const auto outcome = compile(ConstraintKind::kGrammar, text);
    if (!outcome.ok()) continue;
    const auto matcher = (*outcome)->begin({});
    for (int i = 0; i < 20 && matcher->wait(seconds(1)) == MaskState::kReady; ++i) {
      const auto next = allowed(*matcher);
      ASSERT_FALSE(next.empty()) << "a mask that is ready allows something";
      matcher->advance(next.front());
    }
  }
}

TEST_F(CompilerTest, AModelWithoutAnEndHasNoForms) {
  const ModelTokens model{
      .model = ModelId(9), .tokenizer = &tokenizer_, .vocab = vocab_, .end = {}};
  std::string why;
  compiler_.compile(model, {ConstraintKind::kRegex, "a"},
                    [&](const Compiler::Outcome& outcome) { why = outcome.error().message; });
  EXPECT_THAT(why, HasSubstr("no token that would end"));
}

}  // namespace
}  // namespace causeway::grammar::compiler_test
