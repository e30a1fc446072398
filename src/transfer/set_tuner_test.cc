#include "transfer/set_tuner.h"

#include <gtest/gtest.h>

namespace causeway::transfer {
namespace {

constexpr double kAlone = 50e9;
constexpr Bytes kChunk = mib(4);

SetTuner tuner_of_two() {
  return SetTuner({}, {.best = LinkSet::first(2),
                       .promised = 2 * kAlone,
                       .reach = LinkSet::first(2),
                       .alone = {kAlone, kAlone}});
}

// Chunks end in turns on the links that the tuner wants, each link at `rate` of what it can.
class Links {
 public:
  explicit Links(SetTuner& tuner) : tuner_(tuner) {}
  void end_chunks(int count, double rate) {
    const double each = static_cast<double>(kChunk.count) / (kAlone * rate);
    for (int i = 0; i < count; ++i) {
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

}  // namespace
}  // namespace causeway::transfer
