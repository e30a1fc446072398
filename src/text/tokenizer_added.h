// Added tokens: strings that become one id wherever they stand in a text, before anything else is
// done to it ("<|eot_id|>", "<tool_call>").
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace causeway::text {

// Longer contents are refused at load: finding them costs as much per byte of text.
inline constexpr std::size_t kAddedTokenBytesMax = 1024;

// Finds which of many strings a text starts with. Sorted strings are narrowed byte by byte.
class PrefixSet {
 public:
  PrefixSet() = default;
  // Empty strings never match; of equal ones, one does.
  explicit PrefixSet(const std::vector<std::string>& strings);

  struct Found {
    int index = -1;        // in `strings`, -1: none
    std::size_t size = 0;  // in bytes
  };
  // The longest string that `text` starts with.
  Found longest(std::string_view text) const;
  bool empty() const { return entries_.empty(); }
  // Some string starts with `byte`: a quick no for most positions of a text.
  bool may_start(char byte) const { return starts_[static_cast<unsigned char>(byte)]; }

 private:
  struct Entry {
    std::string text;
    int index = 0;
  };
  std::vector<Entry> entries_;  // sorted by text
  std::array<bool, 256> starts_{};
};

struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool single_word = false;  // not within a word
  bool lstrip = false;       // takes the white space before it too
  bool rstrip = false;       // takes the white space after it too
  bool normalized = false;   // looked for in the normalised text
  bool special = false;
};

// A part of a text: an added token, or what stands between them (id -1).
struct Segment {
  std::string_view text;
  TokenId id = -1;
};

// Immutable.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  // Appends the parts of `text` (valid UTF-8): leftmost matches, the longest at each place; white
  // space that a match takes along is in no part. Special tokens are left as text unless `special`.
  void split(std::string_view text, bool special, std::vector<Segment>& parts) const;
  bool empty() const { return tokens_.empty(); }

 private:
  std::vector<AddedToken> tokens_;
  PrefixSet contents_;
};

}  // namespace causeway::text
