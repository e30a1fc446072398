#include "text/jinja/heap.h"

#include "text/jinja/failure.h"

namespace causeway::text::jinja {

void release(StringBody* body) {
  std::unique_ptr<StringBody> owner(body);
  owner->heap->bytes_ -= static_cast<std::int64_t>(sizeof(StringBody) + owner->text.size());
}

void Heap::step(std::int64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps_max) {
    fail_limit("the template takes more than " + std::to_string(limits_.steps_max) +
               " steps: it loops too long");
  }
}

void Heap::require(std::uint64_t bytes) const {
  const auto left = static_cast<std::uint64_t>(limits_.memory_bytes_max - bytes_);
  if (bytes_ > limits_.memory_bytes_max || bytes > left) {
    fail_limit("the template builds strings and lists of more than " +
               std::to_string(limits_.memory_bytes_max) + " bytes");
  }
}

void Heap::grow(std::size_t bytes) {
  require(bytes);
  bytes_ += static_cast<std::int64_t>(bytes);
}

void Heap::adopt(std::unique_ptr<Object> object, std::size_t bytes) {
  grow(bytes + sizeof(object));
  objects_.push_back(std::move(object));
}

Value Heap::string(std::string text) {
  work_bytes(text.size());
  grow(sizeof(StringBody) + text.size());
  auto body = std::make_unique<StringBody>(StringBody{this, 1, std::move(text)});
  const std::string_view view = body->text;
  return Value::owned(view, body.release());
}

Value Heap::list(std::vector<Value> items, ListKind kind) {
  step(1 + static_cast<std::int64_t>(items.size()));
  List* list = make<List>();
  grow(items.size() * sizeof(Value));
  list->kind = kind;
  list->items = std::move(items);
  return Value::list(list);
}

Value Heap::dict(std::vector<std::pair<Value, Value>> entries) {
  step(1 + static_cast<std::int64_t>(entries.size()));
  Dict* dict = make<Dict>();
  grow(entries.size() * sizeof(entries[0]));
  dict->entries = std::move(entries);
  return Value::dict(dict);
}

Value Heap::name_space(std::vector<std::pair<Value, Value>> members) {
  return Value::name_space(&dict(std::move(members)).as_dict());
}

Value Heap::method(Value self, std::string_view name) {
  Method* method = make<Method>();
  method->self = std::move(self);
  method->name = name;
  return Value::method(method);
}

void Builder::append(std::string_view piece) {
  heap_.require(text_.size() + piece.size());
  heap_.work_bytes(piece.size());
  text_.append(piece);
}

}  // namespace causeway::text::jinja
