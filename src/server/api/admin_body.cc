#include "server/api/admin_body.h"

#include <nlohmann/json.hpp>

#include "server/api/json_write.h"
#include "server/api/parse_parts.h"
#include "server/api/route.h"

namespace causeway::server {
namespace {

using Parameters = std::vector<std::pair<std::string, std::string>>;

// A text from outside, cut to a length that an error may show.
std::string shown(const std::string& text) { return "`" + utf8_prefix(text, 64) + "`"; }

MaybeError parse_query(std::string_view query, Parameters& out) {
  auto parameters = query_parameters(query);
  if (!parameters) return bad_request("the query is not percent-encoded UTF-8");
  out = *std::move(parameters);
  return std::nullopt;
}

ApiError bad_parameter(const std::string& name, const std::string& problem) {
  return bad_request("parameter " + shown(name) + " " + problem, utf8_prefix(name, 64));
}

ApiError unknown_parameter(const std::string& name) {
  return bad_parameter(name, "is not supported by this server; leave it out");
}

// Leaves `out` as it is where the query has no such parameter.
MaybeError find_switch(std::string_view query, std::string_view wanted, bool& out) {
  Parameters parameters;
  if (auto error = parse_query(query, parameters)) return error;
  for (const auto& [name, value] : parameters) {
    if (name != wanted) continue;
    const bool yes = value == "1" || value == "true", no = value == "0" || value == "false";
    if (!yes && !no) return bad_parameter(name, "must be 0 or 1, true or false");
    out = yes;
  }
  return std::nullopt;
}

}  // namespace

MaybeError parse_admin_body(std::string_view body, const ApiLimits& limits, bool may_wait,
                            AdminBody& out) {
  Json json;
  if (auto error = parse_object(body, limits, json)) return error;
  Fields fields(json);
  parse_model(fields, out.model);
  if (may_wait) out.wait = fields.boolean("wait").value_or(true);
  fields.reject_rest();
  return fields.error();
}

MaybeError parse_sleep_query(std::string_view query, SleepQuery& out) {
  Parameters parameters;
  if (auto error = parse_query(query, parameters)) return error;
  out = SleepQuery();
  for (const auto& [name, value] : parameters) {
    if (name == "mode") {
      if (value != "wait" && value != "abort" && value != "keep") {
        return bad_parameter(name, "must be wait, abort or keep");
      }
      out.keeps = value == "keep";
      out.mode = value == "abort"  ? fleet::SleepMode::kAbort
                 : value == "wait" ? fleet::SleepMode::kWait
                                   : fleet::SleepMode::kIdle;
      continue;
    }
    if (name != "level") return unknown_parameter(name);
    if (value != "0" && value != "1" && value != "2") {
      return bad_parameter(name, "must be 0, 1 or 2");
    }
    out.level = value[0] - '0';
  }
  return std::nullopt;
}

MaybeError parse_wake_query(std::string_view query) {
  Parameters parameters;
  if (auto error = parse_query(query, parameters)) return error;
  for (const auto& [name, value] : parameters) {
    if (name != "tags") return unknown_parameter(name);
    if (value != "weights" && value != "kv_cache" && value != "scheduling") {
      return bad_parameter(name, "must be weights, kv_cache or scheduling");
    }
  }
  return std::nullopt;
}

MaybeError parse_health_query(std::string_view query, bool& deep) {
  deep = false;
  return find_switch(query, "deep", deep);
}

MaybeError parse_autoload_query(std::string_view query, bool& autoload) {
  autoload = true;
  return find_switch(query, "autoload", autoload);
}

}  // namespace causeway::server
