#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace causeway::kv::kv_cache_test {
namespace {

constexpr ModelId kModel{0};
constexpr StepId kNoStep;

std::vector<TokenId> tokens_from(TokenId first, int count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<FrameId> table_of(const KvCache& cache, int sequence) {
  const auto table = cache.table(RequestId(sequence));
  return {table.begin(), table.end()};
}

// Eight frames of four tokens.
class KvCacheTest : public ::testing::Test {
 protected:
  KvCacheTest() { cache_.add_model(kModel, Tokens(4)); }
  ~KvCacheTest() override {
    const Status status = cache_.check_integrity();
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  }
  // Opens, grows to and commits all tokens in `step`.
  Tokens run(int sequence, const std::vector<TokenId>& tokens, StepId step = kNoStep) {
    const Tokens hit = cache_.open(RequestId(sequence), kModel, tokens);
    EXPECT_TRUE(cache_.grow(RequestId(sequence), Tokens(std::ssize(tokens))));
    cache_.commit(RequestId(sequence), tokens, step);
    return hit;
  }
  void expect_counts(std::int64_t free, std::int64_t quarantined, std::int64_t cached,
                     std::int64_t referenced) {
    const FrameCounts counts = cache_.counts();
    EXPECT_EQ(counts.free, free);
    EXPECT_EQ(counts.quarantined, quarantined);
    EXPECT_EQ(counts.cached, cached);
    EXPECT_EQ(counts.referenced, referenced);
    EXPECT_EQ(counts.available(), free + cached);
  }
  KvCache cache_{{.frames = 8}};
};

TEST_F(KvCacheTest, GrowTakesWholeBlocksAllOrNothing) {
  EXPECT_EQ(cache_.open(RequestId(1), kModel, tokens_from(0, 9)), Tokens(0));
  EXPECT_EQ(cache_.frames_to_grow(RequestId(1), Tokens(9)), 3);
  EXPECT_TRUE(cache_.grow(RequestId(1), Tokens(9)));
  EXPECT_EQ(table_of(cache_, 1).size(), 3u);
  EXPECT_EQ(cache_.frames_to_grow(RequestId(1), Tokens(12)), 0);
  EXPECT_TRUE(cache_.grow(RequestId(1), Tokens(12)));
  EXPECT_FALSE(cache_.grow(RequestId(1), Tokens(33)));
  EXPECT_FALSE(cache_.grow(RequestId(1), Tokens(INT64_MAX)));
  expect_counts(5, 0, 0, 3);
  EXPECT_TRUE(cache_.grow(RequestId(1), Tokens(32)));
  expect_counts(0, 0, 0, 8);
  EXPECT_TRUE(cache_.grow(RequestId(1), Tokens(0)));
  cache_.release(RequestId(1), kNoStep);
  expect_counts(8, 0, 0, 0);  // nothing was committed, so nothing is worth keeping
}

TEST_F(KvCacheTest, SamePrefixIsShared) {
  run(1, tokens_from(0, 10));
  const auto first = table_of(cache_, 1);
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 20)), Tokens(8));
  EXPECT_EQ(run(2, tokens_from(0, 20)), Tokens(8));
  const auto second = table_of(cache_, 2);
  EXPECT_EQ(second[0], first[0]);
  EXPECT_EQ(second[1], first[1]);
  EXPECT_NE(second[2], first[2]);  // the partial block is never shared
  expect_counts(2, 0, 0, 6);
  EXPECT_EQ(cache_.prefix_stats().queried_tokens, 30);
  EXPECT_EQ(cache_.prefix_stats().hit_tokens, 8);
}

TEST_F(KvCacheTest, AtLeastOneTokenIsLeftToCompute) {
  run(1, tokens_from(0, 8));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 8)), Tokens(4));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(8));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 1)), Tokens(0));
  EXPECT_EQ(cache_.match_prefix(kModel, {}), Tokens(0));
}

TEST_F(KvCacheTest, SameTokensAfterAnotherPrefixDoNotMatch) {
  run(1, tokens_from(0, 8));
  std::vector<TokenId> other = tokens_from(100, 4);
  for (const TokenId token : tokens_from(4, 5)) other.push_back(token);
  EXPECT_EQ(cache_.match_prefix(kModel, other), Tokens(0));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(4, 5)), Tokens(0));
}

TEST_F(KvCacheTest, ModelsDoNotShare) {
  cache_.add_model(ModelId(1), Tokens(4));
  run(1, tokens_from(0, 8));
  EXPECT_EQ(cache_.match_prefix(ModelId(1), tokens_from(0, 9)), Tokens(0));
  EXPECT_EQ(cache_.tokens_per_block(ModelId(1)), Tokens(4));
}

TEST_F(KvCacheTest, BlocksAreIndexedOnlyWhenTheirStepIsDone) {
  run(1, tokens_from(0, 9), StepId(0));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(0));
  cache_.step_done(StepId(0));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(8));
}

TEST_F(KvCacheTest, ReleasedFramesWaitForTheirLastUser) {
  run(1, tokens_from(0, 9), StepId(0));
  cache_.step_done(StepId(0));
  cache_.release(RequestId(1), StepId(2));
  expect_counts(5, 3, 0, 0);
  cache_.step_done(StepId(1));
  expect_counts(5, 3, 0, 0);
  cache_.step_done(StepId(2));
  expect_counts(6, 0, 2, 0);
}

TEST_F(KvCacheTest, SharedFrameWaitsForEveryUsersStep) {
  run(1, tokens_from(0, 5));
  run(2, tokens_from(0, 5));
  cache_.release(RequestId(1), StepId(3));  // still read by step 3 …
  cache_.release(RequestId(2), kNoStep);    // … although the last to leave was idle
  expect_counts(6, 2, 0, 0);
  cache_.step_done(StepId(3));
  expect_counts(7, 0, 1, 0);
}

TEST_F(KvCacheTest, BlockReleasedWhileItIsFilledIsKeptIfTheStepSucceeds) {
  run(1, tokens_from(0, 4), StepId(0));
  cache_.release(RequestId(1), StepId(0));
  expect_counts(7, 1, 0, 0);
  cache_.step_done(StepId(0));
  expect_counts(7, 0, 1, 0);
}

TEST_F(KvCacheTest, FramesThatAStepFillsAreNeverFreeBeforeItIsDone) {
  run(1, tokens_from(0, 4), StepId(3));
  cache_.release(RequestId(1), kNoStep);  // not true, and safe all the same
  expect_counts(7, 1, 0, 0);
  cache_.step_failed(StepId(3));
  expect_counts(8, 0, 0, 0);
}

TEST_F(KvCacheTest, QuarantinedBlockCanBeSharedAgain) {
  run(1, tokens_from(0, 8));
  cache_.release(RequestId(1), StepId(5));
  EXPECT_EQ(cache_.cached_frames_of_prefix(kModel, tokens_from(0, 9)), 0);
  EXPECT_EQ(cache_.open(RequestId(2), kModel, tokens_from(0, 9)), Tokens(8));
  expect_counts(6, 0, 0, 2);
  cache_.release(RequestId(2), kNoStep);  // step 5 still reads them
  expect_counts(6, 2, 0, 0);
  cache_.step_done(StepId(5));
  EXPECT_EQ(cache_.cached_frames_of_prefix(kModel, tokens_from(0, 9)), 2);
}

TEST_F(KvCacheTest, LeastRecentlyUsedGoesFirstAndOfAChainItsEnd) {
  run(1, tokens_from(0, 12));    // three blocks
  run(2, tokens_from(100, 12));  // three blocks
  cache_.release(RequestId(1), kNoStep);
  cache_.release(RequestId(2), kNoStep);
  expect_counts(2, 0, 6, 0);
  run(3, tokens_from(200, 12));  // two free ones and one evicted
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 13)), Tokens(8));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(100, 13)), Tokens(12));
  // Use renews: the older chain is touched, so the younger one loses its end.
  cache_.open(RequestId(4), kModel, tokens_from(0, 13));
  cache_.release(RequestId(4), kNoStep);
  run(5, tokens_from(300, 4));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 13)), Tokens(8));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(100, 13)), Tokens(8));
}

TEST_F(KvCacheTest, DuplicatesFilledAtTheSameTimeKeepOneInTheIndex) {
  run(1, tokens_from(0, 8), StepId(0));
  run(2, tokens_from(0, 8), StepId(0));
  expect_counts(4, 0, 0, 4);
  cache_.step_done(StepId(0));
  ASSERT_TRUE(cache_.check_integrity().ok());
  cache_.release(RequestId(2), kNoStep);
  expect_counts(6, 0, 0, 2);  // the duplicates are worth nothing
  cache_.release(RequestId(1), kNoStep);
  expect_counts(6, 0, 2, 0);
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(8));
}

TEST_F(KvCacheTest, FailedStepIndexesNothing) {
  run(1, tokens_from(0, 8), StepId(0));
  cache_.step_failed(StepId(0));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(0));
  // Computed again, it counts.
  cache_.commit(RequestId(1), tokens_from(0, 8), StepId(1));
  cache_.step_done(StepId(1));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(8));
}

TEST_F(KvCacheTest, WhatLaterStepsBuiltOnAFailedOneIsInvalidToo) {
  run(1, tokens_from(0, 6), StepId(0));
  ASSERT_TRUE(cache_.grow(RequestId(1), Tokens(8)));
  cache_.commit(RequestId(1), tokens_from(0, 8), StepId(1));
  run(2, tokens_from(50, 4), StepId(1));
  cache_.release(RequestId(1), StepId(1));
  cache_.step_failed(StepId(0));
  cache_.step_done(StepId(1));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(0));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(50, 5)), Tokens(4));
  expect_counts(7, 0, 0, 1);
}

TEST_F(KvCacheTest, StepsBeforeAFailedOneCount) {
  run(1, tokens_from(0, 4), StepId(0));
  ASSERT_TRUE(cache_.grow(RequestId(1), Tokens(8)));
  cache_.commit(RequestId(1), tokens_from(0, 8), StepId(1));
  cache_.step_failed(StepId(1));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(4));
}

TEST_F(KvCacheTest, RemovedModelLeavesNothingBehind) {
  run(1, tokens_from(0, 8));
  cache_.release(RequestId(1), kNoStep);
  run(2, tokens_from(100, 8), StepId(1));
  cache_.release(RequestId(2), StepId(1));
  cache_.remove_model(kModel);
  expect_counts(6, 2, 0, 0);
  cache_.step_done(StepId(1));
  expect_counts(8, 0, 0, 0);
  cache_.add_model(kModel, Tokens(4));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(0));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(100, 9)), Tokens(0));
}

TEST(KvCache, WithoutPrefixCachingNothingIsKept) {
  KvCache cache({.frames = 4, .prefix_caching = false});
  cache.add_model(kModel, Tokens(2));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cache.open(RequestId(i), kModel, tokens_from(0, 4)), Tokens(0));
    ASSERT_TRUE(cache.grow(RequestId(i), Tokens(4)));
    cache.commit(RequestId(i), tokens_from(0, 4), kNoStep);
    EXPECT_TRUE(cache.check_integrity().ok());
    cache.release(RequestId(i), kNoStep);
    EXPECT_EQ(cache.counts().free, 4);
  }
  EXPECT_EQ(cache.prefix_stats().queried_tokens, 0);
}

TEST(KvCache, HashSeedChangesNothingVisible) {
  for (const std::uint64_t seed : {0ull, 1ull, ~0ull}) {
    KvCache cache({.frames = 4, .hash_seed = seed});
    cache.add_model(kModel, Tokens(2));
    cache.open(RequestId(0), kModel, tokens_from(0, 5));
    ASSERT_TRUE(cache.grow(RequestId(0), Tokens(5)));
    cache.commit(RequestId(0), tokens_from(0, 5), kNoStep);
    EXPECT_EQ(cache.match_prefix(kModel, tokens_from(0, 5)), Tokens(4));
  }
}

TEST_F(KvCacheTest, RetiredFramesGoAtOnceOrWhenNothingUsesThem) {
  run(1, tokens_from(0, 8), StepId(0));    // frames 0, 1
  run(2, tokens_from(100, 8), StepId(0));  // frames 2, 3
  cache_.step_done(StepId(0));
  cache_.release(RequestId(2), kNoStep);
  const FrameRun low{FrameId(0), 4};
  cache_.retire_frames(low);
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(0)) << "retiring is not shared";
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(100, 9)), Tokens(0)) << "evicted";
  EXPECT_EQ(cache_.counts(), (FrameCounts{.free = 4, .referenced = 2, .retiring = 2, .gone = 2}));
  EXPECT_EQ(cache_.frames(), 4);
  EXPECT_FALSE(cache_.retired(low));
  cache_.release(RequestId(1), StepId(1));
  EXPECT_FALSE(cache_.retired(low)) << "a step may use them";
  cache_.step_done(StepId(1));
  EXPECT_TRUE(cache_.retired(low));
  EXPECT_FALSE(cache_.retired({FrameId(0), 5}));
  cache_.open(RequestId(3), kModel, tokens_from(0, 30));
  EXPECT_FALSE(cache_.grow(RequestId(3), Tokens(17)));
  cache_.add_frames(low);
  EXPECT_TRUE(cache_.grow(RequestId(3), Tokens(32)));
}

TEST_F(KvCacheTest, ARunThatIsTakenBackHasLostNothingThatWasInUse) {
  run(1, tokens_from(0, 8));
  cache_.retire_frames({FrameId(0), 4});
  cache_.add_frames({FrameId(0), 4});
  EXPECT_EQ(cache_.frames(), 8);
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(8));
  cache_.release(RequestId(1), kNoStep);
  EXPECT_EQ(cache_.counts(), (FrameCounts{.free = 6, .cached = 2}));
}

TEST_F(KvCacheTest, RunsWithTheFewestFramesInUseAreTheBestToRetire) {
  run(1, tokens_from(0, 4));     // frame 0
  run(2, tokens_from(100, 16));  // frames 1 to 4
  run(3, tokens_from(200, 4));   // frame 5
  cache_.release(RequestId(2), kNoStep);
  // In use and cached, by run: 0: 1, 1; 1: 0, 2; 2: 1, 1; 3: 0, 0.
  std::vector<std::int64_t> firsts;
  for (const FrameRun& best : cache_.runs_to_retire(2, 9)) firsts.push_back(best.first.value);
  EXPECT_EQ(firsts, (std::vector<std::int64_t>{6, 2, 4, 0}));
  cache_.retire_frames({FrameId(3), 1});
  EXPECT_EQ(cache_.runs_to_retire(2, 2).at(1).first, FrameId(4));
}

TEST(KvCacheFrames, ThereMayBeMoreThanAtTheStart) {
  KvCache cache({.frames = 2, .frames_max = 6});
  cache.add_model(kModel, Tokens(1));
  cache.open(RequestId(0), kModel, {});
  EXPECT_EQ(cache.frames(), 2);
  EXPECT_EQ(cache.frames_max(), 6);
  EXPECT_FALSE(cache.grow(RequestId(0), Tokens(3)));
  cache.add_frames({FrameId(4), 2});
  EXPECT_TRUE(cache.grow(RequestId(0), Tokens(4)));
  EXPECT_EQ(table_of(cache, 0), (std::vector{FrameId(0), FrameId(1), FrameId(4), FrameId(5)}));
  EXPECT_TRUE(cache.check_integrity().ok());
}

using KvCacheDeathTest = KvCacheTest;

TEST_F(KvCacheDeathTest, MisuseIsABug) {
  run(1, tokens_from(0, 8));
  EXPECT_DEATH(cache_.add_model(kModel, Tokens(4)), "knows this model already");
  EXPECT_DEATH(cache_.add_model(ModelId(9), Tokens(0)), "less than one token");
  EXPECT_DEATH(cache_.match_prefix(ModelId(9), {}), "does not know this model");
  EXPECT_DEATH(cache_.remove_model(kModel), "open sequences");
  EXPECT_DEATH(cache_.open(RequestId(1), kModel, {}), "open block table already");
  EXPECT_DEATH(cache_.release(RequestId(2), kNoStep), "no open block table");
  EXPECT_DEATH(cache_.table(RequestId(2)), "no open block table");
  EXPECT_DEATH((void)cache_.grow(RequestId(1), Tokens(-1)), "negative");
  EXPECT_DEATH(cache_.commit(RequestId(1), tokens_from(0, 9), kNoStep), "does not cover");
  EXPECT_DEATH(cache_.commit(RequestId(1), tokens_from(0, 7), kNoStep), "stay committed");
  EXPECT_DEATH(KvCache({.frames = -1}), "negative");
  EXPECT_DEATH(cache_.add_frames({FrameId(7), 1}), "added twice");
  EXPECT_DEATH(cache_.retire_frames({FrameId(7), 2}), "no such frame");
  cache_.step_done(StepId(4));
  EXPECT_DEATH(cache_.step_failed(StepId(4)), "cannot fail");
}

}  // namespace
}  // namespace causeway::kv::kv_cache_test
