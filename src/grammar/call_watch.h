// Finds where calls of tools begin in an answer while its bytes come: behind the mark of a call,
// wherever it stands, or, in families that may leave it out, where the answer begins as a call
// does.
//
//   "Let me see. <tool_call"  → nothing
//   ">"                       → a call: what comes behind is to have the form of one
//
// It finds every call that text::ToolCallParser would tell (with Options::name_first), at its mark
// or its first key. What a model thinks is passed over, as text::ReasoningParser parts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace causeway::grammar {

// No mark's first byte occurs in it again.
struct CallMarks {
  std::string mark;  // "<tool_call>"
  // What begins a call where nothing stands before it but white space, or other calls:
  // `{"name":`. White space may stand around its parts. Empty: only the mark does.
  std::string bare = {};
  std::string think_open = {}, think_close = {};  // around what it thinks; empty: it does not
  bool thinks = false;                            // the answer begins within thinking

  bool operator==(const CallMarks&) const = default;
};

// A pure state machine. One thread at a time; the marks outlive it.
class CallWatch {
 public:
  enum class Found : std::uint8_t { kNothing, kMark, kBare };

  explicit CallWatch(const CallMarks& marks);

  // Takes the next byte. After a call was found no more may come before after_call().
  Found step(char c);
  // A call has ended.
  void after_call();

  // Numbers what decides which bytes find a call next, from 0 to places() - 1. That the answer may
  // yet begin with thinking is not told apart.
  std::size_t place() const;
  static std::size_t places(const CallMarks& marks);
  static CallWatch at(const CallMarks& marks, std::size_t place);

 private:
  enum class Phase : std::uint8_t { kThinking, kText, kBare };

  void begin_content(bool behind_call);
  bool opens_thinking(char c);
  void step_thinking(char c);
  Found step_text(char c);
  Found step_bare(char c);

  const CallMarks* marks_;
  Phase phase_ = Phase::kText;
  std::size_t matched_ = 0;   // bytes of what the phase looks for
  bool behind_call_ = false;  // kBare: separators may stand before the next call
  bool may_think_ = false;    // the mark of thinking may come
  std::size_t opening_ = 0;   // with may_think_: bytes of it
  std::size_t blanks_ = 0;    // with may_think_: before it
};

}  // namespace causeway::grammar
