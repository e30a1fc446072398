// Finds stop strings in text that arrives in pieces, and holds back what may yet become one.
//
//   stops {"END"}:  push("the E") -> "the "   push("N")  -> ""   push("T") -> "ENT"
//                   push("the E") -> "the "   push("ND") -> "", stopped
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace causeway::server {

class StopMatcher {
 public:
  // No stop is empty. With `include_stop` the stop string itself is part of the text.
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  // The text that is now certain. After a match stopped() holds and nothing more comes out.
  std::string push(std::string_view text);
  // The text ended: what was held back, unless stopped.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  bool match(std::string& out);
  std::size_t held_back() const;

  std::vector<std::string> stops_;
  bool include_stop_;
  bool stopped_ = false;
  std::string held_;  // shorter than the longest stop
};

}  // namespace causeway::server
