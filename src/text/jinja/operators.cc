#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/failure.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

std::string quoted_type(const Value& value) { return "'" + std::string(type_name(value)) + "'"; }

bool equal_lists(Heap& heap, const List& a, const List& b, int depth) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  if (a.kind == ListKind::kGenerator) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(heap, a.items[i], b.items[i], depth + 1)) return false;
  }
  return true;
}

bool equal_dicts(Heap& heap, const Dict& a, const Dict& b, int depth) {
  if (&a == &b) return true;
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = find_entry(heap, b, key);
    if (other == nullptr || !equal(heap, value, *other, depth + 1)) return false;
  }
  return true;
}

bool same_ordered_list_kind(const Value& a, const Value& b) {
  return a.is(Kind::kList) && b.is(Kind::kList) && a.as_list().kind == b.as_list().kind &&
         (a.as_list().kind == ListKind::kList || a.as_list().kind == ListKind::kTuple);
}

}  // namespace

void check_depth(const Heap& heap, int depth) {
  if (depth > heap.limits().value_depth_max) {
    fail_limit("lists or objects are nested deeper than " +
               std::to_string(heap.limits().value_depth_max));
  }
}

void require_defined(const Value& value) {
  if (value.is_undefined()) fail(value.undefined_message());
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool: return value.as_bool();
    case Kind::kInt: return value.as_int() != 0;
    case Kind::kFloat: return value.as_double() != 0;
    case Kind::kString:
    case Kind::kBytes: return !value.text().empty();
    case Kind::kList:
      return value.as_list().kind == ListKind::kGenerator || !value.as_list().items.empty();
    case Kind::kDict: return !value.as_dict().entries.empty();
    default: return true;
  }
}

bool equal(Heap& heap, const Value& a, const Value& b, int depth) {
  heap.step();
  check_depth(heap, depth);
  if (a.is_numeric() && b.is_numeric()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    return a.as_double() == b.as_double();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kString:
    case Kind::kBytes:
      if (a.text().size() == b.text().size()) heap.work_bytes(a.text().size());
      return a.text() == b.text();
    case Kind::kList: return equal_lists(heap, a.as_list(), b.as_list(), depth);
    case Kind::kDict: return equal_dicts(heap, a.as_dict(), b.as_dict(), depth);
    case Kind::kNamespace: return &a.as_dict() == &b.as_dict();
    case Kind::kMacro: return &a.as_macro() == &b.as_macro();
    case Kind::kLoop: return &a.as_loop() == &b.as_loop();
    case Kind::kMethod: return &a.as_method() == &b.as_method();
    case Kind::kFunction: return a.as_function() == b.as_function();
    default: return true;
  }
}

bool less(Heap& heap, const Value& a, const Value& b, std::string_view sign, int depth) {
  heap.step();
  check_depth(heap, depth);
  require_defined(a);
  require_defined(b);
  if (a.is_numeric() && b.is_numeric()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
    return a.as_double() < b.as_double();
  }
  if ((a.is_string() && b.is_string()) || (a.is(Kind::kBytes) && b.is(Kind::kBytes))) {
    heap.work_bytes(std::min(a.text().size(), b.text().size()));
    return a.text() < b.text();
  }
  if (!same_ordered_list_kind(a, b)) {
    fail("'" + std::string(sign) + "' not supported between instances of " + quoted_type(a) +
         " and " + quoted_type(b));
  }
  const auto& left = a.as_list().items;
  const auto& right = b.as_list().items;
  for (std::size_t i = 0; i < left.size() && i < right.size(); ++i) {
    if (equal(heap, left[i], right[i], depth + 1)) continue;
    return less(heap, left[i], right[i], sign, depth + 1);
  }
  return left.size() < right.size();
}

bool compare(Heap& heap, Op op, const Value& a, const Value& b) {
  const bool numbers = a.is_numeric() && b.is_numeric();
  switch (op) {
    case Op::kEq: return equal(heap, a, b);
    case Op::kNe: return !equal(heap, a, b);
    case Op::kLt: return less(heap, a, b, "<");
    case Op::kGt: return less(heap, b, a, ">");
    case Op::kLe:
      if (numbers) return less(heap, a, b) || equal(heap, a, b);
      return !less(heap, b, a, "<=");
    case Op::kGe:
      if (numbers) return less(heap, b, a) || equal(heap, a, b);
      return !less(heap, a, b, ">=");
    case Op::kIn: return contains(heap, a, b);
    default: return !contains(heap, a, b);
  }
}

namespace {

bool contains_bytes(Heap& heap, const Value& item, const Value& container) {
  heap.work_bytes(container.text().size());
  if (item.is(Kind::kBytes)) return container.text().find(item.text()) != std::string_view::npos;
  if (!item.is_integral()) fail("a bytes-like object is required, not " + quoted_type(item));
  if (item.as_int() < 0 || item.as_int() > 255) fail("byte must be in range(0, 256)");
  return container.text().find(static_cast<char>(item.as_int())) != std::string_view::npos;
}

}  // namespace

bool contains(Heap& heap, const Value& item, const Value& container) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) {
        fail("'in <string>' requires string as left operand, not " + std::string(type_name(item)));
      }
      heap.work_bytes(container.text().size());
      return container.text().find(item.text()) != std::string_view::npos;
    case Kind::kBytes: return contains_bytes(heap, item, container);
    case Kind::kDict:
      if (item.is(Kind::kDict) ||
          (item.is(Kind::kList) && item.as_list().kind == ListKind::kList)) {
        fail("unhashable type: " + quoted_type(item));
      }
      return find_entry(heap, container.as_dict(), item) != nullptr;
    case Kind::kList: {
      const auto& items = elements(heap, container).items;
      return std::any_of(items.begin(), items.end(),
                         [&](const Value& each) { return equal(heap, each, item); });
    }
    case Kind::kUndefined: return false;
    default: fail("argument of type " + quoted_type(container) + " is not iterable");
  }
}

std::int64_t length(Heap& heap, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return 0;
    case Kind::kString:
      heap.work_bytes(value.text().size());
      return static_cast<std::int64_t>(code_point_count(value.text()));
    case Kind::kBytes: return static_cast<std::int64_t>(value.text().size());
    case Kind::kDict: return static_cast<std::int64_t>(value.as_dict().entries.size());
    case Kind::kList:
      if (value.as_list().kind != ListKind::kGenerator) {
        return static_cast<std::int64_t>(value.as_list().items.size());
      }
      break;
    default: break;
  }
  fail("object of type " + quoted_type(value) + " has no len()");
}

namespace {

std::vector<Value> characters(Heap& heap, const Value& text) {
  const std::string_view view = text.text();
  heap.require(view.size() * sizeof(Value));
  heap.step(static_cast<std::int64_t>(view.size()));
  std::vector<Value> items;
  for (std::size_t at = 0; at < view.size();) {
    const std::size_t bytes = code_point_at(view, at).bytes;
    items.push_back(text.part(view.substr(at, bytes)).without_markup());
    at += bytes;
  }
  return items;
}

}  // namespace

const List& elements(Heap& heap, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kList: {
      List& list = value.as_list();
      if (list.kind != ListKind::kGenerator) return list;
      if (!std::exchange(list.used_up, true)) return list;
      break;
    }
    case Kind::kDict:
      for (const auto& entry : value.as_dict().entries) items.push_back(entry.first);
      break;
    case Kind::kString: items = characters(heap, value); break;
    case Kind::kBytes:
      heap.require(value.text().size() * sizeof(Value));
      for (const char c : value.text()) {
        items.push_back(Value::integer(static_cast<unsigned char>(c)));
      }
      break;
    case Kind::kUndefined: break;
    default: fail(quoted_type(value) + " object is not iterable");
  }
  return heap.list(std::move(items)).as_list();
}

const Value* find_entry(Heap& heap, const Dict& dict, const Value& key) {
  if (key.is_string()) return find_entry(heap, dict, key.text());
  for (const auto& entry : dict.entries) {
    if (equal(heap, entry.first, key)) return &entry.second;
  }
  return nullptr;
}

const Value* find_entry(Heap& heap, const Dict& dict, std::string_view key) {
  heap.step(1 + static_cast<std::int64_t>(dict.entries.size() / 8));
  for (const auto& entry : dict.entries) {
    if (entry.first.is_string() && entry.first.text() == key) return &entry.second;
  }
  return nullptr;
}

}  // namespace causeway::text::jinja
