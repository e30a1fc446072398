#include "transfer/set_tuner.h"

#include <gtest/gtest.h>

namespace causeway::transfer::set_tuner_test {
namespace {

constexpr double kAlone = 50e9;
constexpr Bytes kChunk = mib(4);

// `promised`: what the map says that both give together.
SetTuner tuner_of_two(double promised = 2 * kAlone) {
  return SetTuner({}, {.best = LinkSet::first(2),
                       .promised = promised,
                       .reach = LinkSet::first(2),
                       .alone = {kAlone, kAlone}});
}

// Chunks end in turns on the links that the tuner wants, each link at `rate` of what it can.
class Links {
 public:
  explicit Links(SetTuner& tuner) : tuner_(tuner) {}
  // A transfer's last chunks, with nothing waiting behind them.
  void end_transfer() {
    for (int i = 0; i < 4; ++i) tuner_.pause();
  }
  void end_chunks(int count, double rate) { end_chunks(count, rate, rate); }
  // `one`: the rate of a link that is the only one.
  void end_chunks(int count, double both, double one) {
    for (int i = 0; i < count; ++i) {
      const double rate = tuner_.current().count() == 1 ? one : both;
      const double each = static_cast<double>(kChunk.count) / (kAlone * rate);
      now_ += nanos_from_seconds(each / tuner_.current().count());
      next_ = 1 - next_;
      const int link = tuner_.current().has(next_) ? next_ : 1 - next_;
      tuner_.moved(link, kChunk, now_);
    }
  }

 private:
  SetTuner& tuner_;
  Nanos now_;
  int next_ = 0;
};

TEST(SetTuner, AMomentsDisturbanceChangesNothing) {
  for (int before = 0; before < 40; ++before) {
    SetTuner tuner = tuner_of_two();
    Links links(tuner);
    links.end_chunks(2'000 + before, 1);
    links.end_chunks(10, 0.3);  // about one window
    for (int i = 0; i < 400; ++i) {
      links.end_chunks(1, 1);
      ASSERT_EQ(tuner.current(), LinkSet::first(2)) << before << ", " << i;
    }
  }
}

TEST(SetTuner, WhatStaysBelowTheMapIsLookedInto) {
  SetTuner tuner = tuner_of_two();
  Links links(tuner);
  bool tried = false;
  for (int i = 0; i < 2'000; ++i) {
    links.end_chunks(1, 0.5);
    tried = tried || tuner.current() != LinkSet::first(2);
  }
  EXPECT_TRUE(tried);
}

// The map was measured in a bad moment, and a later one made one link look better than two.
TEST(SetTuner, WhatADisturbanceLedToIsLeftAgain) {
  SetTuner tuner = tuner_of_two(kAlone);
  Links links(tuner);
  int chunks = 0;
  for (int single = 0; single < 200 && chunks < 20'000; ++chunks) {
    links.end_chunks(1, 0.3, 0.8);
    single = tuner.current().count() == 1 ? single + 1 : 0;
  }
  ASSERT_LT(chunks, 20'000);  // one link is the base now, not a trial
  int last_single = 0;
  for (int i = 0; i < 4'000; ++i) {
    links.end_chunks(1, 1);
    if (tuner.current().count() == 1) last_single = i;
  }
  EXPECT_LT(last_single, 1'500);
}

// And where the map's set is worse for good, asking again costs little.
TEST(SetTuner, AskingForTheMapsSetCostsLittle) {
  SetTuner tuner = tuner_of_two(kAlone);
  Links links(tuner);
  links.end_chunks(20'000, 0.3, 0.95);
  int both = 0;
  for (int i = 0; i < 20'000; ++i) {
    links.end_chunks(1, 0.3, 0.95);
    both += tuner.current().count() == 2 ? 1 : 0;
  }
  EXPECT_GT(both, 0);
  EXPECT_LT(both, 1'000);
}

// Without a map it keeps looking, and a trial may begin near the end of a large transfer.
TEST(SetTuner, ATrialThatCannotBeJudgedEnds) {
  for (int chunks = 1; chunks <= 8; ++chunks) {
    SetTuner tuner(
        {},
        {.best = LinkSet::first(2), .promised = 0, .reach = LinkSet::first(2), .alone = {0, 0}});
    Links links(tuner);
    int moved = 0;
    for (; tuner.current() == LinkSet::first(2) && moved < 2'000; ++moved) links.end_chunks(1, 1);
    ASSERT_LT(moved, 2'000);
    links.end_transfer();
    int on_trial = 0;
    for (int transfer = 0; transfer < 200; ++transfer) {
      on_trial += tuner.current() != LinkSet::first(2) ? 1 : 0;
      links.end_chunks(chunks, 1);
      links.end_transfer();
    }
    EXPECT_LE(on_trial, 3) << chunks;
    // Large ones are learnt from as before.
    bool tried = false;
    for (int i = 0; i < 4'000; ++i) {
      links.end_chunks(1, 1);
      tried = tried || tuner.current() != LinkSet::first(2);
    }
    EXPECT_TRUE(tried) << chunks;
  }
}

}  // namespace
}  // namespace causeway::transfer::set_tuner_test
