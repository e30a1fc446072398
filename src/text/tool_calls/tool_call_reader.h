// Reads one call byte by byte, {"name": …, "arguments": {…}} or name[ARGS]{…}. The arguments are
// handed on as they are written, as soon as they come.
#pragma once

#include <string>

#include "text/tool_calls/json_object_check.h"

namespace causeway::text {

class ToolCallReader {
 public:
  enum class State {
    kOpen,
    kDone,    // the object has ended, and is a call
    kBroken,  // it is none: no JSON object, a member missing, twice or of another type
  };
  enum class Form {
    kObject,     // {"name": …, "arguments": {…}}, in any order
    kNameFirst,  // the same, and the first member is the name
    kBareName,   // name[ARGS]{…} or name[CALL_ID]id[ARGS]{…}
  };
  static constexpr std::size_t kNameBytesMax = 1024;

  explicit ToolCallReader(Form form) : form_(form) {}

  // After kDone and kBroken nothing more may come.
  State push(char c);
  // The name is known and arguments have begun: it is a call unless it breaks.
  bool recognised() const { return !name_.empty() && arguments_begun_; }
  const std::string& name() const { return name_; }
  // What came of the arguments since the last time.
  std::string take_arguments();
  // After kBroken: how many bytes before the last one may begin another mark.
  std::size_t mark_bytes() const { return mark_.size(); }

 private:
  enum class Member { kOther, kName, kArguments };
  enum class Bare { kName, kMark, kId, kGap, kArguments };  // what a call with a bare name is at

  State push_object(char c);
  State push_bare(char c);
  State push_mark(char c);
  void read_key(char c, JsonObjectCheck::Event event);
  bool begin_value(char c);
  bool read_value(char c, JsonObjectCheck::Event event);

  Form form_;
  JsonObjectCheck check_;
  std::string key_;                 // as it is written, as far as it has come
  Member member_ = Member::kOther;  // whose value comes
  bool in_value_ = false;           // of name or arguments
  std::string name_json_;
  std::string name_;
  Bare bare_ = Bare::kName;
  std::string bare_name_;
  std::string mark_;           // as far as it has come
  std::size_t id_bytes_ = 0;   // of a call's id
  std::size_t gap_bytes_ = 0;  // of white space before the arguments
  bool arguments_begun_ = false;
  std::string arguments_;
};

}  // namespace causeway::text
