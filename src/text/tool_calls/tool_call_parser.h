// Takes calls of tools out of a model's text while it is generated.
//
//   push("Let me see. <tool_c")  → content "Let me see."
//   push("all>{\"name\": \"f\", ") → nothing yet: it may still be no call
//   push("\"arguments\": {\"a\"")  → call 0: name "f", arguments "{\"a\""
//   push(": 1}}</tool_call>")      → call 0: arguments ": 1}"
//
// A pure state machine over bytes: what comes out does not depend on how the text was cut. White
// space around calls belongs to neither them nor the content. What begins like a call and is none
// is content, as it stands. With Pieces::kAsTheyCome a call is told once its name is known and its
// arguments have begun, so a defect within arguments leaves a call with those that came before it,
// and content from there on; with Pieces::kWhole such a call is content from its start, and the
// arguments of every call told are a JSON object.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tool_calls/tool_call_format.h"
#include "text/tool_calls/tool_call_reader.h"

namespace causeway::text {

// What is new of a call. The first of a call has its name, the others have none.
struct ToolCallDelta {
  int index = 0;  // from 0, in the order of the text
  std::string name;
  std::string arguments;  // JSON, as the model wrote it, or a piece of it
  // Bytes of the content that was taken together with this which come before it.
  std::size_t text_before = 0;
};

// One thread at a time. At most about 1 KiB and one call are held back.
class ToolCallParser {
 public:
  enum class Pieces { kWhole, kAsTheyCome };
  struct Options {
    ToolCallFormat format = ToolCallFormat::kNone;  // kNone: all is content
    Pieces pieces = Pieces::kWhole;
    int calls_max = 1 << 20;  // later ones are dropped
    bool name_first = false;  // what begins with another member than its name is no call
  };

  explicit ToolCallParser(const Options& options);

  void push(std::string_view text);
  // The text has ended: what is held back is content, unless it belongs to a call.
  void finish();

  // What came since the last time.
  std::string take_content() { return std::exchange(content_, {}); }
  std::vector<ToolCallDelta> take_calls() { return std::exchange(calls_, {}); }
  // Calls told so far.
  int told() const { return told_; }

 private:
  enum class State {
    kText,
    kGap,    // between the mark and the call
    kCall,   // within its object
    kAfter,  // behind it, where a closing mark or the next call may come
  };

  void step(char c);
  void step_text(char c);
  void step_gap(char c);
  void step_call(char c);
  void step_after(char c);
  void step_closing(char c);
  void begin_call(char c);
  void break_call(char c);
  bool bare_names() const { return options_.format == ToolCallFormat::kMistralArgs; }
  void tell_call();
  // Behind a call comes text.
  void leave_call(char c);
  // What is held back is content.
  void release();
  bool at_separator(char c) const;

  Options options_;
  std::string_view mark_;
  State state_ = State::kText;
  std::string held_;         // what may yet be content
  std::size_t matched_ = 0;  // bytes of the mark, or of the closing one, at the end of held_
  bool at_start_ = true;     // nothing but white space so far
  bool after_call_ = false;  // nothing but white space since a call
  bool in_list_ = false;     // kMistral: behind its '['
  std::optional<ToolCallReader> reader_;
  bool telling_ = false;  // the call being read has been told in part
  int seen_ = 0, told_ = 0;
  std::string content_;
  std::vector<ToolCallDelta> calls_;
};

}  // namespace causeway::text
