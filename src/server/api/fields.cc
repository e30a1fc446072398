#include "server/api/fields.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/nearest_word.h"
#include "server/api/json_write.h"

namespace causeway::server {
namespace {

std::string shown(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%g", number);
  return text;
}

}  // namespace

Fields::Fields(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const Json* Fields::value(std::string_view name) {
  known_.push_back(name);
  const auto found = object_.find(std::string(name));
  if (found == object_.end() || found->is_null()) return nullptr;
  return &*found;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* found = value(name);
  if (found == nullptr) return {};
  if (found->is_boolean()) return found->get<bool>();
  fail(name, "must be true or false");
  return {};
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t low,
                                            std::int64_t high) {
  const Json* found = value(name);
  if (found == nullptr) return {};
  const auto range = [&] { return "from " + std::to_string(low) + " to " + std::to_string(high); };
  if (!found->is_number_integer()) {
    // The parser makes a float of an integer beyond 64 bits: so this tells the range, too.
    fail(name, "must be an integer " + range());
    return {};
  }
  const bool too_large = found->is_number_unsigned() &&
                         found->get<std::uint64_t>() >
                             static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::int64_t number = too_large ? 0 : found->get<std::int64_t>();
  if (too_large || number < low || number > high) {
    fail(name, "must be " + range());
    return {};
  }
  return number;
}

std::optional<float> Fields::number(std::string_view name, Range range) {
  const Json* found = value(name);
  if (found == nullptr) return {};
  if (!found->is_number()) {
    fail(name, "must be a number");
    return {};
  }
  const double number = found->get<double>();
  // Looked at as it will be used: a double above 0 may be 0 as a float.
  const auto used = static_cast<float>(std::clamp(number, -1e30, 1e30));
  const bool in = std::isfinite(number) && number <= range.high &&
                  (range.above_low ? used > static_cast<float>(range.low) : number >= range.low);
  if (!in) {
    fail(name, std::string("must be ") + (range.above_low ? "above " : "from ") + shown(range.low) +
                   (range.above_low ? " and at most " : " to ") + shown(range.high) + ", not " +
                   shown(number));
    return {};
  }
  return used;
}

std::optional<std::string> Fields::string(std::string_view name) {
  const Json* found = value(name);
  if (found == nullptr) return {};
  if (found->is_string()) return found->get<std::string>();
  fail(name, "must be a string");
  return {};
}

const Json* Fields::object(std::string_view name) {
  const Json* found = value(name);
  if (found == nullptr || found->is_object()) return found;
  fail(name, "must be an object");
  return nullptr;
}

void Fields::fail(std::string_view name, std::string_view problem) {
  const std::string path = prefix_ + std::string(name);
  fail(bad_request("`" + path + "` " + std::string(problem), path));
}

void Fields::fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

void Fields::reject_rest() {
  if (failed()) return;
  for (const auto& [name, member] : object_.items()) {
    if (member.is_null() || std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const std::string_view meant = nearest_word(name, known_);
    fail(utf8_prefix(name, 64),
         "is not supported by this server; " +
             (meant.empty() ? "leave it out" : "did you mean `" + std::string(meant) + "`?"));
    return;
  }
}

}  // namespace causeway::server
