#include "server/tracing/trace_context.h"

#include <algorithm>

#include "base/random.h"

namespace causeway::server {
namespace {

// "00-" trace "-" parent "-" flags
constexpr std::size_t kTraceAt = 3, kParentAt = 36, kFlagsAt = 53, kLength = 55;
constexpr std::size_t kTraceStateMax = 512;

// Lower case alone, as the standard has it.
int lower_hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::optional<std::uint64_t> parse_hex(std::string_view digits) {
  std::uint64_t bits = 0;
  for (const char c : digits) {
    const int digit = lower_hex_digit(c);
    if (digit < 0) return {};
    bits = bits << 4 | static_cast<std::uint64_t>(digit);
  }
  return bits;
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view header) {
  if (header.size() < kLength || header[2] != '-' || header[kParentAt - 1] != '-' ||
      header[kFlagsAt - 1] != '-') {
    return {};
  }
  const auto version = parse_hex(header.substr(0, 2));
  const auto high = parse_hex(header.substr(kTraceAt, 16));
  const auto low = parse_hex(header.substr(kTraceAt + 16, 16));
  const auto parent = parse_hex(header.substr(kParentAt, 16));
  const auto flags = parse_hex(header.substr(kFlagsAt, 2));
  if (!version || !high || !low || !parent || !flags) return {};
  if (*version == 0xff || (*high == 0 && *low == 0) || *parent == 0) return {};
  const bool longer = header.size() > kLength;
  if (longer && (*version == 0 || header[kLength] != '-')) return {};
  return TraceContext{
      .trace = {*high, *low}, .parent = *parent, .sampled = (*flags & 1) != 0, .state = {}};
}

std::string passable_trace_state(std::string_view header) {
  const bool printable =
      std::all_of(header.begin(), header.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return printable && header.size() <= kTraceStateMax ? std::string(header) : std::string();
}

std::string hex_of(std::uint64_t bits) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out(16, '0');
  for (char& digit : out) {
    digit = kHex[bits >> 60];
    bits <<= 4;
  }
  return out;
}

std::string hex_of(TraceId id) { return hex_of(id.high) + hex_of(id.low); }

TraceId make_trace_id(std::uint64_t seed, std::uint64_t number) {
  return {make_span_id(seed, 2 * number), make_span_id(seed, 2 * number + 1)};
}

// mix64 is one to one: what is mixed differs, so what comes out does.
std::uint64_t make_span_id(std::uint64_t seed, std::uint64_t number) {
  const std::uint64_t id = mix64(mix64(seed) + number);
  return id != 0 ? id : 1;
}

bool is_sampled(TraceId id, double ratio) {
  if (ratio >= 1) return true;
  return static_cast<double>(id.low >> 1) < ratio * 0x1.0p63;
}

}  // namespace causeway::server
