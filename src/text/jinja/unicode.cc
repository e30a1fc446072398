#include "text/jinja/unicode.h"

#include <utf8proc.h>

namespace causeway::text::jinja {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr std::string_view kSharpS = "\u00DF";

bool is_continuation(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// Length by the first byte, 0 when no sequence starts with it.
std::size_t sequence_bytes(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

// False for overlong forms, surrogates and values beyond U+10FFFF.
bool is_scalar(char32_t value, std::size_t bytes) {
  if (bytes == 3) return value >= 0x800 && (value < 0xD800 || value > 0xDFFF);
  if (bytes == 4) return value >= 0x10000 && value <= 0x10FFFF;
  return true;
}

bool decode(std::string_view text, std::size_t at, CodePoint& out) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t bytes = sequence_bytes(first);
  if (bytes <= 1) {
    out = {first, 1};
    return bytes == 1;
  }
  char32_t value = first & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!is_continuation(text, at + i)) return false;
    value = (value << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3F);
  }
  if (!is_scalar(value, bytes)) return false;
  out = {value, bytes};
  return true;
}

template <typename Map>
std::string map_code_points(std::string_view text, Map map) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    CodePoint point;
    if (decode(text, at, point)) {
      append_code_point(out, map(point.value));
    } else {
      point = {kReplacement, 1};
      out.push_back(text[at]);
    }
    at += point.bytes;
  }
  return out;
}

bool is_among(char32_t value, std::string_view characters) {
  if (characters.data() == nullptr) return is_space(value);
  for (std::size_t at = 0; at < characters.size();) {
    const CodePoint point = code_point_at(characters, at);
    if (point.value == value) return true;
    at += point.bytes;
  }
  return false;
}

char32_t to_title(char32_t value) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(value)));
}

}  // namespace

CodePoint code_point_at(std::string_view text, std::size_t at) {
  CodePoint point;
  return decode(text, at, point) ? point : CodePoint{kReplacement, 1};
}

std::size_t code_point_count(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) at += code_point_at(text, at).bytes;
  return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += code_point_at(text, at).bytes;
  return at;
}

void append_code_point(std::string& text, char32_t value) {
  if (value < 0x80) {
    text.push_back(static_cast<char>(value));
    return;
  }
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(value), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

bool is_space(char32_t value) {
  if (value < 0x80)
    return value == ' ' || (value >= 9 && value <= 13) || (value >= 28 && value <= 31);
  return value == 0x85 || value == 0xA0 || value == 0x1680 ||
         (value >= 0x2000 && value <= 0x200A) || value == 0x2028 || value == 0x2029 ||
         value == 0x202F || value == 0x205F || value == 0x3000;
}

bool is_cased(char32_t value) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(value));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

bool is_letter(char32_t value) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(value))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return true;
    default: return false;
  }
}

bool is_decimal(char32_t value) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(value)) == UTF8PROC_CATEGORY_ND;
}

bool is_word(char32_t value) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(value))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return true;
    default: return value == '_';
  }
}

bool is_printable(char32_t value) {
  if (value < 0x80) return value >= 0x20 && value < 0x7F;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(value))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
  }
}

char32_t to_upper(char32_t value) {
  if (value == 0xDF) return value;  // utf8proc has a capital for it, Python "SS"
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(value)));
}
char32_t to_lower(char32_t value) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(value)));
}

std::string upper(std::string_view text) {
  std::string mapped = map_code_points(text, to_upper);
  for (std::size_t at = mapped.find(kSharpS); at != std::string::npos; at = mapped.find(kSharpS)) {
    mapped.replace(at, kSharpS.size(), "SS");
  }
  return mapped;
}
std::string lower(std::string_view text) { return map_code_points(text, to_lower); }

std::string title(std::string_view text) {
  bool inside_word = false;
  return map_code_points(text, [&](char32_t value) {
    const char32_t mapped = inside_word ? to_lower(value) : to_title(value);
    inside_word = is_cased(value);
    return mapped;
  });
}

std::string capitalize(std::string_view text) {
  bool first = true;
  return map_code_points(text, [&](char32_t value) {
    const char32_t mapped = first ? to_title(value) : to_lower(value);
    first = false;
    return mapped;
  });
}

std::string_view strip_left(std::string_view text, std::string_view characters) {
  while (!text.empty()) {
    const CodePoint point = code_point_at(text, 0);
    if (!is_among(point.value, characters)) break;
    text.remove_prefix(point.bytes);
  }
  return text;
}

std::string_view strip_right(std::string_view text, std::string_view characters) {
  while (!text.empty()) {
    std::size_t start = text.size() - 1;
    while (start > 0 && text.size() - start < 4 && is_continuation(text, start)) --start;
    if (code_point_at(text, start).bytes != text.size() - start) start = text.size() - 1;
    if (!is_among(code_point_at(text, start).value, characters)) break;
    text.remove_suffix(text.size() - start);
  }
  return text;
}

std::size_t first_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    CodePoint point;
    if (!decode(text, at, point)) return at;
    at += point.bytes;
  }
  return std::string_view::npos;
}

}  // namespace causeway::text::jinja
