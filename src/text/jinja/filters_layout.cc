// Filters that lay text out: center, truncate, wordwrap.
#include <algorithm>
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

Value method(Heap& heap, const Value& self, std::string_view name, std::vector<Value> given) {
  Arguments arguments;
  arguments.positional = std::move(given);
  return call_string_method(heap, self, find_string_method(name), arguments);
}

Value center(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("center", arguments, {"width"});
  const Value width = bound[0].is_missing() ? Value::integer(80) : bound[0];
  return method(heap, to_string(heap, subject), "center", {width});
}

Value truncate(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("truncate", arguments, {"length", "killwords", "end", "leeway"});
  constexpr Int kFar = Int{1} << 62;  // beyond any length, and sums of it still fit
  const Int wanted = std::clamp(int_argument(bound[0], 255, "truncate"), -kFar, kFar);
  const Value end = bound[2].is_missing() ? Value::view("...") : bound[2];
  const Int leeway =
      std::clamp(bound[3].is_none() ? 5 : int_argument(bound[3], 5, "truncate"), -kFar, kFar);
  const Int kept = wanted - length(heap, end);
  if (kept < 0) fail("truncate: the length is less than that of the end");
  if (leeway < 0) fail("truncate: expected leeway >= 0");
  if (length(heap, subject) <= wanted + leeway) return subject;
  const Value none = Value::none();
  Value start = get_slice(heap, subject, none, Value::integer(kept), none);
  if (!flag_argument(bound[1], false)) {
    if (!start.is_string()) fail("truncate needs a string");
    const Value parts = method(heap, start, "rsplit", {Value::view(" "), Value::integer(1)});
    start = parts.as_list().items[0];
  }
  return arithmetic(heap, Op::kAdd, start, end);
}

// Python's textwrap on one line, with what `wordwrap` asks for: neither tabs nor other white space
// is changed.
class Wrapper {
 public:
  Wrapper(Heap& heap, Int width, bool break_words, bool break_hyphens)
      : heap_(heap), width_(width), break_words_(break_words), break_hyphens_(break_hyphens) {}

  std::vector<Value> wrap(const Value& line) {
    text_ = line.text();
    read(text_);
    std::vector<Value> lines;
    Int at = 0;
    Int end = static_cast<Int>(chunks_.size());
    while (at < end) fill_line(lines, at, end);
    return lines;
  }

 private:
  // A code point; chunks and lines are ranges of them.
  struct Point {
    char32_t value;
    std::size_t offset;
    Int dashes;  // hyphens from here on
  };
  struct Chunk {
    Int begin, end;
    Int size() const { return end - begin; }
  };

  static bool is_gap(char32_t c) { return (c >= 9 && c <= 13) || c == ' '; }
  static bool is_punctuation(char32_t c) {
    return is_word(c) || c == '!' || c == '"' || c == '\'' || c == '&' || c == '.' || c == ',' ||
           c == '?';
  }
  // A letter as the expression has it: of a word, but no decimal digit.
  static bool is_letter_of_word(char32_t c) { return is_word(c) && !is_decimal(c); }

  Int count() const { return static_cast<Int>(points_.size()); }
  char32_t at(Int i) const { return points_[static_cast<std::size_t>(i)].value; }
  Int dashes(Int i) const { return i < count() ? points_[static_cast<std::size_t>(i)].dashes : 0; }
  bool letter(Int i) const { return i >= 0 && i < count() && is_letter_of_word(at(i)); }
  bool punctuation(Int i) const { return i >= 0 && is_punctuation(at(i)); }

  void read(std::string_view text) {
    heap_.require(text.size() * (sizeof(Point) + sizeof(Chunk)));
    heap_.step(static_cast<std::int64_t>(text.size()));
    points_.clear();
    chunks_.clear();
    for (std::size_t offset = 0; offset < text.size();) {
      const CodePoint point = code_point_at(text, offset);
      points_.push_back({point.value, offset, 0});
      offset += point.bytes;
    }
    for (Int i = count() - 1; i >= 0; --i) {
      if (at(i) == '-') points_[static_cast<std::size_t>(i)].dashes = 1 + dashes(i + 1);
    }
    for (Int begin = 0; begin < count();) {
      const Int end = end_of_chunk(begin);
      chunks_.push_back({begin, end});
      begin = end;
    }
  }

  // Two hyphens or more with a word behind them.
  bool em_dash(Int i) const {
    const Int run = dashes(i);
    return run >= 2 && i + run < count() && is_word(at(i + run));
  }
  // A hyphen within a word, behind which it may be broken.
  bool hyphen(Int i) const {
    if (at(i) != '-') return false;
    const bool before = (letter(i - 1) && letter(i - 2)) ||
                        (punctuation(i - 1) && i >= 2 && at(i - 2) == '-' && letter(i - 3));
    return before && letter(i + 1) &&
           (letter(i + 2) || (i + 2 < count() && at(i + 2) == '-' && letter(i + 3)));
  }

  Int end_of_chunk(Int begin) const {
    Int end = begin;
    if (is_gap(at(begin)) || !break_hyphens_) {
      const bool gap = is_gap(at(begin));
      while (end < count() && is_gap(at(end)) == gap) ++end;
      return end;
    }
    if (punctuation(begin - 1) && em_dash(begin)) return begin + dashes(begin);
    for (end = begin + 1; end < count(); ++end) {
      if (hyphen(end)) return end + 1;
      if (is_gap(at(end))) return end;
      if (punctuation(end - 1) && em_dash(end)) return end;
    }
    return end;
  }

  // A word may begin with many spaces at which no line is broken, and is asked for each line.
  bool is_blank(const Chunk& chunk) const {
    Int i = chunk.begin;
    while (i < chunk.end && is_space(at(i))) ++i;
    heap_.step(static_cast<std::int64_t>((i - chunk.begin) / 8));
    return i == chunk.end;
  }
  Chunk& chunk(Int i) { return chunks_[static_cast<std::size_t>(i)]; }

  // Appends the line that begins with chunk `next`, if one remains of it.
  void fill_line(std::vector<Value>& lines, Int& next, Int end) {
    heap_.step();
    if (!lines.empty() && is_blank(chunk(next))) ++next;
    const Int first = next;
    Int size = 0;
    while (next < end && size + chunk(next).size() <= width_) size += chunk(next++).size();
    Chunk line{0, 0};
    Int last = next;  // the line has the chunks from `first` to here
    if (first < last) line = {chunk(first).begin, chunk(last - 1).end};
    Chunk ending = first < last ? chunk(last - 1) : line;  // what the line ends with
    if (next < end && chunk(next).size() > width_) {
      if (break_words_) {
        ending = cut_of(chunk(next), width_ - size);
        if (first == last) line.begin = ending.begin;
        line.end = ending.end;
        chunk(next).begin = ending.end;
      } else if (first == last) {
        ending = line = chunk(next++);
      }
    }
    if (is_blank(ending)) line.end = ending.begin;
    if (line.size() > 0) lines.push_back(text_of(line));
  }

  // The part of a long word that fits into `space`.
  Chunk cut_of(const Chunk& word, Int space) {
    Int end = space;
    if (break_hyphens_ && word.size() > space) {
      Int at_hyphen = space - 1;
      while (at_hyphen >= 0 && at(word.begin + at_hyphen) != '-') --at_hyphen;
      heap_.step(static_cast<std::int64_t>((space - at_hyphen) / 8));
      bool other = false;
      for (Int i = 0; i < at_hyphen && !other; ++i) other = at(word.begin + i) != '-';
      if (at_hyphen > 0 && other) end = at_hyphen + 1;
    }
    return {word.begin, std::min(word.begin + end, word.end)};
  }

  Value text_of(const Chunk& line) {
    const auto offset = [&](Int i) {
      return i < count() ? points_[static_cast<std::size_t>(i)].offset : text_.size();
    };
    const std::size_t begin = offset(line.begin);
    return heap_.string(std::string(text_.substr(begin, offset(line.end) - begin)));
  }

  Heap& heap_;
  const Int width_;
  const bool break_words_, break_hyphens_;
  std::string_view text_;
  std::vector<Point> points_;
  std::vector<Chunk> chunks_;
};

Value wordwrap(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound =
      bind("wordwrap", arguments, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const Int width = int_argument(bound[0], 79, "wordwrap");
  Value between = Value::view("\n");
  if (!bound[2].is_missing() && !bound[2].is_none()) {
    text_argument(bound[2], "wordwrap");
    between = bound[2];
  }
  text_argument(subject, "wordwrap");
  Wrapper wrapper(heap, width, flag_argument(bound[1], true), flag_argument(bound[3], true));
  std::vector<Value> wrapped;
  const Value lines = method(heap, subject.without_markup(), "splitlines", {});
  for (const Value& line : lines.as_list().items) {
    if (width <= 0) fail("invalid width " + int_text(width) + " (must be > 0)");
    wrapped.push_back(method(heap, between, "join", {heap.list(wrapper.wrap(line))}));
  }
  return method(heap, between, "join", {heap.list(std::move(wrapped))});
}

constexpr std::array<FilterEntry, 4> kLayoutFilters = {{
    {"center", center},
    {"truncate", truncate},
    {"wordwrap", wordwrap},
    {"pprint", pprint},
}};

}  // namespace

std::span<const FilterEntry> layout_filters() { return kLayoutFilters; }

}  // namespace causeway::text::jinja
