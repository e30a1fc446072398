#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kv/kv_cache.h"

namespace causeway::kv::kv_rotation_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ModelId kModel{0};
constexpr StepId kNoStep;
constexpr bool kOk = true, kFailed = false;

std::vector<TokenId> tokens_from(TokenId first, int count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// Eight frames and six twins of four tokens.
class KvRotationTest : public ::testing::Test {
 protected:
  explicit KvRotationTest(const KvCacheOptions& options = {.frames = 8, .twins = 6})
      : cache_(options) {
    cache_.add_model(kModel, Tokens(4));
  }
  ~KvRotationTest() override {
    const Status status = cache_.check_integrity();
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  }
  // Opens, grows to and commits all tokens in `step`.
  RequestId run(int id, const std::vector<TokenId>& tokens, StepId step = kNoStep) {
    cache_.open(RequestId(id), kModel, tokens);
    EXPECT_TRUE(cache_.grow(RequestId(id), Tokens(std::ssize(tokens))));
    cache_.commit(RequestId(id), tokens, step);
    return RequestId(id);
  }
  std::vector<KvCopy> take(std::int64_t out_max = 0) {
    std::vector<KvCopy> copies;
    cache_.take_copies(out_max, copies);
    return copies;
  }
  std::vector<RequestId> end(const std::vector<KvCopy>& copies, bool ok = kOk) {
    std::vector<RequestId> lost;
    for (const KvCopy& copy : copies) cache_.copy_ended(copy.id, ok, lost);
    return lost;
  }
  // Rotates the sequence out; all copies end.
  void to_host(RequestId id) {
    ASSERT_TRUE(cache_.rotate_out(id, kNoStep));
    ASSERT_THAT(end(take()), IsEmpty());
    ASSERT_EQ(cache_.place(id), SequencePlace::kHost);
  }
  void expect_frames(const FrameCounts& counts) { EXPECT_EQ(cache_.counts(), counts); }
  void expect_twins(const TwinCounts& counts) { EXPECT_EQ(cache_.twin_counts(), counts); }

  KvCache cache_;
};

TEST_F(KvRotationTest, ASequenceGoesWithItsTailAndComesBack) {
  const RequestId id = run(1, tokens_from(0, 10));
  const RotateOutCost cost = cache_.rotate_out_cost(id);
  EXPECT_EQ(cost.twins, 3);
  EXPECT_EQ(cost.copies, 3);
  EXPECT_EQ(cost.frames, 3);
  EXPECT_EQ(cost.frames_after_step, 0);
  ASSERT_TRUE(cache_.rotate_out(id, kNoStep));
  EXPECT_EQ(cache_.place(id), SequencePlace::kLeaving);
  EXPECT_TRUE(cache_.table(id).empty());
  expect_frames({.free = 5, .quarantined = 3});
  const auto out = take();
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].reason, KvCopy::Reason::kRotation);
  EXPECT_EQ(out[2].frame, FrameId(2)) << "the tail goes last";
  EXPECT_THAT(end(out), IsEmpty());
  EXPECT_EQ(cache_.place(id), SequencePlace::kHost);
  expect_frames({.free = 6, .cached = 2});
  expect_twins({.free = 3, .held = 3});
  // The full blocks are still in HBM: only the tail is brought.
  EXPECT_EQ(cache_.rotate_in_cost(id).frames, 3);
  EXPECT_EQ(cache_.rotate_in_cost(id).copies, 1);
  ASSERT_TRUE(cache_.rotate_in(id));
  EXPECT_EQ(cache_.place(id), SequencePlace::kArriving);
  EXPECT_EQ(cache_.table(id).size(), 3u);
  const auto in = take();
  ASSERT_EQ(in.size(), 1u);
  EXPECT_EQ(in[0].direction, KvCopy::Direction::kIn);
  EXPECT_EQ(in[0].frame, cache_.table(id)[2]);
  EXPECT_EQ(in[0].twin, out[2].twin);
  EXPECT_EQ(cache_.arriving_until(id), in[0].id);
  EXPECT_THAT(end(in), IsEmpty());
  EXPECT_EQ(cache_.place(id), SequencePlace::kHbm);
  EXPECT_FALSE(cache_.arriving_until(id).valid());
  expect_twins({.free = 4, .backing = 2});  // the tail will change: its twin is gone
}

TEST_F(KvRotationTest, EagerCopiesLeaveOnlyTheTailToCopy) {
  const RequestId id = run(1, tokens_from(0, 14), StepId(0));
  EXPECT_THAT(take(9), IsEmpty()) << "the step has not ended";
  cache_.step_done(StepId(0));
  const auto first = take(2), rest = take(9);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(first[0].frame, FrameId(0)) << "oldest first";
  EXPECT_EQ(rest[0].frame, FrameId(2));
  EXPECT_EQ(rest[0].reason, KvCopy::Reason::kEager);
  end(first);
  end(rest);
  expect_twins({.free = 3, .backing = 3});
  const RotateOutCost cost = cache_.rotate_out_cost(id);
  EXPECT_EQ(cost.copies, 1);
  EXPECT_EQ(cost.frames_after_step, 3);
  ASSERT_TRUE(cache_.rotate_out(id, kNoStep));
  expect_frames({.free = 4, .quarantined = 1, .cached = 3});
  EXPECT_EQ(take(9).size(), 1u);
}

TEST_F(KvRotationTest, ATailIsCopiedWhenNoStepWritesItAnyMore) {
  const RequestId id = run(1, tokens_from(0, 3), StepId(0));
  ASSERT_TRUE(cache_.grow(id, Tokens(4)));
  cache_.commit(id, tokens_from(0, 4), StepId(1));
  cache_.step_done(StepId(0));
  ASSERT_TRUE(cache_.grow(id, Tokens(5)));
  cache_.commit(id, tokens_from(0, 5), StepId(2));
  ASSERT_TRUE(cache_.rotate_out(id, StepId(2)));
  EXPECT_THAT(take(9), IsEmpty());
  cache_.step_done(StepId(1));
  EXPECT_EQ(take(9).size(), 1u) << "the block that step 1 has filled";
  cache_.step_done(StepId(2));
  const auto tail = take(9);
  ASSERT_EQ(tail.size(), 1u);
  EXPECT_EQ(tail[0].frame, FrameId(1));
  EXPECT_EQ(cache_.place(id), SequencePlace::kLeaving);
}

TEST_F(KvRotationTest, AFrameIsQuarantinedUntilItsStepAndItsCopyHaveEnded) {
  const RequestId first = run(1, tokens_from(0, 3), StepId(0));
  ASSERT_TRUE(cache_.rotate_out(first, StepId(1)));  // step 1 discards what it computes of it
  cache_.step_done(StepId(0));
  EXPECT_THAT(take(), IsEmpty());
  cache_.step_done(StepId(1));
  const auto out = take();
  expect_frames({.free = 7, .quarantined = 1});
  end(out);
  expect_frames({.free = 8});
  // The other way around: the copy of a full block ends before the step.
  const RequestId second = run(2, tokens_from(0, 4));
  ASSERT_TRUE(cache_.rotate_out(second, StepId(2)));
  end(take());
  EXPECT_EQ(cache_.place(second), SequencePlace::kLeaving) << "its step may fail";
  expect_frames({.free = 7, .quarantined = 1});
  cache_.step_done(StepId(2));
  EXPECT_EQ(cache_.place(second), SequencePlace::kHost);
  expect_frames({.free = 7, .cached = 1});
}

TEST_F(KvRotationTest, ComingBackWaitsForNoCopyOut) {
  const RequestId back = run(1, tokens_from(0, 15));
  to_host(back);
  const RequestId victim = run(2, tokens_from(100, 7));
  run(3, tokens_from(200, 8));
  cache_.retire_frames({FrameId(7), 1});
  ASSERT_TRUE(cache_.rotate_out(victim, kNoStep));
  ASSERT_FALSE(cache_.rotate_in(back)) << "the victim's frames are not there yet";
  cache_.add_frames({FrameId(7), 1});
  ASSERT_TRUE(cache_.rotate_in(back));
  const auto copies = take();
  EXPECT_EQ(copies.front().direction, KvCopy::Direction::kIn);
  EXPECT_EQ(copies.back().direction, KvCopy::Direction::kOut);
}

TEST_F(KvRotationTest, SharedBlocksShareATwin) {
  const RequestId one = run(1, tokens_from(0, 9));
  const RequestId two = run(2, tokens_from(0, 10));
  EXPECT_EQ(cache_.rotate_out_cost(one).frames, 1) << "the others are shared";
  ASSERT_TRUE(cache_.rotate_out(one, kNoStep));
  const auto copies = take();
  EXPECT_EQ(copies.size(), 3u);
  EXPECT_EQ(cache_.rotate_out_cost(two).copies, 1);
  EXPECT_EQ(cache_.rotate_out_cost(two).twins, 1) << "those that are held take none";
  ASSERT_TRUE(cache_.rotate_out(two, kNoStep));
  expect_twins({.free = 2, .held = 4});
  const auto tail = take();
  EXPECT_EQ(tail.size(), 1u);
  end(tail);
  EXPECT_EQ(cache_.place(two), SequencePlace::kLeaving) << "waits for the other's copies";
  end(copies);
  EXPECT_EQ(cache_.place(one), SequencePlace::kHost);
  EXPECT_EQ(cache_.place(two), SequencePlace::kHost);
}

TEST_F(KvRotationTest, WithoutTwinsEnoughNothingHappens) {
  const RequestId one = run(1, tokens_from(0, 16));
  to_host(one);
  const RequestId two = run(2, tokens_from(100, 12));
  EXPECT_EQ(cache_.rotate_out_cost(two).twins, 3);
  EXPECT_EQ(cache_.twin_counts().available(), 2);
  EXPECT_FALSE(cache_.rotate_out(two, kNoStep));
  EXPECT_EQ(cache_.place(two), SequencePlace::kHbm);
  EXPECT_EQ(cache_.table(two).size(), 3u);
  cache_.release(one, kNoStep);
  EXPECT_TRUE(cache_.rotate_out(two, kNoStep));
}

TEST_F(KvRotationTest, MoreTwinsMayComeLater) {
  const RequestId id = run(1, tokens_from(0, 28));
  EXPECT_FALSE(cache_.rotate_out(id, kNoStep));
  cache_.add_twins(1);
  EXPECT_EQ(cache_.twins(), 7);
  ASSERT_TRUE(cache_.rotate_out(id, kNoStep));
  EXPECT_EQ(take().back().twin, TwinId(6));
}

TEST_F(KvRotationTest, TwinsOutliveTheirSequencesAsPrefixes) {
  const RequestId one = run(1, tokens_from(0, 12));
  end(take(9));
  cache_.release(one, kNoStep);
  expect_twins({.free = 3, .cached = 3});
  const RequestId other = run(2, tokens_from(100, 28));  // evicts two of three frames
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 13)), Tokens(4));
  PrefixTiers tiers = cache_.prefix_tiers(kModel, tokens_from(0, 13));
  EXPECT_EQ(tiers.in_hbm, Tokens(4));
  EXPECT_EQ(tiers.in_all, Tokens(12));
  EXPECT_EQ(tiers.copies, 2);
  EXPECT_EQ(tiers.frames, 3);
  cache_.release(other, kNoStep);
  ASSERT_EQ(cache_.open_with_twins(RequestId(3), kModel, tokens_from(0, 13)), Tokens(12));
  EXPECT_EQ(cache_.prefix_stats().host_tokens, 8);
  const auto in = take();
  ASSERT_EQ(in.size(), 2u);
  EXPECT_EQ(in[0].reason, KvCopy::Reason::kPrefix);
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 13)), Tokens(4)) << "not shared before";
  end(in);
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 13)), Tokens(12));
  EXPECT_EQ(cache_.place(RequestId(3)), SequencePlace::kHbm);
}

TEST_F(KvRotationTest, TwinsAreEvictedInTheOrderOfFrames) {
  cache_.release(run(1, tokens_from(0, 8)), kNoStep);
  cache_.release(run(2, tokens_from(100, 8)), kNoStep);
  end(take(9));
  // The first is used again: the second's last block is the oldest, though it was copied later.
  cache_.open(RequestId(1), kModel, tokens_from(0, 9));
  cache_.release(RequestId(1), kNoStep);
  to_host(run(3, tokens_from(200, 11)));
  expect_twins({.cached = 3, .held = 3});
  // Only in host memory: what is left of the two when HBM is full of others.
  run(4, tokens_from(300, 32));
  EXPECT_EQ(cache_.prefix_tiers(kModel, tokens_from(0, 9)).in_all, Tokens(8));
  EXPECT_EQ(cache_.prefix_tiers(kModel, tokens_from(100, 9)).in_all, Tokens(4));
}

TEST_F(KvRotationTest, EagerCopiesTakeNoTwinsOfBlocksInUse) {
  const RequestId one = run(1, tokens_from(0, 24));
  end(take(9));
  expect_twins({.backing = 6});
  const RequestId two = run(2, tokens_from(100, 4));
  EXPECT_THAT(take(9), IsEmpty());
  EXPECT_TRUE(cache_.rotate_out(two, kNoStep)) << "who must go may";
  expect_twins({.backing = 5, .held = 1});
  EXPECT_EQ(cache_.rotate_out_cost(one).copies, 1);
}

TEST_F(KvRotationTest, ACachedFrameIsNotEvictedWhileItIsCopied) {
  cache_.release(run(1, tokens_from(0, 8)), kNoStep);
  const auto eager = take(2);
  ASSERT_EQ(eager.size(), 2u);
  expect_frames({.free = 6, .cached = 2, .copying = 2});
  EXPECT_EQ(cache_.counts().available(), 6);
  EXPECT_EQ(cache_.frames(), 8);
  cache_.open(RequestId(2), kModel, {});
  EXPECT_FALSE(cache_.grow(RequestId(2), Tokens(28)));
  end({eager[0]});
  EXPECT_TRUE(cache_.grow(RequestId(2), Tokens(28)));
  EXPECT_EQ(cache_.table(RequestId(2)).back(), eager[0].frame);
}

TEST_F(KvRotationTest, AFailedCopyOutLosesWhoWaitsForItAndNobodyElse) {
  const RequestId one = run(1, tokens_from(0, 6));
  const RequestId two = run(2, tokens_from(0, 7));
  const RequestId three = run(3, tokens_from(100, 5));
  for (const RequestId id : {one, two, three}) ASSERT_TRUE(cache_.rotate_out(id, kNoStep));
  const auto copies = take();
  ASSERT_EQ(copies.size(), 5u);
  EXPECT_THAT(end({copies[0]}, kFailed), ElementsAre(one, two));  // the block that both have
  EXPECT_EQ(cache_.place(one), SequencePlace::kLost);
  cache_.release(one, kNoStep);
  cache_.release(two, kNoStep);
  EXPECT_THAT(end({copies.begin() + 1, copies.end()}), IsEmpty());
  EXPECT_EQ(cache_.place(three), SequencePlace::kHost);
  expect_twins({.free = 4, .held = 2});
}

TEST_F(KvRotationTest, AFailedEagerCopyIsNoticedByNobody) {
  run(1, tokens_from(0, 4));
  EXPECT_THAT(end(take(9), kFailed), IsEmpty());
  expect_twins({.free = 6});
  EXPECT_THAT(take(9), IsEmpty()) << "not tried again before it must go";
  EXPECT_EQ(cache_.rotate_out_cost(RequestId(1)).copies, 1);
}

TEST_F(KvRotationTest, WhatIsBuiltOnAFailedCopyInIsNeverFound) {
  const RequestId id = run(1, tokens_from(0, 6));
  to_host(id);
  ASSERT_TRUE(cache_.rotate_in(id));
  const auto in = take();
  ASSERT_EQ(in.size(), 1u);
  ASSERT_TRUE(cache_.grow(id, Tokens(8)));
  cache_.commit(id, tokens_from(0, 8), StepId(0));
  EXPECT_THAT(end(in, kFailed), ElementsAre(id));
  cache_.release(id, StepId(0));
  cache_.step_done(StepId(0));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(4));
  expect_frames({.free = 7, .cached = 1});
}

TEST_F(KvRotationTest, TheSameIfTheSequenceHasEndedBefore) {
  const RequestId id = run(1, tokens_from(0, 6));
  to_host(id);
  ASSERT_TRUE(cache_.rotate_in(id));
  const auto in = take();
  ASSERT_TRUE(cache_.grow(id, Tokens(8)));
  cache_.commit(id, tokens_from(0, 8), StepId(0));
  cache_.release(id, StepId(0));
  EXPECT_THAT(end(in, kFailed), IsEmpty());
  cache_.step_done(StepId(0));
  EXPECT_EQ(cache_.match_prefix(kModel, tokens_from(0, 9)), Tokens(4));
}

TEST_F(KvRotationTest, ACopyThatIsGivenUpKeepsItsPlacesUntilItEnds) {
  const RequestId id = run(1, tokens_from(0, 4));
  ASSERT_TRUE(cache_.rotate_out(id, kNoStep));
  const auto out = take();
  std::vector<RequestId> lost;
  cache_.give_up_copy(out[0].id, lost);
  EXPECT_THAT(lost, ElementsAre(id));
  cache_.release(id, kNoStep);
  expect_frames({.free = 7, .quarantined = 1, .stranded = 1});
  expect_twins({.free = 5, .held = 1});
  EXPECT_THAT(end(out), IsEmpty());
  expect_frames({.free = 7, .cached = 1});
  expect_twins({.free = 6});
}

TEST_F(KvRotationTest, FramesAreStrandedOnceNobodyHasThem) {
  const RequestId id = run(1, tokens_from(0, 4));
  const auto eager = take(1);
  std::vector<RequestId> lost;
  cache_.give_up_copy(eager.at(0).id, lost);
  expect_frames({.free = 7, .referenced = 1});
  cache_.release(id, kNoStep);
  expect_frames({.free = 7, .quarantined = 1, .stranded = 1});
  EXPECT_EQ(cache_.counts().coming(), 0);
  // The block is there all the same.
  cache_.open(RequestId(2), kModel, tokens_from(0, 5));
  expect_frames({.free = 7, .referenced = 1});
  cache_.release(RequestId(2), kNoStep);
  end(eager);
  expect_frames({.free = 7, .cached = 1});
}

TEST_F(KvRotationTest, AModelMayGoWhileACopyHangs) {
  const RequestId id = run(1, tokens_from(0, 4));
  const auto eager = take(1);
  std::vector<RequestId> lost;
  cache_.give_up_copy(eager.at(0).id, lost);
  EXPECT_THAT(lost, IsEmpty());
  cache_.release(id, kNoStep);
  cache_.remove_model(kModel);
  expect_twins({.free = 5, .held = 1});
  end(eager);
  expect_frames({.free = 8});
  expect_twins({.free = 6});
}

TEST_F(KvRotationTest, WhoEndsInAnyPlaceLeavesNothingHeld) {
  const RequestId leaving = run(1, tokens_from(0, 3));
  ASSERT_TRUE(cache_.rotate_out(leaving, kNoStep));
  cache_.release(leaving, kNoStep);  // nothing was taken
  EXPECT_THAT(take(), IsEmpty());
  const RequestId on_its_way = run(2, tokens_from(0, 3));
  ASSERT_TRUE(cache_.rotate_out(on_its_way, kNoStep));
  const auto out = take();
  cache_.release(on_its_way, kNoStep);
  expect_frames({.free = 7, .quarantined = 1});
  end(out);
  const RequestId away = run(3, tokens_from(0, 3));
  to_host(away);
  cache_.release(away, kNoStep);
  const RequestId arriving = run(4, tokens_from(0, 3));
  to_host(arriving);
  ASSERT_TRUE(cache_.rotate_in(arriving));
  cache_.release(arriving, kNoStep);  // before its copy was taken
  EXPECT_THAT(take(), IsEmpty());
  expect_frames({.free = 8});
  expect_twins({.free = 6});
}

TEST_F(KvRotationTest, AStepThatFailsTakesWhoLeavesWithIt) {
  const RequestId id = run(1, tokens_from(0, 8), StepId(0));
  ASSERT_TRUE(cache_.rotate_out(id, StepId(0)));
  cache_.step_failed(StepId(0));
  EXPECT_EQ(cache_.place(id), SequencePlace::kLost);
  std::vector<RequestId> lost;
  cache_.take_lost(lost);
  EXPECT_THAT(lost, ElementsAre(id));
  EXPECT_THAT(take(9), IsEmpty());
  cache_.release(id, kNoStep);
  expect_frames({.free = 8});
  expect_twins({.free = 6});
}

TEST_F(KvRotationTest, AndWhoWaitsForTheBlockThatItWasToFill) {
  const RequestId ended = run(1, tokens_from(0, 4), StepId(0));
  const RequestId other = run(2, tokens_from(0, 4));
  ASSERT_TRUE(cache_.rotate_out(ended, StepId(0)));
  ASSERT_TRUE(cache_.rotate_out(other, kNoStep)) << "the block's only copy is the first one's";
  cache_.release(ended, StepId(0));
  cache_.step_failed(StepId(0));
  std::vector<RequestId> lost;
  cache_.take_lost(lost);
  EXPECT_THAT(lost, ElementsAre(other));
  EXPECT_THAT(take(), IsEmpty());
  cache_.release(other, kNoStep);
  EXPECT_EQ(cache_.prefix_tiers(kModel, tokens_from(0, 5)).in_all, Tokens(4)) << "its own frame";
  expect_twins({.free = 6});
}

TEST_F(KvRotationTest, WhoArrivesCannotLeaveAgainAtOnce) {
  const RequestId id = run(1, tokens_from(0, 3));
  to_host(id);
  ASSERT_TRUE(cache_.rotate_in(id));
  EXPECT_FALSE(cache_.rotate_out(id, kNoStep));
  end(take());
  EXPECT_TRUE(cache_.rotate_out(id, kNoStep));
}

TEST_F(KvRotationTest, ARemovedModelTakesItsTwinsAlong) {
  cache_.release(run(1, tokens_from(0, 8)), kNoStep);
  const auto copies = take(1);
  cache_.remove_model(kModel);
  expect_frames({.free = 7, .quarantined = 1});
  expect_twins({.free = 5, .held = 1});
  end(copies);
  expect_frames({.free = 8});
  expect_twins({.free = 6});
  cache_.add_model(kModel, Tokens(4));
  EXPECT_EQ(cache_.prefix_tiers(kModel, tokens_from(0, 9)).in_all, Tokens(0));
}

TEST_F(KvRotationTest, ARetiredFrameGoesWhenItsCopyHasEnded) {
  cache_.release(run(1, tokens_from(0, 4)), kNoStep);
  const auto copies = take(1);
  cache_.retire_frames({FrameId(0), 1});
  EXPECT_FALSE(cache_.retired({FrameId(0), 1}));
  expect_frames({.free = 7, .quarantined = 1, .retiring = 1});
  end(copies);
  EXPECT_TRUE(cache_.retired({FrameId(0), 1}));
  EXPECT_EQ(cache_.prefix_tiers(kModel, tokens_from(0, 5)).in_all, Tokens(4));
}

class KvRotationNoPrefixTest : public KvRotationTest {
 protected:
  KvRotationNoPrefixTest() : KvRotationTest({.frames = 8, .prefix_caching = false, .twins = 6}) {}
};

TEST_F(KvRotationNoPrefixTest, BlocksAreCopiedEagerlyButNeitherSharedNorKept) {
  const RequestId one = run(1, tokens_from(0, 8));
  const RequestId two = run(2, tokens_from(0, 8));
  const auto eager = take(9);
  EXPECT_EQ(eager.size(), 4u);
  end(eager);
  ASSERT_TRUE(cache_.rotate_out(one, kNoStep));
  EXPECT_EQ(cache_.place(one), SequencePlace::kHost);
  expect_frames({.free = 6, .referenced = 2});
  EXPECT_EQ(cache_.rotate_in_cost(one).copies, 2) << "not the other's";
  cache_.release(one, kNoStep);
  cache_.release(two, kNoStep);
  expect_frames({.free = 8});
  expect_twins({.free = 6});
}

TEST(KvRotation, WithoutTwinsNothingRotates) {
  KvCache cache({.frames = 4});
  cache.add_model(kModel, Tokens(4));
  cache.open(RequestId(1), kModel, {});
  ASSERT_TRUE(cache.grow(RequestId(1), Tokens(4)));
  cache.commit(RequestId(1), tokens_from(0, 4), kNoStep);
  EXPECT_EQ(cache.twins(), 0);
  EXPECT_DEATH(cache.add_twins(1), "made without twins");
  EXPECT_FALSE(cache.rotate_out(RequestId(1), kNoStep));
  std::vector<KvCopy> copies;
  cache.take_copies(9, copies);
  EXPECT_THAT(copies, IsEmpty());
  EXPECT_TRUE(cache.check_integrity().ok());
}

using KvRotationDeathTest = KvRotationTest;

TEST_F(KvRotationDeathTest, MisuseIsABug) {
  const RequestId id = run(1, tokens_from(0, 3));
  EXPECT_DEATH((void)cache_.rotate_in(id), "not in host memory as a whole");
  EXPECT_DEATH((void)cache_.rotate_in_cost(id), "not rotated out");
  ASSERT_TRUE(cache_.rotate_out(id, kNoStep));
  EXPECT_DEATH((void)cache_.rotate_out(id, kNoStep), "rotated out already");
  EXPECT_DEATH((void)cache_.rotate_in(id), "not in host memory as a whole");
  EXPECT_DEATH((void)cache_.grow(id, Tokens(5)), "while it is rotated out");
  EXPECT_DEATH(cache_.commit(id, tokens_from(0, 5), kNoStep), "rotated out");
  EXPECT_DEATH(cache_.remove_model(kModel), "open sequences");
  std::vector<RequestId> lost;
  EXPECT_DEATH(cache_.copy_ended(CopyId(0), kOk, lost), "not taken");
  EXPECT_DEATH(cache_.copy_ended(CopyId(9), kOk, lost), "no such KV copy");
  EXPECT_DEATH(KvCache({.frames = 1, .twins = -1}), "negative");
}

}  // namespace
}  // namespace causeway::kv::kv_rotation_test
