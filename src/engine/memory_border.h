// Moves the border between KV frames and cached weights while an engine runs: it has the moves of
// schedule::decide_border() carried out extent by extent, and never waits for them. Internal to
// this room.
//
//   usable ──retire_frames()──▶ retiring ──nothing uses it──▶ gone: decommitted, the budget grows
//     ▲ ▲────── taken back ────────┘ also if a copy that was given up holds it for kStrandedMax
//     │                                                        │
//     └── event: it is there ── coming ◀── committed ──────────┘ claimed before from the budget,
//                                 └── no memory ──▶ gone        once weights have let go of it
//
// Between steps the engine calls decide() before the cache of weights decides, and hand_over()
// after it. The mover executes what is commanded in order: an extent is taken away before it is
// put elsewhere. usable + retiring + coming + claimed + the budget of weights never changes.
//
// Borrows all that it moves. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/kv_cache.h"
#include "schedule/hbm_border.h"
#include "schedule/scheduler.h"
#include "weights/weight_cache.h"

namespace causeway::engine {

// How long an extent that is to be retired, and an engine that can run nothing else, wait for the
// end of a KV copy that was given up. By then the transfer engine has seen it end, or counts it as
// lost (TransferEngineOptions).
inline constexpr Nanos kStrandedMax = seconds(15);

class MemoryBorder {
 public:
  // The frames of the KV cache fill whole extents, kv_min at least and kv_max at the most.
  MemoryBorder(const schedule::BorderRules& rules, kv::KvCache& kv, weights::WeightCache& weights);

  // Takes in what has ended, and decides again. After WeightCache::demand().
  void decide(const schedule::FramesWanted& wanted, Nanos now);
  // Gives extents that weights have released to KV. After WeightCache::decide().
  void hand_over();

  // Whether memory is on its way, or delayed: sequences that wait for frames may get some.
  bool under_way() const;
  // When to decide again, if nothing happens before.
  std::optional<Nanos> again() const { return again_; }
  // The frames that KV could have beside the attached models.
  std::int64_t frames_limit() const;
  // A model with requests cannot be brought before sequences give up memory that they hold.
  bool starved() const { return starved_ && count(Place::kRetiring) > 0; }
  // A model with requests cannot fit beside the longest sequence, and no memory is on its way.
  bool stuck() const { return starved_ && !under_way(); }
  // The error for which KV did not get memory, returned once, when none is on its way any more.
  std::optional<std::string> take_failure();

  Status check_integrity() const;

 private:
  enum class Place : std::uint8_t { kGone, kComing, kUsable, kRetiring };

  kv::FrameRun frames_of(std::int64_t extent) const;
  Place place_of(std::int64_t extent) const { return places_[static_cast<std::size_t>(extent)]; }
  std::int64_t count(Place place) const { return counts_[static_cast<std::size_t>(place)]; }
  void put(std::int64_t extent, Place place);
  void take_events(Nanos now);
  void finish_retiring(Nanos now);
  void take_back_stranded(std::int64_t extent, Nanos now);
  void move_to_kv(std::int64_t extents);
  void move_to_weights(std::int64_t extents, Nanos now);
  void change_budget(std::int64_t extents);

  const schedule::BorderRules rules_;
  kv::KvCache& kv_;
  weights::WeightCache& weights_;
  std::vector<Place> places_;                // by extent of the frames
  std::vector<Nanos> retiring_since_;        // beside them
  std::array<std::int64_t, 4> counts_ = {};  // by Place
  std::int64_t claimed_ = 0;                 // off the budget, but not coming yet
  std::int64_t total_ = 0;                   // extents of both sides
  bool starved_ = false;
  std::optional<schedule::BorderMove> last_;
  Nanos moved_;
  Nanos failed_until_;  // nothing goes to KV until then
  std::optional<Nanos> again_;
  std::optional<Nanos> look_;  // when an extent that stays in use is taken back
  std::optional<std::string> failure_;
};

}  // namespace causeway::engine
