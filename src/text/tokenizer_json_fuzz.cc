// Loads the input as tokenizer.json and, when that works, encodes and decodes with it. The part of
// the input behind a 0xFF byte, which JSON cannot contain, is the text and the configuration; that
// is read as special_tokens_map.json and added_tokens.json too, and the file as tekken.json.
#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "text/testing/use_tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

using namespace causeway::text;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(input.find('\xFF'), size);
  const std::string_view rest = input.substr(std::min(cut + 1, size));
  const std::size_t second = std::min(rest.find('\xFF'), rest.size());
  const std::string_view config = rest.substr(std::min(second + 1, rest.size()));
  if (const auto added = parse_added_tokens(config, {}); !added.ok()) {
    CAUSEWAY_CHECK(!added.error().message.empty(), "an error without words");
  }
  if (const auto tekken = load_tekken(input.substr(0, cut), {config}); tekken.ok()) {
    testing::use(**tekken, rest.substr(0, second));
  }
  const auto tokenizer = load_tokenizer_json(input.substr(0, cut), {config, config});
  if (!tokenizer.ok()) {
    CAUSEWAY_CHECK(!tokenizer.error().message.empty(), "an error without words");
    return 0;
  }
  testing::use(**tokenizer, rest.substr(0, second));
  testing::use(**tokenizer,
               "Hello  world's 123\n\xC3\xA9 e\xCC\x81 <s>\xE2\x96\x81\xF0\x9F\xA6\x99");
  return 0;
}
