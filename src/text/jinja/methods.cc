#include "text/jinja/methods.h"

#include <algorithm>
#include <array>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"

namespace causeway::text::jinja {
namespace {

constexpr std::array<std::string_view, 11> kDictMethods = {
    "items", "keys",  "values",  "get",        "copy",    "update",
    "pop",   "clear", "popitem", "setdefault", "fromkeys"};
constexpr std::array<std::string_view, 11> kListMethods = {"index",  "count",   "copy", "append",
                                                           "extend", "insert",  "pop",  "clear",
                                                           "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 2> kTupleMethods = {"index", "count"};
constexpr std::array<std::string_view, 2> kBytesMethods = {"decode", "hex"};
constexpr std::array<std::string_view, 2> kLoopMethods = {"cycle", "changed"};

template <std::size_t N>
std::string_view find_in(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::string_view() : *found;
}

Value call_dict_method(Heap& heap, const Value& self, std::string_view name,
                       const Arguments& arguments) {
  const Dict& dict = self.as_dict();
  if (name == "get") {
    const auto bound = bind("get", arguments, {"key", "default"});
    if (bound[0].is_missing()) fail("get expected at least 1 argument, got 0");
    const Value* entry = find_entry(heap, dict, bound[0]);
    if (entry != nullptr) return *entry;
    return bound[1].is_missing() ? Value::none() : bound[1];
  }
  bind(name, arguments, {});
  if (name == "copy") return heap.dict(dict.entries);
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    if (name == "keys") items.push_back(key);
    if (name == "values") items.push_back(value);
    if (name == "items") items.push_back(heap.list({key, value}, ListKind::kTuple));
  }
  if (name == "keys") return heap.list(std::move(items), ListKind::kKeys);
  if (name == "values") return heap.list(std::move(items), ListKind::kValues);
  if (name == "items") return heap.list(std::move(items), ListKind::kItems);
  fail("the dict method '" + std::string(name) + "' is not supported");
}

Value call_list_method(Heap& heap, const Value& self, std::string_view name,
                       const Arguments& arguments) {
  const List& list = self.as_list();
  if (name == "copy") {
    bind(name, arguments, {});
    return heap.list(list.items, list.kind);
  }
  const auto bound = bind(name, arguments, {"value"});
  if (bound[0].is_missing()) fail(std::string(name) + " expected 1 argument, got 0");
  Int count = 0;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (!equal(heap, list.items[i], bound[0])) continue;
    if (name == "index") return Value::integer(static_cast<Int>(i));
    ++count;
  }
  if (name == "index") fail("index: the value is not in the list");
  return Value::integer(count);
}

Value call_loop_method(Heap& heap, const Value& self, std::string_view name,
                       const Arguments& arguments) {
  Loop& loop = self.as_loop();
  if (name == "cycle") {
    if (arguments.positional.empty()) fail("no items for cycling given");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  bool same = loop.changed_before && loop.last_changed.size() == arguments.positional.size();
  for (std::size_t i = 0; same && i < arguments.positional.size(); ++i) {
    same = equal(heap, loop.last_changed[i], arguments.positional[i]);
  }
  loop.changed_before = true;
  loop.last_changed = arguments.positional;
  return Value::boolean(!same);
}

}  // namespace

std::string_view find_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kString: return find_string_method(name);
    case Kind::kBytes: return find_in(kBytesMethods, name);
    case Kind::kDict: return find_in(kDictMethods, name);
    case Kind::kLoop: return find_in(kLoopMethods, name);
    case Kind::kList:
      if (value.as_list().kind == ListKind::kList) return find_in(kListMethods, name);
      if (value.as_list().kind == ListKind::kTuple) return find_in(kTupleMethods, name);
      return {};
    default: return {};
  }
}

bool is_mutating(std::string_view method) {
  static constexpr std::array<std::string_view, 11> kMutating = {
      "update", "pop",    "clear",  "popitem", "setdefault", "append",
      "extend", "insert", "remove", "reverse", "sort"};
  return !find_in(kMutating, method).empty();
}

Value call_method(Heap& heap, const Method& method, const Arguments& arguments) {
  switch (method.self.kind()) {
    case Kind::kString: return call_string_method(heap, method.self, method.name, arguments);
    case Kind::kBytes: return call_bytes_method(heap, method.self, method.name, arguments);
    case Kind::kDict: return call_dict_method(heap, method.self, method.name, arguments);
    case Kind::kLoop: return call_loop_method(heap, method.self, method.name, arguments);
    default: return call_list_method(heap, method.self, method.name, arguments);
  }
}

}  // namespace causeway::text::jinja
