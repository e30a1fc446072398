#include "transfer/link_turns.h"

#include <algorithm>

namespace causeway::transfer {
namespace {

// What a chunk may be late for other reasons: polling, a processor that paused.
constexpr double kLateMin = 0.5;  // of its own time
constexpr Nanos kLateMinTime = micros(20);
// A link that has become slower for everybody is known to be after some hundred chunks.
constexpr double kForgetting = 0.998;

}  // namespace

void LinkTurns::ended(Bytes bytes, Nanos took, double alone) {
  if (alone <= 0) theirs_ = Nanos(0);
  if (alone <= 0 || took <= Nanos(0) || bytes <= Bytes(0)) return;
  const auto size = static_cast<double>(bytes.count);
  best_ = std::min(alone, std::max(size / to_seconds(took), kForgetting * best_));
  chunk_ = nanos_from_seconds(size / best_);
  const Nanos late = took - chunk_;
  const Nanos allowed = nanos_from_seconds(kLateMin * to_seconds(chunk_));
  if (late > std::max(allowed, kLateMinTime)) {
    theirs_ = late;
    ours_ = chunk_;
  } else {
    // Nobody took the turn that was left to them.
    if (first_) theirs_ = Nanos(0);
    ours_ += chunk_;
  }
  first_ = false;
}

bool LinkTurns::may_pull(int outstanding) {
  if (theirs_ <= Nanos(0)) return true;
  if (outstanding == 0) {
    ours_ = Nanos(0);
    first_ = true;
    return true;
  }
  return ours_ + chunk_ * (outstanding + 1) <= theirs_;
}

}  // namespace causeway::transfer
