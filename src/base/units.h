// Units and ids as types: a number of bytes, an instant and an index cannot be mistaken for each
// other. All are 64-bit signed integers inside; arithmetic is within one unit, or by a scalar.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

namespace causeway {

template <typename Tag>
struct Quantity {
  std::int64_t count = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t n) : count(n) {}

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity other) const { return Quantity(count + other.count); }
  constexpr Quantity operator-(Quantity other) const { return Quantity(count - other.count); }
  constexpr Quantity operator-() const { return Quantity(-count); }
  constexpr Quantity operator*(std::int64_t factor) const { return Quantity(count * factor); }
  constexpr Quantity operator/(std::int64_t divisor) const { return Quantity(count / divisor); }
  constexpr std::int64_t operator/(Quantity other) const { return count / other.count; }
  constexpr Quantity operator%(Quantity other) const { return Quantity(count % other.count); }
  constexpr Quantity& operator+=(Quantity other) {
    count += other.count;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    count -= other.count;
    return *this;
  }
};

using Bytes = Quantity<struct BytesTag>;    // a size or an offset in memory or in a file
using Nanos = Quantity<struct NanosTag>;    // a duration, or an instant since a clock's epoch
using Tokens = Quantity<struct TokensTag>;  // a number of tokens

constexpr Bytes kib(std::int64_t n) { return Bytes(n << 10); }
constexpr Bytes mib(std::int64_t n) { return Bytes(n << 20); }
constexpr Bytes gib(std::int64_t n) { return Bytes(n << 30); }
// An instant that never comes.
inline constexpr Nanos kNever{std::numeric_limits<std::int64_t>::max()};
constexpr Nanos micros(std::int64_t n) { return Nanos(n * 1'000); }
constexpr Nanos millis(std::int64_t n) { return Nanos(n * 1'000'000); }
constexpr Nanos seconds(std::int64_t n) { return Nanos(n * 1'000'000'000); }
constexpr double to_seconds(Nanos t) { return static_cast<double>(t.count) * 1e-9; }
constexpr double to_millis(Nanos t) { return static_cast<double>(t.count) * 1e-6; }
// The nearest value that fits: about ±292 years at most. NaN becomes zero.
constexpr Nanos nanos_from_seconds(double s) {
  constexpr double kOver = 9223372036854775808.0;  // 2^63: the first that does not fit
  const double nanos = s * 1e9;
  if (nanos >= kOver) return Nanos(std::numeric_limits<std::int64_t>::max());
  if (nanos > -kOver) return Nanos(static_cast<std::int64_t>(nanos));
  return nanos < 0 ? Nanos(std::numeric_limits<std::int64_t>::min()) : Nanos(0);
}
constexpr std::size_t to_size(Bytes b) { return static_cast<std::size_t>(b.count); }
constexpr double to_gigabytes(Bytes b) { return static_cast<double>(b.count) * 1e-9; }
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr Bytes round_up(Bytes value, Bytes step) {
  return Bytes((value.count + step.count - 1) / step.count * step.count);
}

// An index or identity: comparable, hashable, no arithmetic. Default-constructed: none.
template <typename Tag>
struct Id {
  std::int64_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::int64_t v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
  constexpr bool valid() const { return value >= 0; }
};

using RegionId = Id<struct RegionTag>;    // a host memory region (device/host_memory.h)
using ExtentId = Id<struct ExtentTag>;    // 32 MiB of a device's arena (device/arena.h)
using FrameId = Id<struct FrameTag>;      // one KV frame within a slice (kv/frame_pool.h)
using TwinId = Id<struct TwinTag>;        // a frame's place in host memory (kv/twin_pool.h)
using ModelId = Id<struct ModelTag>;      // a model within a catalogue
using RequestId = Id<struct RequestTag>;  // a request within a process
using StepId = Id<struct StepTag>;        // one iteration of one slice, increasing
using TokenId = std::int32_t;             // an entry of a model's vocabulary

}  // namespace causeway

template <typename Tag>
struct std::hash<causeway::Id<Tag>> {
  std::size_t operator()(causeway::Id<Tag> id) const noexcept {
    return std::hash<std::int64_t>()(id.value);
  }
};
