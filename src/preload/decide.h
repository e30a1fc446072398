// What to do with a copy that a program asks for: a pure function of the facts about the copy.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/units.h"
#include "transfer/transfer.h"

namespace causeway::preload {

enum class Place : std::uint8_t {
  kPageable,  // host memory that no GPU reaches by itself
  kPinned,    // host memory, registered with the driver
  kGpu,       // of one GPU
  kManaged,   // moves between host and GPUs by itself
  kOther,     // arrays, and memory of an unknown kind
};

// The whole memory at one end of a copy.
struct Memory {
  Place place = Place::kOther;
  int gpu = -1;         // kGpu: its ordinal
  bool primary = true;  // kGpu: of the primary context, or of none
  bool reached = true;  // by the contexts of all GPUs that would move it
  bool whole = true;    // known to be of one kind from the first byte to the last
};

struct CopyFacts {
  Bytes bytes;
  Memory target;
  Memory source;
  bool capturing = false;  // the stream records a graph
};

enum class Verdict : std::uint8_t {
  kMultipath,   // ours
  kSmall,       // all others: the native call
  kNotHostGpu,  // not between the host and one GPU
  kPageable,
  kManaged,
  kCapturing,
  kForeign,       // memory of a context that is not the GPU's primary one
  kPartial,       // ends beyond its allocation; the driver tells the error
  kNoRelay,       // no other GPU can help this one
  kOpening,       // the session is being opened
  kOff,           // switched off, or there is nothing to gain on this machine
  kSettling,      // a call that waits for the whole device is under way
  kExhausted,     // too many copies pending
  kRefused,       // the driver or the engine refused the stand-in or the transfer
  kAsynchronous,  // CAUSEWAY_ASYNC=native
  kBusy,          // its stream was not free at once (CAUSEWAY_ASYNC=wait)
  kUnreached,     // memory that is not mapped, or pinned, for all GPUs that would move it
  kSynchronous,   // CAUSEWAY_SYNC=native
};
inline constexpr int kVerdicts = 18;
std::string_view name_of(Verdict verdict);

struct Decision {
  Verdict verdict = Verdict::kNotHostGpu;
  transfer::Direction direction = transfer::Direction::kIn;  // of kMultipath
  int gpu = -1;                                              // of kMultipath
};

// `helped`: the ordinals of the GPUs that other GPUs can relay for.
Decision decide(const CopyFacts& facts, Bytes threshold, transfer::LinkSet helped);

}  // namespace causeway::preload
