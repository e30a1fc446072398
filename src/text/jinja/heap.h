// What one rendering may use: counts steps and bytes against the limits and owns every object that
// the rendering builds. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace causeway::text::jinja {

class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const Limits& limits() const { return limits_; }

  // Counts work; fails when the limit is reached.
  void step(std::int64_t count = 1);
  // Counts work over so many bytes.
  void work_bytes(std::size_t bytes) { step(static_cast<std::int64_t>(bytes / 64)); }
  // Fails unless so many more bytes may be allocated: to be asked before building something large.
  void require(std::uint64_t bytes) const;

  Value string(std::string text);
  Value list(std::vector<Value> items, ListKind kind = ListKind::kList);
  Value dict(std::vector<std::pair<Value, Value>> entries);
  Value name_space(std::vector<std::pair<Value, Value>> members);
  Value method(Value self, std::string_view name);
  template <typename T>
  T* make() {
    auto object = std::make_unique<T>();
    T* pointer = object.get();
    adopt(std::move(object), sizeof(T));
    return pointer;
  }
  // Counts bytes that an object grew by after it was made.
  void grow(std::size_t bytes);

 private:
  friend void release(StringBody* body);
  void adopt(std::unique_ptr<Object> object, std::size_t bytes);

  Limits limits_;
  std::int64_t steps_ = 0;
  std::int64_t bytes_ = 0;
  std::vector<std::unique_ptr<Object>> objects_;
};

// Builds a string piece by piece, never beyond what the heap allows.
class Builder {
 public:
  explicit Builder(Heap& heap) : heap_(heap) {}
  void append(std::string_view piece);
  void push(char c) { append(std::string_view(&c, 1)); }
  std::string take() { return std::move(text_); }
  Value finish() { return heap_.string(std::move(text_)); }

 private:
  Heap& heap_;
  std::string text_;
};

}  // namespace causeway::text::jinja
