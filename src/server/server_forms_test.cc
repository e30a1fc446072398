// Answers that must have a form, over the wire: what reaches the engine, and what is refused
// without delaying others.
#include "grammar/compile.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_forms_test {
namespace {

using testing::Answer;
using testing::ServerTest;

class Forms : public ServerTest {
 protected:
  void SetUp() override {
    if (!grammar::available()) GTEST_SKIP() << "this build has no XGrammar";
  }
  static std::string nested(int depth) {
    std::string schema = R"({"type":"integer"})";
    for (int i = 1; i < depth; ++i) schema = R"({"items":)" + schema + "}";
    return schema;
  }
};

TEST_F(Forms, AreCompiledBeforeTheRequestIsSubmitted) {
  start();
  ASSERT_EQ(chat(R"("structured_outputs":{"regex":"ab*"},"n":2)").status, 200);
  const auto& constraint = fleet->last().constraint;
  ASSERT_NE(constraint, nullptr);
  EXPECT_EQ(constraint->text().kind, request::ConstraintKind::kRegex);
  const auto matcher = constraint->begin({'a'});
  ASSERT_EQ(matcher->wait(seconds(20)), request::MaskState::kReady);
  EXPECT_EQ(matcher->mask()['b' / 32], 1u << ('b' % 32));
  ASSERT_EQ(chat().status, 200);
  EXPECT_EQ(fleet->last().constraint, nullptr);
}

TEST_F(Forms, BadOnesNameTheirField) {
  start();
  for (const auto& [more, param] : std::vector<std::pair<std::string, std::string>>{
           {R"("guided_regex":"(a")", "guided_regex"},
           {R"("structured_outputs":{"grammar":"root ::= missing"})", "structured_outputs.grammar"},
           {R"("response_format":{"type":"json_schema","json_schema":{"schema":)" + nested(33) +
                "}}",
            "response_format.json_schema"},
           {R"("guided_json":{"$ref":"#"})", "guided_json"},
           {R"("guided_regex":"((x{1,100}){1,100}){1,100}")", "guided_regex"}}) {
    const Answer answer = chat(more);
    EXPECT_EQ(answer.status, 400) << more;
    EXPECT_EQ(error(answer)["param"], param) << answer.body;
  }
}

TEST_F(Forms, OneThatTakesTooLongIsRefusedAndDelaysNobody) {
  options.limits.compile_time_max = Nanos(0);
  start();
  // A short one may be compiled before anybody looks.
  Answer answer;
  for (int i = 0; i < 50 && answer.status != 400; ++i) {
    answer = chat(R"("guided_regex":"not in no time )" + std::to_string(i) + "\"");
  }
  EXPECT_EQ(answer.status, 400) << answer.body;
  EXPECT_EQ(error(answer)["param"], "guided_regex");
  EXPECT_NE(answer.body.find("to compile"), std::string::npos) << answer.body;
  EXPECT_EQ(chat().status, 200);
}

TEST_F(Forms, AForcedCallHasTheFormOfTheModel) {
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  auto& entry = fleet->add_model("tiny");
  auto chat_template = text::ChatTemplate::compile("{{ tools | tojson }}");
  ASSERT_TRUE(chat_template.ok());
  entry.chat_template.emplace(std::move(chat_template).value());
  entry.tool_calls = text::ToolCallFormat::kHermes;
  ASSERT_TRUE(server->start(*fleet).ok());
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}],)";
  ASSERT_EQ(chat(tools + R"("tool_choice":"required")").status, 200);
  ASSERT_NE(fleet->last().constraint, nullptr);
  EXPECT_EQ(fleet->last().constraint->text().kind, request::ConstraintKind::kStructuralTag);
  const std::string deep = R"("tools":[{"type":"function","function":{"name":"f","parameters":)" +
                           nested(33) + R"(}}],"tool_choice":"required")";
  EXPECT_EQ(error(chat(deep))["param"], "tools[0].function.parameters");
  ASSERT_EQ(chat(tools + R"("tool_choice":"auto")").status, 200);
  EXPECT_EQ(fleet->last().constraint, nullptr);
}

TEST_F(Forms, CallsOfStrictToolsHaveAFormInFreeText) {
  options.limits.compile_time_max = seconds(60);  // sanitizers make compiling slow
  start_with_tools(text::ToolCallFormat::kHermes);
  const std::string begin = R"("tools":[{"type":"function","function":{"name":"f"}},)"
                            R"({"type":"function","function":{"name":"g","strict":true)";
  for (const std::string choice : {"", R"(,"tool_choice":"auto")", R"(,"tool_choice":null)"}) {
    ASSERT_EQ(chat(begin + "}}]" + choice).status, 200);
    ASSERT_NE(fleet->last().constraint, nullptr);
    EXPECT_EQ(fleet->last().constraint->text().kind, request::ConstraintKind::kCallsInText);
  }
  ASSERT_EQ(chat(begin + R"(}}],"tool_choice":"none")").status, 200);
  EXPECT_EQ(fleet->last().constraint, nullptr);
  ASSERT_EQ(chat(begin + R"(}}],"tool_choice":"required")").status, 200);
  EXPECT_EQ(fleet->last().constraint->text().kind, request::ConstraintKind::kStructuralTag);
}

TEST_F(Forms, StrictToolsAreRefusedAsOtherForms) {
  options.limits.compile_time_max = seconds(60);  // sanitizers make compiling slow
  start_with_tools(text::ToolCallFormat::kMistral);
  const auto param = [&](const std::string& schema, const std::string& more = "",
                         bool strict = true) {
    const Answer answer = chat(
        R"("tools":[{"type":"function","function":{"name":"g"}},{"type":"function","function":)"
        R"({"name":"f","strict":)" +
        std::string(strict ? "true" : "false") + R"(,"parameters":)" + schema + "}}]" + more);
    return answer.status == 200 ? "" : error(answer)["param"].get<std::string>();
  };
  const std::string schemas = "tools[1].function.parameters";
  EXPECT_EQ(param(nested(33)), schemas);
  EXPECT_EQ(param(R"({"properties":{"a":{"uniqueItems":true}}})"), schemas);
  EXPECT_EQ(param(R"({"properties":{"a":{"maxLength":20000}}})"), schemas);
  for (const std::string bad :
       {R"({"$ref":"#"})", R"({"properties":{"a":{"type":"string","pattern":"("}}})"}) {
    EXPECT_EQ(param(bad), "tools") << "found by compiling";
  }
  EXPECT_EQ(param(R"({"title":")" + std::string(70'000, 'x') + "\"}"), schemas);
  EXPECT_EQ(param(nested(33), "", /*strict=*/false), "") << "nothing keeps to it";
  const std::string small = R"({"type":"object","properties":{"a":{"type":"integer"}}})";
  EXPECT_EQ(param(small), "") << "not all of OpenAI's demands are met";
  EXPECT_EQ(param(small, R"(,"min_tokens":2)"), "min_tokens");
  EXPECT_EQ(param(small, R"(,"ignore_eos":true)"), "ignore_eos");
  EXPECT_EQ(param(small, R"(,"bad_words":["x"])"), "bad_words");
  EXPECT_EQ(param(small, R"(,"min_tokens":2,"tool_choice":"none")"), "");
}

}  // namespace
}  // namespace causeway::server::server_forms_test
