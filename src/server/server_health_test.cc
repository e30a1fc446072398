// /health?deep=1: a token of a model that is loaded.
#include <gmock/gmock.h>

#include <future>

#include "server/testing/fixture.h"

namespace causeway::server::server_health_test {
namespace {

using testing::Answer;
using testing::Client;
using testing::says;
using testing::Script;

class DeepHealthTest : public testing::ServerTest {
 protected:
  Answer ask(const std::string& query = "?deep=1") {
    return Client(server->port()).get("/health" + query);
  }
};

TEST_F(DeepHealthTest, GeneratesOneToken) {
  start();
  EXPECT_EQ(ask("").status, 200);
  EXPECT_EQ(ask("?deep=0").status, 200);
  EXPECT_EQ(fleet->submitted(), 0);
  const Answer answer = ask();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(parsed(answer.body)["model"], "tiny");
  EXPECT_EQ(fleet->submitted(), 1);
  EXPECT_EQ(fleet->last().max_tokens, Tokens(1));
  EXPECT_EQ(ask("?deep=quite").status, 400);
}

TEST_F(DeepHealthTest, WakesNoModel) {
  start({"a", "b", "c"});
  fleet->on_status = [](ModelId model, fleet::ModelStatus& status) {
    status.attached = false;
    if (model == ModelId(1)) status.state = fleet::ModelState::kUnloaded;
  };
  const Answer answer = ask();
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(parsed(answer.body)["model"].is_null());
  EXPECT_EQ(fleet->submitted(), 0);
}

TEST_F(DeepHealthTest, PrefersModelsWhoseWeightsAreThere) {
  start({"a", "b", "c"});
  fleet->on_status = [](ModelId model, fleet::ModelStatus& status) {
    if (model != ModelId(1)) status.device_bytes = Bytes(0);
  };
  EXPECT_EQ(parsed(ask().body)["model"], "b");
}

TEST_F(DeepHealthTest, NoTokenInTimeIs503) {
  options.limits.deep_health_time_max = millis(200);
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script = says("x");
    script.held = true;
    return script;
  };
  const Answer late = ask();
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(error(late)["code"], "probe_timeout");
  EXPECT_TRUE(fleet->wait_for_cancelled(1));
}

TEST_F(DeepHealthTest, FailuresAre503) {
  start();
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    return exhausted("the queue is full");
  };
  const Answer full = ask();
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(error(full)["code"], "probe_refused");
  fleet->on_submit = [](const request::Request&) -> Result<Script> {
    Script script;
    script.reason = request::FinishReason::kError;
    script.error = "a step failed";
    return script;
  };
  const Answer failed = ask();
  EXPECT_EQ(failed.status, 503);
  EXPECT_EQ(error(failed)["message"], "a step failed");
  fleet->hung = true;
  EXPECT_EQ(error(ask())["code"], "device_hung");
}

TEST_F(DeepHealthTest, OneAtATime) {
  start();
  std::atomic<int> most = 0;
  fleet->on_submit = [&](const request::Request&) -> Result<Script> {
    most = std::max(most.load(), static_cast<int>(fleet->running()));
    return says("x");
  };
  std::vector<std::future<int>> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(std::async(std::launch::async, [this] { return ask().status; }));
  }
  for (auto& one : all) EXPECT_EQ(one.get(), 200);
  EXPECT_EQ(fleet->submitted(), 6);
  EXPECT_EQ(most, 0) << "others than the one that is being submitted";
}

}  // namespace
}  // namespace causeway::server::server_health_test
