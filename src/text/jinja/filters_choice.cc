// Filters that apply a test, a filter or an order to each element.
#include <algorithm>
#include <array>

#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace causeway::text::jinja {
namespace {

Value generator(Heap& heap, std::vector<Value> items) {
  return heap.list(std::move(items), ListKind::kGenerator);
}

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value map_attribute(Heap& heap, const List& list, const Arguments& arguments) {
  const auto bound = bind("map", arguments, {"attribute", "default"});
  std::vector<Value> items;
  for (const Value& item : list.items) {
    Value value = attribute_path(heap, item, bound[0]);
    if (value.is_undefined() && !bound[1].is_missing()) value = bound[1];
    items.push_back(std::move(value));
  }
  return generator(heap, std::move(items));
}

Value map(Heap& heap, const Value& subject, const Arguments& arguments) {
  // As Jinja has it: of none, 0 or "" there is nothing to map, and nothing else is looked at.
  if (!truthy(subject)) return generator(heap, {});
  const List& list = elements(heap, subject);
  if (arguments.positional.empty()) {
    const bool by_attribute =
        std::any_of(arguments.named.begin(), arguments.named.end(),
                    [](const auto& argument) { return argument.first == "attribute"; });
    if (!by_attribute) fail("map requires a filter argument");
    return map_attribute(heap, list, arguments);
  }
  const std::string_view name = text_argument(arguments.positional[0], "map");
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail("No filter named '" + std::string(name) + "'.");
  const Arguments rest = without_first(arguments, 1);
  std::vector<Value> items;
  for (const Value& item : list.items) {
    heap.step();
    items.push_back(filter(heap, item, rest));
  }
  return generator(heap, std::move(items));
}

// select, reject, selectattr, rejectattr: keeps the elements whose test (truth, without one) comes
// out as `wanted`.
Value choose(Heap& heap, const Value& subject, const Arguments& arguments, bool by_attribute,
             bool wanted) {
  if (!truthy(subject)) return generator(heap, {});
  const std::size_t before_test = by_attribute ? 1 : 0;
  if (arguments.positional.size() < before_test) fail("Missing parameter for attribute name");
  Test test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > before_test) {
    const std::string_view name = text_argument(arguments.positional[before_test], "select");
    test = find_test(name);
    if (test == nullptr) fail("No test named '" + std::string(name) + "'.");
    rest = without_first(arguments, before_test + 1);
  }
  std::vector<Value> items;
  for (const Value& item : elements(heap, subject).items) {
    heap.step();
    const Value value = by_attribute ? attribute_path(heap, item, arguments.positional[0]) : item;
    const bool result = test != nullptr ? test(heap, value, rest) : truthy(value);
    if (result == wanted) items.push_back(item);
  }
  return generator(heap, std::move(items));
}

template <bool kByAttribute, bool kWanted>
Value choice(Heap& heap, const Value& subject, const Arguments& arguments) {
  return choose(heap, subject, arguments, kByAttribute, kWanted);
}

// A key that compares without regard to case, unless case matters.
Value folded(Heap& heap, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  heap.require(2 * value.text().size());
  return heap.string(lower(value.text()));
}

// The element, or its attribute where one is asked for.
Value plain_key(Heap& heap, const Value& item, const Value& attribute, bool case_sensitive) {
  const bool whole = attribute.is_missing() || attribute.is_none();
  return folded(heap, whole ? item : attribute_path(heap, item, attribute), case_sensitive);
}

// What `sort` orders by: a list of the attributes that a comma-separated list names. Comparing
// lists is what makes two elements without the attribute equal instead of an error.
Value sort_key(Heap& heap, const Value& item, const Value& attribute, bool case_sensitive) {
  if (!attribute.is_string()) {
    return heap.list({plain_key(heap, item, attribute, case_sensitive)});
  }
  std::vector<Value> keys;
  std::string_view rest = attribute.text();
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    keys.push_back(plain_key(heap, item, attribute.part(rest.substr(0, comma)), case_sensitive));
    if (comma == rest.size()) return heap.list(std::move(keys));
    rest.remove_prefix(comma + 1);
  }
}

struct Keyed {
  Value key, item;
};

std::vector<Keyed> keyed_items(Heap& heap, const Value& subject, const Value& attribute,
                               bool case_sensitive) {
  std::vector<Keyed> items;
  for (const Value& item : elements(heap, subject).items) {
    items.push_back({plain_key(heap, item, attribute, case_sensitive), item});
  }
  return items;
}

// A stable merge sort of our own: it stays within bounds whatever the order says (NaN is less than
// nothing and equal to nothing), which the standard's need not.
void sort_by_key(Heap& heap, std::vector<Keyed>& items, bool reverse) {
  std::vector<Keyed> merged;
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    merged.clear();
    for (std::size_t start = 0; start < items.size(); start += 2 * width) {
      const std::size_t middle = std::min(start + width, items.size());
      const std::size_t end = std::min(start + 2 * width, items.size());
      std::size_t left = start;
      std::size_t right = middle;
      while (left < middle || right < end) {
        const bool take_right =
            left == middle ||
            (right < end && (reverse ? less(heap, items[left].key, items[right].key)
                                     : less(heap, items[right].key, items[left].key)));
        merged.push_back(std::move(items[take_right ? right++ : left++]));
      }
    }
    items.swap(merged);
  }
}

Value sort(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = flag_argument(bound[1], false);
  std::vector<Keyed> items;
  for (const Value& item : elements(heap, subject).items) {
    items.push_back({sort_key(heap, item, bound[2], case_sensitive), item});
  }
  sort_by_key(heap, items, flag_argument(bound[0], false));
  std::vector<Value> sorted;
  for (Keyed& each : items) sorted.push_back(std::move(each.item));
  return heap.list(std::move(sorted));
}

Value dictsort(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string_view by =
      bound[1].is_missing() ? std::string_view("key") : text_argument(bound[1], "dictsort");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  require_defined(subject);
  if (!subject.is(Kind::kDict)) fail("dictsort needs a mapping");
  std::vector<Keyed> items;
  for (const auto& [key, value] : subject.as_dict().entries) {
    const Value& chosen = by == "key" ? key : value;
    items.push_back({folded(heap, chosen, flag_argument(bound[0], false)),
                     heap.list({key, value}, ListKind::kTuple)});
  }
  sort_by_key(heap, items, flag_argument(bound[2], false));
  std::vector<Value> sorted;
  for (Keyed& each : items) sorted.push_back(std::move(each.item));
  return heap.list(std::move(sorted));
}

Value unique(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> seen;
  std::vector<Value> items;
  for (Keyed& each : keyed_items(heap, subject, bound[1], flag_argument(bound[0], false))) {
    const bool known = std::any_of(seen.begin(), seen.end(),
                                   [&](const Value& key) { return equal(heap, key, each.key); });
    if (known) continue;
    seen.push_back(each.key);
    items.push_back(each.item);
  }
  return generator(heap, std::move(items));
}

Value extreme(Heap& heap, const Value& subject, const Arguments& arguments, bool largest) {
  const auto bound = bind(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const auto items = keyed_items(heap, subject, bound[1], flag_argument(bound[0], false));
  if (items.empty()) {
    return Value::undefined_because(Value::view("No aggregated item, sequence was empty."));
  }
  const Keyed* best = &items[0];
  for (std::size_t i = 1; i < items.size(); ++i) {
    const bool better =
        largest ? less(heap, best->key, items[i].key, ">") : less(heap, items[i].key, best->key);
    if (better) best = &items[i];
  }
  return best->item;
}
Value largest(Heap& heap, const Value& subject, const Arguments& arguments) {
  return extreme(heap, subject, arguments, true);
}
Value smallest(Heap& heap, const Value& subject, const Arguments& arguments) {
  return extreme(heap, subject, arguments, false);
}

Value groupby(Heap& heap, const Value& subject, const Arguments& arguments) {
  const auto bound = bind("groupby", arguments, {"attribute", "default", "case_sensitive"});
  if (bound[0].is_missing()) fail("groupby needs an attribute");
  const bool case_sensitive = flag_argument(bound[2], false);
  std::vector<Keyed> items;
  for (const Value& item : elements(heap, subject).items) {
    Value key = attribute_path(heap, item, bound[0]);
    if (key.is_undefined() && !bound[1].is_missing()) key = bound[1];
    items.push_back({folded(heap, key, case_sensitive), item});
  }
  sort_by_key(heap, items, false);
  std::vector<Value> groups;
  for (std::size_t start = 0; start < items.size();) {
    std::size_t end = start;
    std::vector<Value> members;
    while (end < items.size() && equal(heap, items[start].key, items[end].key)) {
      members.push_back(items[end++].item);
    }
    if (end == start) members.push_back(items[end++].item);  // NaN equals nothing
    Value key = attribute_path(heap, members[0], bound[0]);
    if (key.is_undefined() && !bound[1].is_missing()) key = bound[1];
    groups.push_back(heap.list({key, heap.list(std::move(members))}, ListKind::kTuple));
    groups.back().as_list().group = true;
    start = end;
  }
  return heap.list(std::move(groups));
}

constexpr std::array<FilterEntry, 11> kChoiceFilters = {{
    {"map", map},
    {"select", choice<false, true>},
    {"reject", choice<false, false>},
    {"selectattr", choice<true, true>},
    {"rejectattr", choice<true, false>},
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"max", largest},
    {"min", smallest},
    {"groupby", groupby},
}};

}  // namespace

std::span<const FilterEntry> choice_filters() { return kChoiceFilters; }

}  // namespace causeway::text::jinja
