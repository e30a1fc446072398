#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace causeway::kv::prefix_index_test {
namespace {

// Few tags, so that many frames have the same, at both ends of the table.
PrefixHash hash_of(std::int64_t block, Random& random) {
  constexpr std::uint64_t kTags[] = {0, 1, 2, 0xfffffffe, 0xffffffff};
  const std::uint64_t tag = random.chance(0.5) ? kTags[random.below(5)] : random.bits();
  return {tag, static_cast<std::uint64_t>(block)};
}

TEST(PrefixIndex, IsAsAMap) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const std::int64_t frames = random.between(1, 300);
    PrefixIndex index;
    std::map<std::int64_t, PrefixHash> held;  // by frame
    for (int i = 0; i < 2000; ++i) {
      const auto frame =
          static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(frames)));
      if (const auto at = held.find(frame); at != held.end()) {
        index.erase(at->second, FrameId(frame));
        held.erase(at);
      } else {
        const PrefixHash hash = hash_of(frame, random);
        index.insert(hash, FrameId(frame));
        held.emplace(frame, hash);
      }
      ASSERT_EQ(index.size(), std::ssize(held)) << "seed " << seed;
    }
    for (const auto& [frame, hash] : held) {
      const FrameId found = index.find(hash, [&](FrameId one) {
        return held.contains(one.value) && held.at(one.value) == hash;
      });
      ASSERT_EQ(found, FrameId(frame)) << "seed " << seed;
    }
    EXPECT_FALSE(index.find({7, 7}, [](FrameId) { return false; }).valid());
  }
}

TEST(PrefixIndexDeathTest, AFrameThatIsNotThere) {
  PrefixIndex index;
  index.insert({5, 1}, FrameId(3));
  EXPECT_DEATH(index.erase({5, 1}, FrameId(4)), "not in the index");
}

}  // namespace
}  // namespace causeway::kv::prefix_index_test
