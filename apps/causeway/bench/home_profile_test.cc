// What `causeway profile` asks slices and makes of the rows, on slices that are invented.
#include "bench/home_profile.h"

#include <gtest/gtest.h>

namespace causeway::app::home_profile_test {
namespace {

using kernels::home_gemm::Home;
using kernels::home_gemm::HomeBenchOptions;
using kernels::home_gemm::HomeBenchRow;
using kernels::home_gemm::MachineProfile;
using kernels::home_gemm::Profile;
using kernels::home_gemm::Way;

class InventedSlices final : public HomeSlices {
 public:
  std::string gpu_name() const override { return "Invented"; }
  int processors() const override { return 132; }
  bool has_peer() const override { return false; }

  Status measure(int processors, const HomeBenchOptions& options, const Row& row) override {
    const int sms = std::min(processors, 132);
    HomeBenchRow one;
    one.n = options.shape.n;
    one.k = options.shape.k;
    const double weight_ms = static_cast<double>(one.n * one.k * 2) / 50e9 * 1e3;
    for (const char* way : {"floor", "copy"}) {
      one.way = way;
      one.median_ms = weight_ms;
      row(sms, one);
    }
    for (const std::int64_t m : options.rows) {
      one.m = m;
      for (const std::string& way : options.ways) {
        one.way = way;
        one.median_ms = weight_ms + static_cast<double>(m) / sms;
        one.right = way != wrong;
        row(sms, one);
      }
    }
    return {};
  }

  Result<std::vector<SliceLoadResult>> together(std::span<const SliceLoadSpec> specs,
                                                Nanos) override {
    std::vector<SliceLoadResult> results;
    for (const SliceLoadSpec& spec : specs) {
      SliceLoadResult result;
      result.median_ms = spec.reads_hbm && specs.size() > 1 ? 1.25 : 1.0;
      results.push_back(result);
    }
    return results;
  }

  std::string wrong;
};

TEST(HomeProfileBench, AProfileThatThePlannerTakes) {
  InventedSlices slices;
  std::size_t last = 0;
  const auto machine =
      measure_home_profile(slices, Home::kHost, HomeProfileSettings::quick(),
                           [&](std::size_t done, std::size_t all, const std::string&) {
                             EXPECT_GE(done, last);
                             EXPECT_LT(done, all);
                             last = done;
                           });
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->gpu, "Invented");
  EXPECT_NEAR(machine->copy_gb_per_s, 50, 1e-6);
  EXPECT_NEAR(machine->read_gb_per_s, 50, 1e-6);
  EXPECT_DOUBLE_EQ(machine->staged.neighbour, 1.25);
  EXPECT_DOUBLE_EQ(machine->staged.product, 1.0);
  const auto quick = HomeProfileSettings::quick();
  EXPECT_EQ(machine->points.size(),
            quick.shapes.size() * quick.processors.size() * quick.rows.size() * 6);
  const auto profile = Profile::of(*machine);
  ASSERT_TRUE(profile.ok());
  for (const Way way : kernels::home_gemm::kWays) {
    EXPECT_TRUE(profile->seconds({.way = way, .weights = 16384 * 4096, .m = 16, .sms = 132}));
  }
  EXPECT_TRUE(
      kernels::home_gemm::parse_profiles(kernels::home_gemm::profiles_json({*machine})).ok());
}

TEST(HomeProfileBench, AWrongResultEndsIt) {
  InventedSlices slices;
  slices.wrong = "ring";
  const auto machine = measure_home_profile(slices, Home::kHost, HomeProfileSettings::quick(),
                                            [](std::size_t, std::size_t, const std::string&) {});
  ASSERT_FALSE(machine.ok());
  EXPECT_NE(machine.error().message.find("ring"), std::string::npos);
}

TEST(HomeProfileBench, MeasuredEntriesReplaceTheirOwn) {
  MachineProfile a, b;
  a.gpu = "A";
  b.gpu = "B";
  MachineProfile newer = a;
  newer.copy_gb_per_s = 7;
  const auto all = merged({a, b}, {newer});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_DOUBLE_EQ(all[0].copy_gb_per_s, 7);
  newer.home = Home::kPeer;
  EXPECT_EQ(merged(all, {newer}).size(), 3u);
}

}  // namespace
}  // namespace causeway::app::home_profile_test
