// /tokenize and /detokenize over the wire: what they give, and what they refuse by name.
#include <array>
#include <vector>

#include "server/testing/fixture.h"

namespace causeway::server::server_tokenize_test {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::Client;
using testing::ServerTest;

class Tokenize : public ServerTest {
 protected:
  Answer post(const std::string& target, const std::string& more, const std::string& headers = "") {
    return Client(server->port())
        .post(target, R"({"model":"tiny")" + (more.empty() ? "" : "," + more) + "}", headers);
  }
  json tokens_of(const std::string& more) {
    const Answer answer = post("/tokenize", more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parsed(answer.body);
  }
};

TEST_F(Tokenize, GivesTokensCountAndContext) {
  start();
  const json body = tokens_of(R"("prompt":"aé")");
  EXPECT_EQ(body["tokens"], json({0x61, 0xC3, 0xA9}));
  EXPECT_EQ(body["count"], 3);
  EXPECT_EQ(body["max_model_len"], 1000);
  EXPECT_TRUE(body["token_strs"].is_null());
  EXPECT_EQ(fleet->submitted(), 0);
}

TEST_F(Tokenize, TheOnlyModelNeedsNoName) {
  start();
  Client client(server->port());
  EXPECT_EQ(parsed(client.post("/tokenize", R"({"prompt":"ab"})").body)["count"], 2);
  EXPECT_EQ(parsed(client.post("/detokenize", R"({"tokens":[97]})").body)["prompt"], "a");
  EXPECT_EQ(client.post("/tokenize", R"({"model":"","prompt":"ab"})").status, 400);
}

TEST_F(Tokenize, SeveralModelsAreNamed) {
  start({"tiny", "other"});
  Client client(server->port());
  for (const auto& [target, body] : {std::pair("/tokenize", R"({"prompt":"ab"})"),
                                     std::pair("/detokenize", R"({"tokens":[97]})")}) {
    const Answer answer = client.post(target, body);
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(error(answer)["param"], "model") << answer.body;
  }
}

TEST_F(Tokenize, SpellsTokensWhenAsked) {
  start();
  const json body = tokens_of(R"("prompt":"a é<|end|>","return_token_strs":true)");
  EXPECT_EQ(body["token_strs"], json({"a", " ", "bytes:\\xc3", "bytes:\\xa9", "<|end|>"}));
}

TEST_F(Tokenize, AConversationIsWhatAChatWouldBeGiven) {
  start();
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  ASSERT_EQ(chat().status, 200);
  EXPECT_EQ(tokens_of(messages)["tokens"], json(fleet->last().prompt));
  const json bare = tokens_of(messages + R"(,"add_generation_prompt":false)");
  EXPECT_EQ(bare["count"], 9);
}

TEST_F(Tokenize, AConversationMayEndWithinItsLastMessage) {
  start();
  const std::string messages = R"("messages":[{"role":"user","content":"hi"},)"
                               R"({"role":"assistant","content":"Sure, "}],)"
                               R"("add_generation_prompt":false)";
  const json whole = tokens_of(messages)["tokens"];
  const json open = tokens_of(messages + R"(,"continue_final_message":true)")["tokens"];
  ASSERT_LT(open.size(), whole.size());
  EXPECT_TRUE(std::equal(open.begin(), open.end(), whole.begin()));
  EXPECT_EQ(open.back(), ' ');
}

TEST_F(Tokenize, TextComesBack) {
  start();
  for (const char* text : {"", "plain", "Grüße 世界 👋", "a\n\t\"\\", "<|role|>user:x<|end|>"}) {
    const json tokens = tokens_of("\"prompt\":" + json(text).dump())["tokens"];
    const Answer answer = post("/detokenize", "\"tokens\":" + tokens.dump());
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(parsed(answer.body)["prompt"], text);
  }
  EXPECT_EQ(parsed(post("/detokenize", "\"tokens\":[255,97]").body)["prompt"], "\uFFFDa");
}

TEST_F(Tokenize, MayBeLongerThanTheContext) {
  start();
  EXPECT_EQ(tokens_of(R"("prompt":")" + std::string(5000, 'a') + "\"")["count"], 5000);
}

TEST_F(Tokenize, RefusesByName) {
  start();
  const std::vector<std::array<std::string, 3>> bad = {
      {"/tokenize", "", "prompt"},
      {"/tokenize", R"("prompt":5)", "prompt"},
      {"/tokenize", R"("prompt":["a"])", "prompt"},
      {"/tokenize", R"("prompt":"a","messages":[{"role":"user","content":"x"}])", "prompt"},
      {"/tokenize", R"("messages":[])", "messages"},
      {"/tokenize", R"("messages":[{"role":"robot","content":"x"}])", "messages[0].role"},
      {"/tokenize", R"("prompt":"a","add_special_tokens":1)", "add_special_tokens"},
      {"/tokenize", R"("prompt":"a","return_token_strs":"yes")", "return_token_strs"},
      {"/tokenize", R"("prompt":"a","temperature":1)", "temperature"},
      {"/tokenize", R"("prompt":"a","continue_final_message":true)", "continue_final_message"},
      {"/tokenize", R"("messages":[{"role":"user","content":"x"}],"continue_final_message":true)",
       "continue_final_message"},
      {"/tokenize",
       R"("messages":[{"role":"user","content":" "}],"continue_final_message":true,)"
       R"("add_generation_prompt":false)",
       "continue_final_message"},
      {"/detokenize", "", "tokens"},
      {"/detokenize", R"("tokens":"a")", "tokens"},
      {"/detokenize", R"("tokens":[1.5])", "tokens"},
      {"/detokenize", R"("tokens":[-1])", "tokens"},
      {"/detokenize", R"("tokens":[258])", "tokens"},
      {"/detokenize", R"("tokens":[4294967296])", "tokens"},
      {"/detokenize", R"("tokens":[[1]])", "tokens"},
      {"/detokenize", R"("tokens":[1],"skip":true)", "skip"}};
  for (const auto& [target, more, param] : bad) {
    const Answer answer = post(target, more);
    EXPECT_EQ(answer.status, 400) << target << more;
    EXPECT_EQ(error(answer)["param"], param) << answer.body;
  }
  EXPECT_EQ(fleet->submitted(), 0);
}

TEST_F(Tokenize, RefusesStrangers) {
  options.api_keys = {"secret"};
  start();
  EXPECT_EQ(post("/tokenize", R"("prompt":"a")").status, 401);
  EXPECT_EQ(post("/detokenize", R"("tokens":[1])").status, 401);
  EXPECT_EQ(post("/tokenize", R"("prompt":"a")", "Authorization: Bearer secret\r\n").status, 200);
  Client client(server->port());
  const std::string key = "Authorization: Bearer secret\r\n";
  for (const char* target : {"/tokenize", "/detokenize"}) {
    EXPECT_EQ(client.post(target, "{", key).status, 400);
    EXPECT_EQ(client.post(target, "", key).status, 400);
    EXPECT_EQ(client.post(target, std::string(100'000, '['), key).status, 400);
  }
  EXPECT_EQ(client.post("/tokenize", R"({"model":"nobody","prompt":"a"})", key).status, 404);
  EXPECT_EQ(client.post("/detokenize", R"({"model":"nobody","tokens":[1]})", key).status, 404);
  EXPECT_EQ(client.get("/ping").status, 200);
}

TEST_F(Tokenize, BoundsTheAnswer) {
  options.limits.api.tokenize_bytes_max = 1000;
  start();
  EXPECT_EQ(post("/tokenize", R"("prompt":")" + std::string(200, 'a') + "\"").status, 200);
  const Answer answer = post("/tokenize", R"("prompt":")" + std::string(600, 'a') + "\"");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(error(answer)["param"], "prompt");
  EXPECT_EQ(post("/detokenize", "\"tokens\":" + json(std::vector<int>(50, 256)).dump()).status,
            200);
  const Answer longer =
      post("/detokenize", "\"tokens\":" + json(std::vector<int>(300, 256)).dump());
  EXPECT_EQ(error(longer)["param"], "tokens") << longer.body;
}

TEST_F(Tokenize, WithoutATemplateThereIsOnlyText) {
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  fleet->add_model("tiny").chat_template.reset();
  ASSERT_TRUE(server->start(*fleet).ok());
  EXPECT_EQ(error(post("/tokenize", R"("messages":[{"role":"user","content":"x"}])"))["param"],
            "messages");
  EXPECT_EQ(tokens_of(R"("prompt":"ab")")["count"], 2);
}

TEST_F(Tokenize, KeepsTheConnection) {
  start();
  Client client(server->port());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.post("/tokenize", R"({"model":"tiny","prompt":"ab"})").status, 200);
    EXPECT_EQ(client.post("/detokenize", R"({"model":"tiny","tokens":[97]})").status, 200);
    EXPECT_EQ(client.post("/v1/chat/completions", chat_body()).status, 200);
  }
}

}  // namespace
}  // namespace causeway::server::server_tokenize_test
