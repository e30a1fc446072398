// Helpers for kernel tests: fresh random inputs, poisoned outputs, and comparison in double.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/dtype.h"
#include "base/random.h"
#include "kernels/weights_ref.h"

namespace causeway::kernels::testing {

// Another seed every run, shown when the test fails.
inline std::uint64_t fresh_seed() {
  const std::uint64_t seed = std::random_device{}();
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

inline std::vector<float> random_floats(Random& random, std::int64_t count, double scale = 1) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(scale * random.normal());
  return values;
}

// Outputs start as NaN: an element that is never written shows.
inline std::vector<float> poisoned(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count),
                            std::numeric_limits<float>::quiet_NaN());
}

// Random weights of F32 or BF16, and what they are as doubles.
struct TestWeights {
  std::vector<std::byte> bytes;
  std::vector<double> values;
  DType dtype = DType::kF32;

  TestWeights(Random& random, std::int64_t count, DType type, double scale = 1)
      : bytes(static_cast<std::size_t>(count * size_of(type).count)), dtype(type) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(scale * random.normal());
      const auto at = static_cast<std::size_t>(i * size_of(type).count);
      if (type == DType::kBF16) {
        const BFloat16 rounded = to_bfloat16(value);
        std::memcpy(bytes.data() + at, &rounded, sizeof(rounded));
        values.push_back(to_float(rounded));
      } else {
        std::memcpy(bytes.data() + at, &value, sizeof(value));
        values.push_back(value);
      }
    }
  }
  WeightsRef ref() const { return {bytes.data(), dtype}; }
};

// ‖x - exact‖₂ ÷ ‖exact‖₂; infinite when anything is not finite.
inline double relative_error(const std::vector<float>& x, const std::vector<double>& exact) {
  double difference = 0, norm = 0;
  if (x.size() != exact.size()) return std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) return std::numeric_limits<double>::infinity();
    difference += (x[i] - exact[i]) * (x[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace causeway::kernels::testing
