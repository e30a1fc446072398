// The pre-tokenizer of a tokenizer.json: cuts a text into the words that merging happens within.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/pretokenize_pattern.h"

namespace causeway::text {

// The words of a text. They point into the text, or into `storage` where a step changed it.
struct Words {
  std::vector<std::string_view> pieces;
  std::deque<std::string> storage;
};

// Immutable.
class PreTokenizer {
 public:
  // What becomes of the matches of a Split; the names are the file format's.
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Split {
    Pattern pattern;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;  // what lies between the matches counts as match
  };
  struct PrefixSpace {};  // ByteLevel's add_prefix_space
  struct Metaspace {      // spaces become `mark`, one is put in front
    enum class Prepend { kAlways, kFirst, kNever };
    std::string mark;
    Prepend prepend = Prepend::kAlways;
    bool split = true;
  };
  struct UnicodeScripts {};  // words of one script each (unicode_scripts.h)
  using Step = std::variant<Split, PrefixSpace, Metaspace, UnicodeScripts>;

  template <typename S>
  void add(S step) {
    steps_.emplace_back(std::in_place_type<S>, std::move(step));
  }
  bool empty() const { return steps_.empty(); }
  // Whether the words of a text have all of its bytes, or as many.
  bool keeps_all() const;

  // Sets `words` to those of `text` (valid UTF-8), none of them empty. `first`: the text of the
  // user starts here.
  Status split(std::string_view text, bool first, Words& words) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace causeway::text
