// What every tokenizer must bear, however it was made: for the fuzz targets.
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/testing/up_to.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace causeway::text::testing {

enum class Refusal { kWithWords, kOfBrokenTextOnly };

// Encodes `text` with and without special tokens and decodes it, checking ids and UTF-8.
inline void use(const Tokenizer& tokenizer, std::string_view text,
                Refusal refusal = Refusal::kWithWords) {
  for (const EncodeOptions options : {EncodeOptions{true, true}, EncodeOptions{false, false}}) {
    for (const std::int64_t most : {0, 3, 20}) {
      const std::string problem = up_to_problem(tokenizer, text, options, most);
      CAUSEWAY_CHECK(problem.empty(), problem);
    }
    const auto ids = tokenizer.encode(text, options);
    if (!ids.ok()) {
      CAUSEWAY_CHECK(!ids.error().message.empty(), "an error without words");
      CAUSEWAY_CHECK(refusal == Refusal::kWithWords || first_invalid_utf8(text).has_value(),
                     "valid text was refused");
      continue;
    }
    Detokenizer detokenizer(tokenizer);
    std::string decoded;
    for (const TokenId id : *ids) {
      CAUSEWAY_CHECK(id >= 0 && id < tokenizer.vocab_size(), "an id outside the vocabulary");
      decoded += detokenizer.push(id, false);
    }
    decoded += detokenizer.finish();
    CAUSEWAY_CHECK(!first_invalid_utf8(decoded), "broken UTF-8");
  }
}

}  // namespace causeway::text::testing
