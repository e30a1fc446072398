// Names of what the rooms of a product at home talk about.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace causeway::kernels::home_gemm {

enum class Home : std::uint8_t { kHost, kPeer };

// In the order of preference when two cost the same: what disturbs a neighbour least is first.
enum class Way : std::uint8_t { kStaged, kSymmetric, kRing, kFewRows, kLibrary };
inline constexpr std::array kWays = {Way::kStaged, Way::kSymmetric, Way::kRing, Way::kFewRows,
                                     Way::kLibrary};

inline constexpr std::string_view name_of(Home home) {
  return home == Home::kHost ? "host" : "peer";
}

inline constexpr std::string_view name_of(Way way) {
  switch (way) {
    case Way::kStaged: return "staged";
    case Way::kSymmetric: return "symmetric";
    case Way::kRing: return "ring";
    case Way::kFewRows: return "few-rows";
    case Way::kLibrary: return "in-place";
  }
  return "";
}

inline constexpr std::optional<Way> way_named(std::string_view name) {
  for (const Way way : kWays) {
    if (name_of(way) == name) return way;
  }
  return std::nullopt;
}

inline constexpr std::optional<Home> home_named(std::string_view name) {
  if (name == name_of(Home::kHost)) return Home::kHost;
  if (name == name_of(Home::kPeer)) return Home::kPeer;
  return std::nullopt;
}

}  // namespace causeway::kernels::home_gemm
