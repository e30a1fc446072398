// /sleep that pauses requests: what runs leaves the fleet and goes on behind its output, what is
// new waits, until /wake_up or a drain.
#include <gmock/gmock.h>

#include <chrono>
#include <future>

#include "server/testing/fixture.h"

namespace causeway::server::server_pause_test {
namespace {

using testing::Answer;
using testing::Client;
using testing::post_request;
using testing::says;
using testing::Script;

constexpr std::chrono::milliseconds kMoment{300};  // in which what must not happen would

class PauseTest : public testing::ServerTest {
 protected:
  PauseTest() { options.admin.emplace(); }

  // Says `text`, and nothing behind its first `hold` bytes when it is first asked.
  void say(const std::string& text, std::size_t hold) {
    fleet->on_submit = [text, hold](const request::Request& request) -> Result<Script> {
      Script script = says(text.substr(request.output.size()));
      script.held = request.output.empty() && request.attempt == 0;
      script.hold_at = hold;
      script.prompt_logprob = -0.5f;
      return script;
    };
    fleet->on_ask = [this](const fleet::Ask& ask) -> Status {
      if (ask.kind != fleet::AskKind::kSleep) return {};
      ++sleeps_;
      mode_ = ask.mode;
      return {};
    };
  }
  Answer admin(const std::string& path) { return Client(server->admin_port()).post(path, ""); }
  bool is_sleeping() {
    return parsed(Client(server->admin_port()).get("/is_sleeping").body)["is_sleeping"] == true;
  }
  std::future<Answer> later(const std::string& more = "") {
    return std::async(std::launch::async, [this, more] { return chat(more); });
  }
  static std::string text_of(const Answer& answer) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parsed(answer.body)["choices"][0]["message"]["content"];
  }
  static bool is_answered(std::future<Answer>& answer) {
    return answer.wait_for(kMoment) == std::future_status::ready;
  }
  // The pieces of content in these events, joined.
  static std::string content_of(const std::string& events) {
    constexpr std::string_view kBegin = R"("content":")";
    std::string out;
    for (auto at = events.find(kBegin); at != std::string::npos; at = events.find(kBegin, at)) {
      at += kBegin.size();
      out += events.substr(at, events.find('"', at) - at);
    }
    return out;
  }

  std::atomic<int> sleeps_{0};
  std::atomic<fleet::SleepMode> mode_{fleet::SleepMode::kIdle};
};

TEST_F(PauseTest, RequestsGoOnBehindTheirOutput) {
  start();
  say("Hello", 2);
  Client stream(server->port());
  stream.send(post_request("/v1/chat/completions", chat_body(R"("stream":true,"seed":7)")));
  const std::string before = content_of(stream.read_until("e\"}"));
  EXPECT_EQ(before, "He");
  ASSERT_EQ(admin("/sleep?mode=keep").status, 200);
  EXPECT_EQ(fleet->cancelled(), 1);
  EXPECT_EQ(sleeps_, 1);
  EXPECT_EQ(mode_, fleet::SleepMode::kWait) << "what has left counts until it has";
  EXPECT_TRUE(is_sleeping());
  auto fresh = later();
  EXPECT_FALSE(is_answered(fresh));
  EXPECT_EQ(fleet->submitted(), 1) << "nothing runs meanwhile";
  ASSERT_EQ(admin("/wake_up").status, 200);
  ASSERT_TRUE(fleet->wait_for_submitted(3));
  fleet->release();
  EXPECT_EQ(before + content_of(stream.read_until("[DONE]")), "Hello");
  EXPECT_EQ(text_of(fresh.get()), "Hello");
  EXPECT_FALSE(is_sleeping());
}

TEST_F(PauseTest, ARequestIsAsItWasButForItsOutput) {
  start();
  say("Hello", 3);
  auto answer = later(R"("max_tokens":9,"seed":7,"logprobs":true,"temperature":0.5)");
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  const request::Request before = fleet->last();
  ASSERT_EQ(admin("/sleep?level=2&mode=keep").status, 200);
  ASSERT_EQ(admin("/wake_up").status, 200);
  ASSERT_TRUE(fleet->wait_for_submitted(2));
  const request::Request after = fleet->last();
  EXPECT_NE(after.id, before.id);
  EXPECT_EQ(after.prompt, before.prompt);
  EXPECT_EQ(after.max_tokens, before.max_tokens);
  EXPECT_EQ(after.sampling.seed, before.sampling.seed);
  EXPECT_EQ(after.arrival, before.arrival);
  EXPECT_EQ(after.attempt, 1);
  EXPECT_LE(after.output.size(), 3u);
  const Answer whole = answer.get();
  EXPECT_EQ(text_of(whole), "Hello");
  EXPECT_EQ(parsed(whole.body)["usage"]["completion_tokens"], 5);
  EXPECT_EQ(parsed(whole.body)["choices"][0]["logprobs"]["content"].size(), 5u);
}

TEST_F(PauseTest, ItMayBePausedAgain) {
  start();
  say("Hello", 1);
  auto answer = later();
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  for (int round = 1; round <= 3; ++round) {
    ASSERT_EQ(admin("/sleep?level=0&mode=keep").status, 200);
    ASSERT_EQ(admin("/sleep?level=0&mode=keep").status, 200) << "twice is as once";
    ASSERT_EQ(admin("/wake_up?tags=scheduling").status, 200);
    if (round == 1) {
      ASSERT_TRUE(fleet->wait_for_submitted(2));
    }
  }
  EXPECT_EQ(text_of(answer.get()), "Hello");
  EXPECT_EQ(sleeps_, 0) << "at level 0 models stay";
}

TEST_F(PauseTest, SeveralChoicesWaitTogether) {
  start();
  say("Hello", 2);
  auto answer = later(R"("n":3,"temperature":1.0)");
  ASSERT_TRUE(fleet->wait_for_submitted(3));
  ASSERT_EQ(admin("/sleep?mode=keep").status, 200);
  EXPECT_EQ(fleet->cancelled(), 3);
  ASSERT_EQ(admin("/wake_up").status, 200);
  const Answer whole = answer.get();
  ASSERT_EQ(whole.status, 200) << whole.body;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(parsed(whole.body)["choices"][i]["message"]["content"], "Hello");
  }
}

TEST_F(PauseTest, ThePromptsScoresAreToldOnce) {
  start();
  say("Hello", 1);
  auto answer = std::async(std::launch::async,
                           [this] { return completion(R"("prompt":"abc","prompt_logprobs":0)"); });
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  EXPECT_FALSE(is_answered(answer)) << "its first token, with the scores, has come";
  ASSERT_EQ(admin("/sleep?mode=keep").status, 200);
  ASSERT_EQ(admin("/wake_up").status, 200);
  const Answer whole = answer.get();
  ASSERT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(parsed(whole.body)["choices"][0]["prompt_logprobs"].size(), 3u) << whole.body;
}

TEST_F(PauseTest, AtLevelZeroWhatRunsMayEndFirst) {
  start();
  say("Hello", 2);
  auto running = later();
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  auto slept = std::async(std::launch::async, [this] { return admin("/sleep?level=0&mode=wait"); });
  EXPECT_FALSE(is_answered(slept));
  auto fresh = later();
  EXPECT_FALSE(is_answered(fresh));
  EXPECT_EQ(fleet->submitted(), 1);
  fleet->release();
  EXPECT_EQ(slept.get().status, 200);
  EXPECT_EQ(text_of(running.get()), "Hello");
  EXPECT_EQ(fleet->cancelled(), 0);
  EXPECT_EQ(fleet->submitted(), 1) << "it waits until it is woken";
  ASSERT_EQ(admin("/wake_up").status, 200);
  ASSERT_TRUE(fleet->wait_for_submitted(2));
  fleet->release();
  EXPECT_EQ(text_of(fresh.get()), "Hello");
}

TEST_F(PauseTest, AtLevelZeroWhatRunsMayBeEnded) {
  start();
  say("Hello", 2);
  auto running = later();
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  ASSERT_EQ(admin("/sleep?level=0&mode=abort").status, 200);
  const Answer ended = running.get();
  EXPECT_EQ(ended.status, 503);
  EXPECT_EQ(error(ended)["code"], "cancelled");
  auto fresh = later();
  EXPECT_FALSE(is_answered(fresh));
  EXPECT_EQ(fleet->submitted(), 1);
  ASSERT_EQ(admin("/wake_up").status, 200);
  ASSERT_TRUE(fleet->wait_for_submitted(2));
  fleet->release();
  EXPECT_EQ(text_of(fresh.get()), "Hello");
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(PauseTest, ADrainLetsThemGoOn) {
  start();
  say("Hello", 2);
  auto answer = later();
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  ASSERT_EQ(admin("/sleep?mode=keep").status, 200);
  EXPECT_EQ(admin("/admin/drain").status, 200) << "it waits for what is paused";
  EXPECT_EQ(text_of(answer.get()), "Hello");
}

TEST_F(PauseTest, AClientThatLeavesIsNotWaitedFor) {
  start();
  say("Hello", 2);
  {
    Client client(server->port());
    client.send(post_request("/v1/chat/completions", chat_body(R"("stream":true)")));
    client.read_until("e\"}");
    ASSERT_EQ(admin("/sleep?mode=keep").status, 200);
  }
  EXPECT_EQ(admin("/admin/drain").status, 200);
  EXPECT_LE(fleet->submitted(), 2);
}

TEST_F(PauseTest, ASleepThatFailsPausesNothing) {
  start();
  say("Hello", 2);
  fleet->on_ask = [](const fleet::Ask& ask) -> Status {
    if (ask.kind != fleet::AskKind::kSleep) return {};
    return unavailable("slices are being changed; ask again");
  };
  auto answer = later();
  ASSERT_TRUE(fleet->wait_for_submitted(1));
  EXPECT_EQ(admin("/sleep?mode=keep").status, 503);
  EXPECT_EQ(text_of(answer.get()), "Hello");
  EXPECT_FALSE(is_sleeping());
}

}  // namespace
}  // namespace causeway::server::server_pause_test
