#include "text/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace causeway::text {
namespace {

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// The blocks that BERT's normaliser takes for Chinese, its gap at U+2B820 included.
bool is_chinese(char32_t code) {
  struct Span {
    char32_t first, last;
  };
  static constexpr Span kChinese[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                      {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                      {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kChinese), std::end(kChinese),
                     [code](Span span) { return code >= span.first && code <= span.last; });
}

bool is_dropped_by_bert(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  if (code == 0xFFFD) return true;
  const utf8proc_category_t category = category_of(code);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

// Calls visit(code, bytes) for each character.
template <typename Visit>
void each_character(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const Utf8Unit unit = first_unit(text.substr(0, 4));
    visit(unit.code, text.substr(0, unit.size));
    text.remove_prefix(unit.size);
  }
}

}  // namespace

// The Unicode property White_Space.
bool is_white_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

// The character that ends before `end`; `end` > 0.
Utf8Unit last_unit(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return first_unit(text.substr(at, end - at));
}

std::size_t white_space_begin(std::string_view text, std::size_t end, std::size_t at_least) {
  while (end > at_least) {
    const Utf8Unit unit = last_unit(text, end);
    if (!is_white_space(unit.code)) break;
    end -= unit.size;
  }
  return end;
}

std::size_t white_space_end(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const Utf8Unit unit = first_unit(text.substr(begin, 4));
    if (!is_white_space(unit.code)) break;
    begin += unit.size;
  }
  return begin;
}

void append_without_marks(std::string_view text, MarkKind kind, std::string& out) {
  each_character(text, [&](char32_t code, std::string_view bytes) {
    const utf8proc_category_t category = category_of(code);
    const bool other_mark = category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
    if (category == UTF8PROC_CATEGORY_MN || (other_mark && kind == MarkKind::kAny)) return;
    out.append(bytes);
  });
}

void append_lowercase(std::string_view text, std::string& out) {
  each_character(text, [&](char32_t code, std::string_view) {
    if (code == 0x130) {  // the one character whose lower case is two
      out.append("i\xCC\x87");
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))),
                  out);
    }
  });
}

void append_bert_cleaned(std::string_view text, bool clean_text, bool chinese, std::string& out) {
  each_character(text, [&](char32_t code, std::string_view bytes) {
    if (clean_text && is_dropped_by_bert(code)) return;
    if (clean_text && is_white_space(code)) bytes = " ";
    const bool apart = chinese && is_chinese(code);
    if (apart) out.push_back(' ');
    out.append(bytes);
    if (apart) out.push_back(' ');
  });
}

}  // namespace causeway::text
