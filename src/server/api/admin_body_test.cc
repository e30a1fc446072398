#include "server/api/admin_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace causeway::server::admin_body_test {
namespace {

using ::testing::HasSubstr;

TEST(AdminBody, NamesAModel) {
  AdminBody body;
  ASSERT_FALSE(parse_admin_body(R"({"model": "a/b"})", {}, true, body));
  EXPECT_EQ(body.model, "a/b");
  EXPECT_TRUE(body.wait);
  ASSERT_FALSE(parse_admin_body(R"({"wait": false, "model": "m"})", {}, true, body));
  EXPECT_FALSE(body.wait);
}

TEST(AdminBody, BadOnesAreNamed) {
  const auto param = [](std::string_view text, bool may_wait = true) {
    AdminBody body;
    const MaybeError error = parse_admin_body(text, {}, may_wait, body);
    EXPECT_TRUE(error && error->status == 400 && !error->message.empty()) << text;
    return error ? error->param : "none";
  };
  for (const auto text : {"", "null", "[]", "\"m\"", "{", "{\"model\": \"m\"", "\xff"}) {
    EXPECT_EQ(param(text), "") << text;
  }
  for (const auto text : {"{}", R"({"model": ""})", R"({"model": 7})", R"({"model": ["m"]})",
                          R"({"model": null})", R"({"model": {"name": "m"}})"}) {
    EXPECT_EQ(param(text), "model") << text;
  }
  EXPECT_EQ(param(R"({"model": "m", "wait": 0})"), "wait");
  EXPECT_EQ(param(R"({"model": "m", "wait": false})", false), "wait");
  EXPECT_EQ(param(R"({"model": "m", "path": "/etc"})"), "path");
  EXPECT_EQ(param(std::string(100'000, '[')), "");
}

TEST(AdminQuery, LevelsAndModesOfSleep) {
  using fleet::SleepMode;
  SleepQuery asked{.level = 0, .mode = SleepMode::kAbort, .keeps = true};
  const auto reads = [&](std::string_view query) {
    const MaybeError error = parse_sleep_query(query, asked);
    EXPECT_FALSE(error) << query;
    return std::tuple(asked.level, asked.mode, asked.keeps);
  };
  EXPECT_EQ(reads(""), std::tuple(1, SleepMode::kIdle, false));
  EXPECT_EQ(reads("level=2&mode=abort"), std::tuple(2, SleepMode::kAbort, false));
  EXPECT_EQ(reads("mode=wait&level=1"), std::tuple(1, SleepMode::kWait, false));
  EXPECT_EQ(reads("level=0"), std::tuple(0, SleepMode::kIdle, false));
  EXPECT_EQ(reads("mode=keep"), std::tuple(1, SleepMode::kIdle, true));
  for (const auto bad : {"level=-1", "level=3", "level=", "level", "level=01", "mode=", "mode=idle",
                         "mode=Abort", "pause=1", "%"}) {
    const MaybeError error = parse_sleep_query(bad, asked);
    ASSERT_TRUE(error) << bad;
    EXPECT_EQ(error->status, 400) << bad;
  }
  const MaybeError idle = parse_sleep_query("mode=idle", asked);
  EXPECT_EQ(idle->param, "mode");
  EXPECT_THAT(idle->message, HasSubstr("wait, abort or keep"));
}

TEST(AdminQuery, TagsOfWaking) {
  EXPECT_FALSE(parse_wake_query(""));
  EXPECT_FALSE(parse_wake_query("tags=weights&tags=kv_cache&tags=scheduling"));
  EXPECT_EQ(parse_wake_query("tags=everything")->param, "tags");
  EXPECT_EQ(parse_wake_query("level=1")->param, "level");
}

TEST(AdminQuery, DepthOfHealth) {
  bool deep = true;
  EXPECT_FALSE(parse_health_query("", deep));
  EXPECT_FALSE(deep);
  EXPECT_FALSE(parse_health_query("nonce=5&deep=1", deep));
  EXPECT_TRUE(deep);
  EXPECT_FALSE(parse_health_query("deep=false", deep));
  EXPECT_FALSE(deep);
  EXPECT_EQ(parse_health_query("deep=very", deep)->param, "deep");
  EXPECT_TRUE(parse_health_query("deep=%", deep));
}

}  // namespace
}  // namespace causeway::server::admin_body_test
