#include "text/utf8.h"

#include <cstring>

namespace causeway::text {
namespace {

// Table 3-7: how many bytes follow a lead byte, and which range the first of them must be in.
struct Lead {
  std::uint32_t follow;
  unsigned char low;
  unsigned char high;
  unsigned char bits;  // the lead byte's share of the code
};

std::optional<Lead> lead_of(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return Lead{1, 0x80, 0xBF, 0x1F};
  if (byte == 0xE0) return Lead{2, 0xA0, 0xBF, 0x0F};
  if (byte == 0xED) return Lead{2, 0x80, 0x9F, 0x0F};
  if (byte >= 0xE1 && byte <= 0xEF) return Lead{2, 0x80, 0xBF, 0x0F};
  if (byte == 0xF0) return Lead{3, 0x90, 0xBF, 0x07};
  if (byte >= 0xF1 && byte <= 0xF3) return Lead{3, 0x80, 0xBF, 0x07};
  if (byte == 0xF4) return Lead{3, 0x80, 0x8F, 0x07};
  return std::nullopt;
}

}  // namespace

Utf8Unit first_unit(std::string_view text) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte_at(0);
  if (first < 0x80) return {Utf8Unit::Kind::kCharacter, 1, first};
  const auto lead = lead_of(first);
  if (!lead) return {Utf8Unit::Kind::kInvalid, 1, 0};
  char32_t code = first & lead->bits;
  for (std::uint32_t i = 1; i <= lead->follow; ++i) {
    if (i >= text.size()) return {Utf8Unit::Kind::kIncomplete, i, 0};
    const unsigned char low = i == 1 ? lead->low : 0x80;
    const unsigned char high = i == 1 ? lead->high : 0xBF;
    if (byte_at(i) < low || byte_at(i) > high) return {Utf8Unit::Kind::kInvalid, i, 0};
    code = (code << 6) | (byte_at(i) & 0x3F);
  }
  return {Utf8Unit::Kind::kCharacter, lead->follow + 1, code};
}

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    // Eight ASCII bytes at once: most text is mostly that.
    std::uint64_t word = 0;
    if (text.size() - at >= sizeof(word)) {
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080ull) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const Utf8Unit unit = first_unit(text.substr(at, 4));
    if (unit.kind != Utf8Unit::Kind::kCharacter) return at;
    at += unit.size;
  }
  return std::nullopt;
}

void append_utf8(char32_t code, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | (code >> 6));
    return put(0x80 | (code & 0x3F));
  }
  if (code < 0x10000) {
    put(0xE0 | (code >> 12));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
  }
  put(0x80 | ((code >> 6) & 0x3F));
  put(0x80 | (code & 0x3F));
}

}  // namespace causeway::text
