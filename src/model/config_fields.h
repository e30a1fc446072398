// Members of config.json, checked. Internal to this room.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "model/families.h"
#include "weights/checked_json.h"

namespace causeway::model {

inline constexpr std::int64_t kPositionsMax = std::numeric_limits<std::int32_t>::max();

// Reads members of one JSON object. The first thing that is wrong is kept and the rest read on with
// harmless values, so that a caller checks once. A member that is null counts as absent.
class Fields {
 public:
  // `names`: how the object calls members that are asked for by their common names.
  Fields(const nlohmann::json& object, std::string prefix, std::span<const FieldName> names = {})
      : object_(object), prefix_(std::move(prefix)), names_(names) {}

  const nlohmann::json* find(const char* name) const {
    const auto found = object_.find(own_name(name));
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::int64_t integer(const char* name, std::int64_t max, std::optional<std::int64_t> absent = {},
                       std::int64_t min = 1) {
    const nlohmann::json* value = find(name);
    if (value == nullptr) {
      if (!absent) fail(name, "is missing");
      return absent.value_or(min);
    }
    return integer_value(*value, name, min, max);
  }

  std::int64_t integer_value(const nlohmann::json& value, const char* name, std::int64_t min,
                             std::int64_t max) {
    const auto text =
        " must be a whole number from " + std::to_string(min) + " to " + std::to_string(max);
    const bool fits = value.is_number_unsigned()
                          ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max)
                          : value.is_number_integer();
    if (!fits || value.get<std::int64_t>() < min || value.get<std::int64_t>() > max) {
      fail(name, text.substr(1) + ", not " + weights::shown_json(value));
      return min;
    }
    return value.get<std::int64_t>();
  }

  double real(const char* name, double absent, double min, double max) {
    const nlohmann::json* value = find(name);
    if (value == nullptr) return absent;
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    if (number >= min && number <= max) return number;
    fail(name, "must be a number from " + std::to_string(min) + " to " + std::to_string(max) +
                   ", not " + weights::shown_json(*value));
    return absent;
  }

  // So many numbers.
  std::vector<double> reals(const char* name, std::size_t count, double min, double max) {
    const nlohmann::json* value = find(name);
    if (value == nullptr || !value->is_array() || value->size() != count) {
      fail(name, "must be a list of " + std::to_string(count) + " numbers");
      return std::vector<double>(count, min);
    }
    std::vector<double> all;
    for (const nlohmann::json& one : *value) {
      all.push_back(one.is_number() ? one.get<double>() : std::nan(""));
      if (all.back() >= min && all.back() <= max) continue;
      fail(name, "must hold numbers from " + std::to_string(min) + " to " + std::to_string(max) +
                     ", not " + weights::shown_json(one));
      all.back() = min;
    }
    return all;
  }

  bool boolean(const char* name, bool absent) {
    const nlohmann::json* value = find(name);
    if (value == nullptr) return absent;
    if (value->is_boolean()) return value->get<bool>();
    fail(name, "must be true or false, not " + weights::shown_json(*value));
    return absent;
  }

  std::string string(const char* name, std::string absent) {
    const nlohmann::json* value = find(name);
    if (value == nullptr) return absent;
    if (value->is_string()) return value->get<std::string>();
    fail(name, "must be a string, not " + weights::shown_json(*value));
    return absent;
  }

  void fail(const char* name, const std::string& what) {
    if (!error_) error_ = corrupt("\"" + prefix_ + own_name(name) + "\" " + what);
  }
  void refuse(const char* name, const std::string& what) {
    if (!error_) error_ = unsupported("\"" + prefix_ + own_name(name) + "\" " + what);
  }
  Status status() const {
    if (error_) return *error_;
    return {};
  }

 private:
  // The model's own name of a field: of several the first that is there, else the first.
  const char* own_name(const char* name) const {
    const char* first = nullptr;
    for (const FieldName& field : names_) {
      if (field.common != name) continue;
      if (object_.contains(field.own)) return field.own;
      if (first == nullptr) first = field.own;
    }
    return first != nullptr ? first : name;
  }

  const nlohmann::json& object_;
  std::string prefix_;
  std::span<const FieldName> names_;
  std::optional<Error> error_;
};

}  // namespace causeway::model
