// Log-probabilities of prompts over the wire: `echo` with `logprobs`, `prompt_logprobs`.
#include <gmock/gmock.h>

#include <vector>

#include "server/byte_model.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_prompt_logprobs_test {
namespace {

using nlohmann::json;
using testing::Answer;
using ::testing::ElementsAre;
using testing::says;
using testing::Script;
using testing::ServerTest;

class PromptLogprobs : public ServerTest {
 protected:
  void SetUp() override {
    start();
    fleet->on_submit = [](const request::Request&) -> Result<Script> {
      Script script = says("Hi");
      script.top = {{'H', -0.5f}, {'x', -1.0f}};
      script.prompt_top = {{'b', -0.125f}, {'q', -0.25f}, {'r', -0.5f}};
      return script;
    };
  }
};

TEST_F(PromptLogprobs, EchoTellsThoseOfThePromptFirst) {
  const Answer answer = completion(R"("prompt":"éb","echo":true,"logprobs":2,"max_tokens":4)");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(fleet->last().sampling.prompt_logprobs, 2);
  const json choice = parsed(answer.body)["choices"][0];
  EXPECT_EQ(choice["text"], "ébHi");
  const json& told = choice["logprobs"];
  EXPECT_EQ(told["tokens"], json({"bytes:\\xc3", "bytes:\\xa9", "b", "H", "i"}));
  EXPECT_EQ(told["token_logprobs"], json({nullptr, -0.25, -0.25, -0.5, -0.5}));
  EXPECT_EQ(told["text_offset"], json({0, 0, 1, 2, 3})) << "a character of two tokens";
  EXPECT_TRUE(told["top_logprobs"][0].is_null());
  EXPECT_EQ(told["top_logprobs"][2], json({{"b", -0.125}, {"q", -0.25}}));
  EXPECT_EQ(told["top_logprobs"][3], json({{"H", -0.5}, {"x", -1.0}}));
  EXPECT_FALSE(choice.contains("prompt_logprobs"));
}

TEST_F(PromptLogprobs, OfAnEchoAloneNothingIsGenerated) {
  for (const char* stream : {"false", "true"}) {
    const Answer answer =
        completion(R"("prompt":["ab",[99]],"echo":true,"max_tokens":0,"logprobs":0,)"
                   R"("stream_options":{"include_usage":true},"stream":)" +
                   std::string(stream));
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(fleet->last().max_tokens, Tokens(1));
    json choices = json::array(), usage;
    if (stream == std::string("false")) {
      choices = parsed(answer.body)["choices"];
      usage = parsed(answer.body)["usage"];
    }
    for (const std::string& event : answer.events()) {
      const json chunk = parsed(event);
      if (!chunk.is_object()) continue;
      for (const json& choice : chunk["choices"]) choices.push_back(choice);
      usage = chunk["usage"];
    }
    ASSERT_EQ(choices.size(), 2u) << choices;
    if (choices[0]["index"] == 1) std::swap(choices[0], choices[1]);
    EXPECT_EQ(choices[0]["text"], "ab");
    EXPECT_EQ(choices[0]["finish_reason"], "length");
    EXPECT_EQ(choices[0]["logprobs"]["token_logprobs"], json({nullptr, -0.25}));
    EXPECT_EQ(choices[0]["logprobs"]["top_logprobs"][1], json({{"b", -0.25}}));
    EXPECT_EQ(choices[1]["logprobs"]["tokens"], json({"c"}));
    EXPECT_EQ(choices[1]["logprobs"]["token_logprobs"], json::array({nullptr}));
    EXPECT_EQ(usage["completion_tokens"], 0);
    EXPECT_EQ(usage["prompt_tokens"], 3);
  }
}

TEST_F(PromptLogprobs, AreStreamedWithTheFirstEvent) {
  const Answer answer =
      completion(R"("prompt":"ab","echo":true,"logprobs":1,"max_tokens":4,"stream":true)");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto events = answer.events();
  ASSERT_FALSE(events.empty());
  const json first = parsed(events.front())["choices"][0]["logprobs"];
  EXPECT_EQ(first["tokens"][0], "a");
  EXPECT_EQ(first["tokens"][1], "b");
  EXPECT_TRUE(first["token_logprobs"][0].is_null());
  EXPECT_EQ(first["token_logprobs"][1], -0.25);
  EXPECT_EQ(first["top_logprobs"][1], json({{"b", -0.125}}));
  std::string tokens;  // each once
  for (const std::string& event : events) {
    const json chunk = parsed(event);
    if (!chunk.is_object() || chunk["choices"].empty()) continue;
    for (const json& token : chunk["choices"][0]["logprobs"]["tokens"]) {
      tokens += token.get<std::string>();
    }
  }
  EXPECT_EQ(tokens, "abHi");
}

TEST_F(PromptLogprobs, SpecialTokensCountWhereTheTextShowsThem) {
  const auto offsets = [&](const std::string& prompt) {
    return parsed(completion(R"("echo":true,"logprobs":0,"max_tokens":0,"prompt":)" + prompt)
                      .body)["choices"][0]["logprobs"]["text_offset"];
  };
  EXPECT_EQ(offsets("[97,256,98]"), json({0, 1, 8}));  // a<|end|>b
  EXPECT_EQ(offsets(R"("ab")"), json({0, 1}));
}

TEST_F(PromptLogprobs, AsVllmTellsThem) {
  const json body = parsed(completion(R"("prompt":["ab","c"],"prompt_logprobs":2)").body);
  EXPECT_EQ(fleet->last().sampling.prompt_logprobs, 2);
  EXPECT_EQ(fleet->last().sampling.top_logprobs, -1);
  const json& told = body["choices"][0]["prompt_logprobs"];
  ASSERT_EQ(told.size(), 2u) << body;
  EXPECT_TRUE(told[0].is_null());
  EXPECT_EQ(told[1], json({{"98", {{"logprob", -0.25}, {"rank", 1}, {"decoded_token", "b"}}},
                           {"113", {{"logprob", -0.25}, {"rank", 2}, {"decoded_token", "q"}}}}));
  EXPECT_EQ(body["choices"][1]["prompt_logprobs"], json::array({nullptr}));
  EXPECT_TRUE(body["choices"][0]["logprobs"].is_null());
}

TEST_F(PromptLogprobs, ARankBeyondTheBestIsNotKnown) {
  const json body = parsed(completion(R"("prompt":"az","prompt_logprobs":1)").body);
  const json& told = body["choices"][0]["prompt_logprobs"][1];
  EXPECT_EQ(told["122"], json({{"logprob", -0.25}, {"rank", nullptr}, {"decoded_token", "z"}}));
  EXPECT_EQ(told["98"]["rank"], 1);
  EXPECT_EQ(told.size(), 2u);
}

TEST_F(PromptLogprobs, AChatTellsThemOnce) {
  const json body = parsed(chat(R"("prompt_logprobs":0,"n":3)").body);
  EXPECT_EQ(fleet->last().sampling.prompt_logprobs, -1) << "of the choices the first asks";
  const auto prompt = fleet->last().prompt;
  ASSERT_EQ(body["prompt_logprobs"].size(), prompt.size()) << body;
  EXPECT_TRUE(body["prompt_logprobs"][0].is_null());
  EXPECT_EQ(body["prompt_logprobs"][1].size(), 1u);
  EXPECT_TRUE(body["prompt_logprobs"][1].contains(std::to_string(prompt[1])));
  EXPECT_FALSE(body["choices"][0].contains("prompt_logprobs"));
  EXPECT_FALSE(parsed(chat().body).contains("prompt_logprobs"));
}

class FewPromptLogprobs : public ServerTest {};

TEST_F(FewPromptLogprobs, AreBounded) {
  options.limits.api.prompt_logprobs_max = 12;
  start();
  EXPECT_EQ(completion(R"("prompt":"abcd","prompt_logprobs":2)").status, 200);
  const json more = error(completion(R"("prompt":"abcd","prompt_logprobs":2,"n":2)"));
  EXPECT_EQ(more["param"], "prompt_logprobs");
  EXPECT_EQ(more["message"],
            "`prompt_logprobs` would tell 24 log-probabilities of prompts, those of all choices "
            "together; at most 12 are told");
  const json echoed = error(completion(R"("prompt":"abcdefg","echo":true,"logprobs":1)"));
  EXPECT_EQ(echoed["param"], "logprobs");
}

}  // namespace
}  // namespace causeway::server::server_prompt_logprobs_test
