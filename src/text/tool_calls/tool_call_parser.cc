#include "text/tool_calls/tool_call_parser.h"

#include <algorithm>

namespace causeway::text {
namespace {

constexpr std::string_view kHermesEnd = "</tool_call>";
constexpr std::size_t kWhiteBytesMax = 1024;  // held back; longer runs are content

bool is_white(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

ToolCallParser::ToolCallParser(const Options& options)
    : options_(options), mark_(tool_call_mark(options.format)) {}

void ToolCallParser::push(std::string_view text) {
  if (options_.format == ToolCallFormat::kNone) {
    content_ += text;
    return;
  }
  for (const char c : text) step(c);
}

void ToolCallParser::finish() {
  if (state_ == State::kAfter) held_.clear();
  release();
  state_ = State::kText;
  reader_.reset();
}

void ToolCallParser::step(char c) {
  switch (state_) {
    case State::kText: return step_text(c);
    case State::kGap: return step_gap(c);
    case State::kCall: return step_call(c);
    case State::kAfter: return step_after(c);
  }
}

// No mark's first byte occurs in it again, so after a mismatch only `c` may begin one.
void ToolCallParser::step_text(char c) {
  if (c == mark_[matched_]) {
    held_ += c;
    if (++matched_ < mark_.size()) return;
    matched_ = 0;
    in_list_ = false;
    state_ = State::kGap;
    return;
  }
  if (matched_ > 0) {
    release();
    return step_text(c);
  }
  if (is_white(c)) {
    if (!after_call_) held_ += c;
    if (held_.size() >= kWhiteBytesMax) release();
    return;
  }
  const bool bare = options_.format == ToolCallFormat::kLlama3Json && at_start_;
  if (bare && c == '{') return begin_call(c);
  release();
  content_ += c;
}

void ToolCallParser::step_gap(char c) {
  if (bare_names() && !is_white(c)) return begin_call(c);
  const bool list = options_.format == ToolCallFormat::kMistral;
  if (c == '{' && list == in_list_) return begin_call(c);
  const bool opens = list && !in_list_ && c == '[';
  if ((!is_white(c) && !opens) || held_.size() >= kWhiteBytesMax) {
    state_ = State::kText;
    release();
    return step_text(c);
  }
  in_list_ = in_list_ || opens;
  held_ += c;
}

void ToolCallParser::begin_call(char c) {
  using Form = ToolCallReader::Form;
  const Form object = options_.name_first ? Form::kNameFirst : Form::kObject;
  reader_.emplace(bare_names() ? Form::kBareName : object);
  telling_ = false;
  state_ = State::kCall;
  step_call(c);
}

void ToolCallParser::step_call(char c) {
  const ToolCallReader::State read = reader_->push(c);
  if (read == ToolCallReader::State::kBroken) return break_call(c);
  if (!telling_) held_ += c;
  const bool done = read == ToolCallReader::State::kDone;
  const bool early = options_.pieces == Pieces::kAsTheyCome && reader_->recognised();
  if (done || early) tell_call();
  if (!done) return;
  reader_.reset();
  at_start_ = false;
  after_call_ = true;
  matched_ = 0;
  state_ = bare_names() ? State::kText : State::kAfter;
}

// A bare name may break where another call begins: "[TOOL_CALLS]x[TOOL_CALLS]f[ARGS]{}".
void ToolCallParser::break_call(char c) {
  const std::size_t again = std::min(reader_->mark_bytes(), held_.size());
  const std::string mark = held_.substr(held_.size() - again);
  held_.erase(held_.size() - again);
  reader_.reset();
  state_ = State::kText;
  release();
  for (const char one : mark) step_text(one);
  step_text(c);
}

// Begins the call, or goes on with it.
void ToolCallParser::tell_call() {
  held_.clear();
  const bool begins = !std::exchange(telling_, true);
  if (begins) ++seen_;
  std::string arguments = reader_->take_arguments();
  if (seen_ > options_.calls_max) return;
  if (begins) {
    calls_.push_back({told_++, reader_->name(), std::move(arguments), content_.size()});
  } else if (!calls_.empty() && calls_.back().index == told_ - 1) {
    calls_.back().arguments += arguments;
  } else if (!arguments.empty()) {
    calls_.push_back({told_ - 1, {}, std::move(arguments), content_.size()});
  }
}

void ToolCallParser::step_after(char c) {
  if (options_.format == ToolCallFormat::kHermes) return step_closing(c);
  if (options_.format == ToolCallFormat::kMistral && c == ']') {
    held_.clear();
    state_ = State::kText;
    return;
  }
  if (c == '{') return begin_call(c);
  if (!at_separator(c) || held_.size() >= kWhiteBytesMax) return leave_call(c);
  held_ += c;
}

void ToolCallParser::step_closing(char c) {
  if (matched_ == 0 && is_white(c)) return;
  if (c != kHermesEnd[matched_]) return leave_call(c);
  held_ += c;
  if (++matched_ < kHermesEnd.size()) return;
  held_.clear();
  matched_ = 0;
  state_ = State::kText;
}

bool ToolCallParser::at_separator(char c) const {
  return is_white(c) || c == ',' || (c == ';' && options_.format == ToolCallFormat::kLlama3Json);
}

// What is held is shorter than a mark, but its last byte may begin one.
void ToolCallParser::leave_call(char c) {
  state_ = State::kText;
  matched_ = 0;
  const std::string held = std::exchange(held_, {});
  for (const char one : held) step_text(one);
  step_text(c);
}

void ToolCallParser::release() {
  content_ += std::exchange(held_, {});
  matched_ = 0;
  at_start_ = after_call_ = false;
}

}  // namespace causeway::text
