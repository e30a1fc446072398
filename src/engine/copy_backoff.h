// When sequences should stay in HBM because copies of KV in one direction fail: each failure costs
// its sequence all that was computed, and two that displace each other would never progress.
//
//   kLossesMax in a row ──▶ rests for kFirst ──▶ tries again ──a single loss──▶ rests twice as long
//                                                     └─── one that went well ──▶ as at the start
//
// Pure; time is a parameter.
#pragma once

#include <algorithm>

#include "base/dcheck.h"
#include "base/units.h"

namespace causeway::engine {

class CopyBackoff {
 public:
  static constexpr int kLossesMax = 4;
  static constexpr Nanos kFirst = seconds(2);
  static constexpr Nanos kLongest = seconds(256);

  // A failed copy has lost a sequence. Copies that were begun before a rest are not counted.
  void lost(Nanos now) {
    if (rests(now) || ++losses_ < kLossesMax) return;
    CAUSEWAY_DCHECK(pause_ >= kFirst && pause_ <= kLongest, "a pause is out of its bounds");
    losses_ = kLossesMax - 1;
    rests_until_ = now + pause_;
    pause_ = std::min(pause_ * 2, kLongest);
  }
  // All of a sequence was copied.
  void moved() {
    losses_ = 0;
    pause_ = kFirst;
  }
  bool rests(Nanos now) const { return now < rests_until_; }

 private:
  int losses_ = 0;  // in a row
  Nanos pause_ = kFirst;
  Nanos rests_until_;
};

}  // namespace causeway::engine
