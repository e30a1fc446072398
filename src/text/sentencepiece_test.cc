// SentencePiece models written here, field by field, and hostile ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <limits>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "base/testing/temporary_directory.h"
#include "text/detokenizer.h"
#include "text/sentencepiece_model.h"
#include "text/testing/round_trip.h"
#include "text/tokenizer.h"

namespace causeway::text::sentencepiece_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Type = SentencePieceModel::Type;
using Ids = std::vector<TokenId>;

constexpr EncodeOptions kPlain{false, false};

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}
std::string number(int field, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(static_cast<std::uint64_t>(value));
}
std::string bytes(int field, const std::string& value) {
  return varint((static_cast<std::uint64_t>(field) << 3) | 2) + varint(value.size()) + value;
}
std::string piece(const std::string& content, float score, Type type = Type::kNormal) {
  const auto bits = std::bit_cast<std::uint32_t>(score);
  std::string fixed = varint((2 << 3) | 5);
  for (int i = 0; i < 4; ++i) fixed.push_back(static_cast<char>(bits >> (8 * i)));
  return bytes(1, bytes(1, content) + fixed + number(3, static_cast<int>(type)));
}
std::string controls() {
  return piece("<unk>", 0, Type::kUnknown) + piece("<s>", 0, Type::kControl) +
         piece("</s>", 0, Type::kControl);
}
std::string bpe(const std::string& more = "") { return bytes(2, number(3, 2) + more); }
// Extra spaces stay, as in the models in use.
std::string identity() { return bytes(3, number(4, 0)); }

std::unique_ptr<Tokenizer> load(const std::string& model, const std::string& config = "",
                                const std::string& added_tokens = "") {
  return testing::loaded(load_sentencepiece({model, config, added_tokens}));
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = kPlain) {
  return testing::encode(tokenizer, text, options);
}

std::string decode(const Tokenizer& tokenizer, const Ids& ids) {
  return testing::decode(tokenizer, ids, true);
}

std::string small_model() {
  return controls() + piece("▁", -10) + piece("a", -11) + piece("b", -12) + piece("ab", -1) +
         piece("▁a", -2) + piece("abc", -3) + piece("[X]", 0, Type::kUserDefined) + bpe() +
         identity();
}

TEST(SentencePiece, MergesByScore) {
  const auto tokenizer = load(small_model());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(encode(*tokenizer, "ab"), ElementsAre(3, 6)) << "ab (-1) before ▁a (-2)";
  EXPECT_THAT(encode(*tokenizer, "a a"), ElementsAre(7, 7));
  EXPECT_THAT(encode(*tokenizer, "ab", {}), ElementsAre(1, 3, 6));
  EXPECT_THAT(encode(*tokenizer, "</s>", {}), ElementsAre(1, 2));
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, "ab  a")), "ab  a");
  // "c" is no piece, but what it makes with "ab" is.
  EXPECT_THAT(encode(*tokenizer, "abc"), ElementsAre(3, 8));
}

TEST(SentencePiece, UnknownRunsAreOneToken) {
  const auto tokenizer = load(small_model());
  EXPECT_THAT(encode(*tokenizer, "xyzb"), ElementsAre(3, 0, 5));
}

TEST(SentencePiece, UserDefinedPiecesStayWhole) {
  const auto tokenizer = load(small_model());
  EXPECT_THAT(encode(*tokenizer, "a[X]b"), ElementsAre(7, 9, 5));
}

TEST(SentencePiece, FallsBackToBytes) {
  std::string model = controls();
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    model += piece(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", 0, Type::kByte);
  }
  model += piece("▁", -1) + bpe(number(35, 1)) + identity();
  const auto tokenizer = load(model);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(encode(*tokenizer, "é"), ElementsAre(259, 3 + 0xC3, 3 + 0xA9));
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, "🦙 <0x41>")), "🦙 <0x41>");
  EXPECT_EQ(decode(*tokenizer, {3 + 0xC3}), "\xEF\xBF\xBD");
}

// All bytes from id 3, then pieces; decoded as the sentencepiece library does.
std::string byte_model(const std::string& pieces, const std::string& trainer = "") {
  std::string model = controls();
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    model += piece(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", 0, Type::kByte);
  }
  return model + pieces + bpe(number(35, 1) + trainer);
}

TEST(SentencePiece, DecodesBytesOneByOne) {
  const auto tokenizer = load(byte_model(piece("▁", -1) + piece("a", -2)) + identity());
  const std::string bad = "\xEF\xBF\xBD";
  const auto bytes = [&](std::initializer_list<int> values) {
    Ids ids;
    for (const int value : values) ids.push_back(3 + value);
    return decode(*tokenizer, ids);
  };
  EXPECT_EQ(bytes({0xE2, 0x82}), bad + bad);
  EXPECT_EQ(bytes({0xC3, 0xC3, 0xA9}), bad + "é");
  EXPECT_EQ(bytes({0x41, 0xFF, 0x42}), "A" + bad + "B");
  EXPECT_EQ(bytes({0xED, 0xA0, 0x80}), bad + bad + bad);
  EXPECT_EQ(bytes({0xF4, 0x90, 0x80, 0x80}), bad + bad + bad + bad);
  EXPECT_EQ(decode(*tokenizer, {3 + 0xF0, 3 + 0x9F, 3 + 0xA6, 260}), bad + bad + bad + "a");
}

TEST(SentencePiece, TakesAMarkOffTheStartAndNoSpace) {
  const std::string pieces = piece("▁", -1) + piece("a", -2) + piece("▁a", -3) + piece("▁▁", -4) +
                             piece("▁▁a", -5) + piece("a▁b", -6);
  constexpr TokenId kMark = 259, kA = 260, kMarkA = 261, kMarks = 262, kMarksA = 263, kInner = 264;
  const auto text = [&](bool prefix, bool remove, const Ids& ids) {
    const auto tokenizer =
        load(byte_model(pieces) + bytes(3, number(3, prefix ? 1 : 0) + number(4, remove ? 1 : 0)));
    return decode(*tokenizer, ids);
  };
  for (const bool remove : {false, true}) {
    for (const bool prefix : {false, true}) {
      const bool strips = remove || prefix;
      EXPECT_EQ(text(prefix, remove, {kMarkA}), strips ? "a" : " a");
      EXPECT_EQ(text(prefix, remove, {kMarksA}), strips ? " a" : "  a");
      EXPECT_EQ(text(prefix, remove, {kMark, kMarkA}), remove ? "a" : strips ? " a" : "  a");
      EXPECT_EQ(text(prefix, remove, {kMarks, kMarkA}), strips ? "  a" : "   a");
      EXPECT_EQ(text(prefix, remove, {kInner}), "a b");
      EXPECT_EQ(text(prefix, remove, {3 + 0x20, kA}), " a");
      EXPECT_EQ(text(prefix, remove, {3 + 0x20, kMarkA}), "  a");
      EXPECT_EQ(text(prefix, remove, {1, kMarkA}), strips ? "a" : " a");
    }
  }
}

TEST(SentencePiece, UnknownPiecesHaveASurface) {
  const auto shown = [](const std::string& trainer, const Ids& ids) {
    const auto tokenizer = load(byte_model(piece("a", -2), trainer) + identity());
    Detokenizer detokenizer(*tokenizer);
    std::string text;
    for (const TokenId id : ids) text += detokenizer.push(id, false);
    return text + detokenizer.finish();
  };
  EXPECT_EQ(shown("", {259, 0, 259}), "a ⁇ a");
  EXPECT_EQ(shown("", {0}), " ⁇ ");
  EXPECT_EQ(shown(bytes(44, "??"), {259, 0}), "a??");
  EXPECT_FALSE(load_sentencepiece({byte_model("", bytes(44, "\xFF"))}).ok());
}

TEST(SentencePiece, HonoursTheNormalizer) {
  const std::string pieces = controls() + piece("▁", -1) + piece("a", -2);
  const auto squeezing = load(pieces + bpe());
  EXPECT_THAT(encode(*squeezing, "  a   a "), ElementsAre(3, 4, 3, 4));
  EXPECT_TRUE(encode(*squeezing, "   ").empty());
  const auto bare = load(pieces + bpe() + bytes(3, number(3, 0) + number(4, 0)));
  EXPECT_THAT(encode(*bare, "a "), ElementsAre(4, 3));
  EXPECT_EQ(decode(*bare, {3, 4}), " a");
}

TEST(SentencePiece, HonoursTheConfiguration) {
  const auto tokenizer = load(small_model(), R"({"add_bos_token": false, "add_eos_token": true,
      "legacy": false, "added_tokens_decoder": {"2": {"content": "</s>", "special": true},
      "10": {"content": "[INST]", "special": true}, "11": {"content": "[t]", "special": false}}})");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 12);
  // With `legacy` off only the start of the text gets the space.
  EXPECT_THAT(encode(*tokenizer, "a[INST]a[t]", {}), ElementsAre(7, 10, 4, 11, 2));
}

TEST(SentencePiece, HonoursTheFileOfAddedTokens) {
  const auto tokenizer = load(small_model(),
                              R"({"pad_token": "<pad>", "eos_token": {"content": "<|end|>"},
                                  "additional_special_tokens": ["<|user|>"]})",
                              R"({"<s>": 1, "<|start|>": 10, "<|end|>": 11, "<pad>": 12,
                                  "<|user|>": 13})");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocab_size(), 14);
  EXPECT_EQ(tokenizer->eos(), 11);
  EXPECT_THAT(encode(*tokenizer, "<s>a<|start|>a<|end|>", {false, true}),
              ElementsAre(1, 7, 10, 7, 11));
  EXPECT_EQ(tokenizer->token_bytes(10), "<|start|>");
  EXPECT_FALSE(tokenizer->is_special(10)) << "nothing names it";
  for (const TokenId id : {1, 11, 12, 13}) EXPECT_TRUE(tokenizer->is_special(id)) << id;
  // What both files list is as the configuration has it.
  const auto both = load(small_model(), R"({"added_tokens_decoder": {
      "10": {"content": "<x>", "special": true, "rstrip": true}}})",
                         R"({"<x>": 10, "<y>": 11})");
  ASSERT_NE(both, nullptr);
  EXPECT_TRUE(both->is_special(10));
  EXPECT_THAT(encode(*both, "<x>  <y>", {false, true}), ElementsAre(10, 11));
}

TEST(SentencePiece, LoadsTheFileOfAddedTokens) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "tokenizer.model", std::ios::binary) << small_model();
  EXPECT_FALSE((*load_tokenizer(directory.path()))->find("<|im_start|>"));
  std::ofstream(directory.path() / "added_tokens.json") << R"({"<|im_start|>": 10})";
  const auto tokenizer = load_tokenizer(directory.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_THAT(encode(**tokenizer, "<|im_start|>a"), ElementsAre(10, 7));
}

TEST(SentencePiece, CuttingAtMarksChangesNothing) {
  Random random(9);
  const std::string pieces = controls() + piece("▁", -10) + piece("a", -11) + piece("b", -12) +
                             piece("ab", -1) + piece("▁a", -2) + piece("▁▁", -3) +
                             piece("▁ab", -4) + piece("ba", -2);
  const auto cut = load(pieces + bpe() + identity());
  // A piece with a mark inside forbids the cutting; no text has it.
  const auto whole = load(pieces + piece("x▁y", -5) + bpe() + identity());
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (std::int64_t n = random.below(80); n > 0; --n) text += "ab c "[random.below(5)];
    ASSERT_EQ(encode(*cut, text), encode(*whole, text)) << text;
  }
}

std::string unigram(const std::string& pieces, const std::string& trainer = "") {
  return controls() + pieces + bytes(2, number(3, 1) + trainer);
}

TEST(SentencePieceUnigram, TakesTheBestPath) {
  const std::string pieces = piece("▁", -3) + piece("a", -2) + piece("b", -2) + piece("ab", -3.5f) +
                             piece("▁a", -3) + piece("[X]", 0, Type::kUserDefined);
  const auto tokenizer = load(unigram(pieces) + identity());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(encode(*tokenizer, "ab"), ElementsAre(7, 5)) << "-5 before -6.5";
  EXPECT_THAT(encode(*tokenizer, "aab"), ElementsAre(7, 6));
  EXPECT_THAT(encode(*tokenizer, "a[X]xyb"), ElementsAre(7, 8, 0, 5));
  EXPECT_EQ(decode(*tokenizer, {7, 8, 5}), "a[X]b");
  EXPECT_THAT(encode(*tokenizer, "ab", {}), ElementsAre(1, 7, 5));
}

TEST(SentencePieceUnigram, TooManyBytesAreRefused) {
  std::string pieces;
  for (int i = 0; i < 17 * 1024; ++i) {
    pieces += piece(std::to_string(i) + std::string(1000, 'a'), -1);
  }
  const auto tokenizer = load_sentencepiece({unigram(pieces)});
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("16777216 bytes"));
}

// Units of a double array, and texts: see charsmap.h. "é" becomes " x", "éé" becomes "".
std::string charsmap() {
  std::vector<std::uint32_t> units(1024);
  const auto put = [&](std::uint32_t at, std::uint32_t label, std::uint32_t offset, bool leaf) {
    units[at] = label | (leaf ? 1u << 8 : 0) | (at ^ offset) << 10;
  };
  // The children of the unit at x stand at (its offset) ^ byte, its value at its offset.
  units[0] = 256u << 10;
  put(256 ^ 0xC3, 0xC3, 512, false);
  put(512 ^ 0xA9, 0xA9, 700, true);
  units[700] = 1u << 31;
  put(700 ^ 0xC3, 0xC3, 3, false);
  put(3 ^ 0xA9, 0xA9, 900, true);
  units[900] = 1u << 31 | 3;
  std::string out;
  const auto append = [&](std::uint32_t unit) {
    for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(unit >> shift));
  };
  append(static_cast<std::uint32_t>(units.size() * 4));
  for (const std::uint32_t unit : units) append(unit);
  return out + std::string(" x\0\0", 4);
}

TEST(SentencePiece, ReplacesTheLongestKeys) {
  const std::string pieces =
      piece("▁", -1) + piece("a", -2) + piece("x", -3) + piece("aé", 0, Type::kUserDefined);
  for (const bool remove : {false, true}) {
    const std::string rules = bytes(3, bytes(2, charsmap()) + number(4, remove ? 1 : 0));
    for (const std::string& model :
         {unigram(pieces) + rules, controls() + pieces + bpe() + rules}) {
      const auto tokenizer = load(model);
      ASSERT_NE(tokenizer, nullptr);
      EXPECT_THAT(encode(*tokenizer, "xé"), ElementsAre(3, 5, 3, 5));
      EXPECT_THAT(encode(*tokenizer, "xéé"), ElementsAre(3, 5));
      EXPECT_THAT(encode(*tokenizer, "xééé"), ElementsAre(3, 5, 3, 5)) << "a pair, and one";
      EXPECT_THAT(encode(*tokenizer, "aé"), ElementsAre(3, 6)) << "user-defined: stays";
      // A mark of the text's own at the end counts as a space.
      EXPECT_THAT(encode(*tokenizer, "x▁"), ElementsAreArray(remove ? Ids{3, 5} : Ids{3, 5, 3}));
      if (remove) {
        EXPECT_THAT(encode(*tokenizer, "  éx "), ElementsAre(3, 5, 5));
        EXPECT_TRUE(encode(*tokenizer, "éé").empty());
      }
    }
  }
}

TEST(Hostile, TruncatedModelsAreErrors) {
  const std::string model = small_model();
  for (std::size_t size = 0; size < model.size(); ++size) {
    const auto tokenizer = load_sentencepiece({model.substr(0, size)});
    if (tokenizer.ok()) continue;  // cut between two fields, behind the trainer's
    EXPECT_THAT(tokenizer.error().message, HasSubstr("tokenizer.model")) << size;
  }
  EXPECT_FALSE(load_sentencepiece({""}).ok());
  EXPECT_FALSE(load_sentencepiece({model.substr(0, model.size() - 1)}).ok());
}

TEST(Hostile, RandomChangesNeverCrash) {
  Random random(10);
  for (int i = 0; i < rounds(20'000); ++i) {
    std::string model = small_model();
    for (std::int64_t n = random.between(1, 4); n > 0; --n) {
      const auto at = random.below(static_cast<std::int64_t>(model.size()));
      model[static_cast<std::size_t>(at)] = static_cast<char>(random.below(256));
    }
    const auto tokenizer = load_sentencepiece({model});
    if (!tokenizer.ok()) {
      EXPECT_FALSE(tokenizer.error().message.empty());
    } else {
      EXPECT_TRUE((*tokenizer)->encode("ab <s> x", {}).ok());
    }
  }
}

TEST(Hostile, ContradictionsAreNamed) {
  const std::string base = controls();
  const std::string huge = varint((1 << 3) | 2) + varint(std::uint64_t{1} << 62);
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [model, message] : std::vector<std::pair<std::string, std::string>>{
           {base + bytes(2, number(3, 3)), "only unigram and BPE"},
           {base + bytes(2, number(3, 0)), "only unigram and BPE"},
           {bpe(), "unknown pieces"},
           {base + base + bpe(), "unknown pieces"},
           {base + piece("<s>", 0) + bpe(), "twice"},
           {base + piece("", 0) + bpe(), "empty"},
           {base + piece("\xFF", 0) + bpe(), "UTF-8"},
           {base + piece("a", nan) + bpe(), "not a number"},
           {base + piece("a", 0, Type::kUnused) + bpe(), "unused"},
           {base + piece("a", 0, static_cast<Type>(9)) + bpe(), "type 9"},
           {base + piece("x", 0, Type::kByte) + bpe(), "<0xHH>"},
           {base + piece(std::string(5000, 'a'), 0) + bpe(), "5000 bytes"},
           {base + bpe(number(35, 1)), "byte_fallback"},
           {base + bpe(number(24, 1)), "treat_whitespace_as_suffix"},
           {base + bpe() + bytes(3, bytes(2, "rules")), "precompiled_charsmap"},
           {base + bpe() + bytes(3, number(5, 0)), "escape_whitespaces"},
           {huge, "truncated"},
           {number(1, 5), "wire type"},
           {std::string(12, '\xFF'), "64 bits"},
           {base + "\x0B", "wire type"}}) {
    const auto tokenizer = load_sentencepiece({model});
    ASSERT_FALSE(tokenizer.ok()) << message;
    EXPECT_THAT(tokenizer.error().message, HasSubstr(message));
    EXPECT_THAT(tokenizer.error().message, HasSubstr("tokenizer.model"));
  }
  // Ids of BOS and EOS outside the pieces mean that there is none.
  const auto tokenizer = load(base + bpe(number(41, -1) + number(42, 1 << 30)));
  EXPECT_FALSE(tokenizer->bos());
  EXPECT_FALSE(tokenizer->eos());
}

TEST(Hostile, WrongAddedTokensAreNamed) {
  const std::string config = R"({"added_tokens_decoder": {"10": {"content": "<x>"}}})";
  const std::string deep(100'000, '[');
  for (const auto& [file, message] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "not an object"},
           {"{", "JSON"},
           {deep, "JSON"},
           {R"({"": 11})", "a token of 0 bytes"},
           {"{\"" + std::string(2000, 'x') + "\": 11}", "a token of 2000 bytes"},
           {R"({"<y>": "11"})", "'<y>' is not an id"},
           {R"({"<y>": -1})", "'<y>' is not an id"},
           {R"({"<y>": 4194304})", "'<y>' is not an id"},
           {R"({"<y>": 4})", "'<y>' with id 4 contradicts"},
           {R"({"ab": 11})", "'ab' with id 11 contradicts"},
           {R"({"<y>": 10})", "'<y>' or its id 10"},
           {R"({"<x>": 11})", "'<x>' or its id 11"},
           {R"({"<y>": 11, "<z>": 11})", "'<z>' or its id 11"}}) {
    const auto tokenizer = load_sentencepiece({small_model(), config, file});
    ASSERT_FALSE(tokenizer.ok()) << message;
    EXPECT_EQ(tokenizer.error().code, ErrorCode::kCorrupt) << message;
    EXPECT_THAT(tokenizer.error().message, HasSubstr("added_tokens.json"));
    EXPECT_THAT(tokenizer.error().message, HasSubstr(message));
  }
}

}  // namespace
}  // namespace causeway::text::sentencepiece_test
