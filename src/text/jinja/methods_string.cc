#include <algorithm>
#include <array>

#include "text/jinja/failure.h"
#include "text/jinja/markup.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

constexpr std::size_t kNotFound = std::string_view::npos;

Value no_arguments(const Arguments& arguments, std::string_view name) {
  bind(name, arguments, {});
  return {};
}

// The argument `chars` of strip and its like: data() is null when it is left out or none.
std::string_view strip_characters(const Arguments& arguments, std::string_view name) {
  const auto bound = bind(name, arguments, {"chars"});
  if (bound[0].is_missing() || bound[0].is_none()) return {};
  const std::string_view characters = text_argument(bound[0], name);
  return characters.data() == nullptr ? std::string_view("") : characters;
}

Value strip(Heap& heap, const Value& self, const Arguments& arguments) {
  const std::string_view characters = strip_characters(arguments, "strip");
  heap.work_bytes(self.text().size());
  return self.part(strip_right(strip_left(self.text(), characters), characters));
}
Value lstrip(Heap& heap, const Value& self, const Arguments& arguments) {
  heap.work_bytes(self.text().size());
  return self.part(strip_left(self.text(), strip_characters(arguments, "lstrip")));
}
Value rstrip(Heap& heap, const Value& self, const Arguments& arguments) {
  heap.work_bytes(self.text().size());
  return self.part(strip_right(self.text(), strip_characters(arguments, "rstrip")));
}

void push_part(Heap& heap, std::vector<Value>& items, const Value& self, std::string_view part) {
  heap.step();
  heap.require((items.size() + 1) * sizeof(Value));
  items.push_back(self.part(part));
}

std::vector<Value> split_at(Heap& heap, const Value& self, std::string_view separator, Int most) {
  std::vector<Value> items;
  std::string_view rest = self.text();
  while (most < 0 || static_cast<Int>(items.size()) < most) {
    const std::size_t at = rest.find(separator);
    if (at == kNotFound) break;
    push_part(heap, items, self, rest.substr(0, at));
    rest.remove_prefix(at + separator.size());
  }
  push_part(heap, items, self, rest);
  return items;
}

std::vector<Value> rsplit_at(Heap& heap, const Value& self, std::string_view separator, Int most) {
  std::vector<Value> items;
  std::string_view rest = self.text();
  while (most < 0 || static_cast<Int>(items.size()) < most) {
    const std::size_t at = rest.rfind(separator);
    if (at == kNotFound) break;
    push_part(heap, items, self, rest.substr(at + separator.size()));
    rest = rest.substr(0, at);
  }
  push_part(heap, items, self, rest);
  std::reverse(items.begin(), items.end());
  return items;
}

// The bytes of `text` up to its first white space, or after its last.
std::size_t word_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = code_point_at(text, at);
    if (is_space(point.value)) break;
    at += point.bytes;
  }
  return at;
}

std::vector<Value> split_words(Heap& heap, const Value& self, Int most) {
  std::vector<Value> items;
  std::string_view rest = strip_left(self.text());
  while (!rest.empty()) {
    if (most >= 0 && static_cast<Int>(items.size()) >= most) {
      push_part(heap, items, self, rest);
      break;
    }
    const std::size_t bytes = word_bytes(rest);
    push_part(heap, items, self, rest.substr(0, bytes));
    rest = strip_left(rest.substr(bytes));
  }
  return items;
}

std::vector<Value> rsplit_words(Heap& heap, const Value& self, Int most) {
  std::vector<Value> words = split_words(heap, self, -1);
  if (most < 0 || static_cast<Int>(words.size()) <= most) return words;
  const std::size_t first = words.size() - static_cast<std::size_t>(most);
  const std::string_view text = self.text();
  const std::string_view last = words[first - 1].text();
  const auto end = static_cast<std::size_t>(last.data() - text.data()) + last.size();
  std::vector<Value> items = {self.part(text.substr(0, end))};
  items.insert(items.end(), words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
  return items;
}

Value split_either(Heap& heap, const Value& self, const Arguments& arguments, bool from_right) {
  const auto bound = bind("split", arguments, {"sep", "maxsplit"});
  const Int most = int_argument(bound[1], -1, "split");
  heap.work_bytes(self.text().size());
  if (bound[0].is_missing() || bound[0].is_none()) {
    return heap.list(from_right ? rsplit_words(heap, self, most) : split_words(heap, self, most));
  }
  const std::string_view separator = text_argument(bound[0], "split");
  if (separator.empty()) fail("empty separator");
  return heap.list(from_right ? rsplit_at(heap, self, separator, most)
                              : split_at(heap, self, separator, most));
}
Value split(Heap& heap, const Value& self, const Arguments& arguments) {
  return split_either(heap, self, arguments, false);
}
Value rsplit(Heap& heap, const Value& self, const Arguments& arguments) {
  return split_either(heap, self, arguments, true);
}

Value partition_either(Heap& heap, const Value& self, const Arguments& arguments, bool last) {
  const std::string_view separator =
      text_argument(bind("partition", arguments, {"sep"})[0], "partition");
  if (separator.empty()) fail("empty separator");
  const std::string_view text = self.text();
  heap.work_bytes(text.size());
  const std::size_t at = last ? text.rfind(separator) : text.find(separator);
  const Value nothing = Value::view("");
  if (at == kNotFound) {
    if (last) return heap.list({nothing, nothing, self}, ListKind::kTuple);
    return heap.list({self, nothing, nothing}, ListKind::kTuple);
  }
  return heap.list({self.part(text.substr(0, at)), self.part(text.substr(at, separator.size())),
                    self.part(text.substr(at + separator.size()))},
                   ListKind::kTuple);
}
Value partition(Heap& heap, const Value& self, const Arguments& arguments) {
  return partition_either(heap, self, arguments, false);
}
Value rpartition(Heap& heap, const Value& self, const Arguments& arguments) {
  return partition_either(heap, self, arguments, true);
}

bool is_line_end(char32_t value) {
  return (value >= 0x0A && value <= 0x0D) || (value >= 0x1C && value <= 0x1E) || value == 0x85 ||
         value == 0x2028 || value == 0x2029;
}

Value splitlines(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto bound = bind("splitlines", arguments, {"keepends"});
  const bool keep = flag_argument(bound[0], false);
  const std::string_view text = self.text();
  heap.work_bytes(text.size());
  std::vector<Value> items;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    std::size_t end = at + point.bytes;
    if (is_line_end(point.value)) {
      if (point.value == '\r' && end < text.size() && text[end] == '\n') ++end;
      push_part(heap, items, self, text.substr(start, (keep ? end : at) - start));
      start = end;
    }
    at = end;
  }
  if (start < text.size()) push_part(heap, items, self, text.substr(start));
  return heap.list(std::move(items));
}

bool has_affix(std::string_view text, const Value& affix, bool at_end, std::string_view name) {
  if (affix.is(Kind::kList) && affix.as_list().kind == ListKind::kTuple) {
    const auto& options = affix.as_list().items;
    return std::any_of(options.begin(), options.end(), [&](const Value& option) {
      const std::string_view part = text_argument(option, name);
      return at_end ? text.ends_with(part) : text.starts_with(part);
    });
  }
  const std::string_view part = text_argument(affix, name);
  return at_end ? text.ends_with(part) : text.starts_with(part);
}

// The part of the text that the optional arguments start and end choose.
Value selected_part(Heap& heap, const Value& self, const Value& start, const Value& end) {
  const Value none = Value::none();
  if (start.is_missing() && end.is_missing()) return self;
  return get_slice(heap, self, start.is_missing() ? none : start, end.is_missing() ? none : end,
                   none);
}

Value affix_either(Heap& heap, const Value& self, const Arguments& arguments, bool at_end) {
  const std::string_view name = at_end ? "endswith" : "startswith";
  const auto bound = bind(name, arguments, {"affix", "start", "end"});
  const Value part = selected_part(heap, self, bound[1], bound[2]);
  return Value::boolean(has_affix(part.text(), bound[0], at_end, name));
}
Value startswith(Heap& heap, const Value& self, const Arguments& arguments) {
  return affix_either(heap, self, arguments, false);
}
Value endswith(Heap& heap, const Value& self, const Arguments& arguments) {
  return affix_either(heap, self, arguments, true);
}

Value remove_affix(const Value& self, const Arguments& arguments, bool at_end) {
  std::string_view text = self.text();
  const std::string_view affix =
      text_argument(bind("removeprefix", arguments, {"affix"})[0], "removeprefix");
  if (at_end && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!at_end && text.starts_with(affix)) text.remove_prefix(affix.size());
  return self.part(text);
}
Value removeprefix(Heap&, const Value& self, const Arguments& arguments) {
  return remove_affix(self, arguments, false);
}
Value removesuffix(Heap&, const Value& self, const Arguments& arguments) {
  return remove_affix(self, arguments, true);
}

// The code point index of a part within the whole text, or -1.
Int find_part(Heap& heap, const Value& self, const Arguments& arguments, bool last) {
  const auto bound = bind("find", arguments, {"sub", "start", "end"});
  const std::string_view wanted = text_argument(bound[0], "find");
  const Value part = selected_part(heap, self, bound[1], bound[2]);
  heap.work_bytes(self.text().size() + wanted.size());
  const std::size_t at = last ? part.text().rfind(wanted) : part.text().find(wanted);
  if (at == kNotFound) return -1;
  const std::size_t offset =
      part.text().empty() ? 0 : static_cast<std::size_t>(part.text().data() - self.text().data());
  return static_cast<Int>(code_point_count(self.text().substr(0, offset + at)));
}
Value find(Heap& heap, const Value& self, const Arguments& arguments) {
  return Value::integer(find_part(heap, self, arguments, false));
}
Value rfind(Heap& heap, const Value& self, const Arguments& arguments) {
  return Value::integer(find_part(heap, self, arguments, true));
}
Value index(Heap& heap, const Value& self, const Arguments& arguments) {
  const Int at = find_part(heap, self, arguments, false);
  if (at < 0) fail("substring not found");
  return Value::integer(at);
}

Value rindex(Heap& heap, const Value& self, const Arguments& arguments) {
  const Int at = find_part(heap, self, arguments, true);
  if (at < 0) fail("substring not found");
  return Value::integer(at);
}

Value count(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto bound = bind("count", arguments, {"sub", "start", "end"});
  const std::string_view wanted = text_argument(bound[0], "count");
  const Value part = selected_part(heap, self, bound[1], bound[2]);
  const std::string_view text = part.text();
  heap.work_bytes(text.size());
  if (wanted.empty()) return Value::integer(static_cast<Int>(code_point_count(text)) + 1);
  Int found = 0;
  for (std::size_t at = text.find(wanted); at != kNotFound;
       at = text.find(wanted, at + wanted.size())) {
    ++found;
  }
  return Value::integer(found);
}

Value replace_string(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto bound = bind("replace", arguments, {"old", "new", "count"});
  return replace_text(heap, self.text(), text_argument(bound[0], "replace"),
                      text_argument(bound[1], "replace"), int_argument(bound[2], -1, "replace"));
}

Value join_string(Heap& heap, const Value& self, const Arguments& arguments) {
  const auto bound = bind("join", arguments, {"iterable"});
  if (bound[0].is_missing()) fail("join expected 1 argument, got 0");
  require_defined(bound[0]);
  Builder out(heap);
  bool first = true;
  for (const Value& item : elements(heap, bound[0]).items) {
    if (!first) out.append(self.text());
    first = false;
    if (!item.is_string()) {
      fail("sequence item: expected str instance, " + std::string(type_name(item)) + " found");
    }
    out.append(item.text());
  }
  return out.finish();
}

std::string swapped_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const std::string_view piece = text.substr(at, point.bytes);
    out += to_lower(point.value) != point.value ? lower(piece) : upper(piece);
    at += point.bytes;
  }
  return out;
}

template <std::string (*kMap)(std::string_view)>
Value mapped_by(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "this string method");
  heap.require(2 * self.text().size());
  return heap.string(kMap(self.text()));
}

template <typename Each>
bool all_of_some(std::string_view text, Each each) {
  if (text.empty()) return false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (!each(point.value)) return false;
    at += point.bytes;
  }
  return true;
}

Value isdigit(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "isdigit");
  heap.work_bytes(self.text().size());
  return Value::boolean(
      all_of_some(self.text(), [](char32_t c) { return c >= U'0' && c <= U'9'; }));
}
bool is_letter_or_digit(char32_t value) { return is_word(value) && value != U'_'; }

template <bool (*kIs)(char32_t)>
Value all_are(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "this string method");
  heap.work_bytes(self.text().size());
  return Value::boolean(all_of_some(self.text(), kIs));
}
Value isascii(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "isascii");
  heap.work_bytes(self.text().size());
  return Value::boolean(std::all_of(self.text().begin(), self.text().end(),
                                    [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}
Value isprintable(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "isprintable");
  heap.work_bytes(self.text().size());
  return Value::boolean(self.text().empty() || all_of_some(self.text(), is_printable));
}
Value isspace(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "isspace");
  heap.work_bytes(self.text().size());
  return Value::boolean(all_of_some(self.text(), is_space));
}
template <char32_t (*kMap)(char32_t), char32_t (*kOther)(char32_t)>
Value is_in_case(Heap& heap, const Value& self, const Arguments& arguments) {
  no_arguments(arguments, "islower");
  heap.work_bytes(self.text().size());
  bool cased = false;
  const bool fits = all_of_some(self.text(), [&](char32_t c) {
    cased = cased || (is_cased(c) && kMap(c) == c);
    return !is_cased(c) || kMap(c) == c;
  });
  return Value::boolean(fits && cased);
}

Value format_string(Heap& heap, const Value& self, const Arguments& arguments) {
  return format_braces(heap, self, arguments);
}

struct MethodEntry {
  std::string_view name;
  Value (*call)(Heap&, const Value&, const Arguments&);
};

constexpr std::array<MethodEntry, 41> kMethods = {{
    {"split", split},
    {"rsplit", rsplit},
    {"strip", strip},
    {"lstrip", lstrip},
    {"rstrip", rstrip},
    {"startswith", startswith},
    {"endswith", endswith},
    {"upper", mapped_by<upper>},
    {"lower", mapped_by<lower>},
    {"casefold", mapped_by<lower>},
    {"title", mapped_by<title>},
    {"capitalize", mapped_by<capitalize>},
    {"replace", replace_string},
    {"find", find},
    {"rfind", rfind},
    {"index", index},
    {"count", count},
    {"join", join_string},
    {"splitlines", splitlines},
    {"partition", partition},
    {"rpartition", rpartition},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"isdigit", isdigit},
    {"isspace", isspace},
    {"isupper", is_in_case<to_upper, to_lower>},
    {"islower", is_in_case<to_lower, to_upper>},
    {"format", format_string},
    {"isnumeric", isdigit},
    {"ljust", justify_left},
    {"rjust", justify_right},
    {"center", center_text},
    {"zfill", fill_zeros},
    {"encode", encode_text},
    {"rindex", rindex},
    {"swapcase", mapped_by<swapped_case>},
    {"isalpha", all_are<is_letter>},
    {"isalnum", all_are<is_letter_or_digit>},
    {"isdecimal", isdigit},
    {"isascii", isascii},
    {"isprintable", isprintable},
}};

const MethodEntry* find_entry_of(std::string_view name) {
  const auto found = std::find_if(kMethods.begin(), kMethods.end(),
                                  [&](const MethodEntry& e) { return e.name == name; });
  return found == kMethods.end() ? nullptr : &*found;
}

}  // namespace

Value replace_text(Heap& heap, std::string_view text, std::string_view old_part,
                   std::string_view new_part, Int count) {
  Builder out(heap);
  std::size_t at = 0;
  for (; count != 0; count = count > 0 ? count - 1 : count) {
    heap.step();
    if (old_part.empty()) {
      // Before every code point and at the end.
      out.append(new_part);
      if (at == text.size()) return out.finish();
      const std::size_t bytes = code_point_at(text, at).bytes;
      out.append(text.substr(at, bytes));
      at += bytes;
      continue;
    }
    const std::size_t found = text.find(old_part, at);
    if (found == kNotFound) break;
    out.append(text.substr(at, found - at));
    out.append(new_part);
    at = found + old_part.size();
  }
  out.append(text.substr(at));
  return out.finish();
}

std::string_view find_string_method(std::string_view name) {
  const MethodEntry* entry = find_entry_of(name);
  return entry == nullptr ? std::string_view() : entry->name;
}

Value call_string_method(Heap& heap, const Value& self, std::string_view name,
                         const Arguments& arguments) {
  const MethodEntry& entry = *find_entry_of(name);
  if (!self.is_markup()) return entry.call(heap, self, arguments);
  return marked(heap, entry.call(heap, self, escaped_arguments(heap, name, arguments)));
}

}  // namespace causeway::text::jinja
