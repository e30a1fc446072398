// What strangers send: each gets a clear answer, and the server serves the next.
#include "server/testing/fixture.h"

namespace causeway::server::server_bad_input_test {
namespace {

using testing::Answer;
using testing::Client;
using testing::post_request;
using testing::Script;
using testing::ServerTest;

class BadInput : public ServerTest {
 protected:
  Answer post(const std::string& body, const std::string& headers = "") {
    return Client(server->port()).post("/v1/chat/completions", body, headers);
  }
  void expect_alive() { EXPECT_EQ(chat().status, 200); }
};

TEST_F(BadInput, MalformedJson) {
  start();
  for (const char* body : {"", "{", "not json", "[1]", "{\"model\":\"tiny\",\"n\":NaN}"}) {
    const Answer answer = post(body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(error(answer)["type"], "invalid_request_error") << answer.body;
    EXPECT_TRUE(error(answer)["code"].is_null());
  }
  expect_alive();
}

TEST_F(BadInput, Nesting100000) {
  start();
  const Answer answer = post(std::string(100'000, '[') + std::string(100'000, ']'));
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("nested deeper"), std::string::npos);
  expect_alive();
}

TEST_F(BadInput, UnknownModelAndPathAsModel) {
  start();
  for (const char* model : {"nobody", "/etc/passwd", "../tiny", "tiny/../tiny", "./tiny"}) {
    const Answer answer = post(R"({"model":")" + std::string(model) +
                               R"(","messages":[{"role":"user","content":"x"}]})");
    EXPECT_EQ(answer.status, 404) << model;
    EXPECT_EQ(error(answer)["code"], "model_not_found");
    EXPECT_EQ(error(answer)["param"], "model");
  }
}

TEST_F(BadInput, OverLongPrompt) {
  start();
  const Answer answer = completion(R"("prompt":")" + std::string(1000, 'a') + "\"");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(error(answer)["code"], "context_length_exceeded");
  EXPECT_NE(answer.body.find("; shorten the prompt"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("asked for are 1000 of the prompt"), std::string::npos);
  // Where bytes show that it cannot fit it is not encoded, so that this is all that is known.
  const Answer huge = completion(R"("prompt":")" + std::string(60'000, 'a') + "\"");
  EXPECT_EQ(huge.status, 400);
  EXPECT_NE(huge.body.find("asked for are at least "), std::string::npos) << huge.body;
  const Answer long_answer = completion(R"("prompt":"a","max_tokens":1000)");
  EXPECT_EQ(long_answer.status, 400);
  EXPECT_NE(long_answer.body.find("; shorten one of them"), std::string::npos) << long_answer.body;
  EXPECT_EQ(completion(R"("prompt":"a","max_tokens":999)").status, 200);
  EXPECT_EQ(completion(R"("prompt":")" + std::string(999, 'a') + "\"").status, 200);
}

TEST_F(BadInput, PromptBeyondThoseTheModelTakes) {
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  fleet->add_model("tiny").max_prompt = Tokens(10);
  ASSERT_TRUE(server->start(*fleet).ok());
  const auto asked = [&](int tokens) {
    return completion(R"("max_tokens":500,"prompt":")" +
                      std::string(static_cast<std::size_t>(tokens), 'a') + "\"");
  };
  EXPECT_EQ(asked(10).status, 200);  // the answer goes beyond
  const Answer answer = asked(11);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(error(answer)["code"], "context_length_exceeded");
  EXPECT_EQ(error(answer)["param"], "prompt");
  EXPECT_NE(answer.body.find("at most 10 tokens"), std::string::npos) << answer.body;
}

TEST_F(BadInput, TokensOutsideTheVocabulary) {
  start();
  EXPECT_EQ(completion(R"("prompt":[257])").status, 200);
  EXPECT_EQ(error(completion(R"("prompt":[258])"))["param"], "prompt");
  EXPECT_EQ(error(completion(R"("prompt":"a","stop_token_ids":[258])"))["param"], "stop_token_ids");
  EXPECT_EQ(error(completion(R"("prompt":"")"))["param"], "prompt");
}

TEST_F(BadInput, InvalidUtf8) {
  start();
  const Answer answer = post(
      "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\","
      "\"content\":\"\xC3\x28\"}]}");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("UTF-8"), std::string::npos);
}

TEST_F(BadInput, ParametersOutOfRange) {
  start();
  EXPECT_EQ(error(chat(R"("temperature":-1)"))["param"], "temperature");
  EXPECT_EQ(error(chat(R"("max_tokens":-1)"))["param"], "max_tokens");
  // Above 0, but not as the float that it becomes.
  EXPECT_EQ(error(chat(R"("top_p":1e-60)"))["param"], "top_p");
  EXPECT_EQ(chat(R"("temperature":NaN)").status, 400);
}

TEST_F(BadInput, TargetsOutOfTheirRangesNameThese) {
  start();
  struct Case {
    std::string header;
    std::vector<const char*> values;
    const char* range;
  };
  const std::vector<const char*> times = {"0",   "-5",  "-0",  "1e9",  "86400001", "1e-7",
                                          "NaN", "nan", "inf", "-inf", "x",        "",
                                          "5ms", "1 2", "0x1", "1e99", "1,5"};
  const std::vector<Case> cases = {
      {"x-slo-ttft-ms", times, "milliseconds from 0.000001 to 86400000"},
      {"x-slo-tpot-ms", times, "milliseconds from 0.000001 to 86400000"},
      {"x-slo-ttft-slack", {"-0.1", "1.1", "1e9", "nan", "x", ""}, "from 0.000000 to 1.000000"},
      {"x-slo-tpot-slack", {"-11", "1.1", "1e9", "nan", "x", ""}, "from -10.000000 to 1.000000"},
  };
  for (const Case& one : cases) {
    for (const char* value : one.values) {
      const Answer answer = chat("", one.header + ": " + value + "\r\n");
      EXPECT_EQ(answer.status, 400) << one.header << " " << value;
      EXPECT_EQ(error(answer)["param"], one.header);
      EXPECT_NE(answer.body.find(one.range), std::string::npos) << answer.body;
    }
  }
  EXPECT_EQ(chat("", "x-slo-ttft-ms: 0.000001\r\nx-slo-tpot-ms: 86400000\r\n").status, 200);
}

TEST_F(BadInput, MissingTemplate) {
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  auto& entry = fleet->add_model("tiny");
  entry.chat_template.reset();
  entry.chat_template_error = "no chat_template.jinja";
  ASSERT_TRUE(server->start(*fleet).ok());
  const Answer answer = chat();
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("no chat_template.jinja"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("use /v1/completions, or give the server a template"),
            std::string::npos)
      << answer.body;
  EXPECT_EQ(completion(R"("prompt":"a")").status, 200);
}

TEST_F(BadInput, TemplatesThatFailOrNeverEnd) {
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  auto& entry = fleet->add_model("tiny");
  const auto use = [&entry](const char* source) {
    text::JinjaLimits limits;
    limits.steps_max = 100'000;  // the default takes sanitizers seconds
    auto compiled = text::ChatTemplate::compile(source, limits);
    ASSERT_TRUE(compiled.ok());
    entry.chat_template.emplace(std::move(compiled).value());
  };
  use("{{ raise_exception('roles must alternate') }}");
  ASSERT_TRUE(server->start(*fleet).ok());
  const Answer raised = chat();
  EXPECT_EQ(raised.status, 400);
  EXPECT_NE(raised.body.find("roles must alternate"), std::string::npos) << raised.body;
  use("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
  EXPECT_EQ(chat().status, 400);
}

TEST_F(BadInput, BodyOf10MegabytesIsRefusedUnread) {
  start();
  Client client(server->port());
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 10485760\r\n\r\n");
  // Not one byte of the body is sent.
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  // And sent as a whole, too.
  EXPECT_EQ(post(std::string(10 << 20, ' ')).status, 413);
  expect_alive();
}

TEST_F(BadInput, ChunkedBodyBeyondTheLimit) {
  options.limits.body_bytes_max = 1000;
  start();
  Client client(server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) client.send("200\r\n" + std::string(512, ' ') + "\r\n");
  EXPECT_EQ(client.read_answer().status, 413);
}

// What stands before a chunk, or behind the last, is kept until it has come as a whole.
TEST_F(BadInput, ChunksWithExtensionsOrTrailersWithoutEnd) {
  start();
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string trailers = "0\r\n";
  for (int i = 0; i < 20'000; ++i) trailers += "X-Trailer: a\r\n";
  for (const std::string& flood : {"1;" + std::string(256 << 10, 'x'), trailers}) {
    Client client(server->port());
    client.send(head + flood);
    EXPECT_EQ(client.read_answer().status, 431) << flood.substr(0, 20);
    EXPECT_TRUE(client.closed_within(5000));
  }
  expect_alive();
}

TEST_F(BadInput, ChunksThatAreNone) {
  start();
  for (const char* chunk : {"g\r\n", "-1\r\n", "0x10\r\n", "10000000000000000\r\n",
                            "ffffffffffffffff\r\n", "1\r\nab\r\n", "1 1\r\n", "\r\n"}) {
    Client client(server->port());
    client.send(std::string("POST /v1/completions HTTP/1.1\r\nHost: t\r\n"
                            "Transfer-Encoding: chunked\r\n\r\n") +
                chunk);
    client.close_sending();
    const Answer answer = client.read_answer();
    EXPECT_TRUE(answer.status == 400 || answer.status == 413) << chunk << answer.status;
    EXPECT_TRUE(error(answer).contains("message")) << chunk;
  }
  EXPECT_EQ(fleet->submitted(), 0);
  expect_alive();
}

TEST_F(BadInput, HeadersBeyondTheLimit) {
  start();
  Client client(server->port());
  client.send("GET /health HTTP/1.1\r\nX-Long: " + std::string(32 << 10, 'a') + "\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 431);
}

TEST_F(BadInput, NotHttp) {
  start();
  for (const char* bytes :
       {"\x16\x03\x01\x02\r\n\r\n", "hello\r\n\r\n", "GET /health HTTP/9.9\r\n\r\n",
        "GET /health HTTP/1.1\r\nno colon\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"}) {
    Client client(server->port());
    client.send(bytes);
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, 400) << bytes;
    EXPECT_TRUE(error(answer).contains("message"));
  }
  expect_alive();
}

TEST_F(BadInput, UnknownPathsAndMethods) {
  start();
  Client client(server->port());
  const Answer none = client.get("/v2/chat");
  EXPECT_EQ(none.status, 404);
  EXPECT_TRUE(error(none).contains("message"));
  const Answer wrong = client.get("/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  client.send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: t\r\nOrigin: http://x\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 405);
  client.send("HEAD /health HTTP/1.1\r\nHost: t\r\n\r\n");
  const Answer head = client.read_answer(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.headers.at("content-length"), "0");
  EXPECT_EQ(client.get("/ping").status, 200);
}

TEST_F(BadInput, ErrorsOfHeadHaveNoBody) {
  start();
  for (const auto& [path, status] : {std::pair("/", 404), std::pair("/v1/chat/completions", 405)}) {
    Client client(server->port());
    client.send(std::string("HEAD ") + path + " HTTP/1.1\r\nHost: t\r\n\r\n");
    EXPECT_EQ(client.read_answer(true).status, status);
    // The next answer begins where that of HEAD ended.
    EXPECT_EQ(client.get("/health").status, 200) << path;
  }
}

TEST_F(BadInput, TransferEncodingsOtherThanChunkedEndTheConnection) {
  start();
  const auto expect_refused = [&](const std::string& head, int status) {
    Client client(server->port());
    client.send(head + "\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: t\r\n\r\n");
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, status) << head;
    EXPECT_EQ(answer.headers.at("connection"), "close") << head;
    // What a proxy may have taken for the body is not answered as a request.
    EXPECT_EQ(client.read_answer().status, 0) << head;
  };
  const std::string path = "POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: ";
  for (const char* value :
       {"xchunked", "identity", "chunked, identity", "gzip, chunked", "chunked, chunked"}) {
    expect_refused(path + value, 501);
  }
  expect_refused(path + "chunked\r\nTransfer-Encoding: x", 400);
  expect_refused("POST /v1/none HTTP/1.1\r\nTransfer-Encoding: xchunked", 501);
  expect_refused("POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked", 400);
  Client client(server->port());
  client.send(path + "Chunked\r\n\r\n1d\r\n{\"model\":\"tiny\",\"prompt\":\"a\"}\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(BadInput, EncodedBodies) {
  start();
  EXPECT_EQ(post(chat_body(), "Content-Encoding: gzip\r\n").status, 415);
}

TEST_F(BadInput, KeysAreNeeded) {
  options.api_keys = {"right-key"};
  start();
  EXPECT_EQ(chat().status, 401);
  const Answer wrong = chat("", "Authorization: Bearer wrong-key\r\n");
  EXPECT_EQ(wrong.status, 401);
  EXPECT_EQ(error(wrong)["code"], "invalid_api_key");
  EXPECT_EQ(wrong.body.find("wrong-key"), std::string::npos);
  EXPECT_EQ(chat("", "Authorization: Bearer right-key\r\n").status, 200);
  Client client(server->port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(client.get("/v1/models").status, 401);
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer right-key\r\n").status, 200);
}

TEST_F(BadInput, FullQueue) {
  start();
  int seen = 0;
  fleet->on_submit = [&seen](const request::Request&) -> Result<Script> {
    if (++seen > 2) return exhausted("the queue holds 2 requests already");
    Script script = testing::says("x");
    script.held = true;
    return script;
  };
  const Answer answer = chat(R"("n":3)");
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  EXPECT_EQ(error(answer)["code"], "queue_full");
  // Those that had found a place gave it back.
  EXPECT_TRUE(fleet->wait_for_cancelled(2));
}

}  // namespace
}  // namespace causeway::server::server_bad_input_test
