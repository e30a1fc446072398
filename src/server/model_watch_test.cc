#include "server/model_watch.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/testing/scripted_fleet.h"

namespace causeway::server::model_watch_test {
namespace {

using nlohmann::json;

// "model event status", and what else its data have.
std::string short_form(const std::string& event) {
  const json parsed = json::parse(event);
  std::string out = parsed["model"].get<std::string>() + " " + parsed["event"].get<std::string>();
  if (!parsed.contains("data")) return out;
  const json& data = parsed["data"];
  out += " " + data["status"].get<std::string>();
  if (data.contains("failed")) out += " failed";
  if (data.contains("progress")) {
    EXPECT_EQ(data["progress"]["stages"], json::array({"text_model"}));
    EXPECT_EQ(data["progress"]["current"], "text_model");
    out += " " + data["progress"]["value"].dump();
  }
  return out;
}

std::vector<std::string> between(const WatchedModels& before, const WatchedModels& after) {
  std::vector<std::string> out;
  for (const std::string& event : model_events(before, after)) out.push_back(short_form(event));
  return out;
}

using Events = std::vector<std::string>;

WatchedModels one(std::string_view value, std::int64_t failed = 0, int percent = -1) {
  return {{"m", {.value = value, .loads_failed = failed, .percent = percent}}};
}

TEST(ModelEvents, TellChanges) {
  EXPECT_EQ(between(one("loaded"), one("loaded")), Events());
  EXPECT_EQ(between(one("unloaded"), one("loading")), Events{"m model_status loading"});
  EXPECT_EQ(between(one("loading"), one("loaded")), Events{"m model_status loaded"});
  EXPECT_EQ(between(one("loaded"), one("sleeping")), Events{"m model_status sleeping"});
  EXPECT_EQ(between(one("sleeping"), one("loaded")), Events{"m model_status loaded"});
  EXPECT_EQ(between(one("loaded"), one("unloaded")), Events{"m model_status unloaded"});
}

TEST(ModelEvents, WhatWasLoadedHasBeenLoading) {
  EXPECT_EQ(between(one("unloaded"), one("loaded")),
            (Events{"m model_status loading", "m model_status loaded"}));
}

TEST(ModelEvents, FailuresAreToldHoweverFastTheyWere) {
  EXPECT_EQ(between(one("loading"), one("unloaded", 1)), Events{"m model_status unloaded failed"});
  EXPECT_EQ(between(one("unloaded", 1), one("unloaded", 2)),
            (Events{"m model_status loading", "m model_status unloaded failed"}));
  EXPECT_EQ(between(one("loading", 1), one("loading", 2)),
            (Events{"m model_status unloaded failed", "m model_status loading"}));
}

TEST(ModelEvents, ProgressIsTold) {
  EXPECT_EQ(between(one("unloaded"), one("loading", 0, 3)),
            (Events{"m model_status loading", "m model_status loading 0.03"}));
  EXPECT_EQ(between(one("loading", 0, 3), one("loading", 0, 57)),
            Events{"m model_status loading 0.57"});
  EXPECT_EQ(between(one("loading", 0, 57), one("loading", 0, 57)), Events());
  EXPECT_EQ(between(one("loading", 0, 57), one("loading", 0, 100)),
            Events{"m model_status loading 1"});
  EXPECT_EQ(between(one("loading", 0, 100), one("loaded")), Events{"m model_status loaded"});
}

TEST(ModelEvents, ModelsComeAndGo) {
  const WatchedModels both = {{"m", {}}, {"n", {.value = "loaded"}}};
  EXPECT_EQ(between(both, one("unloaded")), (Events{"n model_remove", "* models_reload"}));
  EXPECT_EQ(between(one("unloaded"), both),
            (Events{"n model_status loading", "n model_status loaded", "* models_reload"}));
}

TEST(ModelEvents, NamesAreEscaped) {
  const WatchedModels hostile = {{"a\"\n\xff", {.value = "loading"}}};
  for (const std::string& event : model_events({}, hostile)) {
    EXPECT_TRUE(json::accept(event)) << event;
    EXPECT_EQ(event.find('\n'), std::string::npos) << "it would end the event";
  }
}

class NoSink final : public engine::OutputSink {
 public:
  void on_outputs(std::vector<request::Output>) override {}
};

class ModelWatchTest : public ::testing::Test {
 protected:
  ModelWatchTest() {
    fleet_.add_model("m");
    fleet_.on_status = [this](ModelId, fleet::ModelStatus& status) {
      status.state = loaded_ ? fleet::ModelState::kReady : fleet::ModelState::kUnloaded;
    };
    look();
  }
  void look() { watch_.look(fleet_, now_ += seconds(1), seconds(1)); }

  std::atomic<bool> loaded_{true};
  NoSink sink_;
  testing::ScriptedFleet fleet_{sink_};
  ModelWatch watch_;
  Nanos now_;
};

TEST_F(ModelWatchTest, FollowersGetWhatCameSince) {
  std::int64_t early = watch_.place();
  EXPECT_EQ(watch_.take(early), "") << "the first look has nothing to compare with";
  loaded_ = false;
  watch_.look(fleet_, now_ + millis(999), seconds(1));
  EXPECT_EQ(watch_.take(early), "") << "it was looked at just now";
  look();
  std::int64_t late = watch_.place();
  EXPECT_EQ(watch_.take(early),
            "data: {\"model\":\"m\",\"event\":\"model_status\",\"data\":{\"status\":"
            "\"unloaded\"}}\n\n");
  EXPECT_EQ(early, late);
  EXPECT_EQ(watch_.take(early), "");
  EXPECT_EQ(watch_.take(late), "");
}

TEST_F(ModelWatchTest, WhoIsTooFarBehindIsTold) {
  std::int64_t slow = watch_.place(), quick = slow;
  std::size_t got = 0;
  for (std::size_t i = 0; i < kEventsKept; ++i) {
    loaded_ = i % 2 != 0;
    look();
    const auto events = watch_.take(quick);
    ASSERT_TRUE(events.has_value());
    got += events->size() > 0 ? 1 : 0;
  }
  EXPECT_EQ(got, kEventsKept);
  EXPECT_EQ(watch_.take(slow), std::nullopt) << "a load makes two events";
}

}  // namespace
}  // namespace causeway::server::model_watch_test
