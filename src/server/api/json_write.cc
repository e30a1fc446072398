#include "server/api/json_write.h"

#include <charconv>
#include <cmath>

#include "text/utf8.h"

namespace causeway::server {
namespace {

void append_escaped(std::string& out, unsigned char byte) {
  static constexpr char kHex[] = "0123456789abcdef";
  switch (byte) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default:
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
  }
}

bool plain(unsigned char byte) {
  return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t run = at;
    while (run < text.size() && plain(static_cast<unsigned char>(text[run]))) ++run;
    out.append(text, at, run - at);
    if (run == text.size()) break;
    at = run;
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      append_escaped(out, byte);
      ++at;
      continue;
    }
    const text::Utf8Unit unit = text::first_unit(text.substr(at));
    if (unit.kind == text::Utf8Unit::Kind::kCharacter) {
      out.append(text, at, unit.size);
    } else {
      out += text::kReplacement;
    }
    at += unit.size;
  }
  out += '"';
}

void append_json_token(std::string& out, std::string_view bytes) {
  if (!text::first_invalid_utf8(bytes)) return append_json_string(out, bytes);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string spelt = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    spelt += "\\x";
    spelt += kHex[byte >> 4];
    spelt += kHex[byte & 15];
  }
  append_json_string(out, spelt);
}

void append_json_integer(std::string& out, std::int64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

void append_json_logprob(std::string& out, float value) {
  if (!std::isfinite(value)) {
    out += "-9999.0";
    return;
  }
  char digits[48];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

std::string utf8_prefix(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

std::int64_t utf8_characters(std::string_view text) {
  std::int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const text::Utf8Unit unit = text::first_unit(bytes);
    if (unit.kind == text::Utf8Unit::Kind::kCharacter) {
      out.append(bytes.substr(0, unit.size));
    } else {
      out += text::kReplacement;
    }
    bytes.remove_prefix(unit.size);
  }
  return out;
}

}  // namespace causeway::server
