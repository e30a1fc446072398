// Elements, attributes and slices: the access half of operators.h.
#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

Value loop_attribute(const Value& value, const Value& name) {
  const Loop& loop = value.as_loop();
  const std::string_view key = name.text();
  const auto index = static_cast<Int>(loop.index);
  const auto count = static_cast<Int>(loop.items->items.size());
  if (key == "index") return Value::integer(index + 1);
  if (key == "index0") return Value::integer(index);
  if (key == "first") return Value::boolean(index == 0);
  if (key == "last") return Value::boolean(index + 1 == count);
  if (key == "length") return Value::integer(count);
  if (key == "revindex") return Value::integer(count - index);
  if (key == "revindex0") return Value::integer(count - index - 1);
  // Counts recursion, which loops here do not have, not loops within loops.
  if (key == "depth") return Value::integer(1);
  if (key == "depth0") return Value::integer(0);
  if (key == "previtem") {
    if (index == 0) return Value::undefined_because(Value::view("there is no previous item"));
    return loop.items->items[loop.index - 1];
  }
  if (key == "nextitem") {
    if (index + 1 == count) return Value::undefined_because(Value::view("there is no next item"));
    return loop.items->items[loop.index + 1];
  }
  return Value::undefined_member(value, name);
}

// An element by number, counted from the end when negative; null when there is none.
const Value* list_element(const List& list, Int index) {
  const auto count = static_cast<Int>(list.items.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) return nullptr;
  return &list.items[static_cast<std::size_t>(index)];
}

bool has_numbered_elements(const List& list) {
  return list.kind == ListKind::kList || list.kind == ListKind::kTuple ||
         list.kind == ListKind::kRange;
}

Value undefined_element(Heap& heap, const Value& value, const Value& key) {
  if (key.is_string()) return Value::undefined_member(value, key);
  Builder text(heap);
  text.append(type_name(value));
  text.append(" object has no element ");
  append_repr(text, key);
  return Value::undefined_because(text.finish());
}

Value character(Heap& heap, const Value& text, Int index, const Value& key) {
  heap.work_bytes(text.text().size());
  const auto count = static_cast<Int>(code_point_count(text.text()));
  if (index < 0) index += count;
  if (index < 0 || index >= count) return undefined_element(heap, text, key);
  const std::size_t at = byte_offset(text.text(), static_cast<std::size_t>(index));
  return text.part(text.text().substr(at, code_point_at(text.text(), at).bytes));
}

struct SliceRange {
  Int start, stop, step;
};

Int slice_bound(const Value& bound, Int fallback, Int count, Int low, Int high) {
  if (bound.is_none()) return fallback;
  if (!bound.is_integral()) {
    require_defined(bound);
    fail("slice indices must be integers or None");
  }
  Int value = bound.as_int();
  if (value < 0) value += count;
  return std::clamp(value, low, high);
}

SliceRange slice_range(const Value& start, const Value& stop, const Value& step, Int count) {
  Int by = 1;
  if (!step.is_none()) {
    if (!step.is_integral()) fail("slice indices must be integers or None");
    by = step.as_int();
  }
  if (by == 0) fail("slice step cannot be zero");
  // Beyond the length every step is the same: bounded, so that sums cannot overflow.
  by = std::clamp(by, -count - 1, count + 1);
  if (by > 0)
    return {slice_bound(start, 0, count, 0, count), slice_bound(stop, count, count, 0, count), by};
  return {slice_bound(start, count - 1, count, -1, count - 1),
          slice_bound(stop, -1, count, -1, count - 1), by};
}

Value slice_text(Heap& heap, const Value& value, const Value& start, const Value& stop,
                 const Value& step) {
  const std::string_view text = value.text();
  heap.work_bytes(text.size());
  const auto count = static_cast<Int>(code_point_count(text));
  const SliceRange range = slice_range(start, stop, step, count);
  if (range.step == 1) {
    if (range.start >= range.stop) return Value::view("");
    const std::size_t from = byte_offset(text, static_cast<std::size_t>(range.start));
    const std::size_t size =
        byte_offset(text.substr(from), static_cast<std::size_t>(range.stop - range.start));
    return value.part(text.substr(from, size));
  }
  const List& all = elements(heap, value);
  Builder out(heap);
  for (Int i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step) {
    out.append(all.items[static_cast<std::size_t>(i)].text());
  }
  const Value picked = out.finish();
  return value.is_markup() ? picked.as_markup() : picked;
}

Value slice_bytes(Heap& heap, const Value& value, const SliceRange& range) {
  heap.work_bytes(value.text().size());
  std::string out;
  for (Int i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step) {
    out.push_back(value.text()[static_cast<std::size_t>(i)]);
  }
  return Value::bytes(heap.string(std::move(out)));
}

}  // namespace

Value get_attribute(Heap& heap, const Value& value, const Value& name) {
  require_defined(value);
  const std::string_view method = find_method(value, name.text());
  if (!method.empty()) {
    if (!is_mutating(method) || value.is_string()) return heap.method(value, method);
    Builder message(heap);
    message.append("access to attribute '");
    message.append(method);
    message.append("' of '");
    message.append(type_name(value));
    message.append("' object is unsafe.");
    return Value::undefined_because(message.finish());
  }
  if (value.is(Kind::kLoop)) return loop_attribute(value, name);
  if (value.is(Kind::kList) && value.as_list().group) {
    if (name.text() == "grouper") return value.as_list().items[0];
    if (name.text() == "list") return value.as_list().items[1];
  }
  if (value.is(Kind::kNamespace) || value.is(Kind::kDict)) {
    const Value* entry = find_entry(heap, value.as_dict(), name.text());
    if (entry != nullptr) return *entry;
  }
  return Value::undefined_member(value, name);
}

Value get_item(Heap& heap, const Value& value, const Value& key) {
  require_defined(value);
  if (value.is(Kind::kDict)) {
    const Value* entry = find_entry(heap, value.as_dict(), key);
    if (entry != nullptr) return *entry;
  } else if (key.is_integral() && value.is(Kind::kList) && has_numbered_elements(value.as_list())) {
    const Value* element = list_element(value.as_list(), key.as_int());
    if (element != nullptr) return *element;
  } else if (key.is_integral() && value.is_string()) {
    return character(heap, value, key.as_int(), key);
  } else if (key.is_integral() && value.is(Kind::kBytes)) {
    const Value* element = list_element(elements(heap, value), key.as_int());
    if (element != nullptr) return *element;
  }
  if (key.is_string()) return get_attribute(heap, value, key);
  return undefined_element(heap, value, key);
}

bool can_be_sliced(const Value& value) {
  if (value.is_undefined()) return true;  // says itself what it is
  if (value.is_string() || value.is(Kind::kBytes)) return true;
  return value.is(Kind::kList) && has_numbered_elements(value.as_list());
}

Value get_slice(Heap& heap, const Value& value, const Value& start, const Value& stop,
                const Value& step) {
  require_defined(value);
  if (value.is_string()) return slice_text(heap, value, start, stop, step);
  if (value.is(Kind::kBytes))
    return slice_bytes(heap, value, slice_range(start, stop, step, length(heap, value)));
  if (!can_be_sliced(value)) {
    fail("'" + std::string(type_name(value)) + "' object cannot be sliced");
  }
  const List& list = value.as_list();
  const SliceRange range = slice_range(start, stop, step, static_cast<Int>(list.items.size()));
  std::vector<Value> items;
  for (Int i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step) {
    items.push_back(list.items[static_cast<std::size_t>(i)]);
  }
  return heap.list(std::move(items), list.kind);
}

}  // namespace causeway::text::jinja
