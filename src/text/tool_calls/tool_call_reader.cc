#include "text/tool_calls/tool_call_reader.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace causeway::text {
namespace {

using Event = JsonObjectCheck::Event;

constexpr std::size_t kKeyBytesMax = 64;  // longer ones are none that matters

// The text of a JSON string; "" when a surrogate is missing its other half.
std::string unescaped(const std::string& json) {
  const auto value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace

ToolCallReader::State ToolCallReader::push(char c) {
  const bool was_in_key = check_.in_key();
  const Event event = check_.push(c);
  if (event == Event::kBroken) return State::kBroken;
  if (was_in_key || check_.in_key()) read_key(c, event);
  if (event == Event::kValueBegin && !begin_value(c)) return State::kBroken;
  if (in_value_ && !read_value(c, event)) return State::kBroken;
  if (event != Event::kDone) return State::kOpen;
  return recognised() ? State::kDone : State::kBroken;
}

std::string ToolCallReader::take_arguments() { return std::exchange(arguments_, {}); }

void ToolCallReader::read_key(char c, Event event) {
  if (event == Event::kKeyEnd) {
    const bool arguments = key_ == "arguments" || key_ == "parameters";
    member_ = key_ == "name" ? Member::kName : arguments ? Member::kArguments : Member::kOther;
    key_.clear();
  } else if (key_.size() < kKeyBytesMax && !(key_.empty() && c == '"')) {
    key_ += c;
  }
}

bool ToolCallReader::begin_value(char c) {
  in_value_ = member_ != Member::kOther;
  if (name_first_ && name_json_.empty() && member_ != Member::kName) return false;
  if (member_ == Member::kName) return c == '"' && name_json_.empty();
  if (member_ == Member::kOther) return true;
  if (c != '{' || arguments_begun_) return false;
  arguments_begun_ = true;
  return true;
}

bool ToolCallReader::read_value(char c, Event event) {
  const bool ends = event == Event::kValueEnd;
  in_value_ = !ends;
  if (member_ == Member::kArguments) {
    arguments_ += c;
    return true;
  }
  name_json_ += c;
  if (!ends) return name_json_.size() <= kNameBytesMax;
  name_ = unescaped(name_json_);
  return !name_.empty();
}

}  // namespace causeway::text
