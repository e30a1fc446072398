// How plain data becomes bytes, and bytes plain data: fields in order, without tags, as the machine
// has them in memory, because both sides are processes of one machine and one build.
//
//   number      its bytes          text, list    count (4 bytes), then its items
//   bool        0 or 1             optional      bool, then what it holds
//   enum        1 byte             others        fields(visitor, value), see fields.h
//
// Writer and Reader have the same calls, so that one list of fields serves both. What a Reader
// reads may be anything: after the first thing that cannot be it reads zeros, and end() says so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::worker {

// Numbers that are added up: beyond it a Reader takes them for this, so that no sum overflows.
inline constexpr std::int64_t kCountMax = std::int64_t{1} << 53;
inline constexpr std::size_t kTextMax = 64 << 10;  // of messages for people; more is cut off

// A field as fields() takes it: T to read into, or const T to write.
template <typename Visitor, typename T>
using Of = std::conditional_t<Visitor::kReads, T, const T>;

class Writer {
 public:
  static constexpr bool kReads = false;

  template <typename... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  template <typename Enum>
  void one_of(Enum value, Enum) {
    put(static_cast<std::uint8_t>(value));
  }
  void count(std::int64_t value) { put(value); }
  void text(const std::string& value) { put(value); }

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void raw(const void* data, std::size_t size) {
    const auto* const bytes = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
  }
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      raw(&value, sizeof value);
    } else {
      fields(*this, value);
    }
  }
  template <typename Tag>
  void put(const Quantity<Tag>& value) {
    put(value.count);
  }
  template <typename Tag>
  void put(const Id<Tag>& value) {
    put(value.value);
  }
  void put(const std::string& value) {
    put(static_cast<std::uint32_t>(value.size()));
    raw(value.data(), value.size());
  }
  void put(const std::filesystem::path& value) { put(value.string()); }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    if constexpr (std::is_arithmetic_v<T>) {
      raw(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) put(value);
    }
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename A, typename B>
  void put(const std::pair<A, B>& value) {
    put(value.first);
    put(value.second);
  }

  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  // `last`: the enumeration's.
  template <typename Enum>
  void one_of(Enum& value, Enum last) {
    std::uint8_t number = 0;
    get(number);
    if (number > static_cast<std::uint8_t>(last)) return fail();
    value = static_cast<Enum>(number);
  }
  // A number that is added to others: from 0 to kCountMax.
  void count(std::int64_t& value) {
    get(value);
    value = std::clamp<std::int64_t>(value, 0, kCountMax);
  }
  // A text for people: valid UTF-8, and not too long.
  void text(std::string& value);
  void fail() {
    failed_ = true;
    left_ = {};
  }

  // kCorrupt unless all was read, and all of it made sense.
  Status end() const;

 private:
  bool raw(void* data, std::size_t size) {
    if (size > left_.size()) {
      fail();
      return false;
    }
    if (size > 0) std::memcpy(data, left_.data(), size);
    left_ = left_.subspan(size);
    return true;
  }
  // The number of items, each of which takes a byte at least.
  std::size_t items() {
    std::uint32_t count = 0;
    get(count);
    if (count > left_.size()) fail();
    return failed_ ? 0 : count;
  }
  template <typename T>
  void get(T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      if (!raw(&value, sizeof value)) value = T{};
    } else {
      fields(*this, value);
    }
  }
  void get(bool& value) {
    std::uint8_t number = 0;
    get(number);
    if (number > 1) fail();
    value = number == 1;
  }
  template <typename Tag>
  void get(Quantity<Tag>& value) {
    get(value.count);
  }
  template <typename Tag>
  void get(Id<Tag>& value) {
    get(value.value);
  }
  void get(std::string& value) {
    value.resize(items());
    (void)raw(value.data(), value.size());
  }
  void get(std::filesystem::path& value) {
    std::string text;
    get(text);
    value = text;
  }
  // Nothing is reserved by what a count claims.
  template <typename T>
  void get(std::vector<T>& values) {
    values.clear();
    const std::size_t count = items();
    if constexpr (std::is_arithmetic_v<T>) {
      if (count > left_.size() / sizeof(T)) return fail();
      values.resize(count);
      (void)raw(values.data(), count * sizeof(T));
    } else {
      for (std::size_t i = 0; i < count && !failed_; ++i) get(values.emplace_back());
    }
  }
  template <typename T>
  void get(std::optional<T>& value) {
    bool there = false;
    get(there);
    value.reset();
    if (there) get(value.emplace());
  }
  template <typename A, typename B>
  void get(std::pair<A, B>& value) {
    get(value.first);
    get(value.second);
  }

  std::span<const std::byte> left_;
  bool failed_ = false;
};

}  // namespace causeway::worker
