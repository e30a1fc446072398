// Loads the input as tokenizer.model and, when that works, encodes and decodes with it. The last 64
// bytes are a text too.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace causeway::text;

void use(const Tokenizer& tokenizer, std::string_view text) {
  for (const EncodeOptions options : {EncodeOptions{true, true}, EncodeOptions{false, false}}) {
    const auto ids = tokenizer.encode(text, options);
    if (!ids.ok()) {
      CAUSEWAY_CHECK(first_invalid_utf8(text).has_value(), "valid text was refused");
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = load_sentencepiece(input);
  if (!tokenizer.ok()) {
    CAUSEWAY_CHECK(!tokenizer.error().message.empty(), "an error without words");
    return 0;
  }
  use(**tokenizer, input.substr(size - std::min<std::size_t>(size, 64)));
  use(**tokenizer, "  Hello world \xC3\xA9 <s>\xE2\x96\x81\xF0\x9F\xA6\x99  a");
  return 0;
}
