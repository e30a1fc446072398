#include "kernels/home_gemm/profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace causeway::kernels::home_gemm::profile_test {
namespace {

MachineProfile small() {
  MachineProfile machine;
  machine.gpu = "NVIDIA Test";
  machine.copy_gb_per_s = 50;
  machine.read_gb_per_s = 40;
  machine.staged = {.product = 1, .neighbour = 1.1};
  machine.in_place = {.product = 1.2, .neighbour = 1.3};
  return machine;
}

Profile with(std::vector<Point> points) {
  MachineProfile machine = small();
  machine.points = std::move(points);
  return *Profile::of(machine);
}

double at(const Profile& profile, std::int64_t weights, std::int64_t m, int sms) {
  return profile.seconds({.way = Way::kRing, .weights = weights, .m = m, .sms = sms}).value();
}

TEST(HomeProfile, RowsAreInterpolatedOnALine) {
  const Profile p = with({{Way::kRing, 10, 10, 100, 8, 1.0}, {Way::kRing, 10, 10, 200, 8, 3.0}});
  EXPECT_DOUBLE_EQ(at(p, 100, 150, 8), 2.0);
  EXPECT_DOUBLE_EQ(at(p, 100, 1, 8), 1.0);    // as the smallest
  EXPECT_DOUBLE_EQ(at(p, 100, 400, 8), 6.0);  // in proportion
}

TEST(HomeProfile, NoiseDoesNotMakeMoreRowsCheaper) {
  const Profile p = with({{Way::kRing, 10, 10, 100, 8, 1.0}, {Way::kRing, 10, 10, 200, 8, 0.9}});
  EXPECT_DOUBLE_EQ(at(p, 100, 200, 8), 1.0);
}

TEST(HomeProfile, TheLargestSliceThatIsNoLarger) {
  const Profile p = with({{Way::kRing, 10, 10, 1, 16, 2.0}, {Way::kRing, 10, 10, 1, 32, 1.0}});
  EXPECT_DOUBLE_EQ(at(p, 100, 1, 16), 2.0);
  EXPECT_DOUBLE_EQ(at(p, 100, 1, 31), 2.0);
  EXPECT_DOUBLE_EQ(at(p, 100, 1, 500), 1.0);
  EXPECT_DOUBLE_EQ(at(p, 100, 1, 8), 4.0);
}

TEST(HomeProfile, WeightsAreInterpolatedBySize) {
  const Profile p = with({{Way::kRing, 10, 10, 1, 8, 1.0}, {Way::kRing, 30, 10, 1, 8, 2.0}});
  EXPECT_DOUBLE_EQ(at(p, 200, 1, 8), 1.5);
  EXPECT_DOUBLE_EQ(at(p, 50, 1, 8), 0.5);
  EXPECT_DOUBLE_EQ(at(p, 600, 1, 8), 4.0);
}

TEST(HomeProfile, WhatWasNotMeasuredIsNotAnswered) {
  const Profile p = with({{Way::kRing, 10, 10, 1, 8, 1.0}});
  EXPECT_FALSE(p.seconds({.way = Way::kStaged, .weights = 100, .m = 1, .sms = 8}));
  EXPECT_FALSE(p.seconds({.way = std::nullopt, .weights = 100, .m = 1, .sms = 8}));
  EXPECT_FALSE(p.seconds({.way = Way::kRing, .weights = 0, .m = 1, .sms = 8}));
}

TEST(HomeProfile, NeverFallsWithRowsOrWeights) {
  Random random(9);
  for (int i = 0; i < 200; ++i) {
    std::vector<Point> points;
    for (int j = 0; j < 12; ++j) {
      points.push_back({Way::kRing, random.between(1, 64) * 8, 64, random.between(1, 4'000),
                        static_cast<int>(random.between(1, 4)) * 16, 1e-6 + random.uniform()});
    }
    const Profile p = with(points);
    double before = 0;
    for (std::int64_t m = 1; m < 10'000; m += 1 + m / 5) {
      const double now = at(p, 10'000, m, 132);
      EXPECT_GE(now, before);
      before = now;
    }
    before = 0;
    for (std::int64_t weights = 100; weights < 100'000; weights += 777) {
      const double now = at(p, weights, 100, 132);
      EXPECT_GE(now, before * (1 - 1e-12));
      before = now;
    }
  }
}

TEST(HomeProfile, BuiltInIsWhatWasMeasured) {
  const Profile& p = Profile::built_in(Home::kHost);
  const std::int64_t w = 16384 * 4096;
  EXPECT_DOUBLE_EQ(*p.seconds({.way = Way::kRing, .weights = w, .m = 10240, .sms = 132}), 2.803e-3);
  EXPECT_DOUBLE_EQ(*p.seconds({.way = std::nullopt, .weights = w, .m = 1, .sms = 16}), 0.0948e-3);
  EXPECT_FALSE(p.seconds({.way = Way::kFewRows, .weights = w, .m = 1, .sms = 132}));
}

TEST(HomeProfileJson, WrittenAndReadAgain) {
  MachineProfile host = Profile::built_in(Home::kHost).machine();
  MachineProfile peer = Profile::built_in(Home::kPeer).machine();
  const auto again = parse_profiles(profiles_json({host, peer}));
  ASSERT_TRUE(again.ok()) << again.error().message;
  ASSERT_EQ(again->size(), 2u);
  EXPECT_EQ((*again)[0].points.size(), host.points.size());
  EXPECT_EQ((*again)[1].home, Home::kPeer);
  EXPECT_TRUE(profiles_json(*again) == profiles_json({host, peer}));
}

TEST(HomeProfileJson, TheEntryOfTheGpuElseWhatIsBuiltIn) {
  const auto found = profile_for({small()}, "NVIDIA Test", Home::kHost);
  EXPECT_DOUBLE_EQ(found->machine().copy_gb_per_s, 50);
  EXPECT_EQ(profile_for({small()}, "NVIDIA Test", Home::kPeer)->machine().gpu, "NVIDIA H200");
  EXPECT_EQ(profile_for({small()}, "NVIDIA Other", Home::kHost)->machine().gpu, "NVIDIA H200");
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

TEST(HomeProfileJson, HostileFilesAreRefusedWithAReason) {
  MachineProfile machine = small();
  machine.points = {{Way::kRing, 8, 8, 1, 16, 1e-3}};
  const std::string good = profiles_json({machine});
  ASSERT_TRUE(parse_profiles(good).ok());
  const std::pair<const char*, const char*> changes[] = {
      {"\"causeway-home-profile\"", "\"other\""},
      {"\"version\": 1", "\"version\": 2"},
      {"\"version\": 1", "\"version\": \"1\""},
      {"\"bf16\"", "\"fp8\""},
      {"\"host\"", "\"moon\""},
      {"\"ring\"", "\"panel\""},
      {"\"gpu\": \"NVIDIA Test\"", "\"gpu\": \"\""},
      {"\"copy_gb_per_s\": 50.0", "\"copy_gb_per_s\": 0"},
      {"\"copy_gb_per_s\": 50.0", "\"copy_gb_per_s\": -1"},
      {"\"copy_gb_per_s\": 50.0", "\"copy_gb_per_s\": null"},
      {"\"m\": 1", "\"m\": 0"},
      {"\"m\": 1", "\"m\": -5"},
      {"\"m\": 1", "\"m\": 1.5"},
      {"\"m\": 1", "\"m\": 99999999999999999999999"},
      {"\"m\": 1", "\"m\": 18446744073709551615"},
      {"\"ms\": 1.0", "\"ms\": 1e999"},
      {"\"ms\": 1.0", "\"ms\": \"1\""},
      {"\"points\": [", "\"points\": [[], "},
      {"\"points\": [", "\"points\": [{}, "},
      {"\"beside\": {", "\"beside\": [{"},
      {"\"machines\"", "\"machine\""},
  };
  for (const auto& [what, by] : changes) {
    const auto parsed = parse_profiles(replaced(good, what, by));
    ASSERT_FALSE(parsed.ok()) << what << " → " << by;
    EXPECT_NE(parsed.error().message.find("profile"), std::string::npos) << parsed.error().message;
  }
  EXPECT_FALSE(parse_profiles("").ok());
  EXPECT_FALSE(parse_profiles("[]").ok());
  EXPECT_FALSE(parse_profiles(std::string(100'000, '[')).ok());
  for (std::size_t cut = 0; cut < good.size() - 1; cut += 7) {
    EXPECT_FALSE(parse_profiles(good.substr(0, cut)).ok()) << cut;
  }
  EXPECT_FALSE(parse_profiles(profiles_json({machine, machine})).ok());  // the same twice
  machine.staged.neighbour = 0.5;
  EXPECT_FALSE(parse_profiles(profiles_json({machine})).ok());
}

TEST(HomeProfile, FiguresThatAreNoneAreRefused) {
  MachineProfile machine = small();
  machine.points = {{Way::kRing, 8, 8, 1, 16, std::nan("")}};
  EXPECT_FALSE(Profile::of(machine).ok());
  machine.points = {{Way::kRing, 8, 8, 1, 0, 1.0}};
  EXPECT_FALSE(Profile::of(machine).ok());
  machine.points.clear();
  machine.read_gb_per_s = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(Profile::of(machine).ok());
}

}  // namespace
}  // namespace causeway::kernels::home_gemm::profile_test
