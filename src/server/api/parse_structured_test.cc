#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/api/generation_request.h"

namespace causeway::server::parse_structured_test {
namespace {

using request::ConstraintKind;
using ::testing::HasSubstr;

MaybeError parse(const std::string& more, GenerationRequest& out,
                 Endpoint endpoint = Endpoint::kCompletions) {
  const std::string begin = endpoint == Endpoint::kChat
                                ? R"({"model":"m","messages":[{"role":"user","content":"x"}])"
                                : R"({"model":"m","prompt":"x")";
  return parse_generation(endpoint, begin + "," + more + "}", {}, out);
}

struct Asked {
  ConstraintKind kind;
  std::string text, field;
};

TEST(ParseStructured, EveryFieldOfAForm) {
  const std::vector<std::pair<std::string, Asked>> all = {
      {R"("response_format":{"type":"json_object"})",
       {ConstraintKind::kJson, "", "response_format"}},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,)"
       R"("schema":{"type":"object","properties":{"b":{},"a":{}}}}})",
       {ConstraintKind::kJsonSchema, R"({"type":"object","properties":{"b":{},"a":{}}})",
        "response_format.json_schema"}},
      {R"("structured_outputs":{"json":{"type":"integer"}})",
       {ConstraintKind::kJsonSchema, R"({"type":"integer"})", "structured_outputs.json"}},
      {R"("structured_outputs":{"json":"{\"type\":\"null\"}"})",
       {ConstraintKind::kJsonSchema, R"({"type":"null"})", "structured_outputs.json"}},
      {R"("structured_outputs":{"regex":"a+","json":null})",
       {ConstraintKind::kRegex, "a+", "structured_outputs.regex"}},
      {R"("structured_outputs":{"grammar":"root ::= \"a\""})",
       {ConstraintKind::kGrammar, R"(root ::= "a")", "structured_outputs.grammar"}},
      {R"("structured_outputs":{"json_object":true})",
       {ConstraintKind::kJson, "", "structured_outputs.json_object"}},
      {R"("structured_outputs":{"choice":["a\"b\\","ü\n"]})",
       {ConstraintKind::kGrammar, "root ::= \"a\\\"b\\\\\" | \"ü\\u000a\"\n",
        "structured_outputs.choice"}},
      {R"("guided_json":{"type":"integer"})",
       {ConstraintKind::kJsonSchema, R"({"type":"integer"})", "guided_json"}},
      {R"("guided_regex":"a")", {ConstraintKind::kRegex, "a", "guided_regex"}},
      {R"("guided_choice":["x"])", {ConstraintKind::kGrammar, "root ::= \"x\"\n", "guided_choice"}},
      {R"("guided_grammar":"root ::= \"a\"")",
       {ConstraintKind::kGrammar, R"(root ::= "a")", "guided_grammar"}}};
  for (const auto& [more, asked] : all) {
    GenerationRequest out;
    const auto error = parse(more, out);
    ASSERT_FALSE(error) << more << ": " << error->message;
    ASSERT_TRUE(out.constraint) << more;
    EXPECT_EQ(out.constraint->kind, asked.kind) << more;
    EXPECT_EQ(out.constraint->text, asked.text) << more;
    EXPECT_EQ(out.constraint_field, asked.field) << more;
  }
  GenerationRequest none;
  ASSERT_FALSE(parse(R"("response_format":{"type":"text"},"guided_json":null)", none));
  EXPECT_FALSE(none.constraint);
}

TEST(ParseStructured, RefusesByName) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"("response_format":"text")", "response_format"},
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":{"type":"structural_tag"})", "response_format.type"},
      {R"("response_format":{"type":"text","x":1})", "response_format.x"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":[]}})",
       "response_format.json_schema.schema"},
      {R"("structured_outputs":{})", "structured_outputs"},
      {R"("structured_outputs":{"json":5})", "structured_outputs.json"},
      {R"("structured_outputs":{"regex":5})", "structured_outputs.regex"},
      {R"("structured_outputs":{"whitespace_pattern":" "})",
       "structured_outputs.whitespace_pattern"},
      {R"("structured_outputs":{"choice":[]})", "structured_outputs.choice"},
      {R"("structured_outputs":{"choice":["a",""]})", "structured_outputs.choice"},
      {R"("structured_outputs":{"choice":["a",5]})", "structured_outputs.choice"},
      {R"("guided_choice":"a")", "guided_choice"},
      {R"("guided_decoding_backend":"outlines")", "guided_decoding_backend"}};
  for (const auto& [more, param] : bad) {
    GenerationRequest out;
    const auto error = parse(more, out);
    ASSERT_TRUE(error) << more;
    EXPECT_EQ(error->param, param) << more;
    EXPECT_EQ(error->status, 400);
  }
}

TEST(ParseStructured, AnAnswerHasOneForm) {
  for (const char* more :
       {R"("structured_outputs":{"regex":"a","choice":["b"]})",
        R"("guided_json":{},"guided_regex":"a")",
        R"("response_format":{"type":"json_object"},"structured_outputs":{"regex":"a"})"}) {
    GenerationRequest out;
    const auto error = parse(more, out);
    ASSERT_TRUE(error) << more;
    EXPECT_THAT(error->message, HasSubstr("one form"));
  }
}

TEST(ParseStructured, WhatWouldContradictTheFormIsRefused) {
  for (const auto& [more, param] : std::vector<std::pair<std::string, std::string>>{
           {R"("ignore_eos":true)", "ignore_eos"},
           {R"("min_tokens":2,"max_tokens":9)", "min_tokens"},
           {R"("allowed_token_ids":[5])", "allowed_token_ids"},
           {R"("bad_words":["x"])", "bad_words"}}) {
    GenerationRequest out;
    const auto error = parse(R"("guided_regex":"a",)" + more, out);
    ASSERT_TRUE(error) << more;
    EXPECT_EQ(error->param, param);
  }
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  GenerationRequest out;
  const auto error =
      parse(R"("response_format":{"type":"json_object"},)" + tools, out, Endpoint::kChat);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->param, "tools");
  GenerationRequest without;
  EXPECT_FALSE(parse(R"("response_format":{"type":"json_object"},"tool_choice":"none",)" + tools,
                     without, Endpoint::kChat));
}

}  // namespace
}  // namespace causeway::server::parse_structured_test
