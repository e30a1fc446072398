// Loads the input as tokenizer.model, and as lines of ranks behind those of all bytes; encodes and
// decodes with what can be loaded. The last 64 bytes are a text too.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "text/testing/use_tokenizer.h"
#include "text/tokenizer.h"

using namespace causeway::text;

namespace {

const std::string& lines_of_bytes() {
  static const std::string lines = [] {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      out += kDigits[byte >> 2];
      out += kDigits[(byte & 3) << 4];
      out += "== " + std::to_string(byte) + "\n";
    }
    return out;
  }();
  return lines;
}

void use(const causeway::Result<std::unique_ptr<Tokenizer>>& tokenizer, std::string_view input) {
  if (!tokenizer.ok()) {
    CAUSEWAY_CHECK(!tokenizer.error().message.empty(), "an error without words");
    return;
  }
  // Only a normaliser of tokenizer.json may refuse valid text.
  constexpr auto kStrict = testing::Refusal::kOfBrokenTextOnly;
  testing::use(**tokenizer, input.substr(input.size() - std::min<std::size_t>(input.size(), 64)),
               kStrict);
  testing::use(**tokenizer, "  Hello world \xC3\xA9 <s>\xE2\x96\x81\xF0\x9F\xA6\x99  a", kStrict);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  use(load_sentencepiece({input}), input);
  use(load_tiktoken(lines_of_bytes() + std::string(input)), input);
  return 0;
}
