#include "grammar/call_watch.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::grammar {
namespace {

constexpr std::size_t kBlanksMax = 1024;  // before the mark of thinking, as ReasoningParser has it

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Whether white space may stand before the byte at `at`: not within quotes.
bool between_parts(const std::string& json, std::size_t at) {
  const auto end = json.begin() + static_cast<std::ptrdiff_t>(at);
  return std::count(json.begin(), end, '"') % 2 == 0;
}

}  // namespace

CallWatch::CallWatch(const CallMarks& marks) : marks_(&marks) {
  begin_content(/*behind_call=*/false);
  if (marks.think_open.empty() || marks.think_close.empty()) return;
  if (marks.thinks) phase_ = Phase::kThinking;
  may_think_ = !marks.thinks;
}

void CallWatch::begin_content(bool behind_call) {
  phase_ = marks_->bare.empty() ? Phase::kText : Phase::kBare;
  matched_ = 0;
  behind_call_ = behind_call;
}

CallWatch::Found CallWatch::step(char c) {
  if (phase_ == Phase::kThinking) {
    step_thinking(c);
    return Found::kNothing;
  }
  if (may_think_ && opens_thinking(c)) return Found::kNothing;
  return phase_ == Phase::kBare ? step_bare(c) : step_text(c);
}

void CallWatch::after_call() {
  may_think_ = false;
  begin_content(/*behind_call=*/true);
}

// Until a byte decides against it the answer is watched as if it had no thinking.
bool CallWatch::opens_thinking(char c) {
  if (c == marks_->think_open[opening_]) {
    if (++opening_ < marks_->think_open.size()) return false;
    may_think_ = false;
    phase_ = Phase::kThinking;
    matched_ = 0;
    return true;
  }
  if (opening_ > 0 || !is_blank(c) || ++blanks_ >= kBlanksMax) may_think_ = false;
  return false;
}

void CallWatch::step_thinking(char c) {
  const std::string& close = marks_->think_close;
  if (c != close[matched_]) {
    matched_ = c == close[0] ? 1 : 0;
  } else {
    ++matched_;
  }
  if (matched_ == close.size()) begin_content(/*behind_call=*/false);
}

CallWatch::Found CallWatch::step_text(char c) {
  const std::string& mark = marks_->mark;
  if (mark.empty()) return Found::kNothing;
  if (c != mark[matched_]) {
    matched_ = c == mark[0] ? 1 : 0;
  } else {
    ++matched_;
  }
  if (matched_ < mark.size()) return Found::kNothing;
  matched_ = 0;
  return Found::kMark;
}

CallWatch::Found CallWatch::step_bare(char c) {
  const std::string& bare = marks_->bare;
  if (c == bare[matched_]) {
    if (++matched_ < bare.size()) return Found::kNothing;
    matched_ = 0;
    return Found::kBare;
  }
  if (is_blank(c) && between_parts(bare, matched_)) return Found::kNothing;
  if (matched_ == 0 && behind_call_ && (c == ',' || c == ';')) return Found::kNothing;
  phase_ = Phase::kText;
  matched_ = 0;
  return step_text(c);
}

// Thinking, then text, then the start of an answer, then what stands behind a call.
std::size_t CallWatch::place() const {
  const std::size_t text = marks_->think_close.size();
  const std::size_t bare = text + std::max<std::size_t>(1, marks_->mark.size());
  switch (phase_) {
    case Phase::kThinking: return matched_;
    case Phase::kText: return text + matched_;
    case Phase::kBare: break;
  }
  return behind_call_ && matched_ == 0 ? bare + marks_->bare.size() : bare + matched_;
}

std::size_t CallWatch::places(const CallMarks& marks) {
  const std::size_t text = marks.think_close.size() + std::max<std::size_t>(1, marks.mark.size());
  return marks.bare.empty() ? text : text + marks.bare.size() + 1;
}

CallWatch CallWatch::at(const CallMarks& marks, std::size_t place) {
  CAUSEWAY_CHECK(place < places(marks), "no such place");
  CallWatch watch(marks);
  watch.may_think_ = false;
  const std::size_t text = marks.think_close.size();
  const std::size_t bare = text + std::max<std::size_t>(1, marks.mark.size());
  if (place < text) {
    watch.phase_ = Phase::kThinking;
    watch.matched_ = place;
  } else if (place < bare) {
    watch.phase_ = Phase::kText;
    watch.matched_ = place - text;
  } else {
    watch.phase_ = Phase::kBare;
    watch.behind_call_ = place - bare == marks.bare.size();
    watch.matched_ = watch.behind_call_ ? 0 : place - bare;
  }
  return watch;
}

}  // namespace causeway::grammar
