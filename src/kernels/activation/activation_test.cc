#include "kernels/activation/activation.h"

#include <numbers>

#include <gtest/gtest.h>

#include "kernels/testing/near.h"

namespace causeway::kernels::activation::activation_test {
namespace {

using testing::fresh_seed;
using testing::poisoned;
using testing::random_floats;
using testing::relative_error;

TEST(ActivationTest, EveryVariantAgreesWithDoublePrecision) {
  Random random(fresh_seed());
  for (const Variant variant : available_variants()) {
    for (const std::int64_t size : {1, 3, 16, 17, 33, 257, 9001}) {
      const std::int64_t rows = random.between(1, 4);
      const auto x = random_floats(random, rows * 2 * size, 6);
      auto out = poisoned(rows * size);
      run({.rows = rows, .size = size, .gate_up = x.data(), .out = out.data(), .variant = variant});
      std::vector<double> exact;
      for (std::int64_t i = 0; i < rows * size; ++i) {
        const std::int64_t at = i / size * 2 * size + i % size;
        const double gate = x[static_cast<std::size_t>(at)];
        exact.push_back(gate / (1 + std::exp(-gate)) * x[static_cast<std::size_t>(at + size)]);
      }
      EXPECT_LT(relative_error(out, exact), 1e-6) << name_of(variant) << ", size " << size;
    }
  }
}

TEST(ActivationTest, GeluByTanh) {
  Random random(fresh_seed());
  for (const Variant variant : available_variants()) {
    for (const std::int64_t size : {1, 16, 33, 9001}) {
      auto x = random_floats(random, 2 * size, 4);
      x[0] = size == 33 ? -1e30f : 1e30f;
      x[static_cast<std::size_t>(size)] = 1;
      auto out = poisoned(size);
      run({.rows = 1,
           .size = size,
           .gate_up = x.data(),
           .out = out.data(),
           .gate = Gate::kGeluTanh,
           .variant = variant});
      std::vector<double> exact;
      for (std::int64_t i = 0; i < size; ++i) {
        const double gate = x[static_cast<std::size_t>(i)];
        const double inner =
            std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
        exact.push_back(gate / 2 * (1 + std::tanh(inner)) * x[static_cast<std::size_t>(i + size)]);
      }
      EXPECT_LT(relative_error(out, exact), 1e-6) << name_of(variant) << ", size " << size;
    }
  }
}

TEST(ActivationTest, ExtremeGates) {
  const std::vector<float> gates = {-1e30f, -100, -88, -87, 0, 87, 89, 1e30f};
  for (const Variant variant : available_variants()) {
    std::vector<float> x = gates;
    x.insert(x.end(), gates.size(), 1.0f);
    auto out = poisoned(std::ssize(gates));
    run({.rows = 1,
         .size = std::ssize(gates),
         .gate_up = x.data(),
         .out = out.data(),
         .variant = variant});
    for (std::size_t i = 0; i < gates.size(); ++i) {
      const double gate = gates[i];
      EXPECT_NEAR(out[i], gate / (1 + std::exp(-gate)), 1e-6 * std::max(1.0, std::abs(gate)));
    }
  }
}

}  // namespace
}  // namespace causeway::kernels::activation::activation_test
