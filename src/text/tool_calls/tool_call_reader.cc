#include "text/tool_calls/tool_call_reader.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "text/tool_calls/tool_call_format.h"

namespace causeway::text {
namespace {

using Event = JsonObjectCheck::Event;

constexpr std::size_t kKeyBytesMax = 64;    // longer ones are none that matters
constexpr std::size_t kIdBytesMax = 64;     // Mistral's have nine
constexpr std::size_t kGapBytesMax = 1024;  // of white space
constexpr std::string_view kArgumentsMark = "[ARGS]";
constexpr std::string_view kIdMark = "[CALL_ID]";

bool is_gap(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// The text of a JSON string; "" when a surrogate is missing its other half.
std::string unescaped(const std::string& json) {
  const auto value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace

ToolCallReader::State ToolCallReader::push(char c) {
  return form_ == Form::kBareName ? push_bare(c) : push_object(c);
}

ToolCallReader::State ToolCallReader::push_bare(char c) {
  switch (bare_) {
    case Bare::kName:
      if (c == '[' && !bare_name_.empty()) return push_mark(c);
      bare_name_ += c;
      return is_bare_name_byte(c) && bare_name_.size() <= kNameBytesMax ? State::kOpen
                                                                        : State::kBroken;
    case Bare::kMark: return push_mark(c);
    case Bare::kId:
      if (c == '[' && id_bytes_ > 0) return push_mark(c);
      return is_bare_name_byte(c) && ++id_bytes_ <= kIdBytesMax ? State::kOpen : State::kBroken;
    case Bare::kGap:
      if (is_gap(c)) return ++gap_bytes_ <= kGapBytesMax ? State::kOpen : State::kBroken;
      if (c != '{') return State::kBroken;
      bare_ = Bare::kArguments;
      arguments_begun_ = true;
      break;
    case Bare::kArguments: break;
  }
  const Event event = check_.push(c);
  if (event == Event::kBroken) return State::kBroken;
  arguments_ += c;
  return event == Event::kDone ? State::kDone : State::kOpen;
}

ToolCallReader::State ToolCallReader::push_mark(char c) {
  const std::string mark = mark_ + c;
  const bool id = id_bytes_ == 0 && kIdMark.starts_with(mark);
  if (!id && !kArgumentsMark.starts_with(mark)) return State::kBroken;
  bare_ = Bare::kMark;
  mark_ = mark;
  if (mark != kIdMark && mark != kArgumentsMark) return State::kOpen;
  bare_ = id ? Bare::kId : Bare::kGap;
  if (!id) name_ = bare_name_;
  mark_.clear();
  return State::kOpen;
}

ToolCallReader::State ToolCallReader::push_object(char c) {
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
  if (form_ == Form::kNameFirst && name_json_.empty() && member_ != Member::kName) return false;
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
