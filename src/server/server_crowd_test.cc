// Many clients that misbehave at the same time: others are served, memory stays bounded, and
// nothing is left of them. The whole program under a larger crowd: tests/e2e/crowd_test.py.
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "base/testing/rounds.h"
#include "server/http/body_room.h"
#include "server/testing/fixture.h"

namespace causeway::server::server_crowd_test {
namespace {

using testing::Answer;
using testing::Client;
using testing::post_request;
using testing::says;
using testing::Script;
using testing::ServerTest;
using testing::TimedServerTest;

constexpr int kCrowd = 200;

class Crowd : public ServerTest {
 protected:
  using Clients = std::vector<std::unique_ptr<Client>>;

  Clients connect(int count) {
    Clients clients;
    for (int i = 0; i < count; ++i) clients.push_back(std::make_unique<Client>(server->port()));
    return clients;
  }
};

TEST_F(Crowd, BodiesThatAreCutShortSubmitNothing) {
  start();
  const std::string head = "POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\n";
  const std::string body = chat_body();
  const std::vector<std::string> cut = {
      head + "Transfer-Encoding: chunked\r\n\r\n",
      head + "Transfer-Encoding: chunked\r\n\r\n4",
      head + "Transfer-Encoding: chunked\r\n\r\n400\r\n" + body,
      head + "Transfer-Encoding: chunked\r\n\r\n10\r\n" + body.substr(0, 16),
      head + "Transfer-Encoding: chunked\r\n\r\n10\r\n" + body.substr(0, 16) + "\r\n0\r\n",
      head + "Content-Length: 5000\r\n\r\n" + body,
  };
  Clients clients = connect(kCrowd);
  for (std::size_t i = 0; i < clients.size(); ++i) clients[i]->send(cut[i % cut.size()]);
  EXPECT_EQ(chat().status, 200);
  // Some leave, others wait for an answer behind what they have sent.
  for (std::size_t i = 0; i < clients.size(); i += 2) clients[i]->close();
  for (std::size_t i = 1; i < clients.size(); i += 2) {
    clients[i]->close_sending();
    EXPECT_EQ(clients[i]->read_answer().status, 400) << cut[i % cut.size()];
  }
  EXPECT_EQ(chat().status, 200);
  EXPECT_EQ(fleet->submitted(), 2) << "those that were whole";
}

TEST_F(Crowd, PipelinesAreAnsweredInOrder) {
  start();
  fleet->on_submit = [](const request::Request& request) -> Result<Script> {
    return says("tokens " + std::to_string(request.prompt.size()));
  };
  std::string ahead;
  for (int i = 1; i <= 8; ++i) {
    ahead +=
        post_request("/v1/completions", R"({"model":"tiny","prompt":")" +
                                            std::string(static_cast<std::size_t>(i), 'a') + "\"}");
    ahead += "GET /health HTTP/1.1\r\nHost: t\r\n\r\n";
  }
  Clients clients = connect(50);
  for (auto& client : clients) client->send(ahead);
  for (auto& client : clients) {
    for (int i = 1; i <= 8; ++i) {
      const auto body = parsed(client->read_answer().body);
      EXPECT_EQ(body["choices"][0]["text"], "tokens " + std::to_string(i));
      EXPECT_EQ(client->read_answer().status, 200);
    }
  }
}

// More than the server reads ahead: the rest waits in the kernel, and is answered all the same.
TEST_F(Crowd, LongPipelinesWaitTheirTurn) {
  start();
  constexpr int kRequests = 3000;  // 150 KB
  std::string ahead;
  for (int i = 0; i < kRequests; ++i) ahead += "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string first = post_request("/v1/completions", R"({"model":"tiny","prompt":"a"})");
  Client client(server->port());
  std::thread sends([&] { client.send(first + ahead); });
  for (int i = 0; i < kRequests + 1; ++i) ASSERT_EQ(client.read_answer().status, 200) << i;
  sends.join();
}

TEST_F(Crowd, ClientsThatNeverReadAreCancelled) {
  options.limits.queued_tokens_max = 500;
  start();
  fleet->on_submit = [](const request::Request& request) -> Result<Script> {
    if (request.max_tokens == Tokens(5)) return says("quick");
    Script script = says(std::string(100, 'w'));
    script.endless = true;
    script.tokens_per_output = 50;
    // Log-probabilities make much text of a token, so that the socket's buffers fill soon.
    script.top = std::vector<request::TokenLogprob>(20, {65, -1.0f});
    return script;
  };
  Clients clients = connect(rounds(50));
  for (auto& client : clients) {
    client->set_receive_buffer(4096);
    client->send(post_request("/v1/chat/completions",
                              chat_body(R"("stream":true,"logprobs":true,"top_logprobs":20)")));
  }
  ASSERT_TRUE(fleet->wait_for_submitted(std::ssize(clients)));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(chat(R"("max_tokens":5)").status, 200);
  EXPECT_TRUE(fleet->wait_for_cancelled(std::ssize(clients)));
  EXPECT_EQ(fleet->running(), 0);
}

// Tokenizing a body of megabytes may take seconds. Here it takes until small ones are answered.
TEST_F(Crowd, LargeBodiesThatArePreparedHoldUpNoSmallOnes) {
  start({"tiny", "slow"});
  std::mutex mutex;
  std::condition_variable changed;
  bool go = false;
  fleet->on_find = [&](std::string_view name) {
    if (name != "slow") return;
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(60), [&] { return go; });
  };
  const std::string large = R"({"model":"slow","max_tokens":2,"prompt":")" + std::string(500, 'a') +
                            R"(","user":")" + std::string(std::size_t{100} << 10, 'u') + "\"}";
  Clients clients = connect(20);
  for (auto& client : clients) client->send(post_request("/v1/completions", large));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(chat().status, 200);
  EXPECT_EQ(fleet->submitted(), 20) << "the small ones went first";
  {
    const std::lock_guard lock(mutex);
    go = true;
  }
  changed.notify_all();
  for (auto& client : clients) EXPECT_EQ(client->read_answer().status, 200);
}

// Each is small enough alone. The room comes back: else the last ones found none.
TEST_F(Crowd, LargeBodiesTogetherHaveALimit) {
  options.limits.bodies_bytes_max = 1'000'000;
  start();
  const auto body = [](std::size_t bytes) {
    return R"({"model":"tiny","prompt":"a","user":")" + std::string(bytes, 'u') + "\"}";
  };
  const auto send = [&](std::size_t bytes) {
    return Client(server->port()).post("/v1/completions", body(bytes));
  };
  const Answer refused = send(1'000'000);
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(error(refused)["message"], ::testing::HasSubstr("try again later"));
  EXPECT_EQ(send(60'000).status, 200) << "small ones need none of it";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(send(900'000).status, 200);
}

TEST(BodyRoom, IsSharedByAllThatAreThereAtATime) {
  ServerOptions options;
  options.limits.bodies_bytes_max = 1'000'000;
  ManualClock clock;
  ServerContext context(options, clock);
  BodyRoom small(context), first(context);
  EXPECT_TRUE(small.grow_to(ServerContext::kSmallBodyBytes));
  EXPECT_EQ(context.bodies_bytes, 0);
  EXPECT_TRUE(first.grow_to(300'000));
  EXPECT_TRUE(first.grow_to(600'000)) << "as it arrives, piece by piece";
  {
    BodyRoom second(context);
    EXPECT_FALSE(second.grow_to(400'001));
    EXPECT_TRUE(second.grow_to(400'000));
    EXPECT_FALSE(first.grow_to(600'001));
    EXPECT_EQ(context.bodies_bytes, 1'000'000);
  }
  EXPECT_TRUE(first.grow_to(1'000'000));
  first.release();
  EXPECT_EQ(context.bodies_bytes, 0);
}

TEST_F(TimedServerTest, ManySlowHeadersHoldUpNobody) {
  start_timed();
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < kCrowd; ++i) {
    slow.push_back(std::make_unique<Client>(server->port()));
    slow.back()->send("GET /health HTTP/1.1\r\nX-Slow: ");
  }
  for (int round = 0; round < 5; ++round) {
    for (auto& client : slow) client->send("a");
    EXPECT_EQ(chat().status, 200);
    manual.advance(seconds(1));
  }
  ASSERT_FALSE(slow.back()->closed_within(100)) << "there is time left";
  manual.advance(seconds(11));
  for (auto& client : slow) EXPECT_EQ(client->read_answer().status, 408);
  EXPECT_EQ(chat().status, 200);
}

}  // namespace
}  // namespace causeway::server::server_crowd_test
