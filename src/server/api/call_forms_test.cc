// What the forms of calls let a model write is what the parser of its format reads.
#include "server/api/call_forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "grammar/compile.h"
#include "grammar/compiler.h"
#include "server/byte_model.h"
#include "text/detokenizer.h"
#include "text/tool_calls/tool_call_parser.h"

namespace causeway::server::call_forms_test {
namespace {

using Json = nlohmann::ordered_json;
using text::ToolCallFormat;

const char* const kTools = R"([
  {"type":"function","function":{"name":"on\"e","parameters":{"type":"object",
    "properties":{"n":{"type":"integer"}},"required":["n"]}}},
  {"type":"function","function":{"name":"two"}}])";

class ForcedCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!grammar::available()) GTEST_SKIP() << "this build has no XGrammar";
  }

  // What a model writes, where it may: at random, or a blank wherever one is allowed.
  enum class Taste { kAnything, kBlanks };

  // The calls of such a model, as {name, arguments}.
  std::vector<std::pair<std::string, Json>> calls(ToolCallFormat format, const std::string& name,
                                                  bool one, Random& random,
                                                  Taste taste = Taste::kAnything) {
    const auto entry = byte_model_entry(ModelId(static_cast<int>(format)), "m", Tokens(512));
    std::promise<grammar::Compiler::Outcome> done;
    compiler_.compile({.model = entry->id,
                       .tokenizer = entry->tokenizer.get(),
                       .vocab = entry->vocab,
                       .end = entry->eos,
                       .marks = text::tool_call_marks(format)},
                      forced_calls(format, Json::parse(kTools), name, one),
                      [&](const grammar::Compiler::Outcome& outcome) { done.set_value(outcome); });
    const auto outcome = done.get_future().get();
    EXPECT_TRUE(outcome.ok()) << outcome.error().message;
    text::ToolCallParser parser({.format = format});
    text_ = walk(**outcome, *entry, random, taste);
    parser.push(text_);
    parser.finish();
    EXPECT_EQ(parser.take_content(), "");
    std::vector<std::pair<std::string, Json>> out;
    for (const text::ToolCallDelta& call : parser.take_calls()) {
      out.emplace_back(call.name, Json::parse(call.arguments, nullptr, false));
    }
    return out;
  }

  static std::string walk(const request::Constraint& constraint, const fleet::CatalogueEntry& entry,
                          Random& random, Taste taste) {
    const auto matcher = constraint.begin({});
    text::Detokenizer detokenizer(*entry.tokenizer);
    std::string text;
    for (int i = 0; i < 4000; ++i) {
      EXPECT_EQ(matcher->wait(seconds(30)), request::MaskState::kReady);
      std::vector<TokenId> tokens;
      for (TokenId id = 0; id < entry.vocab; ++id) {
        const std::uint32_t word = matcher->mask()[static_cast<std::size_t>(id / 32)];
        if (((word >> (id % 32)) & 1) != 0) tokens.push_back(id);
      }
      if (tokens.empty()) break;
      if (tokens.back() == kByteModelEos && random.chance(0.5)) return text;
      auto at = static_cast<std::size_t>(random.below(std::ssize(tokens)));
      const auto blank = std::find(tokens.begin(), tokens.end(), TokenId{' '});
      if (taste == Taste::kBlanks && blank != tokens.end()) {
        at = static_cast<std::size_t>(blank - tokens.begin());
      }
      if (tokens[at] == kByteModelEos) return text;
      text += detokenizer.push(tokens[at], false);
      matcher->advance(tokens[at]);
    }
    ADD_FAILURE() << "no end: " << text;
    return text;
  }

  std::string text_;  // what the model wrote last
  const RealClock clock_;
  grammar::Compiler compiler_{grammar::CompilerOptions(), clock_};
};

TEST_F(ForcedCalls, AreReadBackInEveryFormat) {
  Random random(8);
  for (const auto format : {ToolCallFormat::kHermes, ToolCallFormat::kLlama3Json,
                            ToolCallFormat::kMistral, ToolCallFormat::kMistralArgs}) {
    std::size_t most = 0;
    for (int i = 0; i < 12; ++i) {
      const auto made = calls(format, "", false, random);
      ASSERT_GE(made.size(), 1u);
      most = std::max(most, made.size());
      for (const auto& [name, arguments] : made) {
        ASSERT_TRUE(arguments.is_object());
        if (name == "two") continue;
        EXPECT_EQ(name, "on\"e");
        EXPECT_TRUE(arguments["n"].is_number()) << arguments.dump();
      }
    }
    EXPECT_GT(most, 1u) << "several calls are allowed";
  }
}

TEST_F(ForcedCalls, AModelThatLikesBlanksComesToAnEnd) {
  Random random(10);
  for (const auto format : {ToolCallFormat::kHermes, ToolCallFormat::kLlama3Json,
                            ToolCallFormat::kMistral, ToolCallFormat::kMistralArgs}) {
    const auto made = calls(format, "on\"e", false, random, Taste::kBlanks);
    ASSERT_EQ(made.size(), 1u);
    EXPECT_TRUE(made[0].second["n"].is_number()) << text_;
    EXPECT_NE(text_.find(std::string(32, ' ')), std::string::npos) << text_;
    EXPECT_EQ(text_.find(std::string(33, ' ')), std::string::npos) << text_;
  }
}

TEST_F(ForcedCalls, ANamedToolIsCalledOnce) {
  Random random(9);
  for (int i = 0; i < 5; ++i) {
    const auto made = calls(ToolCallFormat::kHermes, "two", false, random);
    ASSERT_EQ(made.size(), 1u);
    EXPECT_EQ(made[0].first, "two");
    EXPECT_EQ(made[0].second, Json::object()) << "it has no parameters";
  }
  EXPECT_EQ(calls(ToolCallFormat::kMistral, "", true, random).size(), 1u);
  EXPECT_EQ(calls(ToolCallFormat::kMistralArgs, "", true, random).size(), 1u);
}

}  // namespace
}  // namespace causeway::server::call_forms_test
