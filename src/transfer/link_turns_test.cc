// A link whose copy engine gives turns, as an H200's does: a stream keeps it until it runs dry or
// its time slice is over.
#include "transfer/link_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace causeway::transfer {
namespace {

constexpr double kRate = 55e9;
constexpr Nanos kSlice = micros(2200);
constexpr Nanos kDriver = micros(12);  // from the end of a copy to the next one of who waits for it

// Copies that somebody else makes: `copy` long, `ahead` of them queued, forever.
struct Others {
  Nanos copy;
  int ahead = 1;
};

struct Shares {
  double ours = 0;
  double theirs = 0;
};

// Steps of a microsecond. Chunks of `bytes`, at most two outstanding, issued `kDriver` after one
// ended.
Shares share(Others others, Bytes bytes, bool with_turns) {
  LinkTurns turns;
  const Nanos chunk = nanos_from_seconds(static_cast<double>(bytes.count) / kRate);
  struct Queued {
    Nanos issued, left;
  };
  std::deque<Queued> ours, theirs;
  Nanos now, slice_end, last_done, ours_ready, theirs_ready, ours_busy, theirs_busy;
  bool mine = true;
  for (; now < seconds(1); now += micros(1)) {
    while (std::ssize(ours) < 2 && now >= ours_ready &&
           (!with_turns || turns.may_pull(static_cast<int>(std::ssize(ours))))) {
      ours.push_back({now, chunk});
    }
    while (std::ssize(theirs) < others.ahead && now >= theirs_ready && others.copy > Nanos(0)) {
      theirs.push_back({now, others.copy});
    }
    const bool dry = (mine ? ours : theirs).empty();
    if (!(mine ? theirs : ours).empty() && (dry || now >= slice_end)) {
      mine = !mine;
      slice_end = now + kSlice;
    }
    std::deque<Queued>& holder = mine ? ours : theirs;
    if (holder.empty()) continue;
    (mine ? ours_busy : theirs_busy) += micros(1);
    holder.front().left -= micros(1);
    if (holder.front().left > Nanos(0)) continue;
    if (mine) {
      turns.ended(bytes, now - std::max(ours.front().issued, last_done), kRate);
      last_done = now;
      ours_ready = now + kDriver;
    } else {
      theirs_ready = now + kDriver;
    }
    holder.pop_front();
  }
  return {to_seconds(ours_busy), to_seconds(theirs_busy)};
}

TEST(LinkTurns, AloneTheLinkIsOurs) {
  const Shares alone = share({Nanos(0)}, mib(5), true);
  EXPECT_GT(alone.ours, 0.995);
}

TEST(LinkTurns, CopiesThatAreWaitedForKeepTheirHalf) {
  const Others rounds{micros(1230), 1};
  const Shares greedy = share(rounds, mib(5), false);
  EXPECT_LT(greedy.theirs, 0.40);  // what the turns are for
  const Shares fair = share(rounds, mib(5), true);
  EXPECT_GT(fair.theirs, 0.45);
  EXPECT_GT(fair.ours, 0.42);
}

TEST(LinkTurns, CopiesThatQueueUpKeepTheirHalf) {
  for (const Nanos copy : {micros(75), micros(600), micros(5000)}) {
    const Shares fair = share({copy, 4}, mib(5), true);
    EXPECT_GT(fair.theirs, 0.45) << copy.count;
    EXPECT_GT(fair.ours, 0.40) << copy.count;
  }
}

// As long as a chunk: turn about.
TEST(LinkTurns, ShortCopiesThatAreWaitedForAreNotStarved) {
  const Others copies{micros(76), 1};
  EXPECT_LT(share(copies, mib(5), false).theirs, 0.10);
  const Shares fair = share(copies, mib(5), true);
  EXPECT_GT(fair.theirs, 0.35);
  EXPECT_GT(fair.ours, 0.45);
}

// Slow for other reasons, all the time: that is no one's turn.
TEST(LinkTurns, ASlowLinkIsNotSharedWithNobody) {
  LinkTurns turns;
  for (int i = 0; i < 10; ++i) turns.ended(mib(5), micros(140), kRate);
  EXPECT_TRUE(turns.may_pull(0));
  EXPECT_TRUE(turns.may_pull(1));
  turns.ended(mib(5), micros(2000), kRate);
  EXPECT_FALSE(turns.may_pull(30));
  turns.ended(mib(5), micros(140), 0);
  EXPECT_TRUE(turns.may_pull(30));
}

TEST(LinkTurns, OneLateChunkIsForgottenWithTheNextTurn) {
  LinkTurns turns;
  for (int i = 0; i < 20; ++i) turns.ended(mib(5), micros(96), kRate);
  turns.ended(mib(5), micros(250), kRate);
  EXPECT_FALSE(turns.may_pull(1));  // the link runs dry
  EXPECT_TRUE(turns.may_pull(0));
  turns.ended(mib(5), micros(96), kRate);
  EXPECT_TRUE(turns.may_pull(1));
}

}  // namespace
}  // namespace causeway::transfer
