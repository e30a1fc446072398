// The normaliser of a tokenizer.json: Unicode forms, replacements and so on, one after another.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/charsmap.h"
#include "text/pretokenize_pattern.h"

namespace causeway::text {

// Canonical composition (NFC). True and `out` set when `text` (valid UTF-8) changes by it. Linear,
// but for sorting within each run of combining marks: hostile runs stay O(n log n).
bool compose_nfc(std::string_view text, std::string& out);

// Appends `text` (valid UTF-8) to `out` in the form: decomposed, marks in order, composed on
// request.
void append_normal_form(std::string_view text, bool compatible, bool compose, std::string& out);

// Immutable.
class Normalizer {
 public:
  struct Nfc {};
  struct Form {               // NFD, NFKD, NFKC
    bool compatible = false;  // the K
    bool compose = false;
  };
  struct StripAccents {};  // marks go
  struct Lowercase {};     // character by character
  struct Bert {
    bool clean_text = true;  // control characters go, white space becomes a space
    bool chinese = true;     // a space on both sides of each Chinese character
    bool strip_accents = true;
    bool lowercase = true;
  };
  struct Strip {  // white space at the ends goes
    bool left = true;
    bool right = true;
  };
  struct Prepend {
    std::string text;
  };
  struct ByteLevel {};  // each byte becomes the character that spells it
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  using Step = std::variant<Nfc, Form, StripAccents, Lowercase, Bert, Strip, Prepend, ByteLevel,
                            Replace, Charsmap>;

  template <typename S>
  void add(S step) {
    steps_.emplace_back(std::in_place_type<S>, std::move(step));
  }
  bool empty() const { return steps_.empty(); }

  // `text` normalised; the result is `text` itself when nothing changes, or lies in `buffer`.
  // kResourceExhausted when replacements make it too long.
  Result<std::string_view> apply(std::string_view text, std::string& buffer) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace causeway::text
