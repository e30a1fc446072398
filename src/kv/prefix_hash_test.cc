#include "kv/prefix_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/random.h"

namespace causeway::kv::prefix_hash_test {
namespace {

constexpr HashKey kReferenceKey = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};

// The first outputs of the algorithm's published test vectors: key 00…0f, message 00 01 02 ….
TEST(PrefixHash, PublishedVectors) {
  EXPECT_EQ(SipHash(kReferenceKey).finish(0, 0),
            (PrefixHash{0xe6a825ba047f81a3ull, 0x930255c71472f66dull}));
  EXPECT_EQ(SipHash(kReferenceKey).finish(0, 1),
            (PrefixHash{0x44af996bd8c187daull, 0x45fc229b11597634ull}));
}

TEST(PrefixHash, EveryPartOfTheIdentityCounts) {
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5};
  std::set<PrefixHash> seen;
  const auto add = [&](HashKey key, std::int64_t model, PrefixHash parent,
                       std::span<const TokenId> block) {
    EXPECT_TRUE(seen.insert(hash_block(key, ModelId(model), parent, block)).second);
  };
  add({}, 0, {}, tokens);
  add({1, 0}, 0, {}, tokens);
  add({0, 1}, 0, {}, tokens);
  add({}, 1, {}, tokens);
  add({}, 0, {1, 0}, tokens);
  add({}, 0, {0, 1}, tokens);
  for (std::size_t n = 0; n < tokens.size(); ++n) add({}, 0, {}, std::span(tokens).first(n));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    auto other = tokens;
    other[i] = -other[i];
    add({}, 0, {}, other);
  }
  add({}, 0, {}, std::vector<TokenId>{1, 2, 3, 4, 5, 0});
}

TEST(PrefixHash, NoCollisionAmongManySimilarBlocks) {
  std::set<PrefixHash> seen;
  for (TokenId a = 0; a < 200; ++a) {
    for (TokenId b = 0; b < 200; ++b) {
      seen.insert(hash_block({}, ModelId(0), {}, std::vector<TokenId>{a, b, 0}));
    }
  }
  EXPECT_EQ(seen.size(), 40'000u);
}

}  // namespace
}  // namespace causeway::kv::prefix_hash_test
