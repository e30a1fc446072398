// Reads the fields of a JSON object strictly: wrong types and out-of-range numbers are errors that
// name the field, and so is a field that was not read. The first error wins; after it the other
// reads do nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "server/api/api_error.h"

namespace causeway::server {

using Json = nlohmann::ordered_json;

inline constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

// Bounds of a number; `low` itself is allowed unless `above_low`.
struct Range {
  double low = 0, high = 0;
  bool above_low = false;
};

class Fields {
 public:
  // `object` is a JSON object that outlives this. `prefix` names it in errors: "stream_options.".
  explicit Fields(const Json& object, std::string prefix = {});

  // The value, or nullptr when absent or null. Marks it as known.
  const Json* value(std::string_view name);

  std::optional<bool> boolean(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
  std::optional<float> number(std::string_view name, Range range);
  std::optional<std::string> string(std::string_view name);
  // A nested object.
  const Json* object(std::string_view name);

  void fail(std::string_view name, std::string_view problem);
  void fail(ApiError error);
  // Every member that was not asked for and is not null becomes an error, which names the one that
  // was asked for and is spelt nearly so.
  void reject_rest();

  const std::string& prefix() const { return prefix_; }
  bool failed() const { return error_.has_value(); }
  MaybeError error() const { return error_; }

 private:
  const Json& object_;
  std::string prefix_;
  std::vector<std::string_view> known_;
  MaybeError error_;
};

}  // namespace causeway::server
