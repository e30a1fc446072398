#include <array>

#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/markup.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

Value trim(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("trim", arguments, {"chars"});
  std::string_view characters;
  if (!bound[0].is_missing() && !bound[0].is_none()) {
    characters = text_argument(bound[0], "trim");
    if (characters.data() == nullptr) characters = "";
  }
  const Value text = to_string(heap, subject);
  heap.work_bytes(text.text().size());
  return text.part(strip_right(strip_left(text.text(), characters), characters));
}

template <std::string (*kMap)(std::string_view), bool kKeepsMarkup = true>
Value mapped(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("this filter", arguments, {});
  const Value text = to_string(heap, subject);
  heap.require(2 * text.text().size());
  const Value result = heap.string(kMap(text.text()));
  return kKeepsMarkup && text.is_markup() ? result.as_markup() : result;
}

// Jinja's own title case: words begin after white space, hyphens and opening brackets.
std::string title_words(std::string_view text) {
  std::string out;
  bool first = true;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const bool separator = is_space(point.value) || point.value == '-' || point.value == '(' ||
                           point.value == '{' || point.value == '[' || point.value == '<';
    if (separator) {
      out += text.substr(at, point.bytes);
    } else {
      append_code_point(out, first ? to_upper(point.value) : to_lower(point.value));
    }
    first = separator;
    at += point.bytes;
  }
  return out;
}

Value replace(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("replace", arguments, {"old", "new", "count"});
  if (bound[1].is_missing()) fail("replace needs the old and the new text");
  const Value text = to_string(heap, subject);
  const Value old_part = to_string(heap, bound[0]);
  const Value new_part = to_string(heap, bound[1]);
  const Int count = bound[2].is_none() ? -1 : int_argument(bound[2], -1, "replace");
  return replace_text(heap, text.text(), old_part.text(), new_part.text(), count);
}

Value string(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("string", arguments, {});
  return to_string(heap, subject);
}

Value safe(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("safe", arguments, {});
  return to_string(heap, subject).as_markup();
}

Value escape(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("escape", arguments, {});
  return escaped(heap, subject);
}

Value forceescape(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("forceescape", arguments, {});
  return escaped(heap, to_string(heap, subject).without_markup());
}

std::string indent_text(Heap& heap, const Value& width) {
  if (width.is_string()) return std::string(width.text());
  const Int count = int_argument(width, 4, "indent");
  if (count > 1'000'000) fail("indent: the width is more than a million");
  heap.require(static_cast<std::uint64_t>(count > 0 ? count : 0));
  return std::string(count > 0 ? static_cast<std::size_t>(count) : 0, ' ');
}

Value indent(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("indent", arguments, {"width", "first", "blank"});
  const bool first = flag_argument(bound[1], false);
  const bool blank = flag_argument(bound[2], false);
  const std::string margin = indent_text(heap, bound[0]);
  // As Jinja does: a line break is added, so that one at the end gives a last, empty line.
  const Value lines_of = heap.string(std::string(text_argument(subject, "indent")) + "\n");
  Arguments none;
  const Value split = call_string_method(heap, lines_of, "splitlines", none);
  const auto& lines = split.as_list().items;
  // A margin that is markup makes markup of the lines that it stands before.
  const bool escapes = bound[0].is_markup() && !subject.is_markup();
  Builder out(heap);
  if (first) out.append(margin);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool indented = i > 0 && (blank || !lines[i].text().empty());
    if (i > 0) out.push('\n');
    if (indented) out.append(margin);
    out.append(escapes && (indented || blank) ? escaped(heap, lines[i]).text() : lines[i].text());
  }
  const Value text = out.finish();
  return subject.is_markup() || (escapes && blank) ? text.as_markup() : text;
}

Value join(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("join", arguments, {"d", "attribute"});
  const Value separator = bound[0].is_missing() ? Value::view("") : to_string(heap, bound[0]);
  const bool by_attribute = !bound[1].is_missing() && !bound[1].is_none();
  Builder out(heap);
  bool first = true;
  for (const Value& item : elements(heap, subject).items) {
    heap.step();
    if (!first) out.append(separator.text());
    first = false;
    append_string(out, by_attribute ? attribute_path(heap, item, bound[1]) : item);
  }
  return out.finish();
}

Value format(Heap& heap, const Value& subject, const Arguments& arguments) {
  const Value text = to_string(heap, subject);
  if (!arguments.named.empty()) {
    if (!arguments.positional.empty()) {
      fail("can't handle positional and keyword arguments at the same time");
    }
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [key, value] : arguments.named) entries.emplace_back(Value::view(key), value);
    return format_percent(heap, text, heap.dict(std::move(entries)));
  }
  return format_percent(heap, text, heap.list(arguments.positional, ListKind::kTuple));
}

Value wordcount(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("wordcount", arguments, {});
  const Value text = to_string(heap, subject);
  heap.work_bytes(text.text().size());
  Int words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.text().size();) {
    const CodePoint point = code_point_at(text.text(), at);
    const bool letter = is_word(point.value);
    if (letter && !inside) ++words;
    inside = letter;
    at += point.bytes;
  }
  return Value::integer(words);
}

Value tojson(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound =
      bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = flag_argument(bound[0], false);
  style.sort_keys = flag_argument(bound[3], false);
  if (!bound[1].is_missing() && !bound[1].is_none()) {
    style.indent = indent_text(heap, bound[1]);
    style.item_separator = ",";
  }
  if (!bound[2].is_missing() && !bound[2].is_none()) {
    const auto& pair = elements(heap, bound[2]).items;
    if (pair.size() != 2) fail("tojson: separators are a pair of strings");
    style.item_separator = text_argument(pair[0], "tojson");
    style.key_separator = text_argument(pair[1], "tojson");
  }
  return to_json(heap, subject, style);
}

constexpr std::array<FilterEntry, 16> kTextFilters = {{
    {"trim", trim},
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"capitalize", mapped<capitalize>},
    {"title", mapped<title_words, false>},
    {"replace", replace},
    {"string", string},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"forceescape", forceescape},
    {"indent", indent},
    {"join", join},
    {"format", format},
    {"wordcount", wordcount},
    {"tojson", tojson},
}};

}  // namespace

std::span<const FilterEntry> text_filters() { return kTextFilters; }

}  // namespace causeway::text::jinja
