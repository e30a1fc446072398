// tokenizer.json files made here: the kinds that models use, every stage, and hostile ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "base/random.h"
#include "base/testing/temporary_directory.h"
#include "text/bpe_model.h"
#include "text/detokenizer.h"
#include "text/testing/round_trip.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace causeway::text::tokenizer_json_test {
namespace {

using testing::decode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using Ids = std::vector<TokenId>;

constexpr EncodeOptions kPlain{false, false};
constexpr EncodeOptions kParse{false, true};

std::string spelled(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes)
    append_utf8(spelling_of_byte(static_cast<unsigned char>(byte)), out);
  return out;
}

Json added(int id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// A byte-level file as GPT-2 has them: 256 bytes, ids as the byte's value, and `merges` of bytes.
Json byte_level_file(const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[spelled(std::string(1, static_cast<char>(byte)))] = byte;
  Json list = Json::array();
  for (const auto& [left, right] : merges) {
    vocab.emplace(spelled(left + right), static_cast<int>(vocab.size()));
    list.push_back(spelled(left) + " " + spelled(right));
  }
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}}};
}

// As Llama-2's: marks for spaces, byte fallback, an unknown token.
Json fallback_file() {
  Json vocab = {{"<unk>", 0}, {"<s>", 1}};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    vocab[std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"] = 3 + byte;
  }
  for (const auto* token : {"▁", "a", "b", "▁a", "▁ab", "ab"}) {
    vocab.emplace(token, static_cast<int>(vocab.size()) + 1);
  }
  const Json mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const Json space = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return {
      {"added_tokens", {added(0, "<unk>"), added(1, "<s>")}},
      {"normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, mark}}}},
      {"pre_tokenizer", nullptr},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders", {space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", Json::parse(R"([["▁", "a"], ["▁a", "b"], ["a", "b"]])")}}}};
}

std::unique_ptr<Tokenizer> load(const Json& file, const std::string& config = "",
                                const std::string& special_map = "") {
  return testing::loaded(load_tokenizer_json(file.dump(), {config, special_map}));
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = kPlain) {
  return testing::encode(tokenizer, text, options);
}

Error error_of(const std::string& file, const std::string& config = "",
               const std::string& special_map = "") {
  return testing::refusal_of(load_tokenizer_json(file, {config, special_map}), file);
}

TEST(ByteLevelJson, WithoutMergesEveryByteIsAToken) {
  const auto tokenizer = load(byte_level_file());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(encode(*tokenizer, "Hé!"), ElementsAre('H', 0xC3, 0xA9, '!'));
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(decode(*tokenizer, {'H', 0xC3, 0xA9}), "Hé");
  EXPECT_FALSE(tokenizer->bos());
  EXPECT_EQ(tokenizer->token_bytes(' '), " ");
  EXPECT_EQ(tokenizer->find("Ġ"), ' ');
}

TEST(ByteLevelJson, MergesWithinWordsOnly) {
  const auto tokenizer = load(byte_level_file({{"h", "e"}, {" ", "he"}, {"e", " "}}));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(encode(*tokenizer, "he he"), ElementsAre(256, 257));
}

TEST(ByteLevelJson, LoadsLlama3StyleSpecialTokens) {
  Json file = byte_level_file({{"a", "b"}});
  file["added_tokens"] = {added(257, "<|begin_of_text|>"), added(258, "<|eot_id|>"),
                          added(259, "<tool>", false)};
  file["model"]["ignore_merges"] = true;
  file["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [
    {"type": "ByteLevel"},
    {"type": "TemplateProcessing",
     "single": [{"SpecialToken": {"id": "<|begin_of_text|>"}}, {"Sequence": {"id": "A"}}],
     "special_tokens": {"<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [257]}}}]})");
  const auto tokenizer = load(file);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->bos(), 257);
  EXPECT_THAT(encode(*tokenizer, "ab<|eot_id|>", {}), ElementsAre(257, 256, 258));
  EXPECT_EQ(encode(*tokenizer, "<|eot_id|>").size(), 10u);
  EXPECT_THAT(encode(*tokenizer, "a<tool>"), ElementsAre('a', 259));
  EXPECT_TRUE(tokenizer->is_special(258));
  EXPECT_FALSE(tokenizer->is_special(259));
  // As transformers: what the file puts around a text, the configuration does not change.
  const auto without = load(file, R"({"add_bos_token": false, "eos_token": "<|eot_id|>"})");
  EXPECT_THAT(encode(*without, "ab", {}), ElementsAre(257, 256));
  EXPECT_EQ(without->eos(), 258);
  const auto both = load(file, R"({"bos_token": {"content": "<|begin_of_text|>"},
                                   "eos_token": "<|eot_id|>", "add_eos_token": true})");
  EXPECT_THAT(encode(*both, "ab", {}), ElementsAre(257, 256));
  file["post_processor"] = nullptr;
  EXPECT_THAT(
      encode(*load(file, R"({"bos_token": "<|begin_of_text|>", "add_bos_token": true})"), "ab", {}),
      ElementsAre(256));
}

TEST(ByteLevelJson, IgnoreMergesKeepsWholeWords) {
  Json file = byte_level_file();
  file["model"]["vocab"]["abc"] = 256;
  EXPECT_THAT(encode(*load(file), "abc"), ElementsAre('a', 'b', 'c'));
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(encode(*load(file), "abc"), ElementsAre(256));
}

TEST(ByteLevelJson, PutsAPrefixSpaceOnRequest) {
  Json file = byte_level_file();
  file["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_THAT(encode(*load(file), "a"), ElementsAre(' ', 'a'));
  EXPECT_THAT(encode(*load(file), " a"), ElementsAre(' ', 'a'));
}

TEST(FallbackJson, EncodesAndDecodes) {
  const auto tokenizer = load(fallback_file());
  ASSERT_NE(tokenizer, nullptr);
  const TokenId ab = *tokenizer->find("▁ab");
  EXPECT_THAT(encode(*tokenizer, "ab ab"), ElementsAre(ab, ab));
  EXPECT_THAT(encode(*tokenizer, "é"), ElementsAre(*tokenizer->find("▁"), 3 + 0xC3, 3 + 0xA9));
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, "ab é  🦙\n")), "ab é  🦙\n");
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, " a")), " a");
  EXPECT_TRUE(encode(*tokenizer, "").empty());
  // Each stretch between special tokens gets its prefix.
  EXPECT_THAT(encode(*tokenizer, "<s>ab<s>", kParse), ElementsAre(1, ab, 1));
}

TEST(FallbackJson, CuttingAtMarksChangesNothing) {
  Json file = fallback_file();
  const auto cut = load(file);
  // A merge across a mark forbids the cutting; it is too late in the order to matter here.
  file["model"]["vocab"]["b▁ab"] = 400;
  file["model"]["merges"].push_back(Json::parse(R"(["b", "▁ab"])"));
  const auto whole = load(file);
  for (const auto* text : {"ab ab", "  a  b ", "a a ab aab", "▁▁", "bb ab", "x y  z"}) {
    Ids expected = encode(*whole, text);
    const auto crossing = std::find(expected.begin(), expected.end(), 400);
    if (crossing != expected.end()) {
      *crossing = *cut->find("b");
      expected.insert(crossing + 1, *cut->find("▁ab"));
    }
    EXPECT_EQ(encode(*cut, text), expected) << text;
  }
}

// Tokens by their contents to text; the answers are those of the tokenizers library.
struct Decoding {
  std::vector<std::string> tokens;
  std::string text;
};

void expect_decodings(const Json& file, const std::vector<Decoding>& cases, bool skip_special) {
  const auto tokenizer = load(file);
  ASSERT_NE(tokenizer, nullptr);
  for (const Decoding& each : cases) {
    Detokenizer detokenizer(*tokenizer);
    std::string text;
    for (const std::string& token : each.tokens) {
      ASSERT_TRUE(tokenizer->find(token)) << token;
      text += detokenizer.push(*tokenizer->find(token), skip_special);
    }
    EXPECT_EQ(text + detokenizer.finish(), each.text) << ::testing::PrintToString(each.tokens);
  }
}

Json file_with_tokens(const std::vector<std::string>& contents) {
  Json file = fallback_file();
  int id = 300;
  for (const std::string& content : contents) file["model"]["vocab"].emplace(content, id++);
  return file;
}

TEST(FallbackJson, DecodesRunsOfBytesAsTheLibraryDoes) {
  const Json file = file_with_tokens({"▁▁a", " x", "<0xe9>"});
  const std::string bad = "\xEF\xBF\xBD";
  expect_decodings(
      file,
      {{{"<0xC3>"}, bad},
       {{"<0xC3>", "<0xC3>"}, bad + bad},
       {{"<0xC3>", "<0xA9>"}, "é"},
       {{"<0xC3>", "<0xC3>", "<0xA9>"}, bad + bad + bad},
       {{"<0xE2>", "<0x82>"}, bad + bad},
       {{"<0xE2>", "<0x82>", "a"}, bad + bad + "a"},
       {{"<0xFF>", "<0x41>"}, bad + bad},
       {{"a", "<0xFF>", "<0x41>", "a", "<0x41>"}, "a" + bad + bad + "aA"},
       {{"▁a", "<unk>", "▁a", "<0xC3>", "<s>", "<0xA9>"}, "a<unk> a" + bad + "<s>" + bad},
       {{"<0xe9>", "a"}, bad + "a"},
       {{"<0xC3>", "<0xe9>"}, bad + bad},
       {{"<0x20>", "▁a"}, " a"},
       {{"▁▁a"}, " a"},
       {{" x"}, "x"},
       {{"<s>", "▁a"}, "<s> a"}},
      false);
  expect_decodings(
      file, {{{"▁a", "<unk>", "▁a", "<0xC3>", "<s>", "<0xA9>"}, "a aé"}, {{"<s>", "▁a"}, "a"}},
      true);
}

TEST(MetaspaceJson, DropsTheMarksOfTheFirstToken) {
  Json file = file_with_tokens({"▁▁", "▁▁a", "a▁b", " x"});
  file["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
  expect_decodings(file,
                   {{{"▁a"}, "a"},
                    {{"▁▁a"}, "a"},
                    {{"▁▁", "▁a"}, " a"},
                    {{"a▁b"}, "ab"},
                    {{"▁a", "a▁b"}, "aa b"},
                    {{" x"}, " x"},
                    {{"<s>", "▁a"}, "<s> a"},
                    {{"<0x20>", "a"}, "<0x20>a"}},
                   false);
  expect_decodings(file, {{{"<s>", "▁a"}, "a"}}, true);
  file["decoder"]["prepend_scheme"] = "never";
  expect_decodings(file, {{{"▁▁a"}, "  a"}, {{"▁▁", "▁a"}, "   a"}}, false);
}

TEST(MetaspaceJson, EncodesAndDecodes) {
  Json file = fallback_file();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", true}};
  file["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  const auto tokenizer = load(file);
  ASSERT_NE(tokenizer, nullptr);
  const TokenId marked = *tokenizer->find("▁ab");
  EXPECT_THAT(encode(*tokenizer, "ab ab"), ElementsAre(marked, marked));
  EXPECT_THAT(encode(*tokenizer, "<s>ab", kParse), ElementsAre(1, *tokenizer->find("ab")));
  EXPECT_EQ(decode(*tokenizer, {marked, marked}), "ab ab");
}

TEST(ByteLevelJson, NormalisesToTheSpellingOfBytes) {
  Json file = byte_level_file();
  file["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", {{{"type", "NFC"}}, {{"type", "ByteLevel"}}}}};
  file["pre_tokenizer"] = nullptr;
  const auto tokenizer = load(file);
  ASSERT_NE(tokenizer, nullptr);
  const Ids ids = encode(*tokenizer, "e\xCC\x81 \n");
  EXPECT_THAT(ids, ElementsAre(0xC3, 0xA9, ' ', '\n'));
  EXPECT_EQ(decode(*tokenizer, ids), "é \n");
}

// What the tokens of these contents decode to, and what each of them adds to that.
void expect_pieces(const Json& file, const std::vector<std::string>& contents,
                   const std::vector<std::string>& pieces) {
  const auto tokenizer = load(file);
  ASSERT_NE(tokenizer, nullptr);
  Detokenizer detokenizer(*tokenizer);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < contents.size(); ++i) {
      ASSERT_TRUE(tokenizer->find(contents[i])) << contents[i];
      EXPECT_EQ(detokenizer.push(*tokenizer->find(contents[i]), false), pieces[i]) << contents[i];
    }
    EXPECT_EQ(detokenizer.finish(), pieces.back()) << "round " << round;
  }
}

TEST(BpeDecoderJson, EndsOfWordsAreSpacesButForTheLast) {
  Json file = file_with_tokens({"the</w>", "ca", "t</w>", "</w>", "a</w>b"});
  file["decoder"] = {{"type", "BPEDecoder"}};
  expect_pieces(file, {"the</w>", "ca", "t</w>"}, {"", "the ", "ca", "t"});
  expect_pieces(file, {"ca", "</w>"}, {"", "ca", ""});
  expect_pieces(file, {"a</w>b", "a</w>b"}, {"", "a b", "ab"});
  file["decoder"]["suffix"] = "t</w>";
  expect_pieces(file, {"t</w>", "a</w>b"}, {"", " ", "a</w>b"});
  for (const Json& wrong :
       {Json({{"type", "BPEDecoder"}, {"suffix", ""}}),
        Json({{"type", "Sequence"},
              {"decoders", {{{"type", "BPEDecoder"}}, {{"type", "ByteFallback"}}}}})}) {
    file["decoder"] = wrong;
    EXPECT_THAT(error_of(file.dump()).message, HasSubstr("BPEDecoder"));
  }
}

TEST(FusedJson, ReplacesInTheTextAsAWhole) {
  Json file = file_with_tokens({"ab", "abc", "cab", "c", "xab"});
  const auto replace = [](const std::string& from, const std::string& to) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  const auto set = [&](const Json& steps) {
    Json all = Json::array({{{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
    all.insert(all.end(), steps.begin(), steps.end());
    file["decoder"] = {{"type", "Sequence"}, {"decoders", all}};
  };
  set(Json::array({replace("abcab", "-")}));
  expect_pieces(file, {"ab", "c", "ab", "c"}, {"", "", "-", "c", ""});
  expect_pieces(file, {"xab", "abc", "ab", "ab"}, {"x", "ab", "-", "", "ab"});
  expect_pieces(file, {"abc", "abc", "ab"}, {"", "-c", "", "ab"});
  set(Json::array({replace("bc", "a"), replace("aa", "")}));
  expect_pieces(file, {"abc", "ab"}, {"", "", "ab"});
  expect_pieces(file, {"ab", "c", "cab"}, {"", "", "c", "ab"});
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  for (const Json& wrong : {Json::array({replace("a", "aaaaa")}),
                            Json::array({replace("a", ""), strip}), Json(5, replace("a", "b"))}) {
    set(wrong);
    EXPECT_THAT(error_of(file.dump()).message, HasSubstr("decoder"));
  }
}

TEST(AddedTokens, HonourTheirFlags) {
  Json file = byte_level_file();
  Json left = added(256, "<l>"), right = added(257, "<r>"), word = added(258, "yes");
  left["lstrip"] = true;
  right["rstrip"] = true;
  word["single_word"] = true;
  file["added_tokens"] = {left, right, word, added(259, "<l><r>"), added(260, "yes!")};
  const auto tokenizer = load(file);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(encode(*tokenizer, "a \n<l> b", kParse), ElementsAre('a', 256, ' ', 'b'));
  EXPECT_THAT(encode(*tokenizer, "a <r> \t b", kParse), ElementsAre('a', ' ', 257, 'b'));
  EXPECT_THAT(encode(*tokenizer, "yes yeses éyes", kParse),
              ElementsAre(258, ' ', 'y', 'e', 's', 'e', 's', ' ', 0xC3, 0xA9, 'y', 'e', 's'));
  EXPECT_THAT(encode(*tokenizer, "<l><r>yes!", kParse), ElementsAre(259, 260)) << "longest first";
  EXPECT_EQ(encode(*tokenizer, "<l>").size(), 3u);
}

TEST(AddedTokens, NormalizedOnesAreFoundInNormalizedText) {
  Json file = byte_level_file();
  file["normalizer"] = {{"type", "NFC"}};
  Json token = added(256, "e\xCC\x81", false);
  token["normalized"] = true;
  file["added_tokens"] = {token, added(257, "o\xCC\x81", false)};
  const auto tokenizer = load(file);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(encode(*tokenizer, "xé"), ElementsAre('x', 256));
  EXPECT_THAT(encode(*tokenizer, "e\xCC\x81"), ElementsAre(256));
  EXPECT_THAT(encode(*tokenizer, "ó"), ElementsAre(0xC3, 0xB3));
  EXPECT_THAT(encode(*tokenizer, "o\xCC\x81"), ElementsAre(257));
}

TEST(AddedTokens, ComeFromTheConfigurationToo) {
  Json file = byte_level_file();
  file["model"]["vocab"]["ab"] = 256;
  file["added_tokens"] = Json::array({added(257, "<s>")});
  const auto tokenizer = load(file, R"({"added_tokens_decoder": {
      "256": {"content": "ab", "special": false},
      "257": {"content": "<s>", "special": true, "normalized": false},
      "258": {"content": "<tool>", "special": false, "normalized": false},
      "259": {"content": "<end>", "special": true, "normalized": false}}})");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 260);
  EXPECT_THAT(encode(*tokenizer, "a<tool>b<s><end>", kParse), ElementsAre('a', 258, 'b', 257, 259));
  EXPECT_THAT(encode(*tokenizer, "a<tool>"), ElementsAre('a', 258));
  EXPECT_EQ(encode(*tokenizer, "<end>").size(), 5u) << "special: text of strangers stays text";
  EXPECT_EQ(decode(*tokenizer, {'a', 258, 259}), "a<tool><end>");
  EXPECT_FALSE(tokenizer->is_special(258));
  EXPECT_TRUE(tokenizer->is_special(259));
  // The vocabulary has it, but no merge makes it: now it is looked for in the text as it stands.
  EXPECT_THAT(encode(*tokenizer, "xab"), ElementsAre('x', 256));
}

TEST(AddedTokens, OfTheConfigurationMustNotContradictTheFile) {
  Json file = byte_level_file();
  file["added_tokens"] = Json::array({added(256, "<s>")});
  for (const auto* listed : {R"("97": {"content": "<x>"})", R"("300": {"content": "a"})",
                             R"("256": {"content": "<x>"})", R"("300": {"content": "<s>"})",
                             R"("300": {"content": "<x>"}, "301": {"content": "<x>"})"}) {
    const Error error =
        error_of(file.dump(), std::string(R"({"added_tokens_decoder": {)") + listed + "}}");
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << listed;
    EXPECT_THAT(error.message, HasSubstr("added_tokens_decoder of tokenizer_config.json: '"));
  }
}

TEST(Configuration, AnEmptyTokenIsNone) {
  for (const auto* config : {R"({"bos_token": "", "eos_token": {"content": ""}})",
                             R"({"eos_token": "", "add_bos_token": true})"}) {
    const auto tokenizer = load(byte_level_file(), config);
    ASSERT_NE(tokenizer, nullptr) << config;
    EXPECT_FALSE(tokenizer->bos() || tokenizer->eos()) << config;
    EXPECT_THAT(encode(*tokenizer, "a", {}), ElementsAre('a')) << config;
  }
}

TEST(Encode, InvalidTextIsAnErrorWithItsPlace) {
  const auto tokenizer = load(byte_level_file());
  const auto ids = tokenizer->encode("ab\xFFz", {});
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(ids.error().message, HasSubstr("byte 2"));
}

TEST(Encode, ManyThreadsShareATokenizer) {
  const Json file = byte_level_file({{"a", "b"}, {"ab", "c"}, {" ", "a"}, {" a", "b"}, {"b", "c"}});
  const auto alone = load(file);
  const auto shared = load(file);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      Random random(seed % 2);  // two threads each do the same words at the same time
      for (int i = 0; i < 300; ++i) {
        std::string text;
        for (std::int64_t n = random.below(60); n > 0; --n) text += "abc d"[random.below(5)];
        const auto ids = shared->encode(text, kPlain);
        const auto expected = alone->encode(text, kPlain);
        wrong += !ids.ok() || *ids != *expected;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Encode, MissingBytesAreLeftOut) {
  Json file = byte_level_file({{"b", "c"}});
  file["model"]["vocab"].erase("a");
  EXPECT_THAT(encode(*load(file), "dab"), ElementsAre('d', 'b'));
  EXPECT_THAT(encode(*load(file), "bac"), ElementsAre(256)) << "what is left is merged";
  EXPECT_TRUE(encode(*load(file), "a").empty());
  const std::string many(200, 'a');  // longer than what is merged by scanning
  EXPECT_THAT(encode(*load(file), "b" + many + "c"), ElementsAre(256));
}

TEST(Hostile, EveryTruncationIsAnError) {
  const std::string file = fallback_file().dump();
  for (std::size_t size = 0; size < file.size(); size += size < 300 ? 1 : 37) {
    EXPECT_EQ(error_of(file.substr(0, size)).code, ErrorCode::kCorrupt) << size;
  }
}

TEST(Hostile, DeepNestingIsAnError) {
  const std::string deep(100'000, '[');
  EXPECT_THAT(error_of(deep).message, HasSubstr("JSON"));
  EXPECT_THAT(error_of("{\"normalizer\":" + deep).message, HasSubstr("JSON"));
  std::string closed;
  for (int i = 0; i < 100'000; ++i) closed += "{\"a\":";
  EXPECT_THAT(error_of(closed + "1" + std::string(100'000, '}')).message, HasSubstr("JSON"));
  EXPECT_THAT(error_of(byte_level_file().dump(), deep).message, HasSubstr("tokenizer_config.json"));
}

struct Change {
  const char* path;
  const char* value;  // JSON
  ErrorCode code;
  const char* message;
};

void expect_errors(std::span<const Change> changes) {
  for (const Change& change : changes) {
    Json file = byte_level_file();
    // The value goes in as text: some are no JSON that a library would write.
    file[Json::json_pointer(change.path)] = "@@";
    std::string text = file.dump();
    text.replace(text.find("\"@@\""), 4, change.value);
    const Error error = error_of(text);
    EXPECT_EQ(error.code, change.code) << change.path << " = " << change.value;
    EXPECT_THAT(error.message, HasSubstr(change.message)) << change.path;
    EXPECT_THAT(error.message, HasSubstr("tokenizer.json")) << change.path;
  }
}

TEST(Hostile, WrongFieldsAreNamed) {
  constexpr auto kBad = ErrorCode::kCorrupt, kNo = ErrorCode::kUnsupported;
  const Change changes[] = {
      {"/model", "7", kBad, "model"},
      {"/model/type", "\"Unigrams\"", kNo, "'Unigrams'"},
      {"/model/type", "\"Unigram\"", kNo, "'Unigram' after ByteLevel"},
      {"/model/type", "1", kBad, "model.type"},
      {"/model/dropout", "0.1", kNo, "dropout"},
      {"/model/vocab", "[]", kBad, "model.vocab"},
      {"/model/vocab/a", "\"x\"", kBad, "model.vocab['a']"},
      {"/model/vocab/a", "-1", kBad, "model.vocab['a']"},
      {"/model/vocab/a", "98", kBad, "twice"},
      {"/model/vocab/a", "1e3", kBad, "model.vocab['a']"},
      {"/model/vocab/a", "4194304", kBad, "model.vocab['a']"},
      {"/model/vocab/a", "99999999999999999999", kBad, "model.vocab['a']"},
      {"/model/merges", "{}", kBad, "model.merges"},
      {"/model/merges", "[\"a\"]", kBad, "model.merges[0]"},
      {"/model/merges", "[\"a b c\"]", kBad, "model.merges[0]"},
      {"/model/merges", "[[\"a\"]]", kBad, "model.merges[0]"},
      {"/model/merges", "[[\"a\", 1]]", kBad, "model.merges[0]"},
      {"/model/merges", "[\" a\"]", kBad, "model.merges[0]"},
      {"/model/merges", "[\"a nothere\"]", kBad, "'nothere' is not in"},
      {"/model/merges", "[\"a b\"]", kBad, "'ab' is not in"},
      {"/model/unk_token", "\"nope\"", kBad, "unk_token"},
      {"/model/byte_fallback", "1", kBad, "byte_fallback"},
      {"/model/end_of_word_suffix", "\"é\"", kNo, "end_of_word_suffix"},
      {"/added_tokens", "{}", kBad, "added_tokens"},
      {"/added_tokens", "[1]", kBad, "added_tokens[0]"},
      {"/added_tokens", "[{\"content\": \"x\"}]", kBad, "added_tokens[0].id"},
      {"/added_tokens", "[{\"id\": 300}]", kBad, "added_tokens[0].content"},
      {"/added_tokens", "[{\"id\": 3, \"content\": \"<x>\"}]", kBad, "'<x>'"},
      {"/added_tokens", "[{\"id\": 300, \"content\": \"a\"}]", kBad, "'a'"},
      {"/added_tokens",
       "[{\"id\": 300, \"content\": \"<x>\"}, {\"id\": 300, \"content\": \"<y>\"}]", kBad, "'<y>'"},
      {"/added_tokens", "[{\"id\": 300, \"content\": \"<x>\", \"lstrip\": 1}]", kBad, "lstrip"},
  };
  expect_errors(changes);
}

TEST(Hostile, WrongStagesAreNamed) {
  constexpr auto kBad = ErrorCode::kCorrupt, kNo = ErrorCode::kUnsupported;
  const Change changes[] = {
      {"/normalizer", "{\"type\": \"Nmt\"}", kNo, "'Nmt'"},
      {"/normalizer", "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"?\"}", kBad,
       "base64"},
      {"/normalizer", "{}", kBad, "normalizer.type"},
      {"/normalizer", "{\"type\": \"Replace\", \"content\": \"\"}", kBad, "pattern"},
      {"/pre_tokenizer", "{\"type\": \"Scripts\"}", kNo, "'Scripts'"},
      {"/pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}}", kNo, "regular"},
      {"/pre_tokenizer",
       "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Eaten\"}", kNo,
       "'Eaten'"},
      {"/pre_tokenizer", "{\"type\": \"Sequence\", \"pretokenizers\": 1}", kBad, "pretokenizers"},
      {"/pre_tokenizer",
       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, "
       "{\"type\": \"ByteLevel\"}]}",
       kNo, "after ByteLevel"},
      {"/decoder", "{\"type\": \"CTC\"}", kNo, "'CTC'"},
      {"/post_processor", "{\"type\": \"BertProcessing\"}", kBad, "BertProcessing.cls"},
      {"/post_processor", "{\"type\": \"TemplateProcessing\"}", kBad, "single"},
      {"/post_processor",
       "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<x>\"}}]}",
       kBad, "special_tokens['<x>']"},
      {"/post_processor",
       "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<x>\"}}], "
       "\"special_tokens\": {\"<x>\": {\"ids\": [999]}}}",
       kBad, "999"},
  };
  expect_errors(changes);
}

TEST(Hostile, WrongConfigurationIsNamed) {
  const std::string file = byte_level_file().dump();
  for (const auto& [config, message] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "not an object"},
           {"{\"bos_token\": 1}", "bos_token"},
           {"{\"bos_token\": \"<nope>\"}", "'<nope>'"},
           {"{\"add_bos_token\": \"yes\"}", "add_bos_token"},
           {"{\"added_tokens_decoder\": []}", "added_tokens_decoder"},
           {"{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}", "added_tokens_decoder[x]"},
           {"{\"added_tokens_decoder\": {\"-1\": {\"content\": \"a\"}}}", "[-1]"}}) {
    const Error error = error_of(file, config);
    EXPECT_THAT(error.message, HasSubstr("tokenizer_config.json")) << config;
    EXPECT_THAT(error.message, HasSubstr(message)) << config;
  }
}

// Numbers that Python's json reads and strict parsers refuse.
const std::vector<std::string> kNumbersOfPython = {"1000000000000000019884624838656",
                                                   "18446744073709551616",
                                                   "-9223372036854775809",
                                                   "1" + std::string(400, '0'),
                                                   "1e999",
                                                   "-1e999",
                                                   "NaN",
                                                   "Infinity",
                                                   "[{\"a\": -Infinity}]"};

TEST(Configuration, NumbersOfPythonMayStandWhereTheyAreNotUsed) {
  const std::string file = byte_level_file().dump();
  for (const std::string& number : kNumbersOfPython) {
    const auto tokenizer =
        load_tokenizer_json(file, {"{\"model_max_length\": " + number + ", \"bos_token\": \"A\"}"});
    ASSERT_TRUE(tokenizer.ok()) << number << ": " << tokenizer.error().message;
    EXPECT_EQ((*tokenizer)->bos(), 'A');
  }
  const auto zero = load(byte_level_file(), R"({"model_max_length": -0})");
  EXPECT_EQ(encode(*zero, "a"), Ids{97});
}

TEST(Configuration, NumbersOfPythonAreNamedWhereTheyCannotBeUsed) {
  const std::string file = byte_level_file().dump();
  std::vector<std::string> numbers = kNumbersOfPython;
  numbers.insert(numbers.end(), {"5.0", "9223372036854775808"});
  for (const char* name : {"bos_token", "eos_token", "add_bos_token", "add_eos_token", "legacy",
                           "added_tokens_decoder"}) {
    for (const std::string& number : numbers) {
      const Error error = error_of(file, std::string("{\"") + name + "\": " + number + "}");
      EXPECT_THAT(error.message, HasSubstr("tokenizer_config.json")) << number;
      EXPECT_THAT(error.message, HasSubstr(name)) << number;
    }
  }
}

TEST(Hostile, IdsThatAreNoIdsAreNamed) {
  std::vector<std::string> numbers = kNumbersOfPython;
  numbers.insert(numbers.end(), {"5.0", "9223372036854775808", "18446744073709551615", "-1"});
  for (const std::string& number : numbers) {
    std::string file = byte_level_file().dump();
    file.replace(file.find("\"a\":97"), 6, "\"a\":" + number);
    EXPECT_THAT(error_of(file).message, HasSubstr("tokenizer.json: model.vocab['a']")) << number;
    Json with_added = byte_level_file();
    with_added["added_tokens"] = nlohmann::json::array({added(999, "<x>")});
    file = with_added.dump();
    file.replace(file.find("999"), 3, number);
    EXPECT_THAT(error_of(file).message, HasSubstr("added_tokens[0].id")) << number;
  }
}

TEST(Hostile, SlowExpressionsEndInAnError) {
  Json file = byte_level_file();
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "(\\p{L}+)+$"}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}, {"use_regex", false}}}}};
  const auto tokenizer = load(file);
  ASSERT_NE(tokenizer, nullptr);
  const auto ids = tokenizer->encode(std::string(80, 'a') + "!", {});
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.error().code, ErrorCode::kResourceExhausted);
}

TEST(Hostile, ExplodingDecoderIsAnError) {
  Json file = fallback_file();
  Json steps = Json::array();
  for (int i = 0; i < 40; ++i) {
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  }
  file["decoder"] = {{"type", "Sequence"}, {"decoders", steps}};
  EXPECT_THAT(error_of(file.dump()).message, HasSubstr("decoder"));
}

TEST(LoadTokenizer, NamesWhatIsMissing) {
  const TemporaryDirectory directory;
  const auto tokenizer = load_tokenizer(directory.path());
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace causeway::text::tokenizer_json_test
