#include <gtest/gtest.h>

#include <map>

#include "base/testing/rounds.h"
#include "text/bpe_model.h"
#include "text/testing/random_text.h"

namespace causeway::text::bpe_test {
namespace {

TEST(Vocabulary, AgreesWithAMap) {
  Random random(1);
  Vocabulary vocabulary;
  std::map<std::string, TokenId> by_content;
  std::map<TokenId, std::string> by_id;
  for (int i = 0; i < 5000; ++i) {
    const std::string content = testing::random_text(random, 3);
    const auto id = static_cast<TokenId>(random.below(8000));
    const bool is_new = !by_content.contains(content) && !by_id.contains(id);
    ASSERT_EQ(vocabulary.add(id, content), is_new);
    if (!is_new) continue;
    by_content[content] = id;
    by_id[id] = content;
  }
  EXPECT_EQ(vocabulary.entries(), by_id.size());
  EXPECT_EQ(vocabulary.ids_end(), by_id.rbegin()->first + 1);
  for (const auto& [content, id] : by_content) ASSERT_EQ(vocabulary.find(content), id);
  for (TokenId id = -3; id < 8010; ++id) {
    ASSERT_EQ(vocabulary.contains(id), by_id.contains(id));
    ASSERT_EQ(vocabulary.content(id), by_id.contains(id) ? by_id[id] : "");
  }
  EXPECT_FALSE(vocabulary.find("no such content at all"));
}

TEST(ByteSpelling, IsABijectionOfPrintableCharacters) {
  std::string all;
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t code = spelling_of_byte(static_cast<unsigned char>(byte));
    EXPECT_EQ(byte_of_spelling(code), byte);
    append_utf8(code, all);
    bytes.push_back(static_cast<char>(byte));
  }
  EXPECT_EQ(bytes_of_spelling(all), bytes);
  EXPECT_EQ(bytes_of_spelling("Ġthe"), " the");
  EXPECT_EQ(bytes_of_spelling("Ċ"), "\n");
  EXPECT_FALSE(bytes_of_spelling("a b"));
  EXPECT_FALSE(bytes_of_spelling("▁"));
}

TEST(ByteFallback, ReadsExactlyItsSpelling) {
  EXPECT_EQ(byte_of_fallback("<0x0A>"), 10);
  EXPECT_EQ(byte_of_fallback("<0xFF>"), 255);
  for (const auto* other : {"<0xfF>", "<0x0A", "<0xGG>", "<0x123>", "0x0A", ""}) {
    EXPECT_FALSE(byte_of_fallback(other)) << other;
  }
}

TEST(MarkedWords, AreCutBeforeMarksThatFollowOtherCharacters) {
  EXPECT_EQ(end_of_marked_word("▁▁ab▁c"), std::string("▁▁ab").size());
  EXPECT_EQ(end_of_marked_word("▁▁"), std::string("▁▁").size());
  EXPECT_EQ(end_of_marked_word("ab"), 2u);
  EXPECT_TRUE(has_inner_mark("a▁"));
  EXPECT_FALSE(has_inner_mark("▁▁a"));
  EXPECT_FALSE(has_inner_mark(""));
}

// The definition, without any structure.
std::vector<std::string> merge_naively(
    std::vector<std::string> parts,
    const std::map<std::pair<std::string, std::string>, int>& ranks) {
  while (true) {
    int best_rank = 1 << 30;
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find({parts[i], parts[i + 1]});
      if (found != ranks.end() && found->second < best_rank) {
        best_rank = found->second;
        best = i;
      }
    }
    if (best_rank == 1 << 30) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

struct RandomModel {
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
  std::map<std::pair<std::string, std::string>, int> ranks;
  std::vector<BpeModel::MergeRule> rules;
};

// Random merges over a small alphabet, so that they overlap and compete.
RandomModel random_model(Random& random) {
  RandomModel model;
  std::vector<std::string> tokens = {"a", "b", "c", "d"};
  for (int i = 0; i < 60; ++i) {
    const auto pick = [&] {
      return tokens[random.below(static_cast<std::int64_t>(tokens.size()))];
    };
    std::pair<std::string, std::string> merge{pick(), pick()};
    const std::string joined = merge.first + merge.second;
    if (joined.size() > 9 || model.ranks.contains(merge)) continue;
    if (std::find(tokens.begin(), tokens.end(), joined) == tokens.end()) tokens.push_back(joined);
    model.ranks[merge] = static_cast<int>(model.merges.size());
    model.merges.push_back(merge);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    model.vocabulary.add(static_cast<TokenId>(i), tokens[i]);
  }
  for (const auto& [left, right] : model.merges) model.rules.push_back({left, right});
  return model;
}

TEST(BpeModel, AgreesWithTheDefinition) {
  Random random(5);
  for (int round = 0; round < rounds(60); ++round) {
    const RandomModel random_one = random_model(random);
    auto model = BpeModel::build(random_one.vocabulary, random_one.rules, {});
    ASSERT_TRUE(model.ok()) << model.error().message;
    MergeScratch scratch;
    for (int i = 0; i < 60; ++i) {
      // Lengths on both sides of the change from scanning to the heap.
      std::vector<std::string> letters;
      for (std::int64_t n = random.between(1, 150); n > 0; --n) {
        letters.emplace_back(1, static_cast<char>('a' + random.below(4)));
      }
      std::string word;
      for (const auto& letter : letters) word += letter;
      std::vector<TokenId> expected;
      for (const auto& part : merge_naively(letters, random_one.ranks)) {
        expected.push_back(*random_one.vocabulary.find(part));
      }
      for (int repeat = 0; repeat < 2; ++repeat) {
        std::vector<TokenId> ids;
        model->encode_word(word, scratch, ids);
        ASSERT_EQ(ids, expected) << word;
      }
    }
  }
}

TEST(BpeModel, ScanningAndHeapAgreeOnTies) {
  Random random(6);
  for (int round = 0; round < 2000; ++round) {
    MergeScratch scan;
    for (std::int64_t i = random.between(1, 40); i > 0; --i) {
      scan.symbols.push_back({static_cast<TokenId>(random.below(3)),
                              static_cast<std::uint32_t>(scan.symbols.size()), 1});
    }
    MergeScratch heap = scan;
    const auto lookup = [](const Symbol& left, const Symbol& right) -> Merge {
      const auto mixed = static_cast<std::uint32_t>(left.id * 7 + right.id * 3) % 11;
      if (mixed > 6 || left.size + right.size > 8) return {};
      return {mixed / 2, static_cast<TokenId>((left.id + right.id) % 5)};
    };
    merge_by_scanning(scan, lookup);
    merge_by_heap(heap, lookup);
    ASSERT_EQ(scan.symbols.size(), heap.symbols.size());
    for (std::size_t i = 0; i < scan.symbols.size(); ++i) {
      ASSERT_EQ(scan.symbols[i].id, heap.symbols[i].id);
      ASSERT_EQ(scan.symbols[i].offset, heap.symbols[i].offset);
    }
  }
}

TEST(BpeModel, HandlesUnknownCharacters) {
  Vocabulary vocabulary;
  vocabulary.add(0, "a");
  vocabulary.add(1, "<unk>");
  vocabulary.add(2, "<0xC3>");
  vocabulary.add(3, "<0xA9>");
  MergeScratch scratch;
  const auto encode = [&](BpeOptions options, std::string_view word) {
    std::vector<TokenId> ids;
    const auto model = BpeModel::build(vocabulary, {}, options);
    model->encode_word(word, scratch, ids);
    return ids;
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(encode({.unknown = 1}, "axyéa"), (Ids{0, 1, 1, 1, 0}));
  EXPECT_EQ(encode({.fuse_unknown = true, .unknown = 1}, "axyéa"), (Ids{0, 1, 0}));
  EXPECT_EQ(encode({.byte_fallback = true, .unknown = 1}, "aéx"), (Ids{0, 2, 3, 1}));
  // As the tokenizers library: what nothing stands for is left out, an unknown character waits
  // while others fall back to bytes, and is fused with unknown ones only.
  EXPECT_EQ(encode({}, "xaxxa"), (Ids{0, 0}));
  EXPECT_EQ(encode({}, "x"), Ids{});
  EXPECT_EQ(encode({.byte_fallback = true, .fuse_unknown = true, .unknown = 1}, "xéy"),
            (Ids{2, 3, 1}));
  EXPECT_EQ(encode({.byte_fallback = true, .unknown = 1}, "xéya"), (Ids{2, 3, 1, 1, 0}));
  EXPECT_EQ(encode({.fuse_unknown = true, .unknown = 0}, "axya"), (Ids{0, 0, 0}));
}

}  // namespace
}  // namespace causeway::text::bpe_test
