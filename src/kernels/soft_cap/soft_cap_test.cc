#include "kernels/soft_cap/soft_cap.h"

#include <gtest/gtest.h>

#include "kernels/testing/near.h"

namespace causeway::kernels::soft_cap::soft_cap_test {
namespace {

TEST(SoftCapTest, AgreesWithDoublePrecision) {
  Random random(testing::fresh_seed());
  for (const std::int64_t count : {1, 7, 4096, 30'001}) {
    auto x = testing::random_floats(random, count, 40);
    x[0] = 1e30f;
    std::vector<double> exact;
    for (const float value : x) exact.push_back(30 * std::tanh(double{value} / 30));
    run({.x = x.data(), .count = count, .cap = 30});
    EXPECT_LT(testing::relative_error(x, exact), 1e-6) << count;
  }
}

}  // namespace
}  // namespace causeway::kernels::soft_cap::soft_cap_test
