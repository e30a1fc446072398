// Starting, draining, stopping, and many clients at once.
#include <cstdint>
#include <future>
#include <set>
#include <string>
#include <thread>

#include "server/testing/fixture.h"

namespace causeway::server::server_lifecycle_test {
namespace {

using testing::Answer;
using testing::Client;
using testing::post_request;
using testing::says;
using testing::Script;
using testing::ServerTest;

Result<Script> hold(const request::Request&) {
  Script script = says("held");
  script.held = true;
  return script;
}

TEST_F(ServerTest, APortThatIsTakenIsAClearError) {
  start();
  ServerOptions same = options;
  same.port = server->port();
  Server second(same, clock);
  const Status status = second.start(*fleet);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_NE(status.error().message.find(std::to_string(same.port)), std::string::npos);
}

TEST_F(ServerTest, AHostThatIsNoAddressIsAClearError) {
  options.host = "no.such.host";
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  const Status status = server->start(*fleet);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("no.such.host"), std::string::npos);
}

TEST_F(ServerTest, DrainingLetsTheRunningEnd) {
  start();
  fleet->on_submit = hold;
  Client running(server->port());
  running.send(post_request("/v1/chat/completions", chat_body()));
  Client kept(server->port());
  EXPECT_EQ(kept.get("/health").status, 200);
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  auto drained = std::async(std::launch::async, [this] { return server->drain(seconds(30)); });
  Answer health;
  while (health.status != 503) health = Client(server->port()).get("/health");
  const Answer refused = kept.post("/v1/chat/completions", chat_body());
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error(refused)["code"], "draining");
  EXPECT_EQ(refused.headers.at("connection"), "close");
  fleet->release();
  EXPECT_EQ(running.read_answer().status, 200);
  EXPECT_TRUE(drained.get());
}

TEST_F(ServerTest, StoppingTellsThoseWhoAreStillSending) {
  start();
  Client body(server->port());
  body.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{");
  Client head(server->port());
  head.send("POST /v1/completions HTTP/1.1\r\nHost: t\r\n");
  ASSERT_FALSE(head.closed_within(200));  // both are being read by now
  server->stop();
  for (Client* client : {&body, &head}) {
    const Answer answer = client->read_answer();
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(error(answer)["code"], "draining");
  }
}

TEST_F(ServerTest, DrainingEndsWhatOutlastsTheGrace) {
  start();
  fleet->on_submit = hold;
  Client whole(server->port());
  whole.send(post_request("/v1/chat/completions", chat_body()));
  Client stream(server->port());
  fleet->wait_for_submitted(1);
  stream.send(post_request("/v1/chat/completions", chat_body(R"("stream":true)")));
  ASSERT_TRUE(fleet->wait_for_submitted(2));
  EXPECT_FALSE(server->drain(millis(20)));
  EXPECT_EQ(whole.read_answer().status, 503);
  EXPECT_EQ(stream.read_answer().status, 503);
  EXPECT_TRUE(fleet->wait_for_cancelled(2));
}

TEST_F(ServerTest, StoppingCancelsWhatRuns) {
  start();
  fleet->on_submit = hold;
  Client client(server->port());
  client.send(post_request("/v1/chat/completions", chat_body()));
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  server->stop();
  EXPECT_TRUE(fleet->wait_for_cancelled(1));
  server->stop();
}

TEST_F(ServerTest, ManyClientsAtOnce) {
  start({"tiny", "other"});
  fleet->on_submit = [](const request::Request& request) -> Result<Script> {
    return says("size " + std::to_string(request.prompt.size()));
  };
  constexpr int kClients = 16, kRequests = 20;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      for (int i = 0; i < kRequests; ++i) {
        Client client(server->port());
        const auto size = static_cast<std::size_t>(1 + (c * 7 + i) % 50);
        const bool stream = i % 2 == 0;
        const std::string body = R"({"model":")" + std::string(c % 2 == 0 ? "tiny" : "other") +
                                 R"(","prompt":")" + std::string(size, 'a') + R"(","stream":)" +
                                 (stream ? "true" : "false") + "}";
        client.send(post_request("/v1/completions", body));
        if (i % 5 == 4) continue;  // leaves without reading
        const Answer answer = client.read_answer();
        std::string text;
        for (const auto& event : answer.events()) {
          const auto chunk = parsed(event);
          if (chunk.is_object()) text += chunk["choices"][0]["text"].get<std::string>();
        }
        if (!stream) text = parsed(answer.body)["choices"][0]["text"].get<std::string>();
        right += text == "size " + std::to_string(size);
      }
    });
  }
  std::thread scraper([&] {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(Client(server->port()).get("/metrics").status, 200);
  });
  for (auto& thread : threads) thread.join();
  scraper.join();
  EXPECT_EQ(right, kClients * kRequests * 4 / 5);
}

TEST_F(ServerTest, HealthTellsThatTheDeviceHangs) {
  start();
  Client client(server->port());
  EXPECT_EQ(client.get("/health").status, 200);
  fleet->hung = true;
  const Answer answer = client.get("/health");
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("device_hung"), std::string::npos);
  fleet->hung = false;
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST_F(ServerTest, HealthTellsWhyTheDeviceIsLost) {
  start();
  fleet->hung = true;  // as it often does before
  fleet->lost = true;
  const Answer answer = Client(server->port()).get("/health");
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("device_lost"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("GPU 0 is lost: planted"), std::string::npos) << answer.body;
}

// Ids name answers in logs that last longer than a server.
TEST_F(ServerTest, IdsOfAnotherStartAreOthersAndSeedsTheSame) {
  std::set<std::string> ids;
  std::set<std::uint64_t> seeds;
  for (const std::uint64_t id_seed : {std::uint64_t{1}, std::uint64_t{2}}) {
    options.id_seed = id_seed;
    start();
    ids.insert(parsed(chat().body)["id"].get<std::string>());
    seeds.insert(fleet->last().sampling.seed);
    server->stop();
    fleet.reset();
  }
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_EQ(seeds.size(), 1u);
}

}  // namespace
}  // namespace causeway::server::server_lifecycle_test
