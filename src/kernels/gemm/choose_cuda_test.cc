#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "kernels/gemm/even_shares.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/testing/near.h"

namespace causeway::kernels::gemm::gemm_choose_cuda_test {
namespace {

CudaRequest request(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {.m = m, .n = n, .k = k};
}

TEST(ChooseCuda, FewRowsGoToOwnKernels) {
  for (const std::int64_t m : {1, 8, 16}) {
    EXPECT_EQ(choose(request(m, 4096, 14336), {})->path, CudaPath::kRows);
    EXPECT_EQ(choose(request(m, 128256, 4096), {})->path, CudaPath::kRows);
  }
  EXPECT_EQ(choose(request(32, 4096, 4096), {})->path, CudaPath::kRows);
  for (const std::int64_t m : {17, 32, 33, 64, 65, 96, 97, 128}) {
    EXPECT_EQ(choose(request(m, 128256, 4096), {})->path, CudaPath::kSplit);
  }
  EXPECT_EQ(choose(request(80, 128256, 4096), {})->batch, 96);
  EXPECT_EQ(choose(request(33, 4096, 4096), {})->path, CudaPath::kLibrary);
  EXPECT_EQ(choose(request(129, 128256, 4096), {})->path, CudaPath::kLibrary);
  EXPECT_EQ(choose(request(256, 4096, 4096), {})->path, CudaPath::kLibrary);
}

TEST(ChooseCuda, LowTilesOfFewRowsHaveLongSteps) {
  const auto step = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return choose(request(m, n, k), {})->step_k;
  };
  for (const std::int64_t m : {1, 8}) EXPECT_EQ(step(m, 2048, 4096), 2 * kRowsStepK);
  EXPECT_EQ(step(9, 2048, 4096), kRowsStepK);
  EXPECT_EQ(step(32, 2048, 4096), kRowsStepK);
  EXPECT_EQ(step(1, 2048, 4096 + kRowsStepK), kRowsStepK);
  EXPECT_EQ(step(1, 4096, 4096), kRowsStepK);  // tiles of 32 rows
}

TEST(ChooseCuda, LargeWeightsAreShared) {
  for (const std::int64_t m : {17, 33, 64, 128}) {
    CudaRequest gated = request(m, 14336, 4096);  // 28,672 rows of w
    gated.silu_mul = true;
    const auto plan = choose(gated, {});
    EXPECT_EQ(plan->path, CudaPath::kSplit);
    EXPECT_EQ(plan->ctas, 132);
    EXPECT_EQ(plan->workspace.count, kFlagBytes.count + 132 * kSplitRows * plan->batch * 4);
    EXPECT_EQ(choose(request(m, 14336, 4096), {})->path,
              m <= 32 ? CudaPath::kRows : CudaPath::kLibrary);
  }
  CudaRequest unpaired = request(33, 4096, 4096);  // no other way but the slow one
  unpaired.paired = false;
  EXPECT_EQ(choose(unpaired, {})->path, CudaPath::kSplit);
  EXPECT_EQ(choose(unpaired, {})->ctas, 64);
  unpaired.m = 128;
  EXPECT_EQ(choose(unpaired, {})->path, CudaPath::kSplit);
  unpaired.m = 129;
  EXPECT_EQ(choose(unpaired, {})->path, CudaPath::kPlain);
  // A flag a CTA.
  const int most = static_cast<int>(kFlagBytes.count / 4);
  EXPECT_TRUE(plan_for(CudaPath::kSplit, request(32, 128256, 4096), {.sm_count = most}).ok());
  EXPECT_FALSE(plan_for(CudaPath::kSplit, request(32, 128256, 4096), {.sm_count = most + 1}).ok());
}

TEST(ChooseCuda, PairsShareTilesOfNarrowWeights) {
  const auto qkv = choose(request(64, 6144, 4096), {});
  EXPECT_EQ(qkv->path, CudaPath::kSplit);
  EXPECT_EQ(qkv->pairs, CudaPairs::kHalves);
  EXPECT_EQ(qkv->ctas, 96);
  EXPECT_EQ(qkv->k_steps, 32);
  EXPECT_EQ(choose(request(65, 6144, 4096), {})->path, CudaPath::kLibrary);
  EXPECT_EQ(choose(request(64, 6144, 4096), {.sm_count = 95})->path, CudaPath::kLibrary);
  EXPECT_EQ(choose(request(64, 5120, 4096), {})->path, CudaPath::kLibrary);  // 80 of 132 SMs
  EXPECT_EQ(plan_for(CudaPath::kSplit, request(64, 5120, 4096), {})->pairs, CudaPairs::kHalves);
  CudaRequest down = request(64, 4096, 14336);
  EXPECT_EQ(choose(down, {})->path, CudaPath::kLibrary);  // 64 CTAs
  down.out = CudaOut::kF32;
  down.parts = 2;
  EXPECT_EQ(choose(down, {})->path, CudaPath::kSplit);
  EXPECT_EQ(choose(down, {})->ctas, 128);
  EXPECT_EQ(choose(down, {})->k_steps, 56);
  for (const auto& [m, path] : {std::pair{65, CudaPath::kLibrary},
                                {88, CudaPath::kLibrary},
                                {89, CudaPath::kSplit},
                                {129, CudaPath::kLibrary}}) {
    down.m = m;
    EXPECT_EQ(choose(down, {})->path, path);
  }
}

TEST(ChooseCuda, PairsNeedWhatTheCopyEngineStoresAndNothingAdded) {
  const auto halves = [](const CudaRequest& r) {
    return plan_for(CudaPath::kSplit, r, {})->pairs == CudaPairs::kHalves;
  };
  const CudaRequest fits = request(33, 6144, 4096);
  EXPECT_TRUE(halves(fits));
  for (const auto& change : std::initializer_list<void (*)(CudaRequest&)>{
           [](CudaRequest& r) { r.m = 32; }, [](CudaRequest& r) { r.n = 6148; },
           [](CudaRequest& r) { r.n = 8456; }, [](CudaRequest& r) { r.k = 4096 + 64; },
           [](CudaRequest& r) { r.bias = true; }, [](CudaRequest& r) { r.residual = true; },
           [](CudaRequest& r) { r.silu_mul = true; }, [](CudaRequest& r) { r.boxed = false; }}) {
    CudaRequest r = fits;
    change(r);
    EXPECT_FALSE(halves(r));
  }
}

TEST(ChooseCuda, BoxesNeedStepsForTheStagesThatTheyKeep) {
  const auto boxes = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return plan_for(CudaPath::kSplit, request(m, n, k), {})->boxes;
  };
  EXPECT_TRUE(boxes(32, 17104, 256));
  EXPECT_FALSE(boxes(32, 17104, 192));
  EXPECT_TRUE(boxes(64, 4096, 256));  // pairs, of two steps, end with their only tile
  EXPECT_FALSE(boxes(32, 17108, 256));
  EXPECT_FALSE(boxes(16, 17104, 256));
}

TEST(ChooseCuda, EvenSharesAreWholeAndEven) {
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t bits = random.between(1, 31);
    const std::int64_t total = random.between(1, (std::int64_t{1} << bits) - 1);
    const std::int64_t count = random.between(1, i % 2 == 0 ? 300 : EvenShares::kCountMax);
    const EvenShares shares = EvenShares::of(total, count);
    EXPECT_EQ(shares.begin(0), 0);
    EXPECT_EQ(shares.begin(static_cast<unsigned>(count)), total);
    std::int64_t least = total, most = 0;
    for (std::int64_t share = 0; share < std::min<std::int64_t>(count, 300); ++share) {
      const std::int64_t size = std::int64_t{shares.begin(static_cast<unsigned>(share + 1))} -
                                shares.begin(static_cast<unsigned>(share));
      if (count <= 256) {
        EXPECT_EQ(shares.begin(static_cast<unsigned>(share)), share * total / count);
      }
      least = std::min(least, size);
      most = std::max(most, size);
    }
    EXPECT_GE(least, total / count) << total << " to " << count;
    EXPECT_LE(most, total / count + 1) << total << " to " << count;
  }
}

TEST(ChooseCuda, RefusesMoreStepsOrSmsThanCanBeDealtOut) {
  EXPECT_TRUE(plan_for(CudaPath::kSplit, request(32, 1 << 24, 1 << 19), {}).ok());
  EXPECT_FALSE(plan_for(CudaPath::kSplit, request(32, 1 << 27, 1 << 19), {}).ok());
  EXPECT_TRUE(plan_for(CudaPath::kRows, request(1, 4096, 4096), {.sm_count = 65535}).ok());
  EXPECT_FALSE(plan_for(CudaPath::kRows, request(1, 4096, 4096), {.sm_count = 65536}).ok());
}

TEST(ChooseCuda, WhatTmaCannotAddressGoesToTheLibrary) {
  CudaRequest odd = request(1, 4096, 4096);
  odd.aligned = false;
  EXPECT_EQ(choose(odd, {})->path, CudaPath::kLibrary);
  EXPECT_EQ(choose(request(1, 4096, 100), {})->path, CudaPath::kLibrary);
  odd.paired = false;
  EXPECT_EQ(choose(odd, {})->path, CudaPath::kPlain);
  EXPECT_FALSE(plan_for(CudaPath::kLibrary, odd, {}).ok());
  EXPECT_FALSE(plan_for(CudaPath::kRows, odd, {}).ok());
  EXPECT_FALSE(plan_for(CudaPath::kSplit, odd, {}).ok());
}

TEST(ChooseCuda, NormGoesWithFewRowsOnly) {
  for (const std::int64_t m : {1, 16, 17, 32}) {
    EXPECT_TRUE(fuses_norm(request(m, 6144, 4096), {}));
    EXPECT_FALSE(fuses_norm(request(m, 6144, 4096 + 64), {}));  // half a step of gains
  }
  EXPECT_TRUE(fuses_norm(request(16, 28672, 4096), {}));
  EXPECT_FALSE(fuses_norm(request(17, 28672, 4096), {}));  // kSplit
  EXPECT_FALSE(fuses_norm(request(33, 6144, 4096), {}));
  EXPECT_FALSE(fuses_norm(request(64, 6144, 4096), {}));
  CudaRequest norm = request(8, 6144, 4096);
  norm.norm = true;
  EXPECT_EQ(choose(norm, {})->path, CudaPath::kRows);
  EXPECT_FALSE(plan_for(CudaPath::kSplit, norm, {}).ok());
  EXPECT_FALSE(plan_for(CudaPath::kLibrary, norm, {}).ok());
  EXPECT_FALSE(plan_for(CudaPath::kPlain, norm, {}).ok());
}

TEST(ChooseCuda, PartsAreForMiddlingRows) {
  for (const std::int64_t m : {65, 88, 256}) {
    EXPECT_EQ(parts_wanted(request(m, 4096, 14336), {}), 2);
    CudaRequest parts = request(m, 4096, 14336);
    parts.out = CudaOut::kF32;
    const Bytes whole = choose(parts, {})->workspace;
    parts.parts = 2;
    const auto plan = choose(parts, {});
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->path, CudaPath::kLibrary);
    EXPECT_EQ(plan->sm_count, 132);
    EXPECT_EQ(plan->workspace.count, whole.count + 2 * m * 4096 * 4);
    EXPECT_FALSE(plan_for(CudaPath::kRows, parts, {}).ok());
    EXPECT_FALSE(plan_for(CudaPath::kPlain, parts, {}).ok());
  }
  EXPECT_EQ(parts_wanted(request(32, 4096, 14336), {}), 1);
  EXPECT_EQ(parts_wanted(request(257, 4096, 14336), {}), 1);
  EXPECT_EQ(parts_wanted(request(64, 4096, 14344), {}),
            1);  // a half of 7172: TMA cannot address it
  CudaRequest other = request(64, 4096, 14336);
  other.bias = true;
  EXPECT_EQ(parts_wanted(other, {}), 1);
  other.bias = false;
  other.paired = false;
  EXPECT_EQ(parts_wanted(other, {}), 1);
}

// o, not deeper than wide: where pairs of CTAs take its parts.
TEST(ChooseCuda, PartsOfShallowProductsAreForPairs) {
  const auto parts = [](std::int64_t m, std::int64_t n, std::int64_t k, int sms = 132) {
    CudaRequest r = request(m, n, k);
    r.residual = true;
    return parts_wanted(r, {.sm_count = sms});
  };
  for (const std::int64_t m : {33, 64, 89, 128}) EXPECT_EQ(parts(m, 4096, 4096), 2);
  for (const std::int64_t m : {1, 32, 65, 88, 129, 256}) EXPECT_EQ(parts(m, 4096, 4096), 1);
  EXPECT_EQ(parts(128, 2048, 4096), 1);  // 64 of 132 SMs
  EXPECT_EQ(parts(128, 2048, 4096, 66), 2);
  EXPECT_EQ(parts(128, 8192, 8192), 1);  // 128 tiles for 66 pairs
  EXPECT_EQ(parts(128, 4096, 4096 + 128), 1);
  EXPECT_EQ(parts(80, 2048, 8192), 2);  // deep
}

TEST(ChooseCuda, GateAndUpDropWhatIsSpentBesideTheirStream) {
  const auto drops = [](std::int64_t m, bool silu_mul) {
    CudaRequest r = request(m, 14336, 4096);
    r.silu_mul = silu_mul;
    return choose(r, {})->drops;
  };
  for (const std::int64_t m : {33, 96, 128}) EXPECT_TRUE(drops(m, true));
  for (const std::int64_t m : {1, 32, 129}) EXPECT_FALSE(drops(m, true));
  EXPECT_FALSE(drops(128, false));
}

TEST(ChooseCuda, RefusesPartsThatMakeNoSense) {
  CudaRequest parts = request(64, 4096, 14336);
  parts.parts = 2;
  EXPECT_FALSE(choose(parts, {}).ok());  // bf16
  parts.out = CudaOut::kF32;
  EXPECT_TRUE(choose(parts, {}).ok());
  parts.bias = true;
  EXPECT_FALSE(choose(parts, {}).ok());
  parts.bias = false;
  parts.k = 14337;
  EXPECT_FALSE(choose(parts, {}).ok());
  parts.k = 14336;
  for (const int count : {0, -1, 3, 4}) {
    parts.parts = count;
    EXPECT_FALSE(choose(parts, {}).ok());
  }
}

TEST(ChooseCuda, RefusesWhatMakesNoSense) {
  EXPECT_FALSE(choose(request(0, 8, 64), {}).ok());
  EXPECT_FALSE(choose(request(1, -8, 64), {}).ok());
  EXPECT_FALSE(choose(request(1, std::int64_t{1} << 31, 64), {}).ok());
  EXPECT_FALSE(choose(request(1, 8, 64), {.sm_count = 0}).ok());
  CudaRequest both = request(1, 8, 64);
  both.residual = both.silu_mul = true;
  EXPECT_FALSE(choose(both, {}).ok());
  CudaRequest wide = request(1, 8, 64);
  wide.out = CudaOut::kF32;
  wide.residual = true;
  EXPECT_FALSE(choose(wide, {}).ok());
}

// Every row of the weight belongs to a tile, every column to a step, and what a kernel is built for
// covers the rows of x, whatever the shape.
TEST(ChooseCuda, PlansCoverTheProduct) {
  Random random(testing::fresh_seed());
  int pairs[3] = {};
  for (int i = 0; i < 20000; ++i) {
    CudaRequest r = request(random.between(1, 300), random.between(1, 200000),
                            random.between(1, 300) * (random.chance(0.8) ? 64 : 8));
    r.silu_mul = random.chance(0.3);
    const CudaFacts facts = {.sm_count = static_cast<int>(random.between(1, 200))};
    if (i % 4 == 0) {  // often for pairs
      r = request(random.between(33, 128), 8 * random.between(1, 16 * facts.sm_count),
                  random.between(1, 60) * 256);
      r.parts = static_cast<int>(random.between(1, 2));
      if (r.parts > 1) r.out = CudaOut::kF32;
    }
    const auto plan = choose(r, facts);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_GE(plan->workspace, kFlagBytes);
    if (plan->path == CudaPath::kLibrary || plan->path == CudaPath::kPlain) continue;
    const std::int64_t rows = r.silu_mul ? 2 * r.n : r.n;
    const bool by_rows = plan->path == CudaPath::kRows;
    const std::int64_t tile = by_rows ? 16 * plan->blocks : kSplitRows;
    EXPECT_GE(plan->batch, r.m);
    const bool halves = plan->pairs == CudaPairs::kHalves;
    const int of_tile = plan->pairs == CudaPairs::kInputs ? 2 : 1;  // rows of w
    EXPECT_GE(plan->tiles / r.parts * of_tile * tile, rows);
    EXPECT_LT((plan->tiles / r.parts - 1) * of_tile * tile, rows);
    const int shares = (halves ? 2 : 1) * r.parts;  // of a row's k
    ++pairs[static_cast<int>(plan->pairs)];
    EXPECT_GE(std::int64_t{plan->k_steps} * plan->step_k * shares, r.k);
    EXPECT_LT(std::int64_t{plan->k_steps - 1} * plan->step_k * shares, r.k);
    EXPECT_LE(plan->ctas, facts.sm_count);
    EXPECT_GE(plan->ctas, 1);
    // kSplit: a tile is shared by two at most, in pairs by two pairs.
    if (!by_rows) {
      EXPECT_LE(plan->ctas, plan->tiles * (plan->pairs == CudaPairs::kNone ? 1 : 2));
    }
    if (plan->pairs != CudaPairs::kNone) {
      EXPECT_EQ(plan->ctas % 2, 0);
    }
  }
  EXPECT_GT(pairs[static_cast<int>(CudaPairs::kHalves)], 100);
  EXPECT_GT(pairs[static_cast<int>(CudaPairs::kInputs)], 100);
}

}  // namespace
}  // namespace causeway::kernels::gemm::gemm_choose_cuda_test
