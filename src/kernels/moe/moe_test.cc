#include "kernels/moe/moe.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "kernels/testing/near.h"

namespace causeway::kernels::moe::moe_test {
namespace {

using testing::fresh_seed;
using testing::poisoned;
using testing::random_floats;
using testing::relative_error;
using testing::TestWeights;

TEST(RouteTest, ChoosesTheBestWithTheirSoftmaxWeights) {
  Random random(fresh_seed());
  for (int round = 0; round < 200; ++round) {
    const std::int64_t count = random.between(1, 40), k = random.between(1, count);
    auto scores = random_floats(random, count, 3);
    if (count > 3) scores[1] = scores[3];  // a tie: the lower index first
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    double all = 0, best = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const double e = std::exp(double{scores[static_cast<std::size_t>(order[i])]});
      all += e;
      if (std::int64_t(i) < k) best += e;
    }
    const bool normalise = random.chance(0.5);
    std::vector<std::int32_t> chosen(static_cast<std::size_t>(k), -1);
    std::vector<float> weights(static_cast<std::size_t>(k));
    route({scores.data(), count, k, normalise}, chosen.data(), weights.data());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      EXPECT_EQ(chosen[i], order[i]);
      const double e = std::exp(double{scores[static_cast<std::size_t>(order[i])]});
      EXPECT_NEAR(weights[i], e / (normalise ? best : all), 1e-5);
    }
  }
}

TEST(RouteTest, NanScoresStillChooseDistinctExperts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores = {nan, 1, nan, 2, nan};
  std::vector<std::int32_t> chosen(4);
  std::vector<float> weights(4);
  route({scores.data(), 5, 4, true}, chosen.data(), weights.data());
  EXPECT_EQ(chosen, (std::vector<std::int32_t>{3, 1, 0, 2}));
}

// Expert MLPs and the weighted sum, token by token, in double precision (f32 weights).
struct Reference {
  const Params& p;
  const TestWeights& router;
  const TestWeights& gate_up;
  const TestWeights& down;

  double dot(const TestWeights& w, std::int64_t row, const std::vector<double>& x) const {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += w.values[static_cast<std::size_t>(row) * x.size() + i] * x[i];
    }
    return sum;
  }
  void add_expert(std::int64_t e, double weight, const std::vector<double>& x, double* out) const {
    std::vector<double> active;
    for (std::int64_t i = 0; i < p.intermediate; ++i) {
      const double gate = dot(gate_up, e * 2 * p.intermediate + i, x);
      const double up = dot(gate_up, (e * 2 + 1) * p.intermediate + i, x);
      active.push_back(gate / (1 + std::exp(-gate)) * up);
    }
    for (std::int64_t i = 0; i < p.hidden; ++i) {
      out[i] += weight * dot(down, e * p.hidden + i, active);
    }
  }
  std::vector<double> all() const {
    std::vector<double> out(static_cast<std::size_t>(p.tokens * p.hidden), 0.0);
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      const std::vector<double> x(p.x + t * p.hidden, p.x + (t + 1) * p.hidden);
      std::vector<float> scores;
      for (std::int64_t e = 0; e < p.experts; ++e) {
        scores.push_back(static_cast<float>(dot(router, e, x)));
      }
      std::vector<std::int32_t> chosen(static_cast<std::size_t>(p.experts_per_token));
      std::vector<float> weights(chosen.size());
      route({scores.data(), p.experts, p.experts_per_token, p.normalise_top_k}, chosen.data(),
            weights.data());
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        add_expert(chosen[i], weights[i], x, out.data() + t * p.hidden);
      }
    }
    return out;
  }
};

TEST(MoeTest, GroupedExpertsAgreeWithTokenByToken) {
  Random random(20);  // fixed: a near-tie may be routed either way
  gemm::Gemm gemm;
  Moe moe;
  for (const std::int64_t tokens : {1, 2, 7, 40}) {
    for (const bool normalise : {true, false}) {
      Params p{.tokens = tokens,
               .hidden = 33,
               .intermediate = 19,
               .experts = 6,
               .experts_per_token = 3,
               .normalise_top_k = normalise};
      const auto x = random_floats(random, p.tokens * p.hidden);
      const TestWeights router(random, p.experts * p.hidden, DType::kF32, 0.3);
      const TestWeights gate_up(random, p.experts * 2 * p.intermediate * p.hidden, DType::kF32,
                                0.2);
      const TestWeights down(random, p.experts * p.hidden * p.intermediate, DType::kF32, 0.2);
      auto out = poisoned(p.tokens * p.hidden);
      p.x = x.data();
      p.router = router.ref();
      p.gate_up = gate_up.ref();
      p.down = down.ref();
      p.out = out.data();
      moe.run(p, gemm);
      EXPECT_LT(relative_error(out, Reference{p, router, gate_up, down}.all()), 1e-5)
          << tokens << " tokens";
    }
  }
}

}  // namespace
}  // namespace causeway::kernels::moe::moe_test
