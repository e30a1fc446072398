// /v1/responses over the wire: whole answers, the events of streams, and how they end.
#include <vector>

#include "grammar/calls_in_text.h"
#include "grammar/compile.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_responses_test {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::Client;
using testing::post_request;
using testing::says;
using testing::Script;
using testing::ServerTest;

const std::string kTools = R"("tools":[{"type":"function","name":"weather","parameters":{}}])";
const std::string kCall =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Köln\"}}\n</tool_call>";

std::string response_body(const std::string& more = "") {
  return R"({"model":"tiny","input":"hi")" + (more.empty() ? "" : "," + more) + "}";
}

// The events of a stream. Each has its own name, and a number more than the one before it.
std::vector<json> events_of(const std::string& body) {
  std::vector<json> all;
  constexpr std::string_view kName = "event: ", kData = "\ndata: ";
  for (std::size_t at = body.find(kName); at != std::string::npos; at = body.find(kName, at)) {
    const std::size_t data = body.find(kData, at), end = body.find("\n\n", at);
    if (data == std::string::npos || end == std::string::npos || data > end) break;
    const std::string name = body.substr(at + kName.size(), data - at - kName.size());
    const std::size_t begin = data + kData.size();
    all.push_back(json::parse(body.substr(begin, end - begin), nullptr, false));
    EXPECT_EQ(all.back()["type"], name);
    EXPECT_EQ(all.back()["sequence_number"], all.size() - 1);
    at = end;
  }
  return all;
}

// Their types; deltas of one item count once.
std::vector<std::string> types_of(const std::vector<json>& events) {
  std::vector<std::string> types;
  for (const json& event : events) {
    const std::string type = event["type"].get<std::string>();
    const bool again = !types.empty() && type.ends_with(".delta") && types.back() == type;
    if (!again) types.push_back(type);
  }
  return types;
}

// Without what is another in every answer.
json without_names(json response) {
  for (const char* name : {"id", "created_at", "completed_at"}) response.erase(name);
  for (json& item : response["output"]) {
    item.erase("id");
    if (item.contains("call_id")) item["call_id"] = item["call_id"].get<std::string>().size();
  }
  return response;
}

class Responses : public ServerTest {
 protected:
  Answer ask(const std::string& more = "") {
    return Client(server->port()).post("/v1/responses", response_body(more));
  }
  json whole(const std::string& more = "") {
    const Answer answer = ask(more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parsed(answer.body);
  }
  std::vector<json> streamed(const std::string& more = "") {
    const Answer answer = ask((more.empty() ? "" : more + ",") + R"("stream":true)");
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.headers.at("content-type").starts_with("text/event-stream"));
    EXPECT_EQ(answer.body.find("[DONE]"), std::string::npos);
    return events_of(answer.body);
  }
  void say(const std::string& text, request::FinishReason reason = request::FinishReason::kStop,
           std::size_t tokens_per_output = 1) {
    fleet->on_submit = [=](const request::Request&) -> Result<Script> {
      Script script = says(text);
      script.reason = reason;
      script.tokens_per_output = tokens_per_output;
      script.cached = 16;
      return script;
    };
  }
  // Ends by an error, behind `told` once it is released.
  void fail_behind(const std::string& told) {
    fleet->on_submit = [=](const request::Request&) -> Result<Script> {
      // With its last token a script ends, so that one more is to come.
      Script script = says(told.empty() ? told : told + "!");
      script.reason = request::FinishReason::kError;
      script.error = "step failed";
      script.held = true;
      script.hold_at = told.size();
      return script;
    };
  }
};

TEST_F(Responses, AnswerWhole) {
  start();
  say("Hello");
  const json body = whole(R"("metadata":{"k":"v"},"temperature":0.5)");
  EXPECT_EQ(last_prompt(), "|user:hi\n|assistant:");
  EXPECT_EQ(body["object"], "response");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("resp_"));
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["status"], "completed");
  EXPECT_GT(body["created_at"].get<std::int64_t>(), 1'600'000'000);
  EXPECT_GE(body["completed_at"], body["created_at"]);
  EXPECT_TRUE(body["error"].is_null());
  EXPECT_TRUE(body["incomplete_details"].is_null());
  EXPECT_EQ(body["metadata"], json({{"k", "v"}}));
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_EQ(body["top_p"], 1);
  EXPECT_EQ(body["store"], false);
  ASSERT_EQ(body["output"].size(), 1u);
  const json& item = body["output"][0];
  EXPECT_EQ(item["type"], "message");
  EXPECT_EQ(item["role"], "assistant");
  EXPECT_EQ(item["status"], "completed");
  EXPECT_EQ(item["content"], json::array({{{"type", "output_text"},
                                           {"text", "Hello"},
                                           {"annotations", json::array()},
                                           {"logprobs", json::array()}}}));
  const json usage = {{"input_tokens", 20},
                      {"input_tokens_details", {{"cached_tokens", 16}, {"cache_write_tokens", 0}}},
                      {"output_tokens", 5},
                      {"output_tokens_details", {{"reasoning_tokens", 0}}},
                      {"total_tokens", 25}};
  EXPECT_EQ(body["usage"], usage);
}

TEST_F(Responses, StreamTheSameAsEvents) {
  start();
  say("Hello, wörld");
  const std::vector<json> events = streamed();
  EXPECT_EQ(
      types_of(events),
      (std::vector<std::string>{
          "response.created", "response.in_progress", "response.output_item.added",
          "response.content_part.added", "response.output_text.delta", "response.output_text.done",
          "response.content_part.done", "response.output_item.done", "response.completed"}));
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], json::array());
  EXPECT_TRUE(events[0]["response"]["usage"].is_null());
  EXPECT_EQ(events[2]["item"]["content"], json::array());
  EXPECT_EQ(events[2]["item"]["status"], "in_progress");
  std::string text;
  for (const json& event : events) {
    if (event["type"] == "response.output_text.delta") text += event["delta"].get<std::string>();
    if (!event.contains("item_id")) continue;
    EXPECT_EQ(event["item_id"], events[2]["item"]["id"]);
    EXPECT_EQ(event["output_index"], 0);
  }
  EXPECT_EQ(text, "Hello, wörld");
  const json& last = events.back()["response"];
  EXPECT_EQ(last["id"], events[0]["response"]["id"]);
  EXPECT_EQ(last["output"][0], events[events.size() - 2]["item"]);
  EXPECT_EQ(without_names(last), without_names(whole()));
}

TEST_F(Responses, AnEmptyAnswerIsAnEmptyMessage) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script;
    script.tokens = {256};
    return script;
  };
  const json body = whole();
  ASSERT_EQ(body["output"].size(), 1u);
  EXPECT_EQ(body["output"][0]["content"][0]["text"], "");
  EXPECT_EQ(without_names(streamed().back()["response"]), without_names(body));
}

TEST_F(Responses, InstructionsAndItemsReachTheModel) {
  start_with_tools(text::ToolCallFormat::kHermes);
  const Answer answer =
      Client(server->port())
          .post("/v1/responses",
                R"({"model":"tiny","instructions":"Be brief.",)"
                R"("input":[{"role":"user","content":"hi"},)"
                R"({"type":"function_call","call_id":"a","name":"f","arguments":"{\"x\":1}"},)"
                R"({"type":"function_call_output","call_id":"a","output":"done"}],)" +
                    kTools + "}");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(last_prompt(),
            R"([{"type": "function", "function": {"name": "weather", "parameters": {}}}])"
            "system:Be brief.\nuser:hi\n"
            R"(assistant:[{"id": "a", "type": "function", "function": {"name": "f", )"
            R"("arguments": {"x": 1}}}])"
            "\ntool:done\n");
}

TEST_F(Responses, CallsAreItemsInTheOrderOfTheText) {
  start_with_tools(text::ToolCallFormat::kHermes);
  for (const std::size_t tokens : {1, 7, 1000}) {
    say("Let me look.\n" + kCall + "\nAnd again:" + kCall, request::FinishReason::kStop, tokens);
    const json body = whole(kTools);
    ASSERT_EQ(body["output"].size(), 4u) << body;
    EXPECT_EQ(body["output"][0]["content"][0]["text"], "Let me look.");
    EXPECT_EQ(body["output"][2]["content"][0]["text"], "And again:");
    EXPECT_NE(body["output"][1]["call_id"], body["output"][3]["call_id"]);
    for (const int at : {1, 3}) {
      const json& call = body["output"][at];
      EXPECT_EQ(call["type"], "function_call");
      EXPECT_EQ(call["name"], "weather");
      EXPECT_EQ(call["arguments"], R"({"city": "Köln"})");
      EXPECT_EQ(call["status"], "completed");
      EXPECT_TRUE(call["call_id"].get<std::string>().starts_with("call_"));
    }
    const std::vector<json> events = streamed(kTools);
    EXPECT_EQ(without_names(events.back()["response"]), without_names(body));
    std::vector<std::string> items(4);
    for (const json& event : events) {
      const auto at = event.value("output_index", 0u);
      if (event.contains("delta")) items[at] += event["delta"].get<std::string>();
      if (event["type"] == "response.function_call_arguments.done") {
        EXPECT_EQ(event["arguments"], items[at]);
      }
      if (event["type"] == "response.output_item.done") {
        EXPECT_EQ(event["item"], events.back()["response"]["output"][at]);
      }
    }
    EXPECT_EQ(items, (std::vector<std::string>{"Let me look.", R"({"city": "Köln"})",
                                               "And again:", R"({"city": "Köln"})"}));
  }
}

TEST_F(Responses, ACallAloneHasNoMessage) {
  start_with_tools(text::ToolCallFormat::kHermes);
  say(kCall + kCall);
  EXPECT_EQ(types_of(streamed(kTools + R"(,"parallel_tool_calls":false)")),
            (std::vector<std::string>{
                "response.created", "response.in_progress", "response.output_item.added",
                "response.function_call_arguments.delta", "response.function_call_arguments.done",
                "response.output_item.done", "response.completed"}));
  EXPECT_EQ(whole(kTools)["output"].size(), 2u);
  EXPECT_EQ(whole(kTools + R"(,"tool_choice":"none")")["output"][0]["type"], "message");
}

TEST_F(Responses, WhatIsTooLongIsIncomplete) {
  start();
  say("Hel", request::FinishReason::kLength);
  const json body = whole(R"("max_output_tokens":3)");
  EXPECT_EQ(fleet->last().max_tokens, Tokens(3));
  EXPECT_EQ(body["status"], "incomplete");
  EXPECT_EQ(body["incomplete_details"], json({{"reason", "max_output_tokens"}}));
  EXPECT_EQ(body["output"][0]["status"], "incomplete");
  EXPECT_EQ(body["output"][0]["content"][0]["text"], "Hel");
  EXPECT_TRUE(body["completed_at"].is_null());
  EXPECT_EQ(body["max_output_tokens"], 3);
  const std::vector<json> events = streamed(R"("max_output_tokens":3)");
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  EXPECT_EQ(without_names(events.back()["response"]), without_names(body));
}

TEST_F(Responses, LogprobsAreOfTheText) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("hé END");
    script.top = {{'a', -0.25f}, {'b', -2.0f}};
    return script;
  };
  const std::string more =
      R"("stop":"END","top_logprobs":2,"include":["message.output_text.logprobs"])";
  const json body = whole(more);
  const json& part = body["output"][0]["content"][0];
  EXPECT_EQ(part["text"], "hé ");
  // Those of the stop string, too, as in a chat: they were generated and counted.
  ASSERT_EQ(part["logprobs"].size(), 7u);
  const json best =
      json::array({{{"token", "a"}, {"logprob", -0.25}, {"bytes", json::array({97})}},
                   {{"token", "b"}, {"logprob", -2.0}, {"bytes", json::array({98})}}});
  EXPECT_EQ(part["logprobs"][0], json({{"token", "h"},
                                       {"logprob", -0.5},
                                       {"bytes", json::array({104})},
                                       {"top_logprobs", best}}));
  const std::vector<json> events = streamed(more);
  json told = json::array();
  for (const json& event : events) {
    if (event["type"] != "response.output_text.delta") continue;
    for (const json& token : event["logprobs"]) told.push_back(token);
  }
  EXPECT_LE(told.size(), 7u);
  EXPECT_GE(told.size(), 4u);
  EXPECT_TRUE(std::equal(told.begin(), told.end(), part["logprobs"].begin()));
  EXPECT_EQ(without_names(events.back()["response"]), without_names(body));
}

TEST_F(Responses, FailuresBeforeTheFirstTokenHaveTheirStatus) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    return exhausted("the queue is full");
  };
  for (const std::string more : {"", R"("stream":true)"}) {
    const Answer full = ask(more);
    EXPECT_EQ(full.status, 429);
    EXPECT_EQ(error(full)["code"], "queue_full");
  }
  const Answer stored = ask(R"("previous_response_id":"resp_1")");
  EXPECT_EQ(stored.status, 400);
  EXPECT_EQ(error(stored)["param"], "previous_response_id");
  EXPECT_NE(stored.body.find("stores nothing"), std::string::npos) << stored.body;
  const Answer model =
      Client(server->port()).post("/v1/responses", R"({"model":"other","input":"x"})");
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(error(model)["code"], "model_not_found");
  const Answer long_input =
      Client(server->port())
          .post("/v1/responses", R"({"model":"tiny","input":")" + std::string(2000, 'a') + "\"}");
  EXPECT_EQ(error(long_input)["code"], "context_length_exceeded");
  EXPECT_EQ(error(long_input)["param"], "input");
  EXPECT_EQ(Client(server->port()).get("/v1/responses/resp_1").status, 404);
}

TEST_F(Responses, FailuresWithinAStreamAreItsLastEvent) {
  start();
  fail_behind("half");
  Client client(server->port());
  client.send(post_request("/v1/responses", response_body(R"("stream":true)")));
  std::string body = client.read_until("\"delta\":");
  fleet->release();
  body += client.read_until("\r\n0\r\n\r\n");
  const std::vector<json> events = events_of(body);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.back()["type"], "response.failed");
  const json& failed = events.back()["response"];
  EXPECT_EQ(failed["status"], "failed");
  EXPECT_EQ(failed["error"], json({{"code", "server_error"}, {"message", "step failed"}}));
  EXPECT_EQ(failed["output"][0]["status"], "incomplete");
  EXPECT_EQ(failed["id"], events[0]["response"]["id"]);
}

TEST_F(Responses, AStreamThatWasKeptAliveBeginsBeforeItFails) {
  options.limits.keep_alive_period = Nanos(10'000'000);
  start();
  fail_behind("");
  Client client(server->port());
  client.send(post_request("/v1/responses", response_body(R"("stream":true)")));
  std::string body = client.read_until(": keep-alive");
  fleet->release();
  body += client.read_until("\r\n0\r\n\r\n");
  EXPECT_EQ(
      types_of(events_of(body)),
      (std::vector<std::string>{"response.created", "response.in_progress", "response.failed"}));
}

TEST_F(Responses, WhoLeavesCancels) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("ab");
    script.endless = true;
    return script;
  };
  Client client(server->port());
  client.send(post_request("/v1/responses", response_body(R"("stream":true)")));
  client.read_until("\"delta\":");
  client.close();
  EXPECT_TRUE(fleet->wait_for_cancelled(1));
}

TEST_F(Responses, AFormIsCompiled) {
  if (!grammar::available()) GTEST_SKIP() << "this build has no XGrammar";
  start();
  ASSERT_EQ(ask(R"("text":{"format":{"type":"json_schema","name":"s","strict":true,)"
                R"("schema":{"type":"integer"}}})")
                .status,
            200);
  ASSERT_NE(fleet->last().constraint, nullptr);
  EXPECT_EQ(fleet->last().constraint->text().kind, request::ConstraintKind::kJsonSchema);
  const Answer bad = ask(R"("text":{"format":{"type":"json_schema","schema":{"$ref":"#"}}})");
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(error(bad)["param"], "text.format.schema");
}

TEST_F(Responses, AForcedCallNamesItsTools) {
  if (!grammar::available()) GTEST_SKIP() << "this build has no XGrammar";
  start_with_tools(text::ToolCallFormat::kHermes);
  ASSERT_EQ(ask(kTools + R"(,"tool_choice":{"type":"function","name":"weather"})").status, 200);
  ASSERT_NE(fleet->last().constraint, nullptr);
  std::string deep = R"({"type":"integer"})";
  for (int i = 1; i < 33; ++i) deep = R"({"items":)" + deep + "}";
  const Answer refused = ask(R"("tools":[{"type":"function","name":"f","parameters":)" + deep +
                             R"(}],"tool_choice":"required")");
  EXPECT_EQ(error(refused)["param"], "tools[0].parameters");
}

TEST_F(Responses, StrictToolsHaveAForm) {
  if (!grammar::available()) GTEST_SKIP() << "this build has no XGrammar";
  start_with_tools(text::ToolCallFormat::kHermes);
  const std::string tool = R"("tools":[{"type":"function","name":"f","strict":true,"parameters":)";
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"}}}}])";
  ASSERT_EQ(ask(tool + schema + R"(,"parallel_tool_calls":false)").status, 200);
  ASSERT_NE(fleet->last().constraint, nullptr);
  const auto calls = grammar::parse_calls_in_text(fleet->last().constraint->text().text);
  ASSERT_TRUE(calls.ok()) << calls.error().message;
  EXPECT_TRUE(calls->once);
  EXPECT_NE(calls->call.find(R"("a":{"type":"integer"})"), std::string::npos);
  EXPECT_EQ(last_prompt().find("strict"), std::string::npos) << "the model is not shown it";
  EXPECT_EQ(error(ask(tool + R"({"uniqueItems":true}}])"))["param"], "tools[0].parameters");
}

}  // namespace
}  // namespace causeway::server::server_responses_test
