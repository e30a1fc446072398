// Fields that name tokens or ask for their ids, over the wire.
#include <gmock/gmock.h>

#include <array>
#include <map>
#include <vector>

#include "request/banned_words.h"
#include "server/byte_model.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_tokens_test {
namespace {

using nlohmann::json;
using testing::Answer;
using ::testing::ElementsAre;
using testing::says;
using testing::Script;
using testing::ServerTest;

TEST_F(ServerTest, EditsOfLogitsReachTheEngine) {
  start();
  const Answer answer = chat(R"("min_tokens":3,"max_tokens":7,"logit_bias":{"65":-100,"66":2.5},)"
                             R"("allowed_token_ids":[65,66,256])");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const request::Request seen = fleet->last();
  EXPECT_EQ(seen.min_tokens, Tokens(3));
  ASSERT_EQ(seen.logit_bias.size(), 2u);
  EXPECT_EQ(seen.logit_bias[0].token, 65);
  EXPECT_EQ(seen.logit_bias[0].bias, -100.0f);
  EXPECT_EQ(seen.logit_bias[1].bias, 2.5f);
  EXPECT_THAT(seen.allowed_tokens, ElementsAre(65, 66, 256));
  ASSERT_EQ(chat().status, 200);
  EXPECT_EQ(fleet->last().min_tokens, Tokens(0));
  EXPECT_TRUE(fleet->last().logit_bias.empty());
  EXPECT_TRUE(fleet->last().allowed_tokens.empty());
}

TEST_F(ServerTest, TokensThatCannotBeAreNamed) {
  start();
  const std::vector<std::array<std::string, 2>> bad = {
      {R"("logit_bias":{"258":1})", "logit_bias"},
      {R"("allowed_token_ids":[65,258])", "allowed_token_ids"},
      {R"("min_tokens":6,"max_tokens":5)", "min_tokens"},
      {R"("min_tokens":1000)", "min_tokens"},
      {R"("min_tokens":1,"allowed_token_ids":[256])", "min_tokens"},
      {R"("min_tokens":1,"allowed_token_ids":[65],"stop_token_ids":[65])", "min_tokens"}};
  for (const auto& [more, param] : bad) {
    const Answer answer = chat(more);
    EXPECT_EQ(answer.status, 400) << more;
    EXPECT_EQ(error(answer)["param"], param) << answer.body;
  }
  EXPECT_EQ(chat(R"("min_tokens":1,"allowed_token_ids":[256],"ignore_eos":true)").status, 200);
  EXPECT_EQ(completion(R"("prompt":"a","min_tokens":17)").status, 400);
}

TEST_F(ServerTest, BadWordsBecomeABias) {
  start();
  const Answer answer = chat(R"("bad_words":["A","  B","<|end|>"],"logit_bias":{"66":5,"67":1})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  std::map<TokenId, float> biases;
  for (const auto& [token, bias] : fleet->last().logit_bias) biases[token] = bias;
  ASSERT_EQ(biases.size(), 4u);
  for (const TokenId token : {65, 66, 256}) EXPECT_LT(biases[token], -1e29f);
  EXPECT_EQ(biases[67], 1.0f);
  const std::vector<std::string> bad = {
      R"("bad_words":["A"],"allowed_token_ids":[65])",
      R"("bad_words":["A"],"allowed_token_ids":[65,256],"min_tokens":1)",
      R"("bad_words":["two"],"allowed_token_ids":[111])"};
  for (const std::string& more : bad) {
    EXPECT_EQ(error(chat(more))["param"], "bad_words") << more;
  }
  EXPECT_EQ(chat(R"("bad_words":["A"],"allowed_token_ids":[65,66])").status, 200);
}

TEST_F(ServerTest, BadWordsOfSeveralTokensReachTheEngine) {
  start();
  ASSERT_EQ(chat(R"("bad_words":["A","two"],"n":2,"min_tokens":3)").status, 200);
  const auto& constraint = fleet->last().constraint;
  ASSERT_NE(constraint, nullptr);
  const auto banned = request::parse_banned_words(constraint->text().text);
  ASSERT_TRUE(banned.ok());
  EXPECT_EQ(banned->words, (std::vector<std::vector<TokenId>>{{'t', 'w', 'o'}}));
  EXPECT_EQ(fleet->last().logit_bias.size(), 1u);
}

TEST_F(ServerTest, TokensCanBeSpeltAsIds) {
  start();
  const std::string ids = R"("return_tokens_as_token_ids":true)";
  const json chosen =
      parsed(chat(ids + R"(,"logprobs":true)").body)["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(chosen[0]["token"], "token_id:72");
  EXPECT_EQ(chosen[0]["bytes"], json({72}));
  const json body = parsed(completion(ids + R"(,"prompt":"a","logprobs":1)").body);
  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"][1], "token_id:101");
  EXPECT_TRUE(body["choices"][0]["logprobs"]["top_logprobs"][1].contains("token_id:101"));
}

TEST_F(ServerTest, EchoTellsThePromptFirst) {
  start();
  const json body =
      parsed(completion(R"("prompt":["é, ",[97,256]],"echo":true,"n":2,"stop":["é"])").body);
  ASSERT_EQ(body["choices"].size(), 4u) << body;
  for (const int i : {0, 1}) EXPECT_EQ(body["choices"][i]["text"], "é, Hello");
  for (const int i : {2, 3}) EXPECT_EQ(body["choices"][i]["text"], "a<|end|>Hello");
  EXPECT_EQ(body["usage"]["completion_tokens"], 20);
  const Answer stream = completion(R"("prompt":"ab","echo":true,"stream":true)");
  std::string text;
  for (const std::string& event : stream.events()) {
    const json chunk = parsed(event);
    if (chunk.is_object()) text += chunk["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, "abHello");
}

TEST_F(ServerTest, EchoIsBounded) {
  options.limits.api.echo_bytes_max = 9;
  start();
  EXPECT_EQ(completion(R"("prompt":"abc","echo":true,"n":3)").status, 200);
  EXPECT_EQ(error(completion(R"("prompt":"abc","echo":true,"n":4)"))["param"], "echo");
}

TEST_F(ServerTest, StopStringsWaitForMinTokens) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> { return says("abcabcabc"); };
  for (const char* stream : {"false", "true"}) {
    const std::string also = std::string(R"("stop":["bc"],"stream":)") + stream;
    const auto text = [&](const std::string& more) {
      const Answer answer = chat(also + more);
      if (stream == std::string("false")) {
        return parsed(answer.body)["choices"][0]["message"]["content"].get<std::string>();
      }
      std::string out;
      for (const auto& event : answer.events()) {
        const json chunk = parsed(event);
        if (chunk.is_object()) out += chunk["choices"][0]["delta"].value("content", "");
      }
      return out;
    };
    EXPECT_EQ(text(""), "a");
    EXPECT_EQ(text(R"(,"min_tokens":1)"), "a");
    EXPECT_EQ(text(R"(,"min_tokens":2)"), "abca");  // the first "bc" began too early
    EXPECT_EQ(text(R"(,"min_tokens":4)"), "abca");
    EXPECT_EQ(text(R"(,"min_tokens":9)"), "abcabcabc");
  }
}

TEST_F(ServerTest, TokenIdsOfAWholeChat) {
  start();
  const json body = parsed(chat(R"("return_token_ids":true)").body);
  EXPECT_EQ(body["prompt_token_ids"], json(fleet->last().prompt));
  EXPECT_EQ(body["choices"][0]["token_ids"], json({'H', 'e', 'l', 'l', 'o'}));
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(chat().body.find("token_ids"), std::string::npos);
}

TEST_F(ServerTest, TokenIdsOfAStreamedChat) {
  start();
  const Answer answer = chat(R"("return_token_ids":true,"stream":true,"n":2)");
  std::array<std::vector<int>, 2> ids;
  std::array<int, 2> prompts = {0, 0};
  for (const std::string& event : answer.events()) {
    const json chunk = parsed(event);
    if (!chunk.is_object()) continue;
    const json& choice = chunk["choices"][0];
    const auto index = choice["index"].get<std::size_t>();
    if (chunk.contains("prompt_token_ids")) {
      ++prompts[index];
      EXPECT_EQ(chunk["prompt_token_ids"], json(fleet->last().prompt));
    }
    for (const json& id : choice.value("token_ids", json::array())) ids[index].push_back(id);
  }
  EXPECT_THAT(prompts, ElementsAre(1, 1));
  for (const auto& list : ids) EXPECT_THAT(list, ElementsAre('H', 'e', 'l', 'l', 'o'));
}

TEST_F(ServerTest, TokenIdsOfCompletions) {
  start();
  const json body =
      parsed(completion(R"("prompt":["ab",[99]],"return_token_ids":true,"logprobs":1)").body);
  EXPECT_EQ(body["choices"][0]["prompt_token_ids"], json({'a', 'b'}));
  EXPECT_EQ(body["choices"][1]["prompt_token_ids"], json({99}));
  EXPECT_EQ(body["choices"][1]["token_ids"], json({'H', 'e', 'l', 'l', 'o'}));
  EXPECT_EQ(body["choices"][1]["logprobs"]["tokens"].size(), 5u);
  EXPECT_FALSE(body.contains("prompt_token_ids"));
  const Answer stream = completion(R"("prompt":"ab","return_token_ids":true,"stream":true)");
  EXPECT_EQ(stream.body.find("prompt_token_ids"), stream.body.rfind("prompt_token_ids"));
  const json first = parsed(stream.events().front());
  EXPECT_EQ(first["choices"][0]["prompt_token_ids"], json({'a', 'b'}));
  EXPECT_EQ(first["choices"][0]["token_ids"][0], 'H');
}

}  // namespace
}  // namespace causeway::server::server_tokens_test
