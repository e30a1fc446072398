#include "fleet/alpha_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace causeway::fleet::alpha_tuner_test {
namespace {

GemmObservation seen(double link, double hbm, bool late = false) {
  return {.latency = millis(late ? 3 : 1),
          .budget = millis(2),
          .hbm_utilisation = hbm,
          .link_utilisation = link};
}

TEST(AlphaTuner, MovesAwayFromTheBusierOfTwo) {
  AlphaTuner tuner({.alpha = 0.5});
  EXPECT_DOUBLE_EQ(tuner.update(seen(0.9, 0.2)), 0.48) << "the link is the busier: less symmetric";
  AlphaTuner other({.alpha = 0.5});
  EXPECT_DOUBLE_EQ(other.update(seen(0.2, 0.9)), 0.52);
}

TEST(AlphaTuner, TakesLargeStepsWhileLate) {
  AlphaTuner tuner({.alpha = 0.5, .ema = 1});
  EXPECT_DOUBLE_EQ(tuner.update(seen(0.9, 0.2, true)), 0.4);
  EXPECT_DOUBLE_EQ(tuner.update(seen(0.9, 0.2, false)), 0.38);
}

TEST(AlphaTuner, StaysWhereBothAreAlike) {
  AlphaTuner tuner({.alpha = 0.5, .tau = 0.1});
  EXPECT_EQ(tuner.update(seen(0.59, 0.5)), 0.5);
  EXPECT_EQ(tuner.update(seen(0.5, 0.59)), 0.5);
  EXPECT_LT(tuner.update(seen(1.5, 0.5)), 0.5);
}

TEST(AlphaTuner, AMeasurementAloneDoesNotTurnIt) {
  AlphaTuner tuner({.alpha = 0.5, .ema = 0.25});
  for (int i = 0; i < 5; ++i) tuner.update(seen(0.9, 0.1));
  const double before = tuner.alpha();
  EXPECT_LT(tuner.update(seen(0.1, 0.9)), before) << "the average still says the link";
}

TEST(AlphaTuner, StaysWithinItsRange) {
  AlphaTuner low({.alpha = 0}), high({.alpha = 1});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(low.update(seen(1, 0, true)), 0);
    EXPECT_EQ(high.update(seen(0, 1, true)), 1);
  }
}

TEST(AlphaTuner, WhatIsNoMeasurementChangesNothing) {
  AlphaTuner tuner({.alpha = 0.5});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {nan, -1.0, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(tuner.update(seen(bad, 0.5)), 0.5);
    EXPECT_EQ(tuner.update(seen(0.5, bad)), 0.5);
  }
  EXPECT_EQ(tuner.update({.latency = Nanos(0), .budget = millis(1), .link_utilisation = 1}), 0.5);
}

// A product whose time is the larger of its bytes over two resources, as in the paper's Fig. 4(b):
// it ends where both take the same time, from wherever it began, and follows when one of them
// slows.
TEST(AlphaTuner, FindsTheBalance) {
  const auto run = [](AlphaTuner& tuner, double link_rate, double hbm_rate) {
    for (int i = 0; i < 300; ++i) {
      const double link_bytes = 0.13e9 + tuner.alpha() * 5.24e9;
      const double hbm_bytes = 5.18e9 - tuner.alpha() * 3.95e9;
      const double time = std::max(link_bytes / link_rate, hbm_bytes / hbm_rate);
      tuner.update({.latency = nanos_from_seconds(time),
                    .budget = millis(20),  // it has time: small steps, and no swinging
                    .hbm_utilisation = hbm_bytes / time / hbm_rate,
                    .link_utilisation = link_bytes / time / link_rate});
    }
    return tuner.alpha();
  };
  for (const double start : {0.0, 0.5, 1.0}) {
    AlphaTuner tuner({.alpha = start});
    EXPECT_NEAR(run(tuner, 400e9, 1000e9), 0.285, 0.06) << start;
    EXPECT_NEAR(run(tuner, 100e9, 1000e9), 0.07, 0.04) << "others use the link";
    EXPECT_NEAR(run(tuner, 400e9, 500e9), 0.48, 0.07) << "others use HBM";
  }
}

TEST(AlphaTuner, OptionsAreChecked) {
  EXPECT_TRUE(check_alpha_tuner({}).ok());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {-0.1, 1.1, nan}) {
    EXPECT_FALSE(check_alpha_tuner({.alpha = bad}).ok());
    EXPECT_FALSE(check_alpha_tuner({.ema = bad}).ok());
    EXPECT_FALSE(check_alpha_tuner({.tau = bad}).ok());
    EXPECT_FALSE(check_alpha_tuner({.eta_fast = bad}).ok());
    EXPECT_FALSE(check_alpha_tuner({.eta_slow = bad}).ok());
  }
  EXPECT_FALSE(check_alpha_tuner({.eta_fast = 0.1, .eta_slow = 0.2}).ok());
}

TEST(Utilisation, IsOfTheRate) {
  EXPECT_DOUBLE_EQ(utilisation(Bytes(50'000'000), millis(1), 100e9), 0.5);
  EXPECT_EQ(utilisation(Bytes(1), Nanos(0), 100e9), 0);
  EXPECT_EQ(utilisation(Bytes(1), millis(1), 0), 0);
}

TEST(WayTuner, BeginsWithWhatTheProfileSays) {
  EXPECT_EQ(WayTuner({}, std::array{3e-3, 2e-3, 5e-3}).way(), 1u);
  EXPECT_EQ(WayTuner({}, std::array{2e-3, 2e-3}).way(), 0u) << "the preferred one of equals";
  EXPECT_EQ(WayTuner({}, std::array{0.0, -1.0, 5e-3}).way(), 2u) << "those that can be used";
}

// Runs a way tuner on ways that take so long; returns how often each was taken.
template <std::size_t count>
std::array<int, count> run(WayTuner& tuner, const std::array<double, count>& seconds,
                           int products) {
  std::array<int, count> taken{};
  for (int i = 0; i < products; ++i) {
    ++taken[tuner.way()];
    tuner.measured(nanos_from_seconds(seconds[tuner.way()]));
  }
  return taken;
}

TEST(WayTuner, CorrectsAProfileThatIsWrong) {
  WayTuner tuner({}, std::array{2.0e-3, 2.2e-3});
  const auto taken = run(tuner, std::array{2.6e-3, 2.2e-3}, 100);
  EXPECT_EQ(tuner.best(), 1u);
  EXPECT_GE(taken[1], 95);
}

TEST(WayTuner, FindsThatAnotherHasBecomeFaster) {
  WayTuner tuner({.probe_every = 20}, std::array{2.0e-3, 2.5e-3});
  run(tuner, std::array{2.0e-3, 2.5e-3}, 100);
  EXPECT_EQ(tuner.best(), 0u);
  run(tuner, std::array{2.0e-3, 1.5e-3}, 25);
  EXPECT_EQ(tuner.best(), 1u);
}

TEST(WayTuner, DoesNotTryWhatIsFarWorse) {
  WayTuner tuner({.probe_every = 5}, std::array{2.0e-3, 13e-3, 2.2e-3});
  const auto taken = run(tuner, std::array{2.0e-3, 13e-3, 2.2e-3}, 1000);
  EXPECT_EQ(taken[1], 0);
  EXPECT_EQ(taken[2], 199);
}

TEST(WayTuner, NoiseBelowTheMarginDoesNotTurnIt) {
  WayTuner tuner({.probe_every = 10}, std::array{2.00e-3, 2.01e-3});
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const double mean = tuner.way() == 0 ? 2.00e-3 : 2.01e-3;
    tuner.measured(nanos_from_seconds(mean * (1 + 0.005 * random.normal())));
    EXPECT_EQ(tuner.best(), 0u);
  }
}

TEST(WayTuner, OptionsAreChecked) {
  EXPECT_TRUE(check_way_tuner({}).ok());
  EXPECT_FALSE(check_way_tuner({.ema = 0}).ok());
  EXPECT_FALSE(check_way_tuner({.margin = 1}).ok());
  EXPECT_FALSE(check_way_tuner({.probe_every = -1}).ok());
  EXPECT_FALSE(check_way_tuner({.probe_max = 0.9}).ok());
}

}  // namespace
}  // namespace causeway::fleet::alpha_tuner_test
