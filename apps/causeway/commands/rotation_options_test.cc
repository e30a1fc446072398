#include "commands/rotation_options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "settings.h"

namespace causeway::app::rotation_options_test {
namespace {

const std::vector<std::string> kModels = {"big", "small"};

class RotationOptionsTest : public ::testing::Test {
 protected:
  RotationOptionsTest() {
    Options declared(app_);
    options_.declare_policy(declared);
    options_.declare(declared);
  }

  void parse(std::vector<std::string> line) {
    std::reverse(line.begin(), line.end());  // CLI11 takes them from the end
    app_.parse(line);
  }
  Status apply(Bytes kv_host = gib(1)) { return options_.apply(schedule_, limits_, kv_host); }
  // What is said of one option alone: the error's message, or "".
  static std::string error_of(const std::string& option, const std::string& value) {
    CLI::App app;
    Options declared(app);
    RotationOptions options;
    options.declare(declared);
    app.parse(std::vector<std::string>{option + "=" + value});
    schedule::Options schedule;
    schedule::BudgetLimits limits;
    const Status applied = options.apply(schedule, limits, gib(1));
    if (!applied.ok()) return applied.error().message;
    const auto of_models = options.of_models(kModels);
    return of_models.ok() ? "" : of_models.error().message;
  }

  CLI::App app_;
  RotationOptions options_;
  schedule::Options schedule_;
  schedule::BudgetLimits limits_;
};

TEST_F(RotationOptionsTest, DefaultsAreThoseOfTheRooms) {
  parse({});
  ASSERT_TRUE(apply().ok());
  const schedule::Options rooms;
  EXPECT_EQ(schedule_.policy, rooms.policy);
  EXPECT_EQ(schedule_.rotation.lag.early, rooms.rotation.lag.early);
  EXPECT_EQ(schedule_.rotation.lag.ahead_share, rooms.rotation.lag.ahead_share);
  EXPECT_EQ(schedule_.rotation.lag.late_after, rooms.rotation.lag.late_after);
  EXPECT_EQ(schedule_.rotation.predicted_error, rooms.rotation.predicted_error);
  EXPECT_EQ(limits_.frames_share_max, schedule::BudgetLimits().frames_share_max);
  EXPECT_EQ(limits_.rate_share_min, schedule::BudgetLimits().rate_share_min);
  const auto all = options_.of_models(kModels);
  ASSERT_TRUE(all.ok());
  for (const auto& model : *all) {
    EXPECT_EQ(model.slo.ttft, request::Slo().ttft);
    EXPECT_EQ(model.slo.tpot, request::Slo().tpot);
    EXPECT_EQ(model.slo.ttft_slack, request::Slo().ttft_slack);
    EXPECT_EQ(model.slo.tpot_slack, request::Slo().tpot_slack);
    EXPECT_EQ(model.alpha, schedule::kAlphaDefault);
  }
}

TEST_F(RotationOptionsTest, SayWhatTheyAreGiven) {
  parse({"--scheduling-policy", "rotary", "--preemption", "rotate", "--rotary-displaces-early",
         "unanswered", "--rotary-ahead-share", "0", "--rotary-late-after", "2", "--ranked-error",
         "1", "--rotation-frames-share", "0.03", "--rotation-rate-share", "0.5"});
  ASSERT_TRUE(apply().ok());
  EXPECT_EQ(schedule_.policy, schedule::PolicyKind::kRotary);
  EXPECT_EQ(schedule_.preemption, schedule::PreemptionKind::kRotate);
  EXPECT_EQ(schedule_.rotation.lag.early, schedule::DisplacesEarly::kUnanswered);
  EXPECT_EQ(schedule_.rotation.lag.ahead_share, 0);
  EXPECT_EQ(schedule_.rotation.lag.late_after, 2);
  EXPECT_EQ(schedule_.rotation.predicted_error, 1);
  EXPECT_EQ(limits_.frames_share_max, 0.03);
  EXPECT_EQ(limits_.rate_share_min, 0.5);
}

TEST_F(RotationOptionsTest, WithoutHostMemoryWhoMustGoIsRecomputed) {
  parse({"--preemption", "auto"});
  ASSERT_TRUE(apply(Bytes(0)).ok());
  EXPECT_EQ(schedule_.preemption, schedule::PreemptionKind::kRecompute);
}

TEST_F(RotationOptionsTest, RotatingTakesHostMemory) {
  parse({"--preemption", "rotate"});
  EXPECT_TRUE(apply().ok());
  const Status refused = apply(Bytes(0));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("give --kv-host-memory-bytes"), std::string::npos);
}

TEST_F(RotationOptionsTest, ModelsMayHaveNumbersOfTheirOwn) {
  parse({"--rotary-alpha", "small=2,1.5", "--slo-ttft-ms", "big=250", "--slo-ttft-ms", "1000",
         "--slo-tpot-ms", "20", "--slo-ttft-slack", "big=0.25", "--slo-tpot-slack=-2"});
  const auto all = options_.of_models(kModels);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->at(0).alpha, 1.5);
  EXPECT_EQ(all->at(1).alpha, 2);
  EXPECT_EQ(all->at(0).slo.ttft, millis(250));
  EXPECT_EQ(all->at(1).slo.ttft, seconds(1));
  EXPECT_EQ(all->at(0).slo.tpot, millis(20));
  EXPECT_EQ(all->at(0).slo.ttft_slack, 0.25);
  EXPECT_EQ(all->at(1).slo.ttft_slack, 0.5);
  EXPECT_EQ(all->at(1).slo.tpot_slack, -2);
}

TEST_F(RotationOptionsTest, OneVariableOfTheEnvironmentMayNameSeveralModels) {
  const auto environment = [](const char* name) {
    return std::string_view(name) == "CAUSEWAY_ROTARY_ALPHA" ? "4,big=5" : nullptr;
  };
  ASSERT_TRUE(apply_settings(Options(app_), "", environment).ok());
  const auto all = options_.of_models(kModels);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->at(0).alpha, 5);
  EXPECT_EQ(all->at(1).alpha, 4);
}

TEST_F(RotationOptionsTest, ATinyTargetIsStillOne) {
  parse({"--slo-tpot-ms", "0.000001"});
  const auto all = options_.of_models(kModels);
  ASSERT_TRUE(all.ok());
  EXPECT_GT(all->at(0).slo.tpot, Nanos(0));
}

TEST_F(RotationOptionsTest, WhatIsOutOfItsRangeIsRefusedWithOptionAndRange) {
  struct Case {
    const char* option;
    std::vector<const char*> values;
    const char* range;
  };
  const std::vector<Case> cases = {
      {"--rotary-alpha", {"0", "-1", "1001", "nan", "inf", "big=0", "small=nan"}, "1000"},
      {"--slo-ttft-ms", {"0", "-5", "1e9", "nan", "inf", "big=0"}, "86400000"},
      {"--slo-tpot-ms", {"0", "-5", "1e9", "nan", "small=1e300"}, "86400000"},
      {"--slo-ttft-slack", {"-0.1", "1.1", "nan", "big=2"}, "from 0.000000 to 1.000000"},
      {"--slo-tpot-slack", {"-11", "1.1", "nan"}, "from -10.000000 to 1.000000"},
      {"--rotary-ahead-share", {"-0.1", "1.1", "nan"}, "from 0 to 1"},
      {"--rotary-late-after", {"0.5", "-1", "1001", "nan"}, "1 to 1000"},
      {"--ranked-error", {"-0.1", "11", "nan"}, "from 0 to 10"},
      {"--rotation-frames-share", {"0", "0.6", "nan"}, "to 0.5"},
      {"--rotation-rate-share", {"-0.1", "1.1", "nan"}, "from 0 to 1"},
      {"--rotary-displaces-early", {"everybody"}, "none, unanswered or all"},
  };
  for (const Case& one : cases) {
    for (const char* value : one.values) {
      const std::string error = error_of(one.option, value);
      EXPECT_NE(error.find(one.option), std::string::npos) << value << ": " << error;
      EXPECT_NE(error.find(one.range), std::string::npos) << value << ": " << error;
    }
  }
}

TEST_F(RotationOptionsTest, WhatIsNoNumberOrNoModelIsRefused) {
  for (const char* value : {"x", "=3", "big=", "big=3x", "3 4"}) {
    EXPECT_NE(error_of("--rotary-alpha", value).find("MODEL=NUMBER"), std::string::npos) << value;
  }
  EXPECT_NE(error_of("--rotary-alpha", "huge=3").find("there are big, small"), std::string::npos);
  EXPECT_NE(error_of("--rotary-alpha", "2,3").find("twice"), std::string::npos);
  EXPECT_NE(error_of("--slo-ttft-ms", "big=2,big=2").find("twice"), std::string::npos);
}

TEST_F(RotationOptionsTest, AlphasAreSixteenDifferentOnesAtTheMost) {
  std::vector<std::string> models;
  std::string given;
  for (int i = 0; i < 17; ++i) {
    models.push_back("m" + std::to_string(i));
    given += (i > 0 ? ",m" : "m") + std::to_string(i) + "=" + std::to_string(i + 1);
  }
  parse({"--rotary-alpha", given});
  const auto refused = options_.of_models(models);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("16"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace causeway::app::rotation_options_test
