#include "transfer/link_time_slices.h"

#include <algorithm>

#include "base/dcheck.h"

namespace causeway::transfer {
namespace {

// A chunk that is later than this was delayed by another program's time slice. Delays by our own
// links behind a switch or a socket are smaller, as are those by a chunk's launch, the other half
// of a relay, and most pauses of a processor.
constexpr std::int64_t kLateMin = 3;  // times its own duration
constexpr Nanos kLateMinTime = micros(250);
// Other programs are to keep half of what the link gives alone. Where links share a socket, the
// link gives less while ours are busy, and half of the time is not enough (native copies kept 0.43
// of a link beside transfers out over four). Other programs never get more than this part of the
// time.
constexpr double kTheirsMax = 0.7;

}  // namespace

void LinkTimeSlices::ended(Bytes bytes, Nanos took, double alone) {
  if (alone <= 0) theirs_ = Nanos(0);
  if (alone <= 0 || took <= Nanos(0) || bytes <= Bytes(0)) return;
  const auto size = static_cast<double>(bytes.count);
  // The first chunk of a time slice also includes its launch and the other half of a relay, which
  // say nothing about the link.
  if (!first_ || recent_ == decltype(recent_){})
    recent_[next_++ % kRecent] = size / to_seconds(took);
  const double best = *std::max_element(recent_.begin(), recent_.end());
  chunk_ = nanos_from_seconds(size / std::min(alone, best));
  const double theirs = std::clamp(0.5 * alone / best, 0.5, kTheirsMax);
  ours_of_theirs_ = (1 - theirs) / theirs;
  CAUSEWAY_DCHECK(ours_of_theirs_ > 0 && chunk_ >= Nanos(0), "a time slice of less than no time");
  const Nanos late = took - chunk_;
  if (late > std::max(chunk_ * kLateMin, kLateMinTime)) {
    theirs_ = late;
    ours_ = chunk_;
  } else {
    // The other programs did not use the time that was left to them.
    if (first_) theirs_ = Nanos(0);
    ours_ += chunk_;
  }
  first_ = false;
}

bool LinkTimeSlices::may_pull(int outstanding) {
  if (theirs_ <= Nanos(0)) return true;
  if (outstanding == 0) {
    ours_ = Nanos(0);
    first_ = true;
    return true;
  }
  CAUSEWAY_DCHECK(outstanding > 0, "fewer chunks than none are outstanding");
  const auto slice = nanos_from_seconds(ours_of_theirs_ * to_seconds(theirs_));
  return ours_ + chunk_ * (outstanding + 1) <= slice;
}

}  // namespace causeway::transfer
