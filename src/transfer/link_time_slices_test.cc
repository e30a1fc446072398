// A link whose copy engine gives time slices, as an H200's does: a stream keeps it until it runs
// dry or its time slice is over.
#include "transfer/link_time_slices.h"
#include "base/testing/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/random.h"

namespace causeway::transfer::link_time_slices_test {
namespace {

constexpr double kRate = 55e9;
constexpr Nanos kSlice = micros(2200);
constexpr Nanos kDriver = micros(12);  // from the end of a copy to the next one of who waits for it

// Copies of another program: each takes `copy`, `ahead` of them are queued, without end.
struct Others {
  Nanos copy;
  int ahead = 1;
};

// Parameters of our side.
struct Ours {
  bool gives_way = true;
  Nanos latency = micros(12);    // from a chunk's issue to its place on the link
  Nanos crossing = Nanos(0);     // from its end on the link to its end (a relay's other half)
  Nanos pause_every = Nanos(0);  // a processor that stops for a while, about that often; 0: never
  double alone = kRate;          // what the map says of the link, which gives kRate now
};

struct Shares {
  double ours = 0;
  double theirs = 0;
};

// Chunks of 5 MiB, at most two outstanding, 40 a transfer, beside copies of others; steps of 1 µs.
class SharedLink {
 public:
  SharedLink(Others others, Ours ours) : others_(others), how_(ours) {}

  Shares run() {
    constexpr Nanos kEnd = kSanitized ? millis(100) : seconds(1);
    for (; now_ < kEnd; now_ += micros(1)) {
      pause();
      notice();
      issue();
      serve();
    }
    return {to_seconds(ours_busy_) / to_seconds(kEnd), to_seconds(theirs_busy_) / to_seconds(kEnd)};
  }

 private:
  struct Queued {
    Nanos issued, left, ready;
  };

  void pause() {
    if (how_.pause_every > Nanos(0) && random_.below(how_.pause_every / micros(1)) == 0) {
      blocked_until_ = now_ + micros(100) + micros(1) * random_.below(300);
    }
  }
  void notice() {
    while (!ended_.empty() && now_ >= blocked_until_ && now_ >= ended_.front().ready) {
      const Nanos issued = ended_.front().issued;
      ended_.pop_front();
      const Nanos from = std::max(issued, last_done_);
      if (now_ > from) slices_.ended(kChunk, now_ - from, how_.alone);
      last_done_ = now_;
      ours_ready_ = now_ + (++chunks_ % kTransfer == 0 ? micros(300) : kDriver);
    }
  }
  void issue() {
    const auto outstanding = [&] { return static_cast<int>(ours_.size() + ended_.size()); };
    while (outstanding() < 2 && now_ >= ours_ready_ && now_ >= blocked_until_ &&
           (!how_.gives_way || slices_.may_pull(outstanding()))) {
      const Nanos alone = nanos_from_seconds(static_cast<double>(kChunk.count) / kRate);
      ours_.push_back({now_, alone, now_ + how_.latency});
    }
    while (std::ssize(theirs_) < others_.ahead && now_ >= theirs_ready_ &&
           others_.copy > Nanos(0)) {
      theirs_.push_back({now_, others_.copy, now_});
    }
  }
  void serve() {
    const bool ours = !ours_.empty() && now_ >= ours_.front().ready;
    const bool theirs = !theirs_.empty();
    if ((mine_ ? theirs : ours) && (!(mine_ ? ours : theirs) || now_ >= slice_end_)) {
      mine_ = !mine_;
      slice_end_ = now_ + kSlice;
    }
    if (!(mine_ ? ours : theirs)) return;
    (mine_ ? ours_busy_ : theirs_busy_) += micros(1);
    Queued& served = (mine_ ? ours_ : theirs_).front();
    served.left -= micros(1);
    if (served.left > Nanos(0)) return;
    if (mine_) {
      ended_.push_back({served.issued, Nanos(0), now_ + how_.crossing});
      ours_.pop_front();
    } else {
      theirs_.pop_front();
      theirs_ready_ = now_ + kDriver;
    }
  }

  static constexpr Bytes kChunk = mib(5);
  static constexpr int kTransfer = 40;

  const Others others_;
  const Ours how_;
  LinkTimeSlices slices_;
  Random random_{7};
  std::deque<Queued> ours_, theirs_, ended_;
  Nanos now_, slice_end_, last_done_, blocked_until_, ours_ready_, theirs_ready_;
  Nanos ours_busy_, theirs_busy_;
  int chunks_ = 0;
  bool mine_ = true;
};

Shares share(Others others, Ours ours = {}) { return SharedLink(others, ours).run(); }

constexpr Others kNobody{Nanos(0)};
constexpr Nanos kPauses = millis(5);

TEST(LinkTimeSlices, AloneTheLinkIsOurs) {
  for (const Nanos crossing : {Nanos(0), micros(45)}) {
    for (const Nanos pauses : {Nanos(0), kPauses}) {
      const Shares greedy = share(kNobody, {false, micros(12), crossing, pauses});
      const Shares fair = share(kNobody, {true, micros(12), crossing, pauses});
      EXPECT_GT(fair.ours, 0.98 * greedy.ours) << crossing.count << " " << pauses.count;
    }
  }
}

TEST(LinkTimeSlices, CopiesThatAreWaitedForKeepTheirHalf) {
  const Others rounds{micros(1230), 1};
  EXPECT_LT(share(rounds, {false}).theirs, 0.40);  // what the time slices are for
  for (const Nanos crossing : {Nanos(0), micros(45)}) {
    for (const Nanos pauses : {Nanos(0), kPauses}) {
      const Shares fair = share(rounds, {true, micros(12), crossing, pauses});
      EXPECT_GT(fair.theirs, 0.45) << crossing.count << " " << pauses.count;
      EXPECT_GT(fair.ours, 0.35) << crossing.count << " " << pauses.count;
    }
  }
}

// Behind a socket that our other links use too, half of the time would give less than half of the
// link.
TEST(LinkTimeSlices, ASharedSocketLeavesThemHalfOfTheLink) {
  for (const double shared : {1.15, 1.3}) {
    for (const Nanos crossing : {Nanos(0), micros(45)}) {
      const Ours ours{.crossing = crossing, .alone = shared * kRate};
      for (const Others others : {Others{micros(1600), 1}, Others{micros(600), 4}}) {
        const Shares fair = share(others, ours);
        EXPECT_GT(fair.theirs / shared, 0.47) << shared << " " << crossing.count;
        EXPECT_GT(fair.ours, 0.25) << shared << " " << crossing.count;
      }
    }
  }
}

// Time slices of few chunks, each with its launch and a relay's other half: the link is no slower
// for it.
TEST(LinkTimeSlices, ShortTimeSlicesAreNoSharedSocket) {
  for (const Nanos copy : {micros(350), micros(450)}) {
    const Shares fair = share({copy, 1}, {true, micros(12), micros(45)});
    EXPECT_GT(fair.ours, 0.33) << copy.count;
    EXPECT_GT(fair.theirs, 0.30) << copy.count;
  }
}

TEST(LinkTimeSlices, CopiesThatQueueUpKeepTheirHalf) {
  for (const Nanos copy : {micros(75), micros(600), micros(5000)}) {
    const Shares fair = share({copy, 4});
    EXPECT_GT(fair.theirs, 0.45) << copy.count;
    EXPECT_GT(fair.ours, 0.40) << copy.count;
  }
}

// The link is slow all the time for other reasons, which is not another program's time slice.
TEST(LinkTimeSlices, ASlowLinkIsNotSharedWithNobody) {
  LinkTimeSlices slices;
  for (int i = 0; i < 10; ++i) slices.ended(mib(5), micros(140), kRate);
  EXPECT_TRUE(slices.may_pull(0));
  EXPECT_TRUE(slices.may_pull(1));
  slices.ended(mib(5), micros(2000), kRate);
  EXPECT_FALSE(slices.may_pull(30));
  slices.ended(mib(5), micros(140), 0);
  EXPECT_TRUE(slices.may_pull(30));
}

TEST(LinkTimeSlices, OneLateChunkIsForgottenWithTheNextTimeSlice) {
  LinkTimeSlices slices;
  for (int i = 0; i < 20; ++i) slices.ended(mib(5), micros(96), kRate);
  slices.ended(mib(5), micros(600), kRate);
  EXPECT_FALSE(slices.may_pull(5));  // the link runs dry after five
  EXPECT_TRUE(slices.may_pull(0));
  slices.ended(mib(5), micros(96), kRate);
  EXPECT_TRUE(slices.may_pull(1));
}

}  // namespace
}  // namespace causeway::transfer::link_time_slices_test
