#include "server/server.h"

#include <gmock/gmock.h>

#include "server/byte_model.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_test {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::Client;
using testing::says;
using testing::Script;
using testing::ServerTest;

// The text of all events' deltas (chat) or texts (completions) of choice `index`.
std::string streamed_text(const Answer& answer, int index = 0) {
  std::string out;
  for (const std::string& event : answer.events()) {
    const json chunk = json::parse(event, nullptr, false);
    if (!chunk.is_object() || !chunk.contains("choices")) continue;
    for (const json& choice : chunk["choices"]) {
      if (choice["index"] != index) continue;
      out += choice.contains("delta") ? choice["delta"].value("content", "")
                                      : choice.value("text", "");
    }
  }
  return out;
}

TEST_F(ServerTest, AnswersAChatWhole) {
  start();
  const Answer answer = chat();
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json body = json::parse(answer.body);
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_GT(body["created"].get<std::int64_t>(), 1'600'000'000);
  ASSERT_EQ(body["choices"].size(), 1u);
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "Hello");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["logprobs"].is_null());
  // <|role|>user:hi\n<|role|>assistant:
  EXPECT_EQ(body["usage"]["prompt_tokens"], 20);
  EXPECT_EQ(body["usage"]["completion_tokens"], 5);
  EXPECT_EQ(body["usage"]["total_tokens"], 25);
}

TEST_F(ServerTest, StreamsAChatAsTheConventionsSay) {
  start();
  const Answer answer = chat(R"("stream":true,"stream_options":{"include_usage":true})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("x-accel-buffering"), "no");
  EXPECT_TRUE(answer.headers.at("content-type").starts_with("text/event-stream"));
  const auto events = answer.events();
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.back(), "[DONE]");
  const json first = json::parse(events.front());
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"]["role"], "assistant");
  EXPECT_TRUE(first["choices"][0]["finish_reason"].is_null());
  EXPECT_TRUE(first["usage"].is_null());
  const json usage = json::parse(events[events.size() - 2]);
  EXPECT_EQ(usage["choices"], json::array());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 5);
  const json last = json::parse(events[events.size() - 3]);
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(last["id"], first["id"]);
  EXPECT_EQ(streamed_text(answer), "Hello");
  EXPECT_EQ(answer.body.find("\"role\"", answer.body.find("\"role\"") + 1), std::string::npos);
}

TEST_F(ServerTest, StreamsWithoutUsageUnlessAsked) {
  start();
  const Answer answer = chat(R"("stream":true)");
  EXPECT_EQ(answer.body.find("usage"), std::string::npos);
}

TEST_F(ServerTest, UsageMayBeToldWithEveryEvent) {
  start();
  const std::string asked =
      R"("stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})";
  for (const bool is_chat : {true, false}) {
    const Answer answer = is_chat ? chat(asked) : completion(R"("prompt":"ab",)" + asked);
    std::vector<std::int64_t> generated;
    std::int64_t prompt = -1;
    for (const std::string& event : answer.events()) {
      const json chunk = parsed(event);
      if (!chunk.is_object()) continue;
      prompt = chunk["usage"]["prompt_tokens"].get<std::int64_t>();
      EXPECT_EQ(prompt, std::ssize(fleet->last().prompt));
      generated.push_back(chunk["usage"]["completion_tokens"].get<std::int64_t>());
    }
    // One event at least, however many tokens it has, and the last one.
    ASSERT_GE(generated.size(), 2u);
    EXPECT_TRUE(std::is_sorted(generated.begin(), generated.end()));
    if (is_chat) {
      EXPECT_EQ(generated.front(), 0) << "beside the role";
    }
    EXPECT_GE(generated[is_chat ? 1 : 0], 1);
    EXPECT_EQ(generated.back(), 5);
  }
  const std::string alone = R"("stream":true,"stream_options":{"continuous_usage_stats":true})";
  EXPECT_EQ(chat(alone).body.find("usage"), std::string::npos);
}

TEST_F(ServerTest, KeepsTheConnectionAfterWholeAnswersAndStreams) {
  start();
  Client client(server->port());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.post("/v1/chat/completions", chat_body(R"("stream":true)")).status, 200);
    EXPECT_EQ(client.post("/v1/chat/completions", chat_body()).status, 200);
    EXPECT_EQ(client.get("/health").status, 200);
  }
}

TEST_F(ServerTest, RendersTheTemplateAndPassesSampling) {
  start();
  const Answer answer =
      chat(R"("temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"presence_penalty":1,)"
           R"("frequency_penalty":-1,"repetition_penalty":1.5,"seed":42,"max_completion_tokens":9,)"
           R"("stop_token_ids":[65],"priority":3)",
           "x-slo-ttft-ms: 250\r\nX-SLO-TPOT-MS: 12.5\r\n");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const request::Request seen = fleet->last();
  std::string prompt;
  for (const TokenId id : seen.prompt) prompt += id < 256 ? static_cast<char>(id) : '|';
  EXPECT_EQ(prompt, "|user:hi\n|assistant:");
  EXPECT_EQ(seen.sampling.temperature, 0.5f);
  EXPECT_EQ(seen.sampling.top_p, 0.9f);
  EXPECT_EQ(seen.sampling.top_k, 7);
  EXPECT_EQ(seen.sampling.min_p, 0.1f);
  EXPECT_EQ(seen.sampling.presence_penalty, 1.0f);
  EXPECT_EQ(seen.sampling.frequency_penalty, -1.0f);
  EXPECT_EQ(seen.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(seen.sampling.seed, 42u);
  EXPECT_EQ(seen.sampling.top_logprobs, -1);
  EXPECT_EQ(seen.max_tokens, Tokens(9));
  EXPECT_THAT(seen.stop_tokens, ::testing::ElementsAre(kByteModelEos, 65));
  EXPECT_EQ(seen.slo.ttft, millis(250));
  EXPECT_EQ(seen.slo.tpot, micros(12'500));
  EXPECT_EQ(seen.priority, -3);
}

TEST_F(ServerTest, JoinsContentParts) {
  start();
  Client client(server->port());
  const Answer answer = client.post(
      "/v1/chat/completions",
      R"({"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"a"},)"
      R"({"type":"text","text":"b"}]}]})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  std::string prompt;
  for (const TokenId id : fleet->last().prompt) prompt += id < 256 ? static_cast<char>(id) : '|';
  EXPECT_EQ(prompt, "|user:a\nb\n|assistant:");
}

TEST_F(ServerTest, ModelDefaultsApplyUnlessTheRequestSays) {
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  auto& entry = fleet->add_model("tiny");
  entry.defaults.temperature = 0.25f;
  entry.defaults.top_k = 50;
  ASSERT_TRUE(server->start(*fleet).ok());
  chat(R"("top_k":-1)");
  EXPECT_EQ(fleet->last().sampling.temperature, 0.25f);
  EXPECT_EQ(fleet->last().sampling.top_k, 0);
  // The rest of the context.
  EXPECT_EQ(fleet->last().max_tokens, Tokens(980));
}

TEST_F(ServerTest, SeveralChoicesAreRequestsWithSeedsOfTheirOwn) {
  start();
  fleet->on_submit = [](const request::Request& request) -> Result<Script> {
    return says("seed " + std::to_string(request.sampling.seed));
  };
  const json body = json::parse(chat(R"("n":3,"seed":7)").body);
  ASSERT_EQ(body["choices"].size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["message"]["content"], "seed " + std::to_string(7 + i));
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], 20);
  EXPECT_EQ(body["usage"]["completion_tokens"], 18);
  const Answer stream = chat(R"("n":3,"seed":7,"stream":true)");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(streamed_text(stream, i), "seed " + std::to_string(7 + i));
  }
}

TEST_F(ServerTest, CompletionsTakeEveryFormOfPrompt) {
  start();
  for (const char* prompt : {R"("ab")", R"(["ab"])", "[97,98]", "[[97,98]]"}) {
    const Answer answer = completion(std::string(R"("prompt":)") + prompt);
    ASSERT_EQ(answer.status, 200) << prompt << answer.body;
    const json body = json::parse(answer.body);
    EXPECT_EQ(body["object"], "text_completion");
    EXPECT_EQ(body["choices"][0]["text"], "Hello");
    EXPECT_THAT(fleet->last().prompt, ::testing::ElementsAre(97, 98)) << prompt;
    EXPECT_EQ(fleet->last().max_tokens, Tokens(16));
  }
  const json body = json::parse(completion(R"("prompt":["a","bc"],"n":2)").body);
  EXPECT_EQ(body["choices"].size(), 4u);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3);
}

TEST_F(ServerTest, StopStringsEndTheAnswerAndTheRequest) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("one two three ");
    script.endless = true;
    return script;
  };
  for (const bool stream : {false, true}) {
    const Answer answer =
        chat(std::string(R"("stop":["three","never"],"stream":)") + (stream ? "true" : "false"));
    const std::string text =
        stream ? streamed_text(answer)
               : json::parse(answer.body)["choices"][0]["message"]["content"].get<std::string>();
    EXPECT_EQ(text, "one two ");
    EXPECT_NE(answer.body.find(R"("finish_reason":"stop")"), std::string::npos);
  }
  EXPECT_TRUE(fleet->wait_for_cancelled(2));
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("one two three ");
    script.endless = true;
    script.cached = 7;
    return script;
  };
  const Answer counted = chat(R"("stop":"three")");
  EXPECT_EQ(json::parse(counted.body)["usage"]["prompt_tokens_details"]["cached_tokens"], 7);
  const Answer with = chat(R"("stop":"two","include_stop_str_in_output":true)");
  EXPECT_EQ(json::parse(with.body)["choices"][0]["message"]["content"], "one two");
}

TEST_F(ServerTest, HeldBackTextComesWhenTheAnswerEnds) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> { return says("abc EN"); };
  EXPECT_EQ(streamed_text(chat(R"("stop":"END","stream":true)")), "abc EN");
}

TEST_F(ServerTest, CharactersAreNeverCut) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> { return says("a€b\xE2"); };
  const Answer answer = chat(R"("stream":true)");
  EXPECT_EQ(streamed_text(answer), "a€b\uFFFD");
}

TEST_F(ServerTest, LengthIsAFinishReason) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("cut");
    script.reason = request::FinishReason::kLength;
    return script;
  };
  EXPECT_EQ(json::parse(chat().body)["choices"][0]["finish_reason"], "length");
}

TEST_F(ServerTest, CachedTokensAreSummedOverPrompts) {
  start();
  fleet->on_submit = [](const request::Request& request) -> Result<Script> {
    Script script = says("x");
    script.cached = static_cast<std::int64_t>(request.prompt.size());
    return script;
  };
  const json body = json::parse(completion(R"("prompt":[[1,2],[1,2,3]],"n":2)").body);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 5);
}

TEST_F(ServerTest, ChatLogprobs) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("H\xE2");
    script.top = {{72, -0.5f}, {0xE2, -std::numeric_limits<float>::infinity()}};
    return script;
  };
  const json body = json::parse(chat(R"("logprobs":true,"top_logprobs":2)").body);
  EXPECT_EQ(fleet->last().sampling.top_logprobs, 2);
  const json& content = body["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[0]["token"], "H");
  EXPECT_EQ(content[0]["logprob"], -0.5);
  EXPECT_EQ(content[0]["bytes"], json::array({72}));
  ASSERT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][1]["logprob"], -9999.0);
  EXPECT_EQ(content[0]["top_logprobs"][1]["bytes"], json::array({0xE2}));
  EXPECT_EQ(content[1]["token"], "\uFFFD");
}

TEST_F(ServerTest, CompletionLogprobs) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("é!");
    script.top = {{33, -0.5f}};
    return script;
  };
  const json body = json::parse(completion(R"("prompt":"x","logprobs":1)").body);
  const json& logprobs = body["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json::array({"bytes:\\xc3", "bytes:\\xa9", "!"}));
  EXPECT_EQ(logprobs["token_logprobs"], json::array({-0.5, -0.5, -0.5}));
  // The chosen token is told even where it is not among the best.
  EXPECT_EQ(logprobs["top_logprobs"][0], json({{"!", -0.5}, {"bytes:\\xc3", -0.5}}));
  EXPECT_EQ(logprobs["top_logprobs"][2], json({{"!", -0.5}}));
  EXPECT_EQ(logprobs["text_offset"], json::array({0, 0, 1}));
}

TEST_F(ServerTest, IgnoreEosLeavesOnlyTheRequestsOwnStops) {
  start();
  chat(R"("ignore_eos":true,"stop_token_ids":[5])");
  EXPECT_THAT(fleet->last().stop_tokens, ::testing::ElementsAre(5));
}

TEST_F(ServerTest, ListsModels) {
  start({"tiny", "org/big model"});
  Client client(server->port());
  const json list = json::parse(client.get("/v1/models").body);
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["id"], "tiny");
  EXPECT_EQ(list["data"][0]["root"], "tiny") << "as `vllm bench serve` reads it";
  EXPECT_EQ(list["data"][0]["max_model_len"], 1000);
  EXPECT_EQ(list["data"][0]["vocab_size"], kByteModelVocab);
  EXPECT_EQ(list["data"][0]["status"], "ready");
  EXPECT_EQ(list["data"][0]["resident_bytes"], json({{"host", 5000}, {"device", 3000}}));
  EXPECT_EQ(list["data"][0]["streamed_bytes_per_step"], 2000);
  EXPECT_EQ(list["data"][0]["predicted_tpot_us"], 1500);
  EXPECT_FALSE(list["data"][0].contains("best_effort")) << "its target is longer";
  EXPECT_EQ(list["data"][0]["requests_running"], 0);
  EXPECT_EQ(list["data"][0]["requests_waiting"], 0);
  EXPECT_EQ(list["data"][0]["requests_rotary"], 0);
  EXPECT_FALSE(list.contains("kv_host")) << "none was given";
  EXPECT_EQ(json::parse(client.get("/v1/models/org/big%20model?x=1").body)["id"], "org/big model");
  const Answer none = client.get("/v1/models/none");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(error(none)["code"], "model_not_found");
}

TEST_F(ServerTest, ListsHostMemoryForKvWhereThereIsSome) {
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  fleet->add_model("tiny");
  fleet->counted.requests_rotary = 4;
  fleet->counted.twins_total = 64;
  fleet->counted.twins_used = 12;
  ASSERT_TRUE(server->start(*fleet).ok());
  const json list = json::parse(Client(server->port()).get("/v1/models").body);
  EXPECT_EQ(list["data"][0]["requests_rotary"], 4);
  EXPECT_EQ(list["kv_host"], json({{"blocks", 64}, {"used", 12}}));
}

TEST_F(ServerTest, TargetsAreTheModelsUnlessHeadersSayOtherwise) {
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  fleet->add_model("tiny").slo = {
      .ttft = millis(700), .tpot = millis(30), .ttft_slack = 0.25, .tpot_slack = -1};
  ASSERT_TRUE(server->start(*fleet).ok());
  ASSERT_EQ(chat().status, 200);
  EXPECT_EQ(fleet->last().slo.ttft, millis(700));
  EXPECT_EQ(fleet->last().slo.tpot, millis(30));
  EXPECT_EQ(fleet->last().slo.ttft_slack, 0.25);
  EXPECT_EQ(fleet->last().slo.tpot_slack, -1);
  ASSERT_EQ(chat("", "x-slo-tpot-ms: 40\r\nx-slo-ttft-slack: 1\r\n").status, 200);
  EXPECT_EQ(fleet->last().slo.ttft, millis(700));
  EXPECT_EQ(fleet->last().slo.tpot, millis(40));
  EXPECT_EQ(fleet->last().slo.ttft_slack, 1);
  ASSERT_EQ(chat("", "x-slo-ttft-ms: 5\r\nX-SLO-TPOT-SLACK: -10\r\n").status, 200);
  EXPECT_EQ(fleet->last().slo.ttft, millis(5));
  EXPECT_EQ(fleet->last().slo.tpot_slack, -10);
}

TEST_F(ServerTest, TellsHealthAndVersion) {
  start();
  Client client(server->port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(client.get("/ping").status, 200);
  EXPECT_EQ(json::parse(client.get("/version").body)["version"], "1.2.3");
}

TEST_F(ServerTest, ErrorsOfTheEngineAreAnswers) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script;
    script.reason = request::FinishReason::kError;
    script.error = "the model's shard 2 is cut short";
    return script;
  };
  const Answer whole = chat();
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(error(whole)["message"], "the model's shard 2 is cut short");
  // Nothing has been streamed yet, so the status can still say it.
  EXPECT_EQ(chat(R"("stream":true)").status, 500);
  for (const auto& [code, status] :
       {std::pair(ErrorCode::kResourceExhausted, 429), std::pair(ErrorCode::kInvalidArgument, 400),
        std::pair(ErrorCode::kUnavailable, 503)}) {
    fleet->on_submit = [code = code](const request::Request&) -> Result<Script> {
      Script script;
      script.reason = request::FinishReason::kError;
      script.code = code;
      return script;
    };
    EXPECT_EQ(chat().status, status);
  }
}

TEST_F(ServerTest, ErrorsWithinAStreamAreEvents) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("half an ans");
    script.reason = request::FinishReason::kError;
    script.error = "step failed";
    script.held = true;
    script.hold_at = 4;
    return script;
  };
  Client client(server->port());
  client.send(testing::post_request("/v1/chat/completions", chat_body(R"("stream":true)")));
  client.read_until("assistant");
  fleet->release();
  Answer answer;
  answer.body = client.read_until("[DONE]\n\n");
  EXPECT_NE(answer.body.find(R"(data: {"error":{"message":"step failed")"), std::string::npos);
  EXPECT_EQ(answer.body.find("finish_reason\":\"stop"), std::string::npos);
}

}  // namespace
}  // namespace causeway::server::server_test
