#include "weights/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace causeway::weights::convert_test {
namespace {

// Through buffers that are one byte off any alignment.
template <typename To, typename From>
To convert_one(From value, DType from, DType to) {
  std::byte source[1 + sizeof(From)], target[1 + sizeof(To)];
  std::memcpy(source + 1, &value, sizeof(value));
  convert_elements({source + 1, sizeof(From)}, from, target + 1, to);
  To result;
  std::memcpy(&result, target + 1, sizeof(result));
  return result;
}

std::uint16_t half(float value) {
  return convert_one<std::uint16_t>(value, DType::kF32, DType::kF16);
}

TEST(Convert, EveryHalfSurvivesFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto in = static_cast<std::uint16_t>(bits);
    const auto wide = convert_one<float>(in, DType::kF16, DType::kF32);
    if (std::isnan(wide)) {
      EXPECT_GT(half(wide) & 0x7FFF, 0x7C00);
    } else {
      ASSERT_EQ(half(wide), in) << bits;
    }
  }
}

TEST(Convert, HalfRoundsToNearestTiesToEven) {
  EXPECT_EQ(half(1.0f), 0x3C00);
  EXPECT_EQ(half(1.0f + 0x1p-11f), 0x3C00);
  EXPECT_EQ(half(1.0f + 3 * 0x1p-11f), 0x3C02);
  EXPECT_EQ(half(65519.0f), 0x7BFF);
  EXPECT_EQ(half(65520.0f), 0x7C00);
  EXPECT_EQ(half(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(half(0x1p-25f), 0x0000);
  EXPECT_EQ(half(0x1.8p-24f), 0x0002);
  EXPECT_EQ(half(std::nextafter(0x1p-14f, 0.0f)), 0x0400);
  EXPECT_EQ(half(-0.0f), 0x8000);
}

TEST(Convert, BFloat16BothWays) {
  const auto narrow = convert_one<std::uint16_t>(1.0f + 0x1p-8f, DType::kF32, DType::kBF16);
  EXPECT_EQ(narrow, 0x3F80);
  EXPECT_EQ(convert_one<float>(std::uint16_t{0xC040}, DType::kBF16, DType::kF32), -3.0f);
  EXPECT_EQ(convert_one<std::uint16_t>(std::uint16_t{0x4200}, DType::kF16, DType::kBF16), 0x4040);
  EXPECT_EQ(convert_one<std::uint16_t>(std::uint16_t{0x4040}, DType::kBF16, DType::kF16), 0x4200);
}

TEST(Convert, ManyElementsAndNone) {
  std::vector<float> source(1001);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  std::vector<std::uint16_t> target(source.size());
  convert_elements(std::as_bytes(std::span(source)), DType::kF32,
                   reinterpret_cast<std::byte*>(target.data()), DType::kBF16);
  for (std::size_t i = 0; i < source.size(); ++i) {
    EXPECT_EQ(target[i], to_bfloat16(source[i]).bits);
  }
  convert_elements({}, DType::kF32, nullptr, DType::kF32);
}

}  // namespace
}  // namespace causeway::weights::convert_test
