#include "grammar/calls_in_text.h"

#include <nlohmann/json.hpp>

namespace causeway::grammar {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMarkBytesMax = 64;

bool is_mark(const std::string& text) {
  return text.size() <= kMarkBytesMax &&
         (text.empty() || text.find(text[0], 1) == std::string::npos);
}

std::string text_member(const OrderedJson& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

TokenId token_member(const OrderedJson& json, const char* name) {
  const auto at = json.find(name);
  const bool token = at != json.end() && at->is_number_integer();
  return token ? at->get<TokenId>() : TokenId{-1};
}

bool flag_member(const OrderedJson& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_boolean() && at->get<bool>();
}

}  // namespace

request::ConstraintText to_constraint(const CallsInText& calls) {
  OrderedJson json = {{"mark", calls.marks.mark}};
  if (!calls.marks.bare.empty()) json["bare"] = calls.marks.bare;
  if (!calls.marks.think_close.empty()) {
    json["think_open"] = calls.marks.think_open;
    json["think_close"] = calls.marks.think_close;
    json["think_open_token"] = calls.think_open;
    json["think_close_token"] = calls.think_close;
    json["thinks"] = calls.marks.thinks;
  }
  if (calls.once) json["once"] = true;
  json["begins"] = calls.begins;
  json["call"] = OrderedJson::parse(calls.call);
  return {request::ConstraintKind::kCallsInText, json.dump()};
}

Result<CallsInText> parse_calls_in_text(const std::string& text) {
  const auto json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("call") || !json["call"].is_object()) {
    return invalid_argument("is no form of calls in text: that is an object with `call`");
  }
  CallsInText out;
  out.marks = {.mark = text_member(json, "mark"),
               .bare = text_member(json, "bare"),
               .think_open = text_member(json, "think_open"),
               .think_close = text_member(json, "think_close"),
               .thinks = flag_member(json, "thinks")};
  for (const std::string* const mark :
       {&out.marks.mark, &out.marks.think_open, &out.marks.think_close}) {
    if (!is_mark(*mark)) {
      return invalid_argument("a mark of a call has at most " + std::to_string(kMarkBytesMax) +
                              " bytes, and its first byte once");
    }
  }
  if (out.marks.bare.size() > kMarkBytesMax || (out.marks.mark + out.marks.bare).empty()) {
    return invalid_argument("nothing, or too much, says where a call begins");
  }
  out.think_open = token_member(json, "think_open_token");
  out.think_close = token_member(json, "think_close_token");
  out.once = flag_member(json, "once");
  if (const auto begins = json.find("begins"); begins != json.end() && begins->is_array()) {
    for (const OrderedJson& begin : *begins) {
      if (begin.is_string()) out.begins.push_back(begin.get<std::string>());
    }
  }
  out.call = json["call"].dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return out;
}

}  // namespace causeway::grammar
