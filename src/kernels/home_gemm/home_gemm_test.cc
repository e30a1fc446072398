// The planner on its own: which way on what was measured, and what must hold on anything.
#include "kernels/home_gemm/home_gemm.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "kernels/home_gemm/profile.h"
#include "kernels/home_gemm/traffic.h"

namespace causeway::kernels::home_gemm::home_gemm_test {
namespace {

using gemm::CudaOut;
using gemm::CudaRequest;

CudaRequest wide(std::int64_t m) { return {.m = m, .n = 16384, .k = 4096}; }

Facts slice(Home home, int sms, Bytes scratch, bool copies) {
  Facts facts;
  facts.home = home;
  facts.sm_count = sms;
  facts.clusters = {sms, sms / 2, sms >= 120 ? 30 : sms / 4, sms >= 120 ? 14 : sms / 8};
  facts.scratch = scratch;
  facts.copies = copies;
  return facts;
}

Way way_of(const CudaRequest& request, const Facts& facts) {
  const auto plan = choose(request, facts, Profile::built_in(facts.home));
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? plan->way : Way::kLibrary;
}

TEST(HomeGemm, StagesOverPcieWhereItCan) {
  for (const std::int64_t m : {1, 16, 256, 1024, 2048, 4096, 10240}) {
    EXPECT_EQ(way_of(wide(m), slice(Home::kHost, 132, mib(256), true)), Way::kStaged) << m;
  }
}

TEST(HomeGemm, WithoutCopiesHybridGemmAndWithoutScratchTheSymmetricWay) {
  const Facts ring = slice(Home::kHost, 132, mib(40), false);
  EXPECT_EQ(way_of(wide(2000), ring), Way::kSymmetric);
  EXPECT_EQ(way_of(wide(4096), ring), Way::kRing);
  const Facts none = slice(Home::kHost, 132, Bytes(0), false);
  EXPECT_EQ(way_of(wide(2048), none), Way::kSymmetric);
  EXPECT_EQ(way_of(wide(10240), none), Way::kSymmetric);
}

TEST(HomeGemm, AtAPeerInPlaceUpToTwoThousandRows) {
  const Facts facts = slice(Home::kPeer, 132, mib(256), true);
  for (const std::int64_t m : {1, 256, 1024, 2048}) {
    EXPECT_EQ(way_of(wide(m), facts), Way::kSymmetric) << m;
  }
  EXPECT_EQ(way_of(wide(10240), facts), Way::kStaged);
  // A sliver multiplies so slowly that cuBLAS in place is at the floor (paper, Fig. 4).
  EXPECT_EQ(way_of(wide(4096), slice(Home::kPeer, 16, Bytes(0), false)), Way::kLibrary);
}

TEST(HomeGemm, BesideANeighbourStagingWinsWhereItIsAlittleSlowerAlone) {
  Facts facts = slice(Home::kPeer, 132, mib(256), true);
  EXPECT_EQ(way_of(wide(1024), facts), Way::kSymmetric);
  facts.neighbour = true;
  EXPECT_EQ(way_of(wide(1024), facts), Way::kStaged);
}

TEST(HomeGemm, HybridGemmAddsAndGates) {
  const Facts none = slice(Home::kHost, 132, Bytes(0), false);
  CudaRequest gated = {.m = 2048, .n = 14336, .k = 4096, .silu_mul = true};
  const auto plan = choose(gated, none, Profile::built_in(Home::kHost));
  EXPECT_EQ(plan->way, Way::kSymmetric);
  EXPECT_EQ(plan->hybrid.shape.n, 2 * 14336);
  EXPECT_GE(plan->workspace.count, std::int64_t{2048} * 2 * 14336 * 2);
  CudaRequest added = wide(2048);
  added.residual = true;
  added.bias = true;
  EXPECT_EQ(way_of(added, none), Way::kSymmetric);
  EXPECT_EQ(way_of(added, slice(Home::kHost, 132, mib(40), true)), Way::kStaged);
  added.residual = false;
  added.out = CudaOut::kF32;
  EXPECT_EQ(way_of(added, none), Way::kLibrary);
}

TEST(HomeGemm, FewRowsArePreferredOnceTheyAreMeasured) {
  MachineProfile machine = Profile::built_in(Home::kHost).machine();
  machine.points.push_back({Way::kFewRows, 16384, 4096, 1, 132, 2.60e-3});
  const Profile profile = *Profile::of(machine);
  const Facts none = slice(Home::kHost, 132, Bytes(0), false);
  EXPECT_EQ(choose(wide(1), none, profile)->way, Way::kFewRows);
  EXPECT_TRUE(choose(wide(1), none, profile)->measured);
}

TEST(HomeGemm, WhatNothingReadsAtHomeIsRefused) {
  const Profile& profile = Profile::built_in(Home::kHost);
  const auto code = [&](const CudaRequest& r, const Facts& facts) {
    const auto plan = choose(r, facts, profile);
    return plan.ok() ? ErrorCode::kIo : plan.error().code;
  };
  const Facts facts = slice(Home::kHost, 132, mib(64), true);
  CudaRequest norm = wide(1);
  norm.norm = true;
  EXPECT_EQ(code(norm, facts), ErrorCode::kUnsupported);
  CudaRequest parts = wide(64);
  parts.parts = 2;
  parts.out = CudaOut::kF32;
  EXPECT_EQ(code(parts, facts), ErrorCode::kUnsupported);
  EXPECT_EQ(code({.m = 0, .n = 8, .k = 8}, facts), ErrorCode::kInvalidArgument);
  Facts empty = facts;
  empty.sm_count = 0;
  EXPECT_EQ(code(wide(1), empty), ErrorCode::kInvalidArgument);
}

TEST(HomeGemm, UnalignedOperandsHaveAWayToo) {
  CudaRequest odd = {.m = 3, .n = 5, .k = 7, .aligned = false, .paired = false, .boxed = false};
  const auto plan =
      choose(odd, slice(Home::kHost, 132, Bytes(0), false), Profile::built_in(Home::kHost));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->product.path, gemm::CudaPath::kPlain);
}

CudaRequest generate(Random& random) {
  CudaRequest r = {.m = random.between(1, 12'000),
                   .n = random.between(1, 5'000) * 8,
                   .k = random.between(1, 200) * 64};
  r.bias = random.chance(0.2);
  r.silu_mul = random.chance(0.2);
  r.residual = !r.silu_mul && random.chance(0.2);
  if (!r.silu_mul && !r.residual && random.chance(0.2)) r.out = CudaOut::kF32;
  if (random.chance(0.1)) r.aligned = r.boxed = false;
  if (random.chance(0.05)) r.paired = false;
  return r;
}

void expect_preconditions(const Plan& plan, const Facts& facts) {
  const CudaRequest& r = plan.request;
  EXPECT_LE(plan.scratch, facts.scratch);
  EXPECT_GT(plan.seconds, 0);
  switch (plan.way) {
    case Way::kStaged:
      EXPECT_TRUE(facts.copies);
      EXPECT_FALSE(plan.chunks.empty());
      break;
    case Way::kSymmetric:
    case Way::kRing:
      EXPECT_TRUE(r.aligned && r.out == CudaOut::kBF16 && (!r.silu_mul || r.boxed));
      EXPECT_LE(plan.hybrid.symmetric_ctas + plan.hybrid.asymmetric_ctas + plan.hybrid.relay_ctas,
                facts.sm_count);
      break;
    case Way::kFewRows:
      EXPECT_LE(r.m, gemm::kSplitMax);
      EXPECT_TRUE(r.aligned);
      break;
    case Way::kLibrary: break;
  }
}

TEST(HomeGemm, GeneratedPlansHaveTheirPreconditionsAndCostLeast) {
  Random random(3);
  int compared = 0;  // with other ways
  for (int i = 0; i < 1'500; ++i) {
    const CudaRequest r = generate(random);
    const Home home = random.chance(0.5) ? Home::kHost : Home::kPeer;
    Facts facts =
        slice(home, static_cast<int>(random.between(1, 132)),
              random.chance(0.3) ? Bytes(0) : mib(random.between(1, 300)), random.chance(0.5));
    const Profile& profile = Profile::built_in(home);
    const auto plan = choose(r, facts, profile);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    expect_preconditions(*plan, facts);
    EXPECT_EQ(choose(r, facts, profile)->way, plan->way);
    for (const Way way : kWays) {
      const auto other = plan_for(way, r, facts, profile);
      if (!other.ok()) continue;
      EXPECT_LE(plan->seconds, other->seconds);
      compared += way == plan->way ? 0 : 1;
    }
  }
  EXPECT_GT(compared, 1'000);
}

TEST(HomeGemm, ALargerProductIsNeverPredictedToBeFaster) {
  for (const Home home : {Home::kHost, Home::kPeer}) {
    const Facts facts = slice(home, 132, Bytes(0), false);
    double before = 0;
    for (std::int64_t m = 1; m <= 12'000; m += 1 + m / 7) {
      const double now = choose(wide(m), facts, Profile::built_in(home))->seconds;
      EXPECT_GE(now, before) << m;
      before = now;
    }
  }
}

TEST(HomeTraffic, ThePapersFigure4) {
  const CudaRequest r = wide(10240);
  constexpr std::int64_t kW = 134'217'728;
  EXPECT_EQ(traffic(r, {.way = Way::kSymmetric}).link.count, 40 * kW);  // 5.37 GB
  EXPECT_EQ(traffic(r, {.way = Way::kLibrary}).link.count, 40 * kW);
  EXPECT_EQ(traffic(r, {.way = Way::kRing}).link.count, kW);  // 0.13 GB
  EXPECT_EQ(traffic(r, {.way = Way::kSymmetric, .cluster_ctas = 8}).link.count, 5 * kW);
  const std::int64_t x = 10240 * 4096 * 2, out = 10240 * std::int64_t{16384} * 2;
  EXPECT_EQ(traffic(r, {.way = Way::kRing}).hbm.count, x + out + kW);
  // X does not stay in L2 between sixteen pieces.
  const Traffic staged = traffic(r, {.way = Way::kStaged, .pieces = 16});
  EXPECT_EQ(staged.hbm.count, 16 * x + out + 2 * kW);
  EXPECT_EQ(staged.x.count, 16 * x);
  EXPECT_EQ(staged.out.count, out);
}

TEST(HomeTraffic, EqualsHybridGemmsOwnAccount) {
  for (const std::int64_t m : {1, 256, 2048, 4096, 10240}) {
    for (const Way way : {Way::kSymmetric, Way::kRing}) {
      const auto plan = plan_for(way, wide(m), slice(Home::kHost, 132, mib(40), false),
                                 Profile::built_in(Home::kHost));
      ASSERT_TRUE(plan.ok());
      const Traffic moved =
          traffic(wide(m), {.way = way, .cluster_ctas = plan->hybrid.cluster_ctas});
      EXPECT_EQ(moved.link, plan->hybrid.link_bytes);
      EXPECT_EQ(moved.hbm, plan->hybrid.hbm_bytes);
    }
  }
}

TEST(HomeTraffic, WhatIsAddedIsReadAndGateHasTwoWeights) {
  CudaRequest r = {.m = 4, .n = 256, .k = 64};
  const std::int64_t plain = traffic(r, {.way = Way::kFewRows}).hbm.count;
  r.residual = true;
  EXPECT_EQ(traffic(r, {.way = Way::kFewRows}).hbm.count, plain + 4 * 256 * 2);
  r.residual = false;
  r.silu_mul = true;
  EXPECT_EQ(traffic(r, {.way = Way::kFewRows}).link.count, 2 * 256 * 64 * 2);
}

}  // namespace
}  // namespace causeway::kernels::home_gemm::home_gemm_test
