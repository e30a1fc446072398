// How much of a link to take beside copies that are not ours. A GPU's copy engine serves its
// streams by time slices: one that always has work keeps the engine for a time slice (2.2 ms on an
// H200), one that runs dry loses the rest of it. Chunks that follow each other without a gap
// therefore left native copies that are waited for a third of their link, and a pause after each
// chunk left us an eighth (README.md). So a time slice of ours is as long as theirs was, the time
// by which a chunk came late, and shorter where the link gives less than alone. Then the link runs
// dry for a moment, and others that have work take it. Time slices of less than some 300 µs are not
// seen: short copies that are waited for one by one.
//
// Pure: told what happened. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>

#include "base/clock.h"
#include "base/units.h"

namespace causeway::transfer {

// One link, one direction.
class LinkTimeSlices {
 public:
  // A chunk had the link for `took`. `alone` is the most that the link gives, in bytes per second;
  // 0: unknown, or the present rate says nothing about it, and then no time is left to others.
  void ended(Bytes bytes, Nanos took, double alone);
  // Whether to put another chunk on the link, which has `outstanding` chunks. With none outstanding
  // a time slice begins.
  bool may_pull(int outstanding);

 private:
  static constexpr std::size_t kRecent = 4;

  // Bytes per second that the last chunks got. When all of them are late, no other time slice is
  // the cause: the link is slower now, for example through other transfers of its set.
  std::array<double, kRecent> recent_ = {};
  std::size_t next_ = 0;
  Nanos theirs_;  // the others' last time slice; 0: there is no other
  Nanos ours_;    // of our time slice so far
  Nanos chunk_;   // what the last chunk would have taken alone
  double ours_of_theirs_ = 1;
  bool first_ = false;  // no chunk of our time slice has ended yet
};

}  // namespace causeway::transfer
