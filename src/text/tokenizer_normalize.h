// The normaliser of a tokenizer.json: NFC, a prefix, replacements, one after another.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/pretokenize_pattern.h"

namespace causeway::text {

// Canonical composition (NFC). True and `out` set when `text` (valid UTF-8) changes by it. Linear,
// but for sorting within each run of combining marks: hostile runs stay O(n log n).
bool compose_nfc(std::string_view text, std::string& out);

// Immutable.
class Normalizer {
 public:
  struct Nfc {};
  struct Prepend {
    std::string text;
  };
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  using Step = std::variant<Nfc, Prepend, Replace>;

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
