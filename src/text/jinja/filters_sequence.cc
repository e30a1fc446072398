#include <algorithm>
#include <array>

#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

Value length_of(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("length", arguments, {});
  return Value::integer(length(heap, subject));
}

Value default_of(Heap&, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("default", arguments, {"default_value", "boolean"});
  const bool replaced =
      subject.is_undefined() || (flag_argument(bound[1], false) && !truthy(subject));
  if (!replaced) return subject;
  return bound[0].is_missing() ? Value::view("") : bound[0];
}

Value first(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("first", arguments, {});
  if (subject.is_string() && !subject.text().empty()) {
    const std::size_t bytes = code_point_at(subject.text(), 0).bytes;
    return subject.part(subject.text().substr(0, bytes)).without_markup();
  }
  const auto& items = elements(heap, subject).items;
  if (!items.empty()) return items.front();
  return Value::undefined_because(Value::view("No first item, sequence was empty."));
}

Value last(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("last", arguments, {});
  if (subject.is(Kind::kList) && subject.as_list().kind == ListKind::kGenerator) {
    fail("'generator' object is not reversible");
  }
  const auto& items = elements(heap, subject).items;
  if (!items.empty()) return subject.is_markup() ? items.back().as_markup() : items.back();
  return Value::undefined_because(Value::view("No last item, sequence was empty."));
}

Value list(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("list", arguments, {});
  return heap.list(elements(heap, subject).items);
}

Value reverse(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("reverse", arguments, {});
  if (subject.is_string()) {
    return get_slice(heap, subject, Value::none(), Value::none(), Value::integer(-1));
  }
  std::vector<Value> items = elements(heap, subject).items;
  std::reverse(items.begin(), items.end());
  const bool from_generator =
      subject.is(Kind::kList) && subject.as_list().kind == ListKind::kGenerator;
  return heap.list(std::move(items), from_generator ? ListKind::kList : ListKind::kGenerator);
}

Value items(Heap& heap, const Value& subject, const Arguments& arguments) {
  bind("items", arguments, {});
  std::vector<Value> pairs;
  if (!subject.is_undefined()) {
    if (!subject.is(Kind::kDict)) fail("Can only get item pairs from a mapping.");
    for (const auto& [key, value] : subject.as_dict().entries) {
      pairs.push_back(heap.list({key, value}, ListKind::kTuple));
    }
  }
  return heap.list(std::move(pairs), ListKind::kGenerator);
}

Value batch(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("batch", arguments, {"linecount", "fill_with"});
  const Int size = int_argument(bound[0], 0, "batch");
  if (size < 1) fail("batch: the number of items in a batch must be positive");
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (const Value& item : elements(heap, subject).items) {
    if (static_cast<Int>(batch.size()) == size)
      batches.push_back(heap.list(std::exchange(batch, {})));
    batch.push_back(item);
  }
  if (!batch.empty()) {
    const bool fill = !bound[1].is_missing() && !bound[1].is_none();
    if (fill && static_cast<Int>(batch.size()) < size) {
      if (size > 1'000'000) fail("batch: more than a million items in a batch");
      heap.require(static_cast<std::uint64_t>(size) * sizeof(Value));
      batch.resize(static_cast<std::size_t>(size), bound[1]);
    }
    batches.push_back(heap.list(std::move(batch)));
  }
  return heap.list(std::move(batches), ListKind::kGenerator);
}

// The elements in so many lists, as equal in length as can be; the shorter ones filled up.
Value slice(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("slice", arguments, {"slices", "fill_with"});
  if (bound[0].is_missing()) fail("slice needs the number of slices");
  const Int slices = int_argument(bound[0], 0, "slice");
  const std::vector<Value>& all = elements(heap, subject).items;
  if (slices == 0) fail("integer modulo by zero");
  const auto count = static_cast<Int>(all.size());
  const bool fill = !bound[1].is_missing() && !bound[1].is_none();
  std::vector<Value> lists;
  auto next = all.begin();
  for (Int i = 0; i < slices; ++i) {
    const Int size = count / slices + (i < count % slices ? 1 : 0);
    std::vector<Value> items(next, next + static_cast<std::ptrdiff_t>(size));
    next += static_cast<std::ptrdiff_t>(size);
    if (fill && i >= count % slices) items.push_back(bound[1]);
    heap.require((lists.size() + 1) * sizeof(Value));
    lists.push_back(heap.list(std::move(items)));
  }
  return heap.list(std::move(lists), ListKind::kGenerator);
}

Value attr(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("attr", arguments, {"name"});
  text_argument(bound[0], "attr");
  if (subject.is(Kind::kDict)) {
    const Value attribute = get_attribute(heap, subject, bound[0]);
    return attribute.is(Kind::kMethod) ? attribute : Value::undefined_member(subject, bound[0]);
  }
  return get_attribute(heap, subject, bound[0]);
}

constexpr std::array<FilterEntry, 12> kSequenceFilters = {{
    {"length", length_of},
    {"count", length_of},
    {"default", default_of},
    {"d", default_of},
    {"first", first},
    {"last", last},
    {"list", list},
    {"reverse", reverse},
    {"items", items},
    {"batch", batch},
    {"slice", slice},
    {"attr", attr},
}};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kSequenceFilters; }

Value attribute_path(Heap& heap, Value value, const Value& path) {
  if (!path.is_string()) return get_item(heap, value, path);
  std::string_view rest = path.text();
  while (true) {
    heap.step();
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    const bool number =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    Int index = 0;
    if (number) {
      for (const char c : part) index = index * 10 + (c - '0');
    }
    value = get_item(heap, value, number ? Value::integer(index) : path.part(part));
    if (dot == rest.size()) return value;
    rest.remove_prefix(dot + 1);
  }
}

Filter find_filter(std::string_view name) {
  for (const auto table : {text_filters(), number_filters(), sequence_filters(), choice_filters(),
                           layout_filters(), web_filters()}) {
    for (const FilterEntry& entry : table) {
      if (entry.name == name) return entry.call;
    }
  }
  return nullptr;
}

}  // namespace causeway::text::jinja
