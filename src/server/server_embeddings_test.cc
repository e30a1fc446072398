// /v1/embeddings over the wire.
#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "server/api/embeddings.h"
#include "server/byte_model.h"
#include "server/testing/fixture.h"
#include "text/base64.h"

namespace causeway::server::server_embeddings_test {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::Client;
using testing::Script;
using testing::ServerTest;

class ServerEmbeddings : public ServerTest {
 protected:
  void start_embedding() {
    start();
    // Each input's embedding has its length in front, so that none passes for another.
    fleet->on_submit = [this](const request::Request& request) -> Result<Script> {
      most_ = std::max(most_, fleet->running() + 1);
      Script script;
      script.tokens = {65};
      script.reason = request::FinishReason::kLength;
      script.embedding = {static_cast<float>(request.prompt.size()), 0, 0, -4};
      return script;
    };
  }
  Answer embed(const std::string& more) {
    return Client(server->port()).post("/v1/embeddings", R"({"model":"tiny",)" + more + "}");
  }

  std::int64_t most_ = 0;
};

TEST_F(ServerEmbeddings, AnswerEveryFormOfInput) {
  start_embedding();
  const Answer answer = embed(R"("input":"abc","user":"u")");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json body = parsed(answer.body);
  EXPECT_EQ(body["object"], "list");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["usage"], json({{"prompt_tokens", 3}, {"total_tokens", 3}}));
  ASSERT_EQ(body["data"].size(), 1u);
  EXPECT_EQ(body["data"][0]["object"], "embedding");
  EXPECT_EQ(body["data"][0]["index"], 0);
  EXPECT_NEAR(body["data"][0]["embedding"][0].get<double>(), 0.6, 1e-6) << "of length 1";
  EXPECT_NEAR(body["data"][0]["embedding"][3].get<double>(), -0.8, 1e-6);
  const request::Request asked = fleet->last();
  EXPECT_EQ(asked.pooling, request::Pooling::kLast);
  EXPECT_EQ(asked.max_tokens, Tokens(1));
  EXPECT_TRUE(asked.sampling.greedy());
  for (const char* input : {R"(["abc","d"])", "[[97,98,99],[100]]", R"(["abc",[100]])"}) {
    const json both = parsed(embed(R"("pooling":"mean","input":)" + std::string(input)).body);
    ASSERT_EQ(both["data"].size(), 2u) << both;
    EXPECT_EQ(both["data"][1]["index"], 1);
    EXPECT_LT(both["data"][1]["embedding"][0], both["data"][0]["embedding"][0]);
    EXPECT_EQ(both["usage"]["prompt_tokens"], 4);
  }
  EXPECT_EQ(fleet->last().pooling, request::Pooling::kMean);
  EXPECT_EQ(parsed(embed(R"("input":[97,98,99])").body)["data"].size(), 1u);
}

TEST_F(ServerEmbeddings, AreBase64OfTheSameNumbers) {
  start_embedding();
  for (const std::string more : {"", R"(,"dimensions":1)", R"(,"dimensions":2)"}) {
    const std::string body = R"("input":"abc")" + more;
    const json list = parsed(embed(body).body)["data"][0]["embedding"];
    const json coded =
        parsed(embed(body + R"(,"encoding_format":"base64")").body)["data"][0]["embedding"];
    const auto bytes = text::bytes_of_base64(coded.get<std::string>());
    ASSERT_TRUE(bytes.has_value()) << coded;
    std::vector<float> numbers(bytes->size() / sizeof(float));
    std::memcpy(numbers.data(), bytes->data(), bytes->size());
    EXPECT_EQ(json(numbers), json(list.get<std::vector<float>>()));
  }
}

TEST_F(ServerEmbeddings, DimensionsAreTheFirstOfLengthOne) {
  start_embedding();
  const json body = parsed(embed(R"("input":"abc","dimensions":2)").body);
  EXPECT_EQ(body["data"][0]["embedding"], json({1.0, 0.0}));
}

TEST_F(ServerEmbeddings, ManyInputsDoNotFillTheQueue) {
  start_embedding();
  std::string inputs = "[1]";
  for (int i = 2; i <= 300; ++i) {
    inputs += ",[1";
    for (int more = 1; more < i % 50; ++more) inputs += ",1";
    inputs += "]";
  }
  const json body = parsed(embed(R"("input":[)" + inputs + "]").body);
  ASSERT_EQ(body["data"].size(), 300u);
  for (std::size_t i = 0; i < 300; ++i) {
    const double length = std::max<double>(1, static_cast<double>((i + 1) % 50));
    EXPECT_NEAR(body["data"][i]["embedding"][0].get<double>(), length / std::hypot(length, 4), 1e-6)
        << i;
  }
  EXPECT_LE(most_, 16);
  EXPECT_EQ(fleet->submitted(), 300);
}

TEST_F(ServerEmbeddings, BadFieldsAreNamed) {
  options.limits.api.embedded_max = 3;
  options.limits.api.embedded_numbers_max = 8;
  start_embedding();
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"("user":"u")", "input"},
      {R"("input":"")", "input"},
      {R"("input":[])", "input"},
      {R"("input":[[]])", "input"},
      {R"("input":5)", "input"},
      {R"("input":[-1])", "input"},
      {R"("input":[5000])", "input"},
      {R"("input":["a","b","c","d"])", "input"},
      {R"("input":["a","b","c"])", "input"},  // twelve numbers
      {R"("input":"a","dimensions":0)", "dimensions"},
      {R"("input":"a","dimensions":5)", "dimensions"},
      {R"("input":"a","dimensions":1e999)", "dimensions"},
      {R"("input":"a","encoding_format":"int8")", "encoding_format"},
      {R"("input":"a","pooling":"cls")", "pooling"},
      {R"("input":"a","truncate_prompt_tokens":5)", "truncate_prompt_tokens"},
      {R"("input":"a","stream":true)", "stream"},
      {R"("input":"a","priority":"x")", "priority"}};
  for (const auto& [body, field] : bad) {
    const Answer answer = embed(body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(error(answer)["param"], field) << body << answer.body;
  }
  EXPECT_EQ(error(embed(R"("input":"a","dimensions":5)"))["message"],
            "`dimensions` must be from 1 to 4 for this model");
  EXPECT_EQ(error(embed(R"("input":")" + std::string(2000, 'a') + "\""))["code"],
            "context_length_exceeded");
  EXPECT_EQ(embed(R"("input":["a","b"])").status, 200);
  EXPECT_EQ(embed(R"("input":["a","b","c"],"dimensions":2)").status, 200);
}

TEST_F(ServerEmbeddings, FailuresAreAnswered) {
  start_embedding();
  fleet->on_submit = [](const request::Request& request) -> Result<Script> {
    Script script;
    script.tokens = {65};
    if (request.prompt[0] == 'n') script.embedding = {1, NAN, 0, 0};
    if (request.prompt[0] == 'e') {
      script.reason = request::FinishReason::kError;
      script.error = "planted";
    }
    if (request.prompt[0] == 'q') return exhausted("the queue is full");
    return script;
  };
  EXPECT_EQ(embed(R"("input":"n")").status, 500);
  EXPECT_EQ(embed(R"("input":"none")").status, 500);
  EXPECT_EQ(embed(R"("input":["x","e"])").status, 500);
  EXPECT_EQ(embed(R"("input":"q")").status, 429);
}

TEST(Embeddings, WithoutALengthStayAsTheyAre) {
  std::vector<float> nothing(3, 0.0f);
  EXPECT_TRUE(normalise(nothing));
  EXPECT_EQ(nothing, std::vector<float>(3, 0.0f));
  std::vector<float> large(2, 3e38f);
  EXPECT_TRUE(normalise(large));
  EXPECT_NEAR(large[0], std::sqrt(0.5), 1e-6);
}

}  // namespace
}  // namespace causeway::server::server_embeddings_test
