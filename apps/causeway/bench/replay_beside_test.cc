#include "bench/replay_beside.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace causeway::bench::replay_beside_test {
namespace {

using nlohmann::ordered_json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReplayBeside, EachFigureOfBothAndHowMuchMore) {
  const auto ours = ordered_json::parse(R"({"bench": "replay", "mode": "server",
      "all": {"requests": 30, "slo_attained": 0.96, "ttft_ms": {"p50": 55}},
      "counters": {"switches": 0, "preemptions": null,
                   "link_bytes": {"weights in": 5000000000}}})");
  const auto other = ordered_json::parse(R"({"bench": "replay", "mode": "simulated",
      "all": {"requests": 30, "slo_attained": 0.99, "ttft_ms": {"p50": 50}},
      "counters": {"switches": 0, "preemptions": 3, "link_bytes": []}})");
  const std::string text = beside_text(ours, other).value();
  EXPECT_THAT(text, ContainsRegex("server +simulated"));
  EXPECT_THAT(text, ContainsRegex("requests +30.0 +30.0 +.0.0 %"));
  EXPECT_THAT(text, ContainsRegex("both attained, % +96.0 +99.0 +-3.0 points"));
  EXPECT_THAT(text, ContainsRegex("TTFT p50, ms +55.0 +50.0 +.10.0 %"));
  EXPECT_THAT(text, ContainsRegex("switches +0.0 +0.0 +.0.0 %"));
  EXPECT_THAT(text, ContainsRegex("weights in, GB +5.0 +- +-"));
  EXPECT_THAT(text, ContainsRegex("preemptions +- +3.0 +-"));
  EXPECT_THAT(text, Not(HasSubstr("E2E")));
}

TEST(ReplayBeside, WhatIsNoReplayIsRefused) {
  const ordered_json ours = {{"bench", "replay"}};
  for (const char* none : {"[]", "7", "{}", R"({"bench": 5})", R"({"bench": "slo"})"}) {
    EXPECT_FALSE(beside_text(ours, ordered_json::parse(none)).ok()) << none;
  }
  EXPECT_TRUE(beside_text(ours, ours).ok());
}

}  // namespace
}  // namespace causeway::bench::replay_beside_test
