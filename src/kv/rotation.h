// Plain data about sequences and blocks that rotate between HBM and host memory, KvCache's rotation
// (docs/design/rotation.md). A twin is a place in host memory of a frame's size; all numbers count
// blocks, which are frames in HBM and twins in host memory. (SuperInfer's DuplexKV.)
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace causeway::kv {

enum class SequencePlace : std::uint8_t {
  kHbm,       // has its table
  kArriving,  // has its table; copies into it have not ended. It runs, and cannot rotate out
  kLeaving,   // rotated out; its last step or copy has not ended. It cannot come back yet
  kHost,      // rotated out, all of it in host memory: may rotate in
  kLost,      // a copy failed, or the step that was to fill a leaving block: release and recompute
};

struct TwinCounts {
  std::int64_t free = 0;
  std::int64_t cached = 0;   // of blocks that no sequence holds
  std::int64_t backing = 0;  // of blocks that sequences hold in HBM
  std::int64_t held = 0;     // by sequences that are rotated out, and by copies
  // The twins that rotate_out() can take now.
  std::int64_t available() const { return free + cached + backing; }
  bool operator==(const TwinCounts&) const = default;
};

// What rotating a sequence out now would cost and gain.
struct RotateOutCost {
  // The twins that it takes of TwinCounts::available(). The sum over several victims is never too
  // low.
  std::int64_t twins = 0;
  std::int64_t copies = 0;             // copies out that it would begin
  std::int64_t frames = 0;             // its alone: available when step and copies have ended
  std::int64_t frames_after_step = 0;  // those of them without copies
};

// What bringing a sequence back now would cost.
struct RotateInCost {
  std::int64_t frames = 0;  // of FrameCounts::available(), for computed blocks
  std::int64_t copies = 0;  // of `frames`, those that are copied in
};

// Where a prompt's prefix is, in whole blocks, always fewer than all tokens.
struct PrefixTiers {
  Tokens in_hbm;            // leading tokens, as match_prefix()
  Tokens in_all;            // leading tokens that open_with_twins() makes valid
  std::int64_t frames = 0;  // of FrameCounts::available() that open_with_twins() takes
  std::int64_t copies = 0;  // of `frames`, those that are copied in
};

using CopyId = Id<struct KvCopyTag>;  // counts up: a later copy has a larger one

// The copy of one block, a frame's size, in one direction.
struct KvCopy {
  enum class Direction : std::uint8_t { kOut, kIn };  // frame → twin, twin → frame
  enum class Reason : std::uint8_t {
    kEager,     // a full block, though no sequence must go
    kRotation,  // its sequence goes or comes back
    kPrefix,    // a new sequence begins with this block
  };
  CopyId id = {};
  Direction direction = Direction::kOut;
  Reason reason = Reason::kEager;
  FrameId frame = {};
  TwinId twin = {};
};

// The bytes per second that links grant to copies of KV. 0: nothing is left, but copies proceed all
// the same.
struct KvCopyRates {
  double in = 0;
  double out = 0;
};

// What has happened to a copy that was begun.
struct KvCopyEnd {
  enum class Outcome : std::uint8_t {
    kOk,
    kFailed,
    // It takes too long and may still read and write: KvCache::give_up_copy(). One of the other
    // ends follows, unless the copy never ends.
    kGivenUp,
  };
  CopyId copy = {};
  Outcome outcome = Outcome::kOk;
  std::string why = {};  // unless kOk
};

}  // namespace causeway::kv
