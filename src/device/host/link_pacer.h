// Moves bytes between the memories of a CPU machine no faster than the LinkModel lets them cross
// its links: the copy engines of the CPU backend. The caller of move() copies on its own thread;
// the model, shared by all, decides how far each may be. Without a profile copies run at full
// speed.
//
//   model:   moved ──────────────▶│                     (a pure function of the clock)
//   memcpy:  copied ───────▶│ may copy the chunk that begins before `moved`
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "device/link_profile.h"

namespace causeway::device {

// A piece with resolved addresses.
struct CopyPiece {
  std::byte* target = nullptr;
  const std::byte* source = nullptr;
  std::size_t bytes = 0;
};

// The ends of a path: physical devices, or kHostEnd.
struct CopyEnds {
  int source = kHostEnd;
  int target = kHostEnd;
  constexpr auto operator<=>(const CopyEnds&) const = default;
};

class LinkPacer {
 public:
  // With a profile it must have passed check(). The clock must outlive the pacer.
  LinkPacer(const Clock& clock, std::optional<LinkProfile> profile);

  // Whether bytes can go from one end to the other. Without a profile they always can.
  bool connected(CopyEnds ends) const;

  // Copies all pieces as one transfer; blocks until the last byte has arrived. kCancelled when
  // `stop` became true (then call wake()); pieces may have been copied in part.
  Status move(CopyEnds ends, std::span<const CopyPiece> pieces, CopyPriority priority,
              const std::atomic<bool>& stop);
  // Makes waiting threads look at their `stop`.
  void wake();

  // The bytes that were really copied between two ends.
  Bytes moved(CopyEnds ends, CopyPriority priority) const;
  // The bytes that the model has let cross a resource of the profile.
  Bytes accounted(int resource) const;

 private:
  class Cursor;
  void wait_for_link(std::unique_lock<std::mutex>& lock, FlowId flow, Bytes next_byte);

  const Clock& clock_;
  const std::optional<LinkProfile> profile_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::optional<LinkModel> model_;
  std::map<std::pair<CopyEnds, CopyPriority>, std::int64_t> moved_;
};

}  // namespace causeway::device
