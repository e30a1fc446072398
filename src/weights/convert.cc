#include "weights/convert.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace causeway::weights {
namespace {

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7E00u;
  if (magnitude >= 0x477FF000u) return sign | 0x7C00u;  // 65520 and up round to infinity
  if (magnitude < 0x38800000u) {                        // below the smallest normal half, 2^-14
    const float scaled = std::bit_cast<float>(magnitude) * 0x1.0p24f;
    return sign | static_cast<std::uint16_t>(std::lrint(scaled));
  }
  const std::uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return sign | static_cast<std::uint16_t>((rounded - 0x38000000u) >> 13);
}

struct F32 {
  using Stored = std::uint32_t;
  static float load(Stored bits) { return std::bit_cast<float>(bits); }
  static Stored store(float value) { return std::bit_cast<Stored>(value); }
};
struct F16 {
  using Stored = std::uint16_t;
  static float load(Stored bits) { return half_to_float(bits); }
  static Stored store(float value) { return float_to_half(value); }
};
struct BF16 {
  using Stored = std::uint16_t;
  static float load(Stored bits) { return to_float(BFloat16{bits}); }
  static Stored store(float value) { return to_bfloat16(value).bits; }
};

template <typename From, typename To>
void convert(std::span<const std::byte> source, std::byte* target) {
  const std::size_t count = source.size() / sizeof(typename From::Stored);
  for (std::size_t i = 0; i < count; ++i) {
    typename From::Stored in;
    std::memcpy(&in, source.data() + i * sizeof(in), sizeof(in));
    const typename To::Stored out = To::store(From::load(in));
    std::memcpy(target + i * sizeof(out), &out, sizeof(out));
  }
}

template <typename From>
void convert_from(std::span<const std::byte> source, std::byte* target, DType to) {
  switch (to) {
    case DType::kF32: return convert<From, F32>(source, target);
    case DType::kF16: return convert<From, F16>(source, target);
    case DType::kBF16: return convert<From, BF16>(source, target);
  }
}

}  // namespace

void convert_elements(std::span<const std::byte> source, DType from, std::byte* target, DType to) {
  CAUSEWAY_CHECK(source.size() % to_size(size_of(from)) == 0, "half an element");
  if (from == to) {
    if (!source.empty()) std::memcpy(target, source.data(), source.size());
    return;
  }
  switch (from) {
    case DType::kF32: return convert_from<F32>(source, target, to);
    case DType::kF16: return convert_from<F16>(source, target, to);
    case DType::kBF16: return convert_from<BF16>(source, target, to);
  }
}

}  // namespace causeway::weights
