// Answers of free text in which calls of tools have a form (request::ConstraintKind::kCallsInText),
// as text that crosses processes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "grammar/call_watch.h"
#include "request/constraint.h"

namespace causeway::grammar {

struct CallsInText {
  CallMarks marks;
  // Tokens of their own that write the marks of thinking, though they may be special; -1: there are
  // none.
  TokenId think_open = -1, think_close = -1;
  bool once = false;  // behind the first call, or list of calls, the answer ends
  // XGrammar's structural tag, JSON, of what stands behind a mark: one call, or a list of them.
  // With CallMarks::bare it begins with that.
  std::string call = {};
  // What calls may begin with, one of each tool: up to where its arguments come.
  std::vector<std::string> begins = {};

  bool operator==(const CallsInText&) const = default;
};

request::ConstraintText to_constraint(const CallsInText& calls);
// Accepts any text. kInvalidArgument says what is wrong with it.
Result<CallsInText> parse_calls_in_text(const std::string& text);

}  // namespace causeway::grammar
