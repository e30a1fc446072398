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

}  // namespace
}  // namespace causeway::server::server_forms_test
