#include "simulate/hybrid_gemm.h"

#include <gtest/gtest.h>

namespace causeway::simulate::hybrid_gemm_test {
namespace {

constexpr double kWeight = 2.0 * 16'384 * 4'096;  // bytes

TEST(HybridGemm, MovesWhatThePaperMeasured) {
  const HybridWork asymmetric = hybrid_work(kWeight, kHybridFlops, 0);
  EXPECT_NEAR(asymmetric.link_bytes, 0.13e9, 0.01e9);
  EXPECT_NEAR(asymmetric.hbm_bytes, 5.18e9, 1e6);
  EXPECT_NEAR(asymmetric.flops / 780e12, 4.0e-3, 0.02e-3) << "as long as Fig. 4(a) says";
  const HybridWork symmetric = hybrid_work(kWeight, kHybridFlops, 1);
  EXPECT_NEAR(symmetric.link_bytes, 5.37e9, 0.01e9);
  EXPECT_NEAR(symmetric.hbm_bytes, 1.23e9, 1e6);
  EXPECT_EQ(symmetric.flops, kHybridFlops);
}

TEST(HybridGemm, AlphaTradesTheLinkForMemoryAndArithmetic) {
  HybridWork before = hybrid_work(kWeight, kHybridFlops, 0);
  for (double alpha = 0.125; alpha <= 1; alpha += 0.125) {
    const HybridWork work = hybrid_work(kWeight, kHybridFlops, alpha);
    EXPECT_GT(work.link_bytes, before.link_bytes);
    EXPECT_LT(work.hbm_bytes, before.hbm_bytes);
    EXPECT_LT(work.flops, before.flops);
    before = work;
  }
}

TEST(HybridGemm, FewRowsReadTheWeightOnce) {
  for (const double rows : {1.0, 17.0, 255.0, 256.0}) {
    for (const double alpha : {0.0, 0.5, 1.0}) {
      EXPECT_EQ(hybrid_work(kWeight, kWeight * rows, alpha).link_bytes, kWeight) << rows;
    }
    EXPECT_FALSE(depends_on_alpha(kWeight, kWeight * rows)) << rows;
  }
  EXPECT_EQ(hybrid_work(kWeight, kWeight * 257, 1).link_bytes, 2 * kWeight);
  EXPECT_TRUE(depends_on_alpha(kWeight, kWeight * 257));
  EXPECT_FALSE(depends_on_alpha(0, 0));
  EXPECT_EQ(hybrid_work(0, 0, 0.5).link_bytes, 0);
}

}  // namespace
}  // namespace causeway::simulate::hybrid_gemm_test
