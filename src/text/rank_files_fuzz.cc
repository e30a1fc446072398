// Loads the input as a tekken.json or as lines of ranks, changed from files that have all bytes
// (edited_file.h), and encodes and decodes with what can be loaded. The first byte picks which; the
// last 64 bytes are a text, too.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "text/testing/rank_files.h"
#include "text/testing/use_tokenizer.h"
#include "text/tokenizer.h"

using namespace causeway::text;

namespace {

// All bytes, and words that merge.
const std::vector<std::string>& tokens() {
  static const std::vector<std::string> kTokens =
      testing::byte_tokens({"He", "ll", "Hell", "Hello", " w", "or", " wor", "\xC3\xA9", "  "});
  return kTokens;
}

// What is changed most stands first: a place is two bytes of the input.
std::string tekken(std::string_view special) {
  const std::vector<std::string>& all = tokens();
  std::string out = R"({"config": {"pattern": "\\p{L}+| ?[^\\p{L}]", "num_vocab_tokens": 1000,
 "default_vocab_size": )" +
                    std::to_string(25 + all.size()) +
                    R"(, "default_num_special_tokens": 25, "version": "v3"}, )" +
                    std::string(special) + "\"vocab\": [";
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    out += (rank == 0 ? "" : ", ") + std::string("{\"rank\": ") + std::to_string(rank) +
           ", \"token_bytes\": \"" + testing::base64(all[rank]) + "\", \"token_str\": null}";
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
  static const std::vector<std::string> kLines = {testing::rank_lines(tokens())};
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
