// The admin port: who may ask, what is asked of the fleet, and what is told.
#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "server/testing/fixture.h"

namespace causeway::server::server_admin_test {
namespace {

using testing::Answer;
using testing::Client;
using ::testing::HasSubstr;
using testing::post_request;
using testing::says;
using testing::Script;

constexpr const char* kTiny = R"({"model":"tiny"})";

class AdminTest : public testing::ServerTest {
 protected:
  AdminTest() { options.admin.emplace(); }

  Answer get(const std::string& path, const std::string& headers = "") {
    return Client(server->admin_port()).get(path, headers);
  }
  Answer post(const std::string& path, const std::string& body = "",
              const std::string& headers = "") {
    return Client(server->admin_port()).post(path, body, headers);
  }
  // What was asked of the fleet, in order.
  void record() {
    fleet->on_ask = [this](const fleet::Ask& ask) -> Status {
      const std::lock_guard lock(mutex_);
      asked_.push_back(ask);
      return {};
    };
  }
  std::vector<fleet::Ask> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  std::mutex mutex_;
  std::vector<fleet::Ask> asked_;
};

TEST_F(AdminTest, EachPortHasItsOwnPaths) {
  start();
  EXPECT_NE(server->admin_port(), 0);
  EXPECT_NE(server->admin_port(), server->port());
  EXPECT_EQ(get("/admin/models").status, 200);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/metrics").status, 200);
  EXPECT_EQ(get("/").status, 200);
  EXPECT_EQ(get("/v1/models").status, 404);
  EXPECT_EQ(post("/v1/chat/completions", chat_body()).status, 404);
  EXPECT_EQ(get("/admin/models/load").status, 405);
  EXPECT_EQ(get("/admin/models/load").headers.at("allow"), "POST");
  EXPECT_EQ(post("/admin/models").status, 405);
  for (const auto path : {"/admin/reload", "/admin/chat/completions"}) {
    EXPECT_EQ(get(path).status, 405) << path;
    EXPECT_EQ(Client(server->port()).post(path, chat_body()).status, 404) << path;
  }
  EXPECT_EQ(post("/").status, 405);
  EXPECT_EQ(Client(server->port()).get("/").status, 404);
  Client others(server->port());
  EXPECT_EQ(others.get("/admin/models").status, 404);
  EXPECT_EQ(others.get("/models").status, 404);
  EXPECT_EQ(Client(server->port()).post("/admin/models/unload", kTiny).status, 404);
  EXPECT_EQ(Client(server->port()).post("/sleep", "").status, 404);
}

TEST_F(AdminTest, ThereIsNoneUnlessAskedFor) {
  options.admin.reset();
  start();
  EXPECT_EQ(server->admin_port(), 0);
}

TEST_F(AdminTest, KeysAreItsOwn) {
  options.api_keys = {"public"};
  options.admin->keys = {"secret"};
  start();
  for (const auto path : {"/admin/models", "/models", "/is_sleeping"}) {
    EXPECT_EQ(get(path).status, 401) << path;
    EXPECT_EQ(get(path, "Authorization: Bearer public\r\n").status, 401) << path;
    EXPECT_EQ(get(path, "Authorization: Bearer secret\r\n").status, 200) << path;
  }
  for (const auto path : {"/admin/models/load", "/admin/models/unload", "/admin/models/pin",
                          "/admin/models/unpin", "/models/load", "/models/unload", "/sleep",
                          "/wake_up", "/admin/drain", "/admin/reload", "/admin/chat/completions"}) {
    EXPECT_EQ(post(path, kTiny).status, 401) << path;
    EXPECT_EQ(post(path, kTiny, "Authorization: Bearer wrong\r\n").status, 401) << path;
  }
  EXPECT_EQ(fleet->submitted(), 0);
  EXPECT_EQ(get("/health").status, 200) << "probes have no key";
  EXPECT_EQ(Client(server->port()).get("/v1/models", "Authorization: Bearer secret\r\n").status,
            401);
}

TEST_F(AdminTest, WithoutAKeyItIsOfThisMachineAlone) {
  options.admin->host = "0.0.0.0";
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  const Status status = server->start(*fleet);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr("a key for administration"));
}

TEST_F(AdminTest, PagesOfBrowsersNeedAKey) {
  start();
  record();
  EXPECT_EQ(post("/admin/models/unload", kTiny, "Origin: http://evil.example\r\n").status, 403);
  EXPECT_EQ(post("/admin/drain", "", "Origin: null\r\n").status, 403);
  EXPECT_EQ(post("/admin/chat/completions", chat_body(), "Origin: http://127.0.0.1:1\r\n").status,
            403);
  EXPECT_TRUE(asked().empty());
  EXPECT_EQ(fleet->submitted(), 0);
  EXPECT_EQ(get("/health").status, 200) << "it does not drain";
  const std::string own = "127.0.0.1:" + std::to_string(server->admin_port());
  const auto ask_as = [&](const std::string& host, const std::string& origin) {
    Client client(server->admin_port());
    client.send("POST /admin/models/pin HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + origin +
                "\r\nContent-Length: 16\r\n\r\n" + kTiny);
    return client.read_answer().status;
  };
  EXPECT_EQ(ask_as(own, "http://" + own), 200) << "but its own";
  EXPECT_EQ(ask_as("evil.example", "http://evil.example"), 403) << "by a name that leads here";
}

TEST_F(AdminTest, ThePageIsOpenAndSaysNothing) {
  options.admin->keys = {"secret"};
  start({"hidden-model"});
  const Answer page = get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.headers.at("content-security-policy"),
              ::testing::AllOf(HasSubstr("default-src 'none'"), HasSubstr("script-src 'sha256-"),
                               HasSubstr("frame-ancestors 'none'")));
  EXPECT_EQ(page.headers.at("x-frame-options"), "DENY");
  EXPECT_THAT(page.body, HasSubstr("<title>Causeway</title>"));
  EXPECT_THAT(page.body, ::testing::Not(HasSubstr("hidden-model")));
}

TEST_F(AdminTest, ThePageChatsByTheAdminPort) {
  options.api_keys = {"public"};
  options.admin->keys = {"secret"};
  start();
  const std::string key = "Authorization: Bearer secret\r\n";
  const Answer whole = post("/admin/chat/completions", chat_body(), key);
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(parsed(whole.body)["choices"][0]["message"]["content"], "Hello");
  const Answer stream = post("/admin/chat/completions", chat_body(R"("stream":true)"), key);
  EXPECT_EQ(stream.events().back(), "[DONE]");
  EXPECT_EQ(post("/admin/chat/completions", "{", key).status, 400);
  EXPECT_EQ(post("/admin/chat/completions", chat_body(), "Authorization: Bearer public\r\n").status,
            401);
  ASSERT_EQ(post("/admin/drain", "", key).status, 200);
  EXPECT_EQ(post("/admin/chat/completions", chat_body(), key).status, 503);
}

TEST_F(AdminTest, AReloadTellsWhatCameOfIt) {
  start();
  record();
  fleet->reloaded = {.added = {"new"},
                     .removed = {"old", "\"<b>\n"},
                     .kept = {{"busy", "it has 1 request"}},
                     .left_out = {{"broken", "no tokenizer"}}};
  EXPECT_EQ(parsed(post("/admin/reload").body),
            parsed(R"({"added":["new"],"removed":["old","\"<b>\n"],)"
                   R"("kept":[{"model":"busy","why":"it has 1 request"}],)"
                   R"("left_out":[{"model":"broken","why":"no tokenizer"}]})"));
  ASSERT_EQ(asked().size(), 1u);
  EXPECT_EQ(asked().front().kind, fleet::AskKind::kReload);
  fleet->on_ask = [](const fleet::Ask&) -> Status { return unavailable("being read already"); };
  EXPECT_EQ(post("/admin/reload").status, 503);
}

TEST_F(AdminTest, AModelThatHasGoneSinceIsNotFound) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> { return not_found("removed"); };
  EXPECT_EQ(chat().status, 404);
  EXPECT_EQ(error(chat())["code"], "model_not_found");
}

TEST_F(AdminTest, ATakenPortIsAClearError) {
  start();
  ServerOptions same = options;
  same.port = 0;
  same.admin->port = server->admin_port();
  Server second(same, clock);
  const Status status = second.start(*fleet);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("the admin port"));
  EXPECT_THAT(status.error().message, HasSubstr(std::to_string(same.admin->port)));
}

TEST_F(AdminTest, ListsModels) {
  start({"tiny", "other"});
  fleet->on_status = [](ModelId model, fleet::ModelStatus& status) {
    status.pinned = model == ModelId(1);
    if (model != ModelId(1)) return;
    status.state = fleet::ModelState::kUnloaded;
    status.attached = false;
    status.last_error = "broken";
  };
  const auto body = parsed(get("/admin/models").body);
  ASSERT_EQ(body["data"].size(), 2u);
  const auto& tiny = body["data"][0];
  EXPECT_EQ(tiny["id"], "tiny");
  EXPECT_EQ(tiny["status"], "ready");
  EXPECT_EQ(tiny["resident_bytes"]["host"], 5000);
  EXPECT_EQ(tiny["resident_bytes"]["device"], 3000);
  EXPECT_EQ(tiny["pinned"], false);
  EXPECT_EQ(tiny["attached"], true);
  EXPECT_EQ(tiny["requests_running"], 0);
  EXPECT_EQ(tiny["requests_waiting"], 0);
  EXPECT_EQ(tiny["predicted_tpot_us"], 1500);
  EXPECT_EQ(body["data"][1]["pinned"], true);
  EXPECT_EQ(body["data"][1]["last_error"], "broken");
  EXPECT_EQ(body["draining"], false);
  EXPECT_EQ(body["is_sleeping"], false);

  const auto router = parsed(get("/models").body);
  EXPECT_EQ(router["data"][0]["status"]["value"], "loaded");
  EXPECT_EQ(router["data"][1]["status"]["value"], "unloaded");
  EXPECT_EQ(router["data"][1]["status"]["failed"], true);
}

TEST_F(AdminTest, AsksTheFleet) {
  start({"tiny", "other"});
  record();
  EXPECT_EQ(parsed(post("/admin/models/load", R"({"model":"other"})").body)["id"], "other");
  EXPECT_EQ(post("/admin/models/unload", kTiny).status, 200);
  EXPECT_EQ(post("/admin/models/pin", kTiny).status, 200);
  EXPECT_EQ(post("/admin/models/unpin", kTiny).status, 200);
  EXPECT_EQ(parsed(post("/models/load", kTiny).body)["success"], true);
  EXPECT_EQ(parsed(post("/models/unload", kTiny).body)["success"], true);
  EXPECT_EQ(post("/sleep").status, 200);
  EXPECT_EQ(post("/sleep?level=2&mode=abort").status, 200);
  EXPECT_EQ(post("/wake_up?tags=weights").status, 200);
  const auto all = asked();
  using fleet::AskKind;
  const AskKind wanted[] = {AskKind::kLoad,  AskKind::kUnload, AskKind::kPin,
                            AskKind::kUnpin, AskKind::kLoad,   AskKind::kUnload,
                            AskKind::kSleep, AskKind::kSleep,  AskKind::kWake};
  ASSERT_EQ(all.size(), std::size(wanted));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].kind, wanted[i]) << i;
  EXPECT_EQ(all[0].model, ModelId(1));
  EXPECT_EQ(all[1].model, ModelId(0));
  EXPECT_FALSE(all[1].keeps_home);
  EXPECT_TRUE(all[6].keeps_home) << "level 1";
  EXPECT_FALSE(all[7].keeps_home) << "level 2";
  EXPECT_EQ(all[6].mode, fleet::SleepMode::kIdle);
  EXPECT_EQ(all[7].mode, fleet::SleepMode::kAbort);
}

TEST_F(AdminTest, TellsWhetherModelsSleep) {
  start();
  EXPECT_EQ(parsed(get("/is_sleeping").body)["is_sleeping"], false);
  fleet->asleep_now = true;
  EXPECT_EQ(get("/is_sleeping").body, R"({"is_sleeping":true})");
  EXPECT_EQ(parsed(post("/sleep").body)["loaded"], nlohmann::json({"tiny"}));
}

TEST_F(AdminTest, RefusalsHaveTheirStatus) {
  start();
  const auto answers = [this](const Error& error) {
    fleet->on_ask = [error](const fleet::Ask&) -> Status { return error; };
    return post("/admin/models/unload", kTiny);
  };
  const Answer busy = answers(invalid_argument("it has 3 requests"));
  EXPECT_EQ(busy.status, 409);
  EXPECT_EQ(error(busy)["code"], "conflict");
  EXPECT_EQ(error(busy)["message"], "it has 3 requests");
  EXPECT_EQ(answers(unavailable("slices are being changed")).status, 503);
  EXPECT_EQ(answers(exhausted("too many wait")).status, 429);
  fleet->on_ask = {};
  for (const auto path : {"/admin/models/load", "/admin/models/unload", "/admin/models/pin",
                          "/models/load", "/models/unload"}) {
    const Answer unknown = post(path, R"({"model":"../../etc"})");
    EXPECT_EQ(unknown.status, 404) << path;
    EXPECT_EQ(error(unknown)["code"], "model_not_found") << path;
    EXPECT_EQ(post(path, "{").status, 400) << path;
    EXPECT_EQ(post(path, "").status, 400) << path;
    EXPECT_EQ(error(post(path, R"({"model":1})"))["param"], "model") << path;
    EXPECT_EQ(post(path, std::string(100'000, '[')).status, 400) << path;
  }
  EXPECT_EQ(post("/sleep?level=3").status, 400);
  EXPECT_EQ(error(post("/sleep?mode=pause"))["param"], "mode");
  EXPECT_EQ(post("/wake_up?tags=all").status, 400);
}

TEST_F(AdminTest, BodiesBeyondTheLimitAreNotRead) {
  options.limits.body_bytes_max = 1000;
  start();
  Client client(server->admin_port());
  client.send("POST /admin/models/load HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 5000000\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST_F(AdminTest, AnAskIsWaitedForUnlessToldNot) {
  start();
  fleet->asks_held = true;
  Client waits(server->admin_port());
  waits.send(post_request("/admin/models/load", kTiny));
  EXPECT_FALSE(waits.readable_within(100));
  EXPECT_EQ(post("/admin/models/load", R"({"model":"tiny","wait":false})").status, 202);
  EXPECT_EQ(post("/models/load", kTiny).status, 200);
  fleet->release();
  EXPECT_EQ(waits.read_answer().status, 200);
}

TEST_F(AdminTest, AClientThatLeavesTakesItsAskBack) {
  start();
  fleet->asks_held = true;
  {
    Client client(server->admin_port());
    client.send(post_request("/admin/models/load", kTiny));
    while (fleet->running() == 0) std::this_thread::yield();
  }
  EXPECT_TRUE(fleet->wait_for_cancelled(1));
}

TEST_F(AdminTest, AStopEndsWhatIsWaitedFor) {
  start();
  fleet->asks_held = true;
  Client client(server->admin_port());
  client.send(post_request("/admin/models/unload", kTiny));
  while (fleet->running() == 0) std::this_thread::yield();
  EXPECT_TRUE(server->drain(seconds(10))) << "an ask is no generation";
  server->stop();
  EXPECT_EQ(client.read_answer().status, 503);
}

TEST_F(AdminTest, DrainingEndsWhenAllIsIdle) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("held");
    script.held = true;
    return script;
  };
  Client running(server->port());
  running.send(post_request("/v1/chat/completions", chat_body()));
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  auto drained = std::async(std::launch::async, [this] { return post("/admin/drain"); });
  while (get("/health").status != 503) std::this_thread::yield();
  EXPECT_EQ(Client(server->port()).get("/health").status, 503);
  EXPECT_EQ(chat().status, 503);
  EXPECT_EQ(parsed(get("/admin/models").body)["draining"], true);
  EXPECT_EQ(post("/admin/models/load", kTiny).status, 503);
  EXPECT_EQ(post("/admin/reload").status, 503);
  EXPECT_EQ(post("/admin/models/unload", kTiny).status, 200);
  EXPECT_EQ(drained.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  fleet->release();
  EXPECT_EQ(running.read_answer().status, 200);
  const Answer answer = drained.get();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(parsed(answer.body)["drained"], true);
  EXPECT_EQ(post("/admin/drain").status, 200) << "once more";
}

TEST_F(AdminTest, ClientsOfOnePortDoNotKeepThoseOfTheOtherOut) {
  options.admin->connections_max = 2;
  options.limits.connections_max = 2;
  start();
  Client first(server->admin_port()), second(server->admin_port());
  EXPECT_EQ(first.get("/health").status, 200);
  EXPECT_EQ(second.get("/health").status, 200);
  EXPECT_EQ(get("/health").status, 503);
  Client third(server->port()), fourth(server->port());
  EXPECT_EQ(third.get("/health").status, 200);
  EXPECT_EQ(fourth.get("/health").status, 200);
  EXPECT_EQ(first.get("/health").status, 200);
}

TEST_F(AdminTest, SeveralAtOnceAllEnd) {
  start();
  std::vector<std::future<bool>> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(std::async(std::launch::async, [this, i] {
      Client client(server->admin_port());
      for (int round = 0; round < 20; ++round) {
        const char* const path = (i + round) % 2 == 0 ? "/admin/models/load" : "/models/unload";
        if (client.post(path, kTiny).status != 200) return false;
      }
      return true;
    }));
  }
  for (auto& one : all) EXPECT_TRUE(one.get());
}

// GET /models/sse, and what comes of it.
class ModelEventsTest : public AdminTest {
 protected:
  ModelEventsTest() { options.limits.keep_alive_period = millis(50); }
  ~ModelEventsTest() override {
    if (server) server->stop();  // while there is what on_status reads
  }
  void begin() {
    start();
    fleet->on_status = [this](ModelId, fleet::ModelStatus& status) {
      status.state = loaded ? fleet::ModelState::kReady : fleet::ModelState::kUnloaded;
    };
  }
  bool follow(Client& client) {
    client.send("GET /models/sse HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    return client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n");
  }
  std::atomic<bool> loaded{true};
};

TEST_F(ModelEventsTest, TellAllWhoFollow) {
  begin();
  Client one(server->admin_port()), other(server->admin_port());
  ASSERT_TRUE(follow(one));
  ASSERT_TRUE(follow(other));
  loaded = false;
  for (Client* client : {&one, &other}) {
    const std::string read = client->read_until("\"unloaded\"}}\n\n");
    EXPECT_THAT(read, HasSubstr(R"(data: {"model":"tiny","event":"model_status")"));
  }
  loaded = true;
  one.read_until("\"loading\"}}\n\n");
  one.read_until("\"loaded\"}}\n\n");
  EXPECT_THAT(one.read_until(": keep-alive\n\n"), HasSubstr(": keep-alive"));
}

TEST_F(ModelEventsTest, SoManyMayFollow) {
  begin();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::make_unique<Client>(server->admin_port()));
    ASSERT_TRUE(follow(*clients.back())) << i;
  }
  EXPECT_EQ(get("/models/sse").status, 429);
  EXPECT_EQ(get("/admin/models").status, 200);
  clients.pop_back();
  bool follows = false;
  for (const Nanos limit = clock.now() + seconds(10); clock.now() < limit && !follows;) {
    Client again(server->admin_port());
    follows = follow(again);
  }
  EXPECT_TRUE(follows) << "one that has left makes room";
}

TEST_F(ModelEventsTest, AStopEndsThem) {
  begin();
  Client client(server->admin_port());
  ASSERT_TRUE(follow(client));
  const Nanos began = clock.now();
  server->stop();
  EXPECT_LT(clock.now() - began, seconds(2));
  EXPECT_TRUE(client.closed_within(5000));
}

TEST_F(ModelEventsTest, AreTheAdminPortsAlone) {
  options.admin->keys = {"secret"};
  begin();
  EXPECT_EQ(get("/models/sse").status, 401);
  EXPECT_EQ(post("/models/sse", "{}", "Authorization: Bearer secret\r\n").status, 405);
  EXPECT_EQ(Client(server->port()).get("/models/sse").status, 404);
}

TEST_F(AdminTest, WithoutAutoloadNothingIsLoaded) {
  start();
  std::atomic<bool> loaded{false};
  fleet->on_status = [&](ModelId, fleet::ModelStatus& status) {
    status.state = loaded ? fleet::ModelState::kReady : fleet::ModelState::kUnloaded;
  };
  fleet->on_submit = [&](const request::Request&) -> Result<Script> {
    if (!loaded) return unavailable("the model is not loaded");
    return says("x");
  };
  const auto ask = [&](const std::string& query) {
    return Client(server->port()).post("/v1/chat/completions" + query, chat_body());
  };
  const Answer refused = ask("?autoload=false");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error(refused)["code"], "model_not_loaded");
  EXPECT_EQ(error(refused)["param"], "model");
  EXPECT_EQ(fleet->probed(), 1);
  EXPECT_EQ(ask("?autoload=true").status, 503) << "what the fleet says";
  EXPECT_EQ(ask("").status, 503);
  EXPECT_EQ(fleet->probed(), 1);
  loaded = true;
  EXPECT_EQ(ask("?autoload=false").status, 200);
  EXPECT_EQ(fleet->probed(), 2);
  EXPECT_EQ(ask("?api-version=1&autoload=0").status, 200) << "others are left alone";
  const Answer unclear = ask("?autoload=maybe");
  EXPECT_EQ(unclear.status, 400);
  EXPECT_EQ(error(unclear)["param"], "autoload");
}

// Ollama's keep_alive, of requests by the first port.
class KeepAliveTest : public AdminTest {
 protected:
  KeepAliveTest() { options.limits.api.keep_alive = true; }
  // Waits for as many asks.
  std::vector<fleet::Ask> await_asks(std::size_t count) {
    for (const Nanos limit = clock.now() + seconds(10); clock.now() < limit;) {
      if (asked().size() >= count) break;
      std::this_thread::yield();
    }
    return asked();
  }
};

TEST_F(KeepAliveTest, HasAModelLeaveOrStay) {
  start();
  record();
  EXPECT_EQ(chat(R"("keep_alive":0)").status, 200);
  auto asks = await_asks(1);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(asks[0].kind, fleet::AskKind::kUnload);
  EXPECT_FALSE(asks[0].keeps_home);
  EXPECT_EQ(completion(R"("prompt":"a","keep_alive":"-1m")").status, 200);
  asks = await_asks(2);
  ASSERT_EQ(asks.size(), 2u);
  EXPECT_EQ(asks[1].kind, fleet::AskKind::kPin);
  EXPECT_NE(asks[0].id, asks[1].id);
  EXPECT_EQ(chat(R"("keep_alive":"1h")").status, 200);
  EXPECT_EQ(chat().status, 200);
  EXPECT_EQ(error(chat(R"("keep_alive":"soon")"))["param"], "keep_alive");
  EXPECT_EQ(asked().size(), 2u);
}

TEST_F(KeepAliveTest, AsksAgainWhereTheFleetHasNotHeardOfTheEnd) {
  start();
  std::atomic<int> asks{0};
  fleet->on_ask = [&](const fleet::Ask&) -> Status {
    if (++asks < 3) return invalid_argument("it has 1 request");
    return {};
  };
  EXPECT_EQ(chat(R"("keep_alive":0)").status, 200);
  for (const Nanos limit = clock.now() + seconds(10); clock.now() < limit && asks < 3;) {
    std::this_thread::yield();
  }
  EXPECT_EQ(asks, 3);
}

TEST_F(KeepAliveTest, WaitsForOtherRequestsOfTheModel) {
  start();
  record();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("held");
    script.held = true;
    return script;
  };
  auto running = std::async(std::launch::async, [this] { return chat().status; });
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  fleet->on_submit = [](const request::Request&) -> Result<Script> { return says("x"); };
  EXPECT_EQ(chat(R"("keep_alive":0)").status, 200);
  const Nanos began = clock.now();
  while (clock.now() < began + millis(300)) std::this_thread::yield();
  EXPECT_TRUE(asked().empty());
  fleet->release();
  EXPECT_EQ(running.get(), 200);
}

TEST_F(KeepAliveTest, TakesAKeyForAdministration) {
  options.admin->keys = {"secret"};
  options.api_keys = {"key"};
  start();
  record();
  const std::string key = "Authorization: Bearer key\r\n";
  const std::string ask = R"("keep_alive":0)";
  for (const std::string& none :
       {std::string(), std::string("x-admin-key: key\r\n"), std::string("x-admin-key: \r\n")}) {
    const Answer refused = chat(ask, key + none);
    EXPECT_EQ(refused.status, 401) << none;
    EXPECT_EQ(error(refused)["param"], "keep_alive");
  }
  EXPECT_EQ(chat(ask, "x-admin-key: secret\r\n").status, 401) << "nor is it a key of this port";
  EXPECT_EQ(chat("", key).status, 200);
  EXPECT_TRUE(asked().empty());
  EXPECT_EQ(chat(ask, key + "x-admin-key: secret\r\n").status, 200);
  EXPECT_EQ(await_asks(1).size(), 1u);
}

TEST_F(KeepAliveTest, PagesOfOtherSitesMayNot) {
  start();
  record();
  EXPECT_EQ(chat(R"("keep_alive":0)", "Origin: http://evil.example\r\n").status, 401);
  EXPECT_EQ(chat("", "Origin: http://evil.example\r\n").status, 200);
  EXPECT_TRUE(asked().empty());
}

TEST_F(KeepAliveTest, IsNotOpenToEverybody) {
  options.host = "0.0.0.0";
  server.emplace(options, clock);
  fleet.emplace(server->sink());
  const Status open = server->start(*fleet);
  ASSERT_FALSE(open.ok());
  EXPECT_THAT(open.error().message, HasSubstr("0.0.0.0"));
}

TEST_F(AdminTest, KeepAliveIsUnknownUnlessAllowed) {
  start();
  const Answer refused = chat(R"("keep_alive":0)");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error(refused)["param"], "keep_alive");
}

}  // namespace
}  // namespace causeway::server::server_admin_test
