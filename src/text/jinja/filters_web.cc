// Filters for URLs and HTML: urlencode, striptags, xmlattr.
#include <algorithm>
#include <array>
#include <optional>

#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/markup.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

// In a query a slash is quoted too, and a space is a plus.
void append_quoted(Heap& heap, Builder& out, const Value& value, bool query) {
  const Value text = value.is(Kind::kBytes) ? value : to_string(heap, value);
  heap.require(3 * text.text().size());
  heap.work_bytes(16 * text.text().size());
  for (const char c : text.text()) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain || (c == ' ' && query)) {
      out.push(c == ' ' ? '+' : c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    const char escape[] = {'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15]};
    out.append(std::string_view(escape, 3));
  }
}

Value urlencode(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("urlencode", arguments, {});
  Builder out(heap);
  const bool pairs = subject.is(Kind::kList) || subject.is(Kind::kDict) ||
                     subject.is(Kind::kBytes) || subject.is_undefined();
  if (!pairs) {
    append_quoted(heap, out, subject, false);
    return out.finish();
  }
  Value items = subject;
  if (subject.is(Kind::kDict)) {
    items = call_method(heap, heap.method(subject, "items").as_method(), {});
  }
  bool first = true;
  for (const Value& item : elements(heap, items).items) {
    const auto& pair = elements(heap, item).items;
    if (pair.size() != 2) fail("urlencode needs pairs");
    if (!first) out.push('&');
    first = false;
    append_quoted(heap, out, pair[0], true);
    out.push('=');
    append_quoted(heap, out, pair[1], true);
  }
  return out.finish();
}

// The names that HTML needs to write itself, and the one that text has most; those after which the
// semicolon may be left out.
struct Reference {
  std::string_view name, text;
  bool open;
};
constexpr std::array<Reference, 11> kReferences = {{{"amp", "&", true},
                                                    {"lt", "<", true},
                                                    {"gt", ">", true},
                                                    {"quot", "\"", true},
                                                    {"nbsp", "\u00A0", true},
                                                    {"apos", "'", false},
                                                    {"AMP", "&", true},
                                                    {"LT", "<", true},
                                                    {"GT", ">", true},
                                                    {"QUOT", "\"", true},
                                                    {"NewLine", "\n", false}}};

// What HTML makes of numbers that mean Windows-1252: 0x80 to 0x9F.
constexpr std::array<char32_t, 32> kWindows = {
    0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021, 0x2C6,  0x2030, 0x160,
    0x2039, 0x152,  0x8D,   0x17D,  0x8F,   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};

void append_number(std::string& out, char32_t number) {
  if (number >= 0x80 && number < 0xA0) return append_code_point(out, kWindows[number - 0x80]);
  const bool none = number == 0 || number > 0x10FFFF || (number >= 0xD800 && number <= 0xDFFF);
  if (none) return append_code_point(out, 0xFFFD);
  const bool dropped =
      (number < 0x20 && number != '\t' && number != '\n' && number != '\f' && number != '\r') ||
      number == 0x7F || (number & 0xFFFE) == 0xFFFE || (number >= 0xFDD0 && number <= 0xFDEF) ||
      number == '\v';
  if (!dropped) append_code_point(out, number);
}

// The reference that `text` begins with, behind its &, added to `out`; its bytes, 0 for none.
std::size_t append_reference(std::string& out, std::string_view text) {
  if (text.starts_with('#')) {
    const bool hex = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
    std::size_t at = hex ? 2 : 1;
    const std::size_t first = at;
    char32_t number = 0;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      const char letter = static_cast<char>(c | 0x20);
      int digit = c >= '0' && c <= '9' ? c - '0' : 99;
      if (hex && letter >= 'a' && letter <= 'f') digit = letter - 'a' + 10;
      if (digit == 99) break;
      number =
          std::min<char32_t>(number * (hex ? 16 : 10) + static_cast<char32_t>(digit), 0x110000);
    }
    if (at == first) return 0;
    append_number(out, number);
    return at < text.size() && text[at] == ';' ? at + 1 : at;
  }
  for (const Reference& reference : kReferences) {
    if (!text.starts_with(reference.name)) continue;
    const std::size_t size = reference.name.size();
    const bool closed = text.size() > size && text[size] == ';';
    if (!closed && !reference.open) continue;
    out += reference.text;
    return size + (closed ? 1 : 0);
  }
  return 0;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '&') {
      const std::size_t bytes = append_reference(out, text.substr(at + 1));
      at += bytes == 0 ? 0 : bytes + 1;
      if (bytes > 0) continue;
    }
    out.push_back(text[at++]);
  }
  return out;
}

std::string without_tags(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const std::size_t start = text.find('<', at);
    if (start == std::string_view::npos) break;
    const bool comment = text.substr(start).starts_with("<!--");
    const std::size_t end = comment ? text.find("-->", start + 4) : text.find('>', start);
    if (end == std::string_view::npos) break;
    out += text.substr(at, start - at);
    at = end + (comment ? 3 : 1);
  }
  return out += text.substr(at);
}

Value striptags(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("striptags", arguments, {});
  const Value text = to_string(heap, subject).without_markup();
  heap.require(4 * text.text().size());
  heap.work_bytes(4 * text.text().size());
  const Value stripped = heap.string(without_tags(text.text()));
  const Value words = call_string_method(heap, stripped, "split", {});
  Builder out(heap);
  bool first = true;
  for (const Value& word : words.as_list().items) {
    if (!first) out.push(' ');
    first = false;
    out.append(word.text());
  }
  return heap.string(unescaped(out.take()));
}

Value xmlattr(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("xmlattr", arguments, {"autospace"});
  require_defined(subject);
  if (!subject.is(Kind::kDict)) fail("xmlattr needs a mapping");
  Builder out(heap);
  bool first = true;
  for (const auto& [key, value] : subject.as_dict().entries) {
    if (value.is_none() || value.is_undefined()) continue;
    const std::string_view name = text_argument(key, "xmlattr");
    heap.step();
    heap.work_bytes(8 * name.size());
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      fail("Invalid character in attribute name: '" + std::string(name) + "'");
    }
    if (!first || flag_argument(bound[0], true)) out.push(' ');
    first = false;
    out.append(escaped(heap, key).text());
    out.append("=\"");
    out.append(escaped(heap, value).text());
    out.push('"');
  }
  return out.finish();
}

constexpr std::array<FilterEntry, 4> kWebFilters = {{
    {"urlencode", urlencode},
    {"striptags", striptags},
    {"xmlattr", xmlattr},
    {"urlize", urlize},
}};

}  // namespace

std::span<const FilterEntry> web_filters() { return kWebFilters; }

}  // namespace causeway::text::jinja
