// The table of what phases may follow each other, by what it has to mean.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fleet/fleet_core_state.h"

namespace causeway::fleet::model_phases_test {
namespace {

const std::vector<ModelPhase> kAll = [] {
  std::vector<ModelPhase> all;
  for (auto i = 0; i <= static_cast<int>(ModelPhase::kDropping); ++i) {
    all.push_back(static_cast<ModelPhase>(i));
  }
  return all;
}();

// Whether a model can come from one phase to another, without ever being in a third.
bool reaches(ModelPhase from, ModelPhase to, std::optional<ModelPhase> without = {}) {
  std::vector<ModelPhase> seen = {from};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    for (const ModelPhase next : kAll) {
      if (next == without || !may_follow(seen[i], next)) continue;
      if (next == to) return true;
      if (std::find(seen.begin(), seen.end(), next) == seen.end()) seen.push_back(next);
    }
  }
  return false;
}

TEST(ModelPhases, NoneIsADeadEndAndNoneIsNeverReached) {
  for (const ModelPhase phase : kAll) {
    EXPECT_TRUE(reaches(ModelPhase::kCold, phase)) << name_of(phase);
    EXPECT_TRUE(reaches(phase, ModelPhase::kCold)) << name_of(phase);
    EXPECT_TRUE(reaches(phase, ModelPhase::kReady)) << name_of(phase);
  }
}

// Where it is attached already it needs no load: that is the model's, not the phase's.
TEST(ModelPhases, WhatDoesNotServeIsAskedForAndWaitsForAPlace) {
  using enum ModelPhase;
  for (const ModelPhase resting : {kCold, kHome}) {
    for (const ModelPhase step : {kQueued, kWaiting}) {
      EXPECT_FALSE(reaches(resting, kReady, step)) << "without " << name_of(step);
    }
    EXPECT_FALSE(reaches(resting, kLoading, kPlaced)) << "it is loaded onto a slice";
  }
  EXPECT_TRUE(reaches(kHome, kReady, kMeasuring)) << "one in host memory has been measured";
}

TEST(ModelPhases, OneThatServesLeavesHostMemoryThroughLeavingOrHome) {
  using enum ModelPhase;
  for (const ModelPhase serving : {kReady, kClosing, kMigrating, kDraining}) {
    EXPECT_FALSE(may_follow(serving, kCold)) << name_of(serving);
    EXPECT_FALSE(may_follow(serving, kDropping)) << name_of(serving);
    EXPECT_TRUE(may_follow(serving, kQueued)) << "its slice may be lost: " << name_of(serving);
  }
}

}  // namespace
}  // namespace causeway::fleet::model_phases_test
