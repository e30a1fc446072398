// Reproducible random numbers: same seed, same sequence, on every platform and standard library
// (std::uniform_*_distribution promises no such thing).
#pragma once

#include <cmath>
#include <cstdint>

#include "base/check.h"

namespace causeway {

// splitmix64: one step of a 64-bit mix; also a good integer hash.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// xoshiro256++ seeded by splitmix64. Not for secrets. Used by one thread at a time.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (auto& word : state_) word = mix64(seed += 0x9E3779B97F4A7C15ull);
  }

  std::uint64_t bits() {
    const std::uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound). bound > 0.
  std::int64_t below(std::int64_t bound) {
    CAUSEWAY_CHECK(bound > 0, "Random::below needs a positive bound");
    const auto wide = static_cast<unsigned __int128>(bits()) * static_cast<std::uint64_t>(bound);
    return static_cast<std::int64_t>(wide >> 64);
  }
  // Uniform in [low, high], both included.
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return uniform() < probability; }
  // Exponential with the given mean: the gaps of a Poisson process.
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  // A standard normal number (Box-Muller; the second number of each pair is dropped).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  static constexpr std::uint64_t rotate(std::uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
  }
  std::uint64_t state_[4];
};

}  // namespace causeway
