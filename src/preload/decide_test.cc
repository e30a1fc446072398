#include "preload/decide.h"

#include <gtest/gtest.h>

namespace causeway::preload::decide_test {
namespace {

using transfer::Direction;
using transfer::LinkSet;

constexpr Bytes kThreshold = mib(12);

Memory pinned() { return {Place::kPinned, -1, true, true}; }
Memory on_gpu(int gpu) { return {Place::kGpu, gpu, true, true}; }

CopyFacts large(Memory target, Memory source) { return {mib(64), target, source, false}; }

Verdict verdict_of(const CopyFacts& facts, LinkSet helped = LinkSet::first(2)) {
  return decide(facts, kThreshold, helped).verdict;
}

TEST(Decide, LargePinnedCopiesGoOverAllLinks) {
  const Decision in = decide(large(on_gpu(1), pinned()), kThreshold, LinkSet::first(2));
  EXPECT_EQ(in.verdict, Verdict::kMultipath);
  EXPECT_EQ(in.direction, Direction::kIn);
  EXPECT_EQ(in.gpu, 1);
  const Decision out = decide(large(pinned(), on_gpu(0)), kThreshold, LinkSet::first(2));
  EXPECT_EQ(out.verdict, Verdict::kMultipath);
  EXPECT_EQ(out.direction, Direction::kOut);
  EXPECT_EQ(out.gpu, 0);
}

TEST(Decide, TheThresholdIsTheFirstSizeThatIsOurs) {
  CopyFacts facts = large(on_gpu(0), pinned());
  facts.bytes = kThreshold;
  EXPECT_EQ(verdict_of(facts), Verdict::kMultipath);
  facts.bytes = kThreshold - Bytes(1);
  EXPECT_EQ(verdict_of(facts), Verdict::kSmall);
}

TEST(Decide, OtherPlacesAreNative) {
  EXPECT_EQ(verdict_of(large(on_gpu(0), {Place::kPageable})), Verdict::kPageable);
  EXPECT_EQ(verdict_of(large({Place::kPageable}, on_gpu(0))), Verdict::kPageable);
  EXPECT_EQ(verdict_of(large(on_gpu(0), on_gpu(0))), Verdict::kNotHostGpu);
  EXPECT_EQ(verdict_of(large(on_gpu(0), on_gpu(1))), Verdict::kNotHostGpu);
  EXPECT_EQ(verdict_of(large(pinned(), pinned())), Verdict::kNotHostGpu);
  EXPECT_EQ(verdict_of(large(on_gpu(0), {Place::kManaged})), Verdict::kManaged);
  EXPECT_EQ(verdict_of(large({Place::kManaged}, pinned())), Verdict::kManaged);
  EXPECT_EQ(verdict_of(large(on_gpu(0), {Place::kOther})), Verdict::kNotHostGpu);
}

TEST(Decide, CapturingStreamsAreNative) {
  CopyFacts facts = large(on_gpu(0), pinned());
  facts.capturing = true;
  EXPECT_EQ(verdict_of(facts), Verdict::kCapturing);
}

TEST(Decide, MemoryThatTheEngineMayNotReachIsNative) {
  Memory foreign = on_gpu(0);
  foreign.primary = false;
  EXPECT_EQ(verdict_of(large(foreign, pinned())), Verdict::kForeign);
  Memory hidden = on_gpu(0);
  hidden.reached = false;
  EXPECT_EQ(verdict_of(large(hidden, pinned())), Verdict::kUnreached);
  hidden = pinned();
  hidden.reached = false;
  EXPECT_EQ(verdict_of(large(on_gpu(0), hidden)), Verdict::kUnreached);
  Memory cut = on_gpu(0);
  cut.whole = false;
  EXPECT_EQ(verdict_of(large(cut, pinned())), Verdict::kPartial);
  cut = pinned();
  cut.whole = false;
  EXPECT_EQ(verdict_of(large(on_gpu(0), cut)), Verdict::kPartial);
}

TEST(Decide, AGpuThatNobodyHelpsIsNative) {
  EXPECT_EQ(verdict_of(large(on_gpu(0), pinned()), LinkSet()), Verdict::kNoRelay);
  EXPECT_EQ(verdict_of(large(on_gpu(2), pinned())), Verdict::kNoRelay);
  EXPECT_EQ(verdict_of(large(on_gpu(-1), pinned())), Verdict::kNoRelay);
  EXPECT_EQ(verdict_of(large(on_gpu(64), pinned()), LinkSet{~std::uint64_t{0}}),
            Verdict::kNoRelay);
}

TEST(Decide, EveryVerdictHasAName) {
  for (int i = 0; i < kVerdicts; ++i) EXPECT_NE(name_of(static_cast<Verdict>(i)), "?") << i;
  EXPECT_EQ(name_of(static_cast<Verdict>(kVerdicts)), "?");
}

}  // namespace
}  // namespace causeway::preload::decide_test
