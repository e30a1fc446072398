// Reads the JSON of one call, {"name": …, "arguments": {…}}, byte by byte. The arguments are handed
// on as they are written, as soon as they come.
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
  static constexpr std::size_t kNameBytesMax = 1024;

  // `name_first`: the first member is the name, or it is no call.
  explicit ToolCallReader(bool name_first = false) : name_first_(name_first) {}

  // After kDone and kBroken nothing more may come.
  State push(char c);
  // The name is known and arguments have begun: it is a call unless it breaks.
  bool recognised() const { return !name_.empty() && arguments_begun_; }
  const std::string& name() const { return name_; }
  // What came of the arguments since the last time.
  std::string take_arguments();

 private:
  enum class Member { kOther, kName, kArguments };

  void read_key(char c, JsonObjectCheck::Event event);
  bool begin_value(char c);
  bool read_value(char c, JsonObjectCheck::Event event);

  bool name_first_;
  JsonObjectCheck check_;
  std::string key_;                 // as it is written, as far as it has come
  Member member_ = Member::kOther;  // whose value comes
  bool in_value_ = false;           // of name or arguments
  std::string name_json_;
  std::string name_;
  bool arguments_begun_ = false;
  std::string arguments_;
};

}  // namespace causeway::text
