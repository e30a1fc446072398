#include "text/reasoning/reasoning_parser.h"

namespace causeway::text {
namespace {

constexpr std::size_t kHeldBytesMax = 1024;  // longer runs of white space are text

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

ReasoningParser::ReasoningParser(const Options& options)
    : marks_(reasoning_marks(options.format)), state_(State::kStart) {
  if (marks_.open.empty()) {
    state_ = State::kContent;
  } else if (options.begun) {
    state_ = State::kReasoning;
  }
}

void ReasoningParser::push(std::string_view text) {
  std::size_t at = 0;
  for (; at < text.size() && state_ != State::kContent; ++at) {
    ++pushed_;
    step(text[at]);
  }
  content_ += text.substr(at);
  pushed_ += static_cast<std::int64_t>(text.size() - at);
}

void ReasoningParser::finish() {
  if (state_ == State::kStart) begin_content({});
  // White space at the end belongs to no part, the beginning of a mark to the thinking.
  if (state_ == State::kReasoning && matched_ > 0) reasoning_ += held_;
  held_.clear();
  matched_ = 0;
}

void ReasoningParser::step(char c) {
  switch (state_) {
    case State::kStart: return step_start(c);
    case State::kReasoning: return step_reasoning(c);
    case State::kGap:
      if (!is_blank(c)) begin_content({&c, 1});
      return;
    case State::kContent: content_ += c; return;
  }
}

void ReasoningParser::step_start(char c) {
  held_ += c;
  if (c == marks_.open[matched_]) {
    if (++matched_ < marks_.open.size()) return;
    held_.clear();
    matched_ = 0;
    state_ = State::kReasoning;
    return;
  }
  if (matched_ > 0 || !is_blank(c) || held_.size() >= kHeldBytesMax) begin_content({});
}

// The first byte of a mark does not occur in it again, so after a mismatch only `c` may begin one.
void ReasoningParser::step_reasoning(char c) {
  if (c == marks_.close[matched_]) {
    held_ += c;
    if (++matched_ < marks_.close.size()) return;
    held_.clear();
    matched_ = 0;
    closed_at_ = pushed_;
    state_ = State::kGap;
    return;
  }
  if (matched_ > 0) {
    reasoning_ += std::exchange(held_, {});
    matched_ = 0;
    says_nothing_ = false;
    return step_reasoning(c);
  }
  if (is_blank(c)) {
    if (!says_nothing_) held_ += c;
    if (held_.size() >= kHeldBytesMax) reasoning_ += std::exchange(held_, {});
    return;
  }
  reasoning_ += std::exchange(held_, {});
  reasoning_ += c;
  says_nothing_ = false;
}

// What was held is part of it.
void ReasoningParser::begin_content(std::string_view text) {
  content_ += std::exchange(held_, {});
  content_ += text;
  matched_ = 0;
  state_ = State::kContent;
}

}  // namespace causeway::text
