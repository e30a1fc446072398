// Parts what a thinking model thinks from its answer while the text is generated.
//
//   push("<thi")           → nothing yet
//   push("nk>\nLet me ")   → reasoning "Let me"
//   push("see.\n</think")  → reasoning " see."
//   push(">\n\nIt is 4.")  → content "It is 4."
//
// A pure state machine over bytes: what comes out does not depend on how the text was cut. Marks
// belong to neither part, nor does white space around them. Text that neither begins within
// thinking nor with the opening mark is content as it stands, marks that come later included.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "text/reasoning/reasoning_format.h"

namespace causeway::text {

// One thread at a time. At most about 1 KiB is held back.
class ReasoningParser {
 public:
  struct Options {
    ReasoningFormat format = ReasoningFormat::kNone;  // kNone: all is content
    bool begun = false;                               // the text begins within thinking
  };

  explicit ReasoningParser(const Options& options);

  void push(std::string_view text);
  // The text has ended: thinking that was not closed stays thinking.
  void finish();

  // What came since the last time.
  std::string take_reasoning() { return std::exchange(reasoning_, {}); }
  std::string take_content() { return std::exchange(content_, {}); }

  // Bytes of the text, from its start, that are known to be of thinking, marks included: as many as
  // were pushed while it goes on, 0 while it may begin yet.
  std::int64_t reasoning_bytes() const {
    return state_ == State::kReasoning ? pushed_ : closed_at_;
  }
  // What has been pushed and is not of thinking is content, and so is all that comes.
  bool in_content() const { return state_ == State::kGap || state_ == State::kContent; }

 private:
  enum class State {
    kStart,      // the opening mark may come
    kReasoning,  // within thinking
    kGap,        // white space behind the closing mark
    kContent,
  };

  void step(char c);
  void step_start(char c);
  void step_reasoning(char c);
  void begin_content(std::string_view text);

  ReasoningMarks marks_;
  State state_;
  std::string held_;            // what may be white space before a mark, or a mark's beginning
  std::size_t matched_ = 0;     // bytes of a mark at the end of held_
  bool says_nothing_ = true;    // the thinking, so far
  std::int64_t pushed_ = 0;     // bytes
  std::int64_t closed_at_ = 0;  // where the thinking ended; 0: there is none
  std::string reasoning_, content_;
};

}  // namespace causeway::text
