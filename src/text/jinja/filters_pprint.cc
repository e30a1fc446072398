// The filter `pprint`: Python's pprint.pformat, of lines of 80 columns.
#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

constexpr Int kColumns = 80;
// What trying whether a word fits on a line costs.
constexpr std::int64_t kWordSteps = 40;

// Columns that stand to the left of a value on its line and to the right of it.
struct Place {
  Int indent = 0, allowance = 0;
  int level = 0;
};

class Printer {
 public:
  explicit Printer(Heap& heap) : heap_(heap), out_(heap) {}

  void print(const Value& value, Place place) {
    const Value text = repr(value, place.level);
    const auto columns = static_cast<Int>(code_point_count(text.text()));
    const bool list = is_plain_list(value);
    if (columns <= kColumns - place.indent - place.allowance) return out_.append(text.text());
    ++place.level;
    if (value.is(Kind::kDict)) return print_dict(value, place);
    if (list) return print_list(value.as_list(), place);
    if (value.is_string() && !value.is_markup() && !value.text().empty()) {
      return print_string(value, place);
    }
    if (value.is(Kind::kBytes) && value.text().size() > 4) return print_bytes(value, place);
    out_.append(text.text());
  }
  Value finish() { return out_.finish(); }

 private:
  using Entry = std::pair<Value, Value>;

  static bool is_plain_list(const Value& value) {
    return value.is(Kind::kList) &&
           (value.as_list().kind == ListKind::kList || value.as_list().kind == ListKind::kTuple);
  }

  // repr(value), with the keys of dictionaries in order.
  Value repr(const Value& value, int depth) {
    Builder out(heap_);
    append_sorted_repr(out, value, depth);
    return out.finish();
  }

  void append_sorted_repr(Builder& out, const Value& value, int depth) {
    heap_.step();
    if (depth > heap_.limits().value_depth_max) {
      fail_limit("lists or objects are nested deeper than " +
                 std::to_string(heap_.limits().value_depth_max));
    }
    if (value.is(Kind::kDict)) {
      out.push('{');
      bool first = true;
      for (const Entry& entry : sorted(value)) {
        if (!first) out.append(", ");
        first = false;
        append_sorted_repr(out, entry.first, depth + 1);
        out.append(": ");
        append_sorted_repr(out, entry.second, depth + 1);
      }
      return out.push('}');
    }
    if (!is_plain_list(value)) return append_repr(out, value, depth);
    const List& list = value.as_list();
    const bool tuple = list.kind == ListKind::kTuple;
    out.push(tuple ? '(' : '[');
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out.append(", ");
      append_sorted_repr(out, list.items[i], depth + 1);
    }
    if (tuple && list.items.size() == 1) out.push(',');
    out.push(tuple ? ')' : ']');
  }

  // Keys that do not compare stand in the order of their types' names.
  bool before(const Value& a, const Value& b) {
    const bool comparable = (a.is_numeric() && b.is_numeric()) ||
                            (a.is_string() && b.is_string()) ||
                            (a.is(Kind::kBytes) && b.is(Kind::kBytes));
    return comparable ? less(heap_, a, b) : type_name(a) < type_name(b);
  }

  std::vector<Entry> sorted(const Value& dict) {
    std::vector<Entry> entries = dict.as_dict().entries;
    heap_.step(static_cast<std::int64_t>(entries.size()));
    std::vector<Entry> merged;
    // A merge sort of our own, as in filters_choice.cc: NaN is in no order.
    for (std::size_t width = 1; width < entries.size(); width *= 2) {
      merged.clear();
      for (std::size_t start = 0; start < entries.size(); start += 2 * width) {
        const std::size_t middle = std::min(start + width, entries.size());
        const std::size_t end = std::min(start + 2 * width, entries.size());
        std::size_t left = start;
        std::size_t right = middle;
        while (left < middle || right < end) {
          const bool take_right =
              left == middle || (right < end && before(entries[right].first, entries[left].first));
          merged.push_back(std::move(entries[take_right ? right++ : left++]));
        }
      }
      entries.swap(merged);
    }
    return entries;
  }

  void new_line(Int indent) {
    out_.push('\n');
    heap_.step(static_cast<std::int64_t>(indent / 16));
    out_.append(std::string(static_cast<std::size_t>(std::min<Int>(indent, 1 << 20)), ' '));
  }

  void print_dict(const Value& value, Place place) {
    const std::vector<Entry> entries = sorted(value);
    out_.push('{');
    const Int indent = place.indent + 1;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) {
        out_.push(',');
        new_line(indent);
      }
      const Value key = repr(entries[i].first, place.level);
      out_.append(key.text());
      out_.append(": ");
      const bool last = i + 1 == entries.size();
      print(entries[i].second, {indent + static_cast<Int>(code_point_count(key.text())) + 2,
                                last ? place.allowance + 1 : 1, place.level});
    }
    out_.push('}');
  }

  void print_list(const List& list, Place place) {
    const bool tuple = list.kind == ListKind::kTuple;
    const std::string_view end = !tuple ? "]" : list.items.size() == 1 ? ",)" : ")";
    out_.push(tuple ? '(' : '[');
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) {
        out_.push(',');
        new_line(place.indent + 1);
      }
      const bool last = i + 1 == list.items.size();
      print(list.items[i],
            {place.indent + 1, last ? place.allowance + static_cast<Int>(end.size()) : 1,
             place.level});
    }
    out_.append(end);
  }

  Int columns_of(const Value& text) {
    return static_cast<Int>(code_point_count(repr(text, 0).text()));
  }

  // The end of the word at `at`, with the white space behind it.
  static std::size_t end_of_word(std::string_view text, std::size_t at) {
    for (const bool space : {false, true}) {
      while (at < text.size()) {
        const CodePoint point = code_point_at(text, at);
        if (is_space(point.value) != space) break;
        at += point.bytes;
      }
    }
    return at;
  }

  // A long string as several, one a line of its own, or of its words.
  void print_string(const Value& value, Place place) {
    const bool alone = place.level == 1;
    if (alone) {
      ++place.indent;
      ++place.allowance;
    }
    Arguments keep;
    keep.positional.push_back(Value::boolean(true));
    const Value lines = call_string_method(heap_, value, "splitlines", keep);
    const Int most = kColumns - place.indent;
    std::vector<Value> chunks;
    Value last_repr;
    const auto& all = lines.as_list().items;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Int allowance = i + 1 == all.size() ? place.allowance : 0;
      last_repr = repr(all[i], 0);
      if (static_cast<Int>(code_point_count(last_repr.text())) <= most - allowance) {
        chunks.push_back(last_repr);
      } else {
        split_line(all[i], most, allowance, chunks);
      }
    }
    if (chunks.size() == 1) return out_.append(last_repr.text());
    if (alone) out_.push('(');
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (i > 0) new_line(place.indent);
      out_.append(chunks[i].text());
    }
    if (alone) out_.push(')');
  }

  void split_line(const Value& line, Int most, Int allowance, std::vector<Value>& chunks) {
    const std::string_view text = line.text();
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = end_of_word(text, at);
      heap_.step(kWordSteps);
      if (end == text.size()) most -= allowance;
      if (columns_of(line.part(text.substr(begin, end - begin))) > most) {
        if (at > begin) chunks.push_back(repr(line.part(text.substr(begin, at - begin)), 0));
        begin = at;
      }
      at = end;
    }
    if (begin < text.size()) chunks.push_back(repr(line.part(text.substr(begin)), 0));
  }

  // Long bytes as several, of four bytes or a multiple each.
  void print_bytes(const Value& value, Place place) {
    const bool alone = place.level == 1;
    if (alone) {
      ++place.indent;
      ++place.allowance;
      out_.push('(');
    }
    const auto bytes = [&](std::size_t begin, std::size_t end) {
      return Value::bytes(value.part(value.text().substr(begin, end - begin)));
    };
    const std::size_t size = value.text().size();
    Int most = kColumns - place.indent;
    std::size_t begin = 0;
    bool first = true;
    const auto write = [&](std::size_t end) {
      if (!first) new_line(place.indent);
      first = false;
      out_.append(repr(bytes(begin, end), 0).text());
    };
    for (std::size_t at = 0; at < size; at += 4) {
      heap_.step(kWordSteps);
      const std::size_t end = std::min(at + 4, size);
      if (at == size / 4 * 4) most -= place.allowance;
      if (columns_of(bytes(begin, end)) <= most) continue;
      if (at > begin) write(at);
      begin = at;
    }
    if (begin < size) write(size);
    if (alone) out_.push(')');
  }

  Heap& heap_;
  Builder out_;
};

}  // namespace

Value pprint(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("pprint", arguments, {});
  Printer printer(heap);
  printer.print(subject, {});
  return printer.finish();
}

}  // namespace causeway::text::jinja
