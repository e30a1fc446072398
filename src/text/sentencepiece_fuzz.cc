// Loads the input as tokenizer.model and, when that works, encodes and decodes with it. The last 64
// bytes are a text too.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "text/testing/use_tokenizer.h"
#include "text/tokenizer.h"

using namespace causeway::text;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = load_sentencepiece({input});
  if (!tokenizer.ok()) {
    CAUSEWAY_CHECK(!tokenizer.error().message.empty(), "an error without words");
    return 0;
  }
  // Only a normaliser of tokenizer.json may refuse valid text.
  constexpr auto kStrict = testing::Refusal::kOfBrokenTextOnly;
  testing::use(**tokenizer, input.substr(size - std::min<std::size_t>(size, 64)), kStrict);
  testing::use(**tokenizer, "  Hello world \xC3\xA9 <s>\xE2\x96\x81\xF0\x9F\xA6\x99  a", kStrict);
  return 0;
}
