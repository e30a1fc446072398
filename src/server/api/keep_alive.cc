#include "server/api/keep_alive.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace causeway::server {
namespace {

constexpr double kSecondsMax = 366.0 * 86'400;

struct Unit {
  std::string_view name;
  double seconds;
};
// In this order a unit stands before those that it begins with: "ms" before "m".
constexpr std::array<Unit, 7> kUnits = {{{"ns", 1e-9},
                                         {"us", 1e-6},
                                         {"\xc2\xb5s", 1e-6},
                                         {"ms", 1e-3},
                                         {"s", 1},
                                         {"m", 60},
                                         {"h", 3600}}};

// Digits with at most one point: no exponent, no sign, no infinity.
std::optional<double> take_number(std::string_view& text) {
  const std::size_t size = std::min(text.find_first_not_of("0123456789."), text.size());
  double value = 0;
  const auto [end, failure] =
      std::from_chars(text.data(), text.data() + size, value, std::chars_format::fixed);
  if (failure != std::errc() || end != text.data() + size) return {};
  text.remove_prefix(size);
  return value;
}

std::optional<double> take_unit(std::string_view& text) {
  for (const Unit& unit : kUnits) {
    if (!text.starts_with(unit.name)) continue;
    text.remove_prefix(unit.name.size());
    return unit.seconds;
  }
  return {};
}

std::optional<Nanos> from_seconds(double seconds) {
  if (!(std::abs(seconds) <= kSecondsMax)) return {};
  return seconds < 0 ? kKeepForEver : Nanos(std::llround(seconds * 1e9));
}

}  // namespace

std::optional<Nanos> parse_keep_alive(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  double seconds = 0;
  bool first = true;
  do {
    const auto number = take_number(text);
    if (!number) return {};
    const bool bare = first && text.empty();
    const auto unit = bare ? std::optional<double>(1) : take_unit(text);
    if (!unit) return {};
    seconds += *number * *unit;
    first = false;
  } while (!text.empty());
  return from_seconds(negative ? -seconds : seconds);
}

void parse_keep_alive(Fields& fields, GenerationRequest& out) {
  const Json* const value = fields.value("keep_alive");
  if (value == nullptr) return;
  if (value->is_number()) out.keep_alive = from_seconds(value->get<double>());
  if (value->is_string()) out.keep_alive = parse_keep_alive(value->get_ref<const std::string&>());
  if (out.keep_alive) return;
  fields.fail("keep_alive",
              "must be a duration such as \"5m\", or a number of seconds, of a year at most; below "
              "zero: for ever");
}

}  // namespace causeway::server
