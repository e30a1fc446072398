// What a transfer is: bytes between host memory and one device's memory, as a list of segments.
// Plain data, shared by the pure part (dispatcher.h) and the engine (engine.h).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace causeway::transfer {

enum class Direction : std::uint8_t {
  kIn,   // host → device (H2D)
  kOut,  // device → host (D2H)
};
inline constexpr int kDirections = 2;
inline constexpr std::array<Direction, kDirections> kBothDirections = {Direction::kIn,
                                                                       Direction::kOut};
// Where a vector keeps what belongs to a link, GPU or resource of this number.
constexpr std::size_t at(int number) { return static_cast<std::size_t>(number); }
constexpr std::size_t index_of(Direction direction) { return static_cast<std::size_t>(direction); }
std::string_view name_of(Direction direction);  // "in", "out"

// A link is one GPU's connection to the host, named by its index among the engine's GPUs.
inline constexpr int kLinksMax = 64;

// A set of links.
struct LinkSet {
  std::uint64_t bits = 0;

  static constexpr LinkSet first(int links) {
    return {links >= kLinksMax ? ~std::uint64_t{0} : (std::uint64_t{1} << links) - 1};
  }
  static constexpr LinkSet of(int link) { return {std::uint64_t{1} << link}; }
  constexpr bool has(int link) const { return (bits >> link & 1) != 0; }
  constexpr LinkSet with(int link) const { return {bits | of(link).bits}; }
  constexpr LinkSet without(int link) const { return {bits & ~of(link).bits}; }
  constexpr LinkSet operator&(LinkSet other) const { return {bits & other.bits}; }
  constexpr LinkSet operator|(LinkSet other) const { return {bits | other.bits}; }
  constexpr auto operator<=>(const LinkSet&) const = default;
  constexpr int count() const { return std::popcount(bits); }
  constexpr bool empty() const { return bits == 0; }
};
std::string text_of(LinkSet links);  // "0,2,4"

// One contiguous run of bytes.
struct Segment {
  device::MemoryAddress host;
  device::MemoryAddress device;  // in the target's arena
  Bytes bytes;                   // ≥ 0
};

// Is told of a transfer's end on the engine's thread, as soon as its bytes are at their target or
// it has failed. Must be quick and must not call the engine. For callers that cannot wait for a
// Completion.
class TransferListener {
 public:
  virtual ~TransferListener() = default;
  virtual void transfer_ended(const Status& outcome) = 0;
};

// What a transfer raises when its bytes are there.
struct TransferSignal {
  device::Semaphore* semaphore = nullptr;  // nullptr: nothing
  std::uint32_t value = 0;

  void raise() const {
    if (semaphore != nullptr) semaphore->raise(value);
  }
};

struct TransferRequest {
  Direction direction = Direction::kIn;
  device::DeviceId target;        // the device end, whichever way the bytes go
  std::vector<Segment> segments;  // must not overlap where they are written
  device::CopyPriority priority = device::CopyPriority::kStep;
  // Nothing is read or written before this event is done; its error fails the transfer. It must
  // stay, and not be recorded again, until the completion is done. nullptr: the transfer starts at
  // once.
  const device::Event* after = nullptr;
  // The links that may be used, whatever the size; none: those that the engine thinks best. When
  // none of them can be used, the target's own link is.
  LinkSet only = {};
  // Must stay until it has been called, which happens once; it is not called when submit() fails.
  // nullptr: none.
  TransferListener* listener = nullptr;
  // Raised when all bytes are at their target, before any listener hears of the end: by the copy
  // stream itself where the whole transfer went over the target's own link in order, else by the
  // engine's thread. A transfer that fails leaves it to the submitter, which raises it for those
  // that wait. It says only that the bytes are there: whether their memory may be used for
  // something else, the completion says. Must stay until then, and after a kDeadlineExceeded for
  // good. Transfers that share one must end in the order of their values.
  device::Semaphore* signal = nullptr;
  std::uint32_t signal_value = 0;
};

}  // namespace causeway::transfer
