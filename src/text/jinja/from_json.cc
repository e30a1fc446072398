#include "text/jinja/from_json.h"

#include <nlohmann/json.hpp>

#include "text/jinja/failure.h"

namespace causeway::text::jinja {
namespace {

std::string_view view_of(const nlohmann::ordered_json& json) {
  return *json.get_ptr<const std::string*>();
}

Value from_array(Heap& heap, const nlohmann::ordered_json& json, int depth) {
  std::vector<Value> items;
  items.reserve(json.size());
  for (const auto& element : json) items.push_back(from_json(heap, element, depth + 1));
  return heap.list(std::move(items));
}

Value from_object(Heap& heap, const nlohmann::ordered_json& json, int depth) {
  std::vector<std::pair<Value, Value>> entries;
  entries.reserve(json.size());
  for (auto it = json.begin(); it != json.end(); ++it) {
    entries.emplace_back(Value::view(it.key()), from_json(heap, it.value(), depth + 1));
  }
  return heap.dict(std::move(entries));
}

}  // namespace

Value from_json(Heap& heap, const nlohmann::ordered_json& json, int depth) {
  if (depth > heap.limits().value_depth_max) {
    fail_limit("the input's lists or objects are nested deeper than " +
               std::to_string(heap.limits().value_depth_max));
  }
  using Type = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Type::boolean: return Value::boolean(json.get<bool>());
    case Type::number_integer: return Value::integer(json.get<std::int64_t>());
    case Type::number_unsigned: return Value::integer(static_cast<Int>(json.get<std::uint64_t>()));
    case Type::number_float: return Value::number(json.get<double>());
    case Type::string: return Value::view(view_of(json));
    case Type::array: return from_array(heap, json, depth);
    case Type::object: return from_object(heap, json, depth);
    default: return Value::none();
  }
}

}  // namespace causeway::text::jinja
