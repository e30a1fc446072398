// Loads the input as a tekken.json or as lines of ranks, changed from files that have all bytes
// (edited_file.h), and encodes and decodes with what can be loaded. The first byte picks which; the
// last 64 bytes are a text, too.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "text/testing/use_tokenizer.h"
#include "text/tokenizer.h"

using namespace causeway::text;

namespace {

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += at + i > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * i) & 63];
    }
  }
  return out;
}

// All bytes, and words that merge.
std::vector<std::string> tokens() {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
  for (const char* word : {"He", "ll", "Hell", "Hello", " w", "or", " wor", "\xC3\xA9", "  "}) {
    all.emplace_back(word);
  }
  return all;
}

std::string lines() {
  std::string out;
  std::size_t rank = 0;
  for (const std::string& token : tokens()) {
    out += base64_of(token) + " " + std::to_string(rank++) + "\n";
  }
  return out;
}

// What is changed most stands first: a place is two bytes of the input.
std::string tekken(std::string_view special) {
  const std::vector<std::string> all = tokens();
  std::string out = R"({"config": {"pattern": "\\p{L}+| ?[^\\p{L}]", "num_vocab_tokens": 1000,
 "default_vocab_size": )" +
                    std::to_string(25 + all.size()) +
                    R"(, "default_num_special_tokens": 25, "version": "v3"}, )" +
                    std::string(special) + "\"vocab\": [";
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    out += (rank == 0 ? "" : ", ") + std::string("{\"rank\": ") + std::to_string(rank) +
           ", \"token_bytes\": \"" + base64_of(all[rank]) + "\", \"token_str\": null}";
  }
  return out + "]}";
}

const std::vector<std::string>& tekken_files() {
  static const std::vector<std::string> kFiles = {
      tekken(""),
      tekken(R"("special_tokens": [{"rank": 0, "token_str": "<unk>", "is_control": true},
 {"rank": 1, "token_str": "<s>", "is_control": true}, {"rank": 2, "token_str": "</s>",
 "is_control": true}], )")};
  return kFiles;
}

constexpr std::string_view kWords[] = {"YQ==",
                                       "SGVsbG8=",
                                       "Hello",
                                       "rank",
                                       "token_bytes",
                                       "token_str",
                                       "special_tokens",
                                       "default_vocab_size",
                                       "[^\\\\p{L}&&[^a]]",
                                       "(?i:x)",
                                       "(a+)+",
                                       "\\\\p{Han}",
                                       " 3\n",
                                       "\r\n",
                                       "IA== 300\n",
                                       "<s>",
                                       "[INST]"};

void use(const causeway::Result<std::unique_ptr<Tokenizer>>& tokenizer, bool whole,
         std::string_view input) {
  if (!tokenizer.ok()) {
    CAUSEWAY_CHECK(!whole, tokenizer.error().message);
    CAUSEWAY_CHECK(!tokenizer.error().message.empty(), "an error without words");
    return;
  }
  testing::use(**tokenizer, input.substr(input.size() - std::min<std::size_t>(input.size(), 64)));
  testing::use(**tokenizer,
               "Hello  world's 123\n\xC3\xA9 e\xCC\x81 <s>[INST]<|im_start|>\xF0\x9F\xA6\x99");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using causeway::testing::edited_file;
  static const std::vector<std::string> kLines = {lines()};
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    const auto file = edited_file({tekken_files(), kWords}, input);
    use(load_tekken(file.text), file.whole, input);
  } else {
    const auto file = edited_file({kLines, kWords}, input);
    use(load_tiktoken(file.text), file.whole, input);
  }
  return 0;
}
