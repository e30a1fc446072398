// choose() on its own, and the CPU backend against an independent sum in f64.
#include "kernels/hybrid_gemm/hybrid_gemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace causeway::kernels::hybrid_gemm::hybrid_gemm_test {
namespace {

Plan plan_of(const Request& request, const SliceFacts& slice) {
  const Result<Plan> plan = choose(request, slice);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return *plan;
}

TEST(HybridGemmChoose, RejectsWhatItCannotServe) {
  EXPECT_FALSE(choose({.shape = {0, 8, 8}}, {}).ok());
  EXPECT_FALSE(choose({.shape = {1, 8, std::int64_t{1} << 31}}, {}).ok());
  EXPECT_FALSE(choose({.shape = {1, 8, 8}, .alpha = 1.5}, {}).ok());
  EXPECT_FALSE(choose({.shape = {1, 8, 8}, .alpha = std::nan("")}, {}).ok());
  EXPECT_FALSE(choose({.shape = {1, 8, 8}, .cluster_ctas = 3}, {}).ok());
  EXPECT_FALSE(choose({.shape = {1, 8, 8}}, {.sm_count = 1, .clusters = {1, 0, 0, 0}}).ok());
  EXPECT_EQ(choose({.shape = {1, 1024, 4096}}, {.ring_bytes = kib(64)}).error().code,
            ErrorCode::kResourceExhausted);
}

TEST(HybridGemmChoose, AlphaOneAndAllOfMInOneClusterCrossesTheLinkOnce) {
  const Shape shape = {2048, 16384, 4096};
  const Plan plan = plan_of({.shape = shape, .alpha = 1.0}, {});
  EXPECT_EQ(plan.cluster_ctas, 8);
  EXPECT_EQ(plan.link_bytes, Bytes(shape.n * shape.k * 2));
  EXPECT_EQ(plan.workspace, Bytes(0));
  EXPECT_EQ(plan.asymmetric_ctas, 0);
}

TEST(HybridGemmChoose, PapersSymmetricTrafficWithoutClusters) {
  // Fig. 4(b): 40 crossings of 134 MB are 5.37 GB.
  const Plan plan = plan_of({.shape = {10240, 16384, 4096}, .alpha = 1.0, .cluster_ctas = 1}, {});
  EXPECT_EQ(plan.link_bytes.count, 40 * 134'217'728LL);
}

TEST(HybridGemmChoose, AlphaZeroCrossesTheLinkOnceForAnyM) {
  const Plan plan = plan_of({.shape = {10240, 16384, 4096}}, {});
  EXPECT_EQ(plan.link_bytes, Bytes(16384 * 4096 * 2));
  EXPECT_EQ(plan.symmetric_ctas, 0);
  EXPECT_GT(plan.relay_ctas, 0);
  EXPECT_GT(plan.workspace, Bytes(0));
}

TEST(HybridGemmChoose, UnalignedIsPlain) {
  EXPECT_EQ(plan_of({.shape = {3, 5, 7}, .aligned = false}, {}).variant, Variant::kPlain);
}

TEST(HybridGemmChoose, GeneratedPlansHoldTogether) {
  Random random(7);
  for (int i = 0; i < 20'000; ++i) {
    Request request;
    request.shape = {random.between(1, 20'000), random.between(1, 40'000),
                     random.between(1, 4'000) * 8};
    request.alpha = random.chance(0.3) ? 1.0 : random.uniform();
    SliceFacts slice;
    slice.sm_count = static_cast<int>(random.between(3, 132));
    const int sms = slice.sm_count;
    slice.clusters = {sms, sms / 2, static_cast<int>(random.between(0, sms / 4)),
                      static_cast<int>(random.between(0, sms / 8))};
    slice.ring_bytes = mib(random.between(1, 64));
    const Result<Plan> plan = choose(request, slice);
    if (!plan.ok()) {
      EXPECT_EQ(plan.error().code, ErrorCode::kResourceExhausted);
      continue;
    }
    const Plan& p = *plan;
    EXPECT_LE(p.symmetric_ctas + p.asymmetric_ctas + p.relay_ctas, slice.sm_count);
    EXPECT_EQ(p.relay_ctas % p.cluster_ctas, 0);
    EXPECT_EQ(p.relay_ctas > 0, p.asymmetric_ctas > 0);
    EXPECT_EQ(p.symmetric_ctas % p.cluster_ctas, 0);
    EXPECT_EQ(p.asymmetric_ctas % p.cluster_ctas, 0);
    EXPECT_EQ(p.n_symmetric > 0, p.symmetric_ctas > 0);
    EXPECT_EQ(p.n_symmetric<request.shape.n, p.asymmetric_ctas> 0);
    EXPECT_TRUE(p.cluster_ctas < 4 ||
                p.symmetric_ctas + p.asymmetric_ctas + p.relay_ctas <=
                    p.cluster_ctas * slice.clusters[p.cluster_ctas == 8 ? 3 : 2]);
    EXPECT_LE(static_cast<double>(p.n_symmetric),
              request.alpha * static_cast<double>(request.shape.n));
    EXPECT_LE(p.workspace - p.flag_bytes, slice.ring_bytes);
    EXPECT_GE(p.link_bytes, Bytes(request.shape.n * request.shape.k * 2));
    if (p.asymmetric_ctas > 0) {
      EXPECT_LE(p.ring_group, p.slots);
      EXPECT_GE(p.ring_group, 1);
    }
  }
}

TEST(HybridGemmRecommend, ClustersUntilAllOfMFitsThenTheRing) {
  const SliceFacts pcie;  // 51 GB/s
  const Request small = recommend({200, 16384, 4096}, pcie);
  EXPECT_EQ(small.alpha, 1.0);
  EXPECT_EQ(small.cluster_ctas, 1);
  const Request middle = recommend({2000, 16384, 4096}, pcie);
  EXPECT_EQ(middle.alpha, 1.0);
  EXPECT_EQ(middle.cluster_ctas, 8);
  const Request large = recommend({10240, 16384, 4096}, pcie);
  EXPECT_EQ(large.alpha, 0.0);
  // A small slice multiplies more slowly than a C2C-class link brings W even forty times.
  const SliceFacts sliver = {.sm_count = 16, .clusters = {16, 8, 4, 2}, .link_gb_per_s = 374};
  EXPECT_EQ(recommend({10240, 16384, 4096}, sliver).alpha, 1.0);
}

float widen(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

TEST(HybridGemmHost, EqualsExactSumsWithinRounding) {
  Random random(11);
  for (int i = 0; i < 60; ++i) {
    const Shape s = {random.between(1, 17), random.between(1, 33), random.between(1, 300)};
    const std::int64_t pad = random.between(0, 5);
    std::vector<std::uint16_t> x(static_cast<std::size_t>(s.m * (s.k + pad)), 0xFFFF);
    std::vector<std::uint16_t> w(static_cast<std::size_t>(s.n * (s.k + pad)), 0xFFFF);
    std::vector<std::uint16_t> o(static_cast<std::size_t>(s.m * (s.n + pad)), 0xFFFF);
    const auto at = [&](std::int64_t row, std::int64_t column, std::int64_t width) {
      return static_cast<std::size_t>(row * (width + pad) + column);
    };
    const auto draw = [&] {
      return static_cast<std::uint16_t>(
          std::bit_cast<std::uint32_t>(static_cast<float>(random.normal())) >> 16);
    };
    for (std::int64_t r = 0; r < s.m; ++r) {
      for (std::int64_t j = 0; j < s.k; ++j) x[at(r, j, s.k)] = draw();
    }
    for (std::int64_t r = 0; r < s.n; ++r) {
      for (std::int64_t j = 0; j < s.k; ++j) w[at(r, j, s.k)] = draw();
    }
    run_on_host(s, {.x = x.data(),
                    .w = w.data(),
                    .o = o.data(),
                    .x_stride = s.k + pad,
                    .w_stride = s.k + pad,
                    .o_stride = s.n + pad});
    for (std::int64_t r = 0; r < s.m; ++r) {
      for (std::int64_t c = 0; c < s.n; ++c) {
        double exact = 0;
        for (std::int64_t j = 0; j < s.k; ++j) {
          exact += double{widen(x[at(r, j, s.k)])} * double{widen(w[at(c, j, s.k)])};
        }
        EXPECT_NEAR(widen(o[at(r, c, s.n)]), exact, std::abs(exact) * 0x1.02p-8 + 1e-4);
      }
      for (std::int64_t c = s.n; c < s.n + pad; ++c) EXPECT_EQ(o[at(r, c, s.n)], 0xFFFF);
    }
  }
}

TEST(HybridGemmHost, AddsBiasAndAResidualThatIsTheOutput) {
  const std::uint16_t one = 0x3F80, two = 0x4000, three = 0x4040;
  const std::uint16_t x[] = {one, one}, w[] = {one, two, two, two}, bias[] = {one, two};
  std::uint16_t o[] = {three, one};
  run_on_host({.m = 1, .n = 2, .k = 2}, {.x = x,
                                         .w = w,
                                         .o = o,
                                         .x_stride = 2,
                                         .w_stride = 2,
                                         .o_stride = 2,
                                         .bias = bias,
                                         .residual = o,
                                         .residual_stride = 2});
  EXPECT_EQ(widen(o[0]), 3 + 1 + 3);
  EXPECT_EQ(widen(o[1]), 4 + 2 + 1);
}

}  // namespace
}  // namespace causeway::kernels::hybrid_gemm::hybrid_gemm_test
