// Token ids to text, one at a time, for streaming: what comes out is complete UTF-8 after every
// push.
//
//   push(a) -> "caf"   push(0xC3) -> ""   push(0xA9) -> "é"   finish() -> ""
//
// A character whose bytes are spread over tokens waits until it is whole (at most 3 bytes wait).
// Where decoding replaces text (text_replacements()) the beginning of what it looks for waits, and
// where tokens stand for something else at the end of a text, the last token.
// Bytes that cannot become a character are replaced by U+FFFD, as many as InvalidBytes says, as
// soon as that is certain. A maximal valid beginning is that of Unicode 14, section 3.9.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace causeway::text {

// One thread at a time. Keeps a reference to the tokenizer, which must outlive it.
class Detokenizer {
 public:
  // kStart: the tokens begin a text, and the space that encoding put before it is taken off again.
  // kContinuation: they continue one (a completion of a prompt), and a leading space is content.
  enum class Begin { kStart, kContinuation };

  explicit Detokenizer(const Tokenizer& tokenizer, Begin begin = Begin::kStart);

  // The text that became complete by this token. `skip_special` leaves special tokens out; an
  // unknown id adds nothing.
  std::string push(TokenId id, bool skip_special);
  // What was waiting, as U+FFFD. Afterwards it is ready for a new text of the same Begin.
  std::string finish();

 private:
  // What waits with few tokenizers.
  struct Later {
    std::optional<TokenId> last;     // a token that may end the text, where that counts
    std::vector<std::string> parts;  // by replacement: a beginning of what it looks for
  };

  // What a token adds that others follow.
  std::string push_token(TokenId id);
  std::string finish_tokens();
  // What replacements in the text make of more of it; with `last`, of its end.
  std::string replaced(std::string text, bool last);
  std::string take_start(TokenId id);
  void push_byte(std::string_view byte, std::string& out);
  void replace_waiting(std::string& out);

  const Tokenizer* tokenizer_;
  Begin begin_;
  bool at_start_ = false;         // the space to take off may still come
  bool run_is_broken_ = false;    // a byte of this run of byte tokens was no UTF-8
  std::string waiting_;           // the valid beginning of a character
  std::unique_ptr<Later> later_;  // null: nothing of it waits with this tokenizer
};

}  // namespace causeway::text
