// Tools over the wire: what the model is shown, and how its calls come back, whole and streamed.
#include <set>

#include "server/byte_model.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_tools_test {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::says;
using testing::Script;
using testing::ServerTest;

const std::string kTools =
    R"("tools":[{"type":"function","function":{"name":"weather","parameters":{}}}])";
const std::string kCall =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>";

class Tools : public ServerTest {
 protected:
  void say(const std::string& text, request::FinishReason reason = request::FinishReason::kStop) {
    fleet->on_submit = [=](const request::Request&) -> Result<Script> {
      Script script = says(text);
      script.reason = reason;
      return script;
    };
  }
  json choice_of(const std::string& more) {
    const Answer answer = chat(more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parsed(answer.body)["choices"][0];
  }
  // The same from events: {message: {content, tool_calls}, finish_reason}.
  json streamed_choice_of(const std::string& more) {
    const Answer answer = chat(more + R"(,"stream":true)");
    EXPECT_EQ(answer.status, 200) << answer.body;
    json out = {{"content", ""}, {"calls", json::array()}, {"finish_reason", nullptr}};
    for (const std::string& event : answer.events()) {
      const json chunk = parsed(event);
      if (!chunk.is_object()) continue;
      const json& choice = chunk["choices"][0];
      if (!choice["finish_reason"].is_null()) out["finish_reason"] = choice["finish_reason"];
      out["content"] = out["content"].get<std::string>() + choice["delta"].value("content", "");
      for (const json& call : choice["delta"].value("tool_calls", json::array())) {
        const auto index = call["index"].get<std::size_t>();
        if (index == out["calls"].size()) {
          out["calls"].push_back(
              {{"id", call["id"]}, {"name", call["function"]["name"]}, {"arguments", ""}});
          EXPECT_EQ(call["type"], "function");
        } else {
          EXPECT_FALSE(call.contains("id"));
          EXPECT_FALSE(call["function"].contains("name"));
        }
        json& arguments = out["calls"][index]["arguments"];
        arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
        ++pieces;
      }
    }
    return out;
  }
  int pieces = 0;
};

TEST_F(Tools, AreShownToTheModel) {
  start_with_tools(text::ToolCallFormat::kHermes);
  ASSERT_EQ(chat(kTools).status, 200);
  EXPECT_EQ(last_prompt(),
            R"([{"type": "function", "function": {"name": "weather", "parameters": {}}}])"
            "user:hi\n");
  ASSERT_EQ(chat(kTools + R"(,"tool_choice":"none")").status, 200);
  EXPECT_EQ(last_prompt(), "user:hi\n");
  testing::Client client(server->port());
  const Answer answer = client.post(
      "/v1/chat/completions",
      R"({"model":"tiny","messages":[{"role":"assistant","tool_calls":[{"id":"a","type":)"
      R"("function","function":{"name":"f","arguments":"{\"x\":1}"}}]},)"
      R"({"role":"tool","tool_call_id":"a","content":"done"}]})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(last_prompt(),
            R"(assistant:[{"id": "a", "type": "function", "function": {"name": "f", )"
            R"("arguments": {"x": 1}}}])"
            "\ntool:done\n");
}

TEST_F(Tools, ACallIsTakenOutOfTheText) {
  start_with_tools(text::ToolCallFormat::kHermes);
  say(kCall);
  const json choice = choice_of(kTools);
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  const json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("call_"));
  EXPECT_FALSE(call.contains("index"));
  EXPECT_EQ(call["function"]["name"], "weather");
  EXPECT_EQ(call["function"]["arguments"], R"({"city": "Köln"})");
}

TEST_F(Tools, StreamedPiecesMakeTheSame) {
  start_with_tools(text::ToolCallFormat::kHermes);
  say("Let me look.\n" + kCall + "\n" + kCall);
  const json whole = choice_of(kTools);
  const json stream = streamed_choice_of(kTools);
  EXPECT_EQ(whole["message"]["content"], "Let me look.");
  EXPECT_EQ(stream["content"], "Let me look.");
  EXPECT_EQ(stream["finish_reason"], "tool_calls");
  EXPECT_EQ(whole["finish_reason"], "tool_calls");
  ASSERT_EQ(stream["calls"].size(), 2u);
  std::set<std::string> ids;
  for (std::size_t i = 0; i < 2; ++i) {
    const json& call = whole["message"]["tool_calls"][i];
    EXPECT_EQ(stream["calls"][i]["name"], call["function"]["name"]);
    EXPECT_EQ(stream["calls"][i]["arguments"], call["function"]["arguments"]);
    ids.insert(call["id"].get<std::string>());
    ids.insert(stream["calls"][i]["id"].get<std::string>());
  }
  EXPECT_EQ(ids.size(), 4u);
}

TEST_F(Tools, ArgumentsAreStreamedAsTheyCome) {
  start_with_tools(text::ToolCallFormat::kHermes);
  const std::string text = kCall;
  fleet->on_submit = [text](const request::Request&) -> Result<Script> {
    Script script = says(text);
    script.held = true;
    script.hold_at = text.find("Köln");
    return script;
  };
  testing::Client client(server->port());
  client.send(
      testing::post_request("/v1/chat/completions", chat_body(kTools + R"(,"stream":true)")));
  // Its name has come although its text has not ended.
  EXPECT_NE(client.read_until("weather").find("weather"), std::string::npos);
  fleet->release();
}

TEST_F(Tools, WithoutParallelCallsTheFirstCounts) {
  start_with_tools(text::ToolCallFormat::kHermes);
  say(kCall + kCall);
  const std::string more = kTools + R"(,"parallel_tool_calls":false)";
  EXPECT_EQ(choice_of(more)["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(streamed_choice_of(more)["calls"].size(), 1u);
}

TEST_F(Tools, WhatIsNoCallIsContent) {
  start_with_tools(text::ToolCallFormat::kHermes);
  for (const char* text : {"Hello", "<tool_call>{oops}</tool_call>", "<tool_c"}) {
    say(text);
    const json choice = choice_of(kTools), stream = streamed_choice_of(kTools);
    EXPECT_EQ(choice["message"]["content"], text);
    EXPECT_FALSE(choice["message"].contains("tool_calls"));
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_EQ(stream["content"], text);
    EXPECT_EQ(stream["finish_reason"], "stop");
  }
}

TEST_F(Tools, WithoutToolsTextIsText) {
  start_with_tools(text::ToolCallFormat::kHermes);
  say(kCall);
  EXPECT_EQ(choice_of("")["message"]["content"], kCall);
  EXPECT_EQ(choice_of(kTools + R"(,"tool_choice":"none")")["message"]["content"], kCall);
}

TEST_F(Tools, AnAnswerThatIsTooLongEndsByLength) {
  start_with_tools(text::ToolCallFormat::kHermes);
  say(kCall, request::FinishReason::kLength);
  EXPECT_EQ(choice_of(kTools)["finish_reason"], "length");
  EXPECT_EQ(streamed_choice_of(kTools)["finish_reason"], "length");
}

TEST_F(Tools, SeveralChoicesAndLogprobs) {
  start_with_tools(text::ToolCallFormat::kHermes);
  say(kCall);
  const json body = parsed(chat(kTools + R"(,"n":2,"logprobs":true)").body);
  const json& first = body["choices"][0];
  const json& second = body["choices"][1];
  EXPECT_NE(first["message"]["tool_calls"][0]["id"], second["message"]["tool_calls"][0]["id"]);
  EXPECT_EQ(first["logprobs"]["content"].size(), kCall.size());
}

TEST_F(Tools, MistralsIdsAreNineLetters) {
  start_with_tools(text::ToolCallFormat::kMistral);
  say(R"([TOOL_CALLS] [{"name": "f", "arguments": {}}])");
  const json call = choice_of(kTools)["message"]["tool_calls"][0];
  EXPECT_EQ(call["id"].get<std::string>().size(), 9u);
  EXPECT_EQ(call["function"]["name"], "f");
}

TEST_F(Tools, MistralsNewerCallsFollowOneAnother) {
  start_with_tools(text::ToolCallFormat::kMistralArgs);
  say(R"(So: [TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{})");
  const json whole = choice_of(kTools), stream = streamed_choice_of(kTools);
  ASSERT_EQ(whole["message"]["tool_calls"].size(), 2u);
  EXPECT_EQ(whole["message"]["content"], "So:");
  EXPECT_EQ(whole["message"]["tool_calls"][0]["function"],
            (json{{"name", "f"}, {"arguments", R"({"a": 1})"}}));
  EXPECT_EQ(whole["message"]["tool_calls"][1]["function"]["name"], "g");
  EXPECT_EQ(whole["message"]["tool_calls"][1]["id"].get<std::string>().size(), 9u);
  ASSERT_EQ(stream["calls"].size(), 2u);
  EXPECT_EQ(stream["calls"][0]["arguments"], R"({"a": 1})");
  EXPECT_EQ(stream["calls"][1]["name"], "g");
  const Answer blank = chat(R"("tools":[{"type":"function","function":{"name":"a b"}}])");
  EXPECT_EQ(error(blank)["param"], "tools") << "such a name cannot be read back";
}

TEST_F(Tools, LlamaCallsAreTheWholeText) {
  start_with_tools(text::ToolCallFormat::kLlama3Json);
  say(R"({"name": "f", "parameters": {"a": 1}})");
  const json whole = choice_of(kTools), stream = streamed_choice_of(kTools);
  EXPECT_EQ(whole["message"]["tool_calls"][0]["function"]["arguments"], R"({"a": 1})");
  EXPECT_EQ(stream["calls"][0]["arguments"], R"({"a": 1})");
}

TEST_F(Tools, ModelsThatCannotTakeThemSaySo) {
  start_with_tools(text::ToolCallFormat::kNone);
  const Answer refused = chat(kTools);
  EXPECT_EQ(error(refused)["param"], "tools");
  EXPECT_NE(refused.body.find("tell the server, when it starts"), std::string::npos)
      << refused.body;
  EXPECT_EQ(chat(kTools + R"(,"tool_choice":"none")").status, 200);
  server->stop();
  fleet.reset();
  start();  // a template that reads no tools
  EXPECT_EQ(error(chat(kTools))["param"], "tools");
}

}  // namespace
}  // namespace causeway::server::server_tools_test
