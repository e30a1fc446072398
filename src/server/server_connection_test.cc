// Sockets that are slow, leave early, send ahead, or speak the older version.
#include <algorithm>

#include "server/testing/fixture.h"

namespace causeway::server::server_connection_test {
namespace {

using testing::Answer;
using testing::Client;
using testing::post_request;
using testing::says;
using testing::Script;
using testing::ServerTest;
using testing::TimedServerTest;

Script held(std::string_view text) {
  Script script = says(text);
  script.held = true;
  return script;
}
Script endless(std::string_view text) {
  Script script = says(text);
  script.endless = true;
  return script;
}

TEST_F(ServerTest, ClientsThatLeaveCancelTheirRequest) {
  start();
  fleet->on_submit = [](const request::Request&) { return Result<Script>(held("x")); };
  std::int64_t left = 0;
  // Whole or as events; before the first token.
  for (const char* more : {R"("stream":false)", R"("stream":true)", R"("n":2)"}) {
    Client client(server->port());
    client.send(post_request("/v1/chat/completions", chat_body(more)));
    left += std::string_view(more) == R"("n":2)" ? 2 : 1;
    ASSERT_TRUE(fleet->wait_for_submitted(left));
    client.close();
    EXPECT_TRUE(fleet->wait_for_cancelled(left)) << more;
  }
}

TEST_F(ServerTest, ClientsThatLeaveAStreamCancelIt) {
  start();
  fleet->on_submit = [](const request::Request&) { return Result<Script>(endless("word ")); };
  Client client(server->port());
  client.send(post_request("/v1/chat/completions", chat_body(R"("stream":true)")));
  client.read_until(R"("content":"w)");  // whether an event has one letter or several
  client.close();
  EXPECT_TRUE(fleet->wait_for_cancelled(1));
}

TEST_F(ServerTest, HalfClosedClientsAreTold) {
  start();
  fleet->on_submit = [](const request::Request&) { return Result<Script>(held("x")); };
  Client client(server->port());
  client.send(post_request("/v1/chat/completions", chat_body()));
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  client.close_sending();
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(error(answer)["code"], "client_closed_request");
  EXPECT_TRUE(fleet->wait_for_cancelled(1));
  // Within a request.
  Client half(server->port());
  half.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  half.close_sending();
  EXPECT_EQ(half.read_answer().status, 400);
  Client head(server->port());
  head.send("GET /health HT");
  head.close_sending();
  EXPECT_EQ(head.read_answer().status, 400);
  // What needs no engine is answered all the same.
  Client quick(server->port());
  quick.send("GET /health HTTP/1.1\r\n\r\n");
  quick.close_sending();
  EXPECT_EQ(quick.read_answer().status, 200);
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  fleet->on_submit = [](const request::Request& request) -> Result<Script> {
    return says("tokens " + std::to_string(request.prompt.size()));
  };
  Client client(server->port());
  std::string all;
  for (int i = 1; i <= 5; ++i) {
    all +=
        post_request("/v1/completions", R"({"model":"tiny","prompt":")" +
                                            std::string(static_cast<std::size_t>(i), 'a') + "\"}");
  }
  client.send(all + "GET /health HTTP/1.1\r\n\r\n");
  for (int i = 1; i <= 5; ++i) {
    const auto body = parsed(client.read_answer().body);
    EXPECT_EQ(body["choices"][0]["text"], "tokens " + std::to_string(i));
  }
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(ServerTest, RequestsSentWithinAStreamAreAnsweredAfterIt) {
  start();
  fleet->on_submit = [](const request::Request&) {
    Script script = held("word");
    script.hold_at = 1;
    return Result<Script>(std::move(script));
  };
  Client client(server->port());
  client.send(post_request("/v1/chat/completions", chat_body(R"("stream":true)")));
  client.read_until(R"("content":"w)");
  // In pieces, with time for the server to read the first.
  client.send("GET /health HT");
  EXPECT_FALSE(client.readable_within(50));
  client.send("TP/1.1\r\n\r\nGET /v1/models HTTP/1.1\r\n\r\n");
  fleet->release();
  EXPECT_NE(client.read_until("0\r\n\r\n").find("[DONE]"), std::string::npos);
  EXPECT_EQ(parsed(client.read_answer().body)["status"], "ok");
  EXPECT_EQ(parsed(client.read_answer().body)["object"], "list");
  // And one that comes later, on the same connection.
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(ServerTest, ChunkedBodies) {
  start();
  Client client(server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char c : std::string(R"({"model":"tiny","prompt":"a"})")) {
    ASSERT_TRUE(client.send(std::string("1\r\n") + c + "\r\n"));
  }
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(ServerTest, ExpectContinue) {
  start();
  Client client(server->port());
  const std::string body = R"({"model":"tiny","prompt":"a"})";
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 100);
  client.send(body);
  EXPECT_EQ(client.read_answer().status, 200);
  // A body that will be refused is not asked for.
  client.send("POST /v1/none HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 404);
  Client other(server->port());
  other.send("POST /v1/completions HTTP/1.1\r\nExpect: tea\r\nContent-Length: 9\r\n\r\n");
  EXPECT_EQ(other.read_answer().status, 417);
}

TEST_F(ServerTest, Http10) {
  start();
  Client client(server->port());
  client.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_TRUE(client.closed_within(5000));
  Client stream(server->port());
  const std::string body = chat_body(R"("stream":true)");
  stream.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  const Answer answer = stream.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.headers.contains("transfer-encoding"));
  EXPECT_EQ(answer.events().back(), "[DONE]");
}

TEST_F(ServerTest, SlowReadersAreCancelledWithoutHoldingUpOthers) {
  options.limits.queued_tokens_max = 2000;
  start();
  fleet->on_submit = [](const request::Request& request) -> Result<Script> {
    if (request.max_tokens == Tokens(5)) return says("quick");
    Script script = endless(std::string(200, 'w'));
    script.tokens_per_output = 200;
    // Log-probabilities make much text of a token, so that the socket's buffers fill soon.
    script.top = std::vector<request::TokenLogprob>(20, {65, -1.0f});
    return script;
  };
  Client slow(server->port());
  slow.set_receive_buffer(4096);
  slow.send(post_request("/v1/chat/completions",
                         chat_body(R"("stream":true,"logprobs":true,"top_logprobs":20)")));
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  EXPECT_EQ(chat(R"("max_tokens":5)").status, 200);
  EXPECT_TRUE(fleet->wait_for_cancelled(1));
}

TEST_F(ServerTest, ManyConnectionsAreRefusedBeyondTheLimit) {
  options.limits.connections_max = 3;
  start();
  fleet->on_submit = [](const request::Request&) { return Result<Script>(held("x")); };
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(server->port()));
    clients.back()->send(post_request("/v1/chat/completions", chat_body()));
    ASSERT_TRUE(fleet->wait_for_submitted(i + 1));
  }
  Client more(server->port());
  const Answer refused = more.read_answer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error(refused)["message"], "too many connections");
  EXPECT_TRUE(more.closed_within(5000));
  clients.clear();
  for (int tries = 0; tries < 100; ++tries) {
    Client again(server->port());
    if (again.get("/health").status == 200) return;
  }
  FAIL() << "places of closed connections were not given back";
}

// Waits until the server has closed at least as many of them.
bool closes(const std::vector<std::unique_ptr<Client>>& clients, std::int64_t least) {
  for (int tries = 0; tries < 1000; ++tries) {
    const auto closed = std::count_if(clients.begin(), clients.end(),
                                      [](const auto& one) { return one->closed_within(0); });
    if (closed >= least) return true;
    clients.front()->closed_within(10);
  }
  return false;
}

TEST_F(ServerTest, IdleConnectionsGiveWayToNewOnes) {
  options.limits.connections_max = 6;
  start();
  fleet->on_submit = [](const request::Request&) { return Result<Script>(held("late")); };
  Client busy(server->port());
  busy.send(post_request("/v1/chat/completions", chat_body()));
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 5; ++i) {
    idle.push_back(std::make_unique<Client>(server->port()));
    if (i % 2 != 0) continue;  // it says nothing
    EXPECT_EQ(idle.back()->get("/health").status, 200);
  }
  std::vector<std::unique_ptr<Client>> more;
  for (int i = 0; i < 20; ++i) {
    more.push_back(std::make_unique<Client>(server->port()));
    EXPECT_EQ(more.back()->get("/health").status, 200) << i;
  }
  EXPECT_TRUE(closes(idle, 5));
  EXPECT_TRUE(closes(more, 15));
  EXPECT_EQ(more.back()->get("/health").status, 200) << "the latest is not the one to go";
  fleet->release();
  EXPECT_EQ(busy.read_answer().status, 200) << "one that is served is not idle";
}

// Moves the test's clock until the server has noticed.
template <typename Until>
bool advance_until(ManualClock& clock, Nanos step, Until until) {
  for (int i = 0; i < 200; ++i) {
    if (until()) return true;
    clock.advance(step);
  }
  return false;
}

TEST_F(TimedServerTest, SlowHeadersGet408) {
  start_timed();
  Client client(server->port());
  client.send("GET /health HTTP/1.1\r\nX-Slow: ");
  ASSERT_FALSE(client.closed_within(100));
  manual.advance(seconds(11));
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 408);
  EXPECT_EQ(error(answer)["code"], "request_timeout");
  manual.advance(seconds(2));
  EXPECT_TRUE(client.closed_within(5000));
}

TEST_F(TimedServerTest, SlowBodiesGet408) {
  start_timed();
  Client client(server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  ASSERT_FALSE(client.closed_within(100));
  manual.advance(seconds(61));
  EXPECT_EQ(client.read_answer().status, 408);
}

// A sender so fast that there is always something to read when the limit passes.
TEST_F(ServerTest, FastSendersThatStopGet408) {
  options.limits.body_time_max = millis(300);
  options.limits.body_bytes_max = std::size_t{1} << 30;
  start();
  Client client(server->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  std::string chunks;
  for (int i = 0; i < 1000; ++i) chunks += "1\r\n \r\n";
  const Nanos until = clock.now() + millis(450);
  while (clock.now() < until && !client.readable_within(0)) ASSERT_TRUE(client.send(chunks));
  EXPECT_EQ(client.read_answer().status, 408);
}

TEST_F(TimedServerTest, IdleConnectionsAreClosed) {
  start_timed();
  Client client(server->port());
  EXPECT_EQ(client.get("/health").status, 200);
  ASSERT_FALSE(client.closed_within(100));
  manual.advance(seconds(76));
  EXPECT_TRUE(advance_until(manual, seconds(2), [&] { return client.closed_within(100); }));
}

TEST_F(TimedServerTest, SilentStreamsAreKeptAlive) {
  options.limits.keep_alive_period = seconds(5);
  start_timed();
  fleet->on_submit = [](const request::Request&) { return Result<Script>(held("late")); };
  Client client(server->port());
  client.send(post_request("/v1/chat/completions", chat_body(R"("stream":true)")));
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  const auto next = [&] { return client.readable_within(100); };
  EXPECT_TRUE(advance_until(manual, seconds(6), next));
  EXPECT_NE(client.read_until(": keep-alive\n\n").find("200 OK"), std::string::npos);
  EXPECT_TRUE(advance_until(manual, seconds(6), next));
  EXPECT_NE(client.read_until(": keep-alive\n\n").find("keep-alive"), std::string::npos);
  fleet->release();
  const std::string rest = client.read_until("[DONE]");
  EXPECT_NE(rest.find("assistant"), std::string::npos);
  EXPECT_NE(rest.find("[DONE]"), std::string::npos);
}

}  // namespace
}  // namespace causeway::server::server_connection_test
