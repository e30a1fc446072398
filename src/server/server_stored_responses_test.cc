// /v1/responses that are kept: read again, deleted, gone on from.
#include "base/random.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_stored_responses_test {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::Client;
using testing::says;
using testing::Script;
using testing::TimedServerTest;

class StoredResponses : public TimedServerTest {
 protected:
  void SetUp() override {
    options.responses = {.bytes_max = 1 << 20,
                         .lifetime = seconds(100),
                         .random = [next = std::uint64_t{0}]() mutable { return mix64(++next); }};
  }

  Answer ask(const std::string& input, const std::string& more = "") {
    return Client(server->port())
        .post("/v1/responses", R"({"model":"tiny","input":)" + input + more + "}");
  }
  json whole(const std::string& input, const std::string& more = "") {
    const Answer answer = ask(input, more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parsed(answer.body);
  }
  Answer send(const std::string& method, const std::string& id) {
    Client client(server->port());
    client.send(method + " /v1/responses/" + id + " HTTP/1.1\r\nHost: x\r\n\r\n");
    return client.read_answer(method == "HEAD");
  }
  static std::string behind(const json& response) {
    return R"(,"previous_response_id":")" + response["id"].get<std::string>() + "\"";
  }
  void say(const std::string& text) {
    fleet->on_submit = [=](const request::Request&) -> Result<Script> { return says(text); };
  }
};

TEST_F(StoredResponses, AreReadAgainUntilTheyAreDeleted) {
  start();
  say("Hello");
  const json told = whole("\"hi\"", R"(,"metadata":{"k":"v"})");
  EXPECT_EQ(told["store"], true);
  const auto id = told["id"].get<std::string>();
  EXPECT_EQ(id.size(), std::string("resp_").size() + 32);
  const Answer again = send("GET", id);
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(parsed(again.body), told);
  EXPECT_EQ(send("HEAD", id).status, 200);
  EXPECT_EQ(error(send("GET", id + "?stream=true"))["param"], "stream");
  EXPECT_EQ(parsed(send("DELETE", id).body),
            json({{"id", id}, {"object", "response"}, {"deleted", true}}));
  for (const char* method : {"GET", "DELETE"}) {
    const Answer gone = send(method, id);
    EXPECT_EQ(gone.status, 404);
    EXPECT_EQ(error(gone)["code"], "not_found") << gone.body;
  }
}

TEST_F(StoredResponses, AStreamIsKeptAsItsLastEventTellsIt) {
  start();
  say("Hello");
  const Answer answer = ask("\"hi\"", R"(,"stream":true)");
  const std::string last = answer.body.substr(answer.body.rfind("\ndata: ") + 7);
  const json told = parsed(last.substr(0, last.find('\n')))["response"];
  ASSERT_EQ(told["status"], "completed") << answer.body;
  EXPECT_EQ(parsed(send("GET", told["id"].get<std::string>()).body), told);
  whole("\"more\"", behind(told));
  EXPECT_EQ(last_prompt(), "|user:hi\n|assistant:Hello\n|user:more\n|assistant:");
}

TEST_F(StoredResponses, AConversationGoesOn) {
  start();
  say("one");
  const json first = whole("\"a\"", R"(,"instructions":"Be brief.")");
  say("two");
  const json second = whole("\"b\"", behind(first));
  EXPECT_EQ(second["previous_response_id"], first["id"]);
  EXPECT_EQ(last_prompt(), "|user:a\n|assistant:one\n|user:b\n|assistant:")
      << "instructions count for one request";
  whole("\"c\"", behind(second) + R"(,"instructions":"Be long.")");
  EXPECT_EQ(last_prompt(),
            "|system:Be long.\n|user:a\n|assistant:one\n|user:b\n|assistant:two\n|user:c\n"
            "|assistant:");
  whole("\"other\"", behind(first));
  EXPECT_EQ(last_prompt(), "|user:a\n|assistant:one\n|user:other\n|assistant:")
      << "a conversation may part";
}

TEST_F(StoredResponses, CallsAreAnsweredWithoutBeingSentAgain) {
  start_with_tools(text::ToolCallFormat::kHermes);
  say("<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>");
  const std::string tools =
      R"(,"tools":[{"type":"function","name":"weather","parameters":{"type":"object"}}])";
  const json called = whole("\"How is it?\"", tools);
  ASSERT_EQ(called["output"].size(), 1u) << called;
  const auto id = called["output"][0]["call_id"].get<std::string>();
  say("Sunny.");
  whole(R"([{"type":"function_call_output","output":"sunny","call_id":")" + id + "\"}]",
        behind(called));
  const std::string prompt = last_prompt();
  EXPECT_NE(prompt.find("user:How is it?"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find(id), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("Bonn"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("tool:sunny"), std::string::npos) << prompt;
}

TEST_F(StoredResponses, WhatIsNotToBeKeptIsNot) {
  start();
  say("Hello");
  const json told = whole("\"hi\"", R"(,"store":false)");
  EXPECT_EQ(told["store"], false);
  EXPECT_EQ(send("GET", told["id"].get<std::string>()).status, 404);
  const json refused = error(ask("\"more\"", behind(told)));
  EXPECT_EQ(refused["param"], "previous_response_id");
  EXPECT_EQ(refused["code"], "previous_response_not_found");
  // Nor one that failed.
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("x");
    script.reason = request::FinishReason::kError;
    script.error = "step failed";
    return script;
  };
  const Answer failed = ask("\"hi\"", R"(,"stream":true)");
  const std::size_t at = failed.body.find("resp_");
  if (at != std::string::npos) {
    EXPECT_EQ(send("GET", failed.body.substr(at, failed.body.find('"', at) - at)).status, 404);
  }
}

TEST_F(StoredResponses, AreForgottenAfterTheirTime) {
  start_timed();
  say("Hello");
  const json told = whole("\"hi\"");
  manual.advance(seconds(99));
  EXPECT_EQ(send("GET", told["id"].get<std::string>()).status, 200);
  manual.advance(seconds(1));
  EXPECT_EQ(send("GET", told["id"].get<std::string>()).status, 404);
  EXPECT_EQ(error(ask("\"more\"", behind(told)))["code"], "previous_response_not_found");
}

TEST_F(StoredResponses, NeedAKeyWhereThereAreKeys) {
  options.api_keys = {"secret"};
  start();
  EXPECT_EQ(send("GET", "resp_1").status, 401);
  EXPECT_EQ(send("DELETE", "resp_1").status, 401);
}

class NoStoredResponses : public testing::ServerTest {};

TEST_F(NoStoredResponses, SayThatNothingIsKept) {
  start();
  const Answer answer = Client(server->port()).get("/v1/responses/resp_1");
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(error(answer)["code"], "unsupported");
  EXPECT_NE(answer.body.find("not stored"), std::string::npos) << answer.body;
}

}  // namespace
}  // namespace causeway::server::server_stored_responses_test
