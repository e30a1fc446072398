// Loads the input as tokenizer.json and, when that works, encodes and decodes with it. The part of
// the input behind a 0xFF byte, which JSON cannot contain, is a text, and the part behind the next
// one the configuration, which is read as special_tokens_map.json and added_tokens.json, too. Files
// are changes of one of every kind of model (edited_file.h).
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/edited_file.h"
#include "text/testing/use_tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

using namespace causeway::text;

namespace {

const std::vector<std::string> kFiles = {
    R"({"version": "1.0", "added_tokens": [{"id": 6, "content": "<s>", "single_word": false,
 "lstrip": true, "rstrip": false, "normalized": false, "special": true}], "normalizer": {"type":
 "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"String": "''"},
 "content": "\""}, {"type": "Prepend", "prepend": " "}]}, "pre_tokenizer": {"type": "Sequence",
 "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\p{L}+|[^\\r\\n\\p{L}&&[^x]]?|\\s+"},
 "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false,
 "trim_offsets": true, "use_regex": false}]}, "post_processor": {"type": "TemplateProcessing",
 "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
 "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}}, "decoder":
 {"type": "ByteLevel"}, "model": {"type": "BPE", "dropout": null, "unk_token": null,
 "ignore_merges": true, "fuse_unk": false, "byte_fallback": false, "vocab": {"a": 0, "b": 1, "c": 2,
 "ab": 3, "abc": 4, "Ġ": 5}, "merges": ["a b", ["ab", "c"]]}})",
    R"({"normalizer": {"type": "NFKC"}, "pre_tokenizer": {"type":
 "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}, "decoder": {"type":
 "Metaspace", "replacement": "▁"}, "post_processor": {"type": "RobertaProcessing", "sep":
 ["</s>", 6], "cls": ["<s>", 5], "trim_offsets": true, "add_prefix_space": true}, "added_tokens":
 [{"id": 5, "content": "<s>", "special": true}, {"id": 6, "content": "</s>", "special": true}],
 "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["<unk>", 0],
 ["▁", -2], ["a", -3.5], ["▁a", -4], ["bc", -1], ["<s>", 0], ["</s>", 0]]}})",
    R"({"normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
 "strip_accents": null, "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"},
 "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 4], "sep": ["[SEP]", 5]},
 "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}, "model": {"type": "WordPiece",
 "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
 "vocab": {"[UNK]": 0, "play": 1, "##ing": 2, "it": 3, "[CLS]": 4, "[SEP]": 5}}})",
    R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKD"},
 {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": true,
 "strip_right": true}]}, "pre_tokenizer": {"type": "Sequence", "pretokenizers":
 [{"type": "Digits", "individual_digits": true}, {"type": "Punctuation", "behavior":
 "MergedWithNext"}, {"type": "UnicodeScripts"}, {"type": "CharDelimiterSplit", "delimiter": "x"},
 {"type": "WhitespaceSplit"}, {"type": "Whitespace"}]}, "decoder": {"type":
 "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
 {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop":
 0}]}, "model": {"type": "WordLevel", "unk_token": "?", "vocab":
 {"?": 0, "a": 1, "hello": 2}}})",
    R"({"decoder": {"type": "Fuse"}, "model": {"type": "BPE", "unk_token": "?", "fuse_unk": true,
 "byte_fallback": true, "continuing_subword_prefix": "##", "end_of_word_suffix": "</w>", "vocab":
 {"?": 0, "a": 1, "b": 2, "b</w>": 3, "##b</w>": 4, "ab</w>": 5, "<0x41>": 6}, "merges":
 [["a", "##b</w>"]]}})"};
const std::vector<std::string> kConfigs = {
    "", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": true,
 "unk_token": null, "added_tokens_decoder": {"6": {"content": "<s>", "special": true}}})",
    R"({"<x>": 7, "<y>": 8})"};
constexpr std::string_view kWords[] = {"NFC",
                                       "NFD",
                                       "NFKC",
                                       "NFKD",
                                       "Nmt",
                                       "Lowercase",
                                       "StripAccents",
                                       "Precompiled",
                                       "Replace",
                                       "Prepend",
                                       "Sequence",
                                       "Split",
                                       "ByteLevel",
                                       "Metaspace",
                                       "Digits",
                                       "Punctuation",
                                       "UnicodeScripts",
                                       "Whitespace",
                                       "WhitespaceSplit",
                                       "CharDelimiterSplit",
                                       "BertPreTokenizer",
                                       "TemplateProcessing",
                                       "RobertaProcessing",
                                       "ByteFallback",
                                       "Fuse",
                                       "Strip",
                                       "WordPiece",
                                       "WordLevel",
                                       "Unigram",
                                       "BPE",
                                       "BPEDecoder",
                                       "CTC",
                                       "Removed",
                                       "Contiguous",
                                       "MergedWithPrevious",
                                       "invert",
                                       "Regex",
                                       "String",
                                       "first",
                                       "never",
                                       "unk_id",
                                       "dropout",
                                       "<0x00>",
                                       "(?i:",
                                       "[^\\\\p{L}&&[^a-z]]",
                                       "\\\\p{Han}",
                                       "(a+)+",
                                       "▁",
                                       "Ġ",
                                       "\\u0000"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using causeway::testing::edited_file;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(input.find('\xFF'), size);
  const std::string_view rest = input.substr(std::min(cut + 1, size));
  const std::size_t second = std::min(rest.find('\xFF'), rest.size());
  const auto config =
      edited_file({kConfigs, kWords}, rest.substr(std::min(second + 1, rest.size())));
  if (const auto added = parse_added_tokens(config.text, {}); !added.ok()) {
    CAUSEWAY_CHECK(!added.error().message.empty(), "an error without words");
  }
  const auto file = edited_file({kFiles, kWords}, input.substr(0, cut));
  const auto tokenizer = load_tokenizer_json(file.text, {config.text, config.text});
  if (!tokenizer.ok()) {
    const bool good = file.whole && config.whole && config.text.empty();
    CAUSEWAY_CHECK(!good, tokenizer.error().message);
    CAUSEWAY_CHECK(!tokenizer.error().message.empty(), "an error without words");
    return 0;
  }
  testing::use(**tokenizer, rest.substr(0, second));
  testing::use(**tokenizer,
               "Hello  world's 123\n\xC3\xA9 e\xCC\x81 <s>\xE2\x96\x81\xF0\x9F\xA6\x99");
  return 0;
}
