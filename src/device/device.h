// A device for the rooms above: an arena of memory, streams of asynchronous work, events, and
// copies between the memories of a machine.
//
//   memory kinds   device   one arena a slice, in extents (arena.h)
//                  host     regions of HostMemory, shareable between processes (host_memory.h)
//                  peer     another device's arena
//
// Backends: host/ (CPU threads, memcpy, modelled links), cuda/. Interfaces are for coarse
// operations: a kernel launch, a batch of copies. Ask Capabilities instead of trying.
//
// Unless said otherwise functions may be called from any thread, do not block, and an object must
// not be used while it is destroyed. Memory that a copy names must stay valid until it is done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "device/host_memory.h"

namespace causeway::device {

using DeviceId = Id<struct DeviceTag>;  // an opened slice of a device, within a machine

class Arena;

// What link bytes are for, most urgent first (docs/decisions/0012-link-budgets.md).
enum class CopyPriority : std::uint8_t {
  kStep,          // a running step waits for it
  kKvIn,          // KV of a request that is to run
  kKvOut,         // KV of a request that must leave; others get its frames
  kWeightsAhead,  // staged weights that computation will reach
  kTwin,          // eager host twins of full KV blocks
  kPromotion,     // weights and KV moved for later
};
inline constexpr int kCopyPriorities = 6;
std::string_view name_of(CopyPriority priority);

enum class MemoryKind { kDevice, kHost, kPeer };
std::string_view name_of(MemoryKind kind);

// An address in the memory of a machine: an offset in a device's arena or in a host region.
struct MemoryAddress {
  DeviceId device;  // invalid: host memory
  RegionId region;  // of host memory
  Bytes offset;

  static constexpr MemoryAddress in_host(HostAddress address) {
    return {DeviceId(), address.region, address.offset};
  }
  static constexpr MemoryAddress in_arena(DeviceId device, Bytes offset) {
    return {device, RegionId(), offset};
  }
  // The kind of this memory for a device.
  constexpr MemoryKind kind(DeviceId seen_from) const {
    if (!device.valid()) return MemoryKind::kHost;
    return device == seen_from ? MemoryKind::kDevice : MemoryKind::kPeer;
  }
};

struct Copy {
  MemoryAddress target;
  MemoryAddress source;
  Bytes bytes;
};

// The part of a device that one engine uses; data from configuration or discovery.
struct SliceSpec {
  std::string name;
  int physical_device = 0;  // index within the machine
  int processors = 0;       // SMs, threads; 0, or all that there are: the whole device
  int unit = 0;             // SMs: as all of the device's slices are split (CudaSmUnits); 0: finest
  Bytes arena_bytes = {};   // address range to reserve; rounded down to whole extents
};

struct Capabilities {
  std::string name;
  int processors = 0;  // SMs or CPU threads of the slice
  Bytes arena_bytes;
  Bytes extent_bytes;
  std::int64_t copies_max = 0;  // descriptors in one batch
  bool host_readable = false;   // kernels can read host regions in place
  bool peer_copies = false;     // between two devices without passing through the host
  bool semaphores = false;      // make_semaphore() works
};

// A marked point in a stream's work. It may be recorded again once its previous record is done.
class Event {
 public:
  virtual ~Event() = default;
  // Whether the work before the record is done (also true when never recorded), or the error of
  // that work.
  virtual Result<bool> done() const = 0;
  // Blocks until done, or for `timeout` of real time: kDeadlineExceeded.
  virtual Status wait(Nanos timeout) const = 0;
  // Polls for up to `length` of real time, for a caller that knows that the end is near; then as
  // done(). May return earlier when the work has not begun.
  virtual Result<bool> spin(Nanos length) const;
  // When the work was done, by the machine's clock; kUnavailable before that.
  virtual Result<Nanos> completed_at() const = 0;
};

// A counter that only grows. Streams raise it and wait for it without the host in between; the host
// may raise and read it. It starts at 0. Values wrap around, so compared values must be less than
// 2^31 apart. Streams that signal it must do so in the order of the values, because a GPU stores
// the value that it is given. It must stay until the work that uses it is done, or its stream
// destroyed.
class Semaphore {
 public:
  virtual ~Semaphore() = default;
  virtual std::uint32_t value() const = 0;      // reached so far
  virtual void raise(std::uint32_t value) = 0;  // no effect when it is reached already
  // Blocks until `value` is reached, or for `timeout` of real time: kDeadlineExceeded. kDevice when
  // the device is lost.
  virtual Status wait(std::uint32_t value, Nanos timeout) const = 0;
};

// Whether a semaphore at `value` has reached `wanted`.
constexpr bool reached(std::uint32_t value, std::uint32_t wanted) {
  return static_cast<std::int32_t>(value - wanted) >= 0;
}

// Work that is done in order, asynchronously. The first failure stays: later work is skipped,
// events complete with the error, synchronize() returns it. Destroying a stream cancels work that
// is not done.
class Stream {
 public:
  virtual ~Stream() = default;
  // Copies in no particular order among each other. The batch is accepted whole or not at all:
  // kInvalidArgument (an address outside its arena, too many), kUnsupported (no such path).
  virtual Status copy(std::span<const Copy> copies, CopyPriority priority) = 0;
  // Runs `work` on a thread of the backend. It must end by itself, and must not wait for this
  // stream.
  virtual Status run(std::function<Status()> work) = 0;
  virtual Status record(Event& event) = 0;
  // copy() and then record(), in one call where that takes less time. After a failure of record()
  // the copies are under way.
  virtual Status copy_marked(std::span<const Copy> copies, CopyPriority priority, Event& event) {
    if (Status issued = copy(copies, priority); !issued.ok()) return issued;
    return record(event);
  }
  // Later work waits for the event's last record; without a record it waits for nothing.
  virtual Status wait(const Event& event) = 0;
  // Raises the semaphore when the work before is done. A stream that has failed never raises it;
  // the semaphore's owner must.
  virtual Status signal(Semaphore& semaphore, std::uint32_t value) = 0;
  // Later work waits until `value` is reached, without a host thread in between; not if it is
  // reached already. On a GPU only the raise ends the wait; the stream's destructor waits for it,
  // so the owner must raise first.
  virtual Status wait(const Semaphore& semaphore, std::uint32_t value) = 0;
  // Blocks until all that was submitted before is done, or for `timeout` of real time:
  // kDeadlineExceeded.
  virtual Status synchronize(Nanos timeout) = 0;
};

// An opened slice. Its streams, events and semaphores must be destroyed before it. Events and
// semaphores serve the streams of all devices of the machine.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceId id() const = 0;
  virtual const Capabilities& capabilities() const = 0;
  virtual Arena& arena() = 0;
  virtual Result<std::unique_ptr<Stream>> make_stream(const std::string& name) = 0;
  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  // An event whose completed_at() may be kUnavailable for ever. On a GPU it costs the stream some
  // microseconds less than an event that takes the time.
  virtual Result<std::unique_ptr<Event>> make_mark() { return make_event(); }
  // Thousands are cheap. kUnsupported without capabilities().semaphores.
  virtual Result<std::unique_ptr<Semaphore>> make_semaphore() = 0;
  // Makes a piece of a host region reachable for the device's copies and kernels ahead of its use,
  // which would do it as well. Blocks: on a GPU about 40 ms for 1 GiB, and launches wait meanwhile.
  // The region must not be released before this returns.
  virtual Status make_reachable(HostAddress /*address*/, Bytes /*bytes*/) { return {}; }
  // Whether all of the range is reachable already, so that make_reachable() would return at once;
  // false where a device cannot tell.
  virtual bool is_reachable(HostAddress /*address*/, Bytes /*bytes*/) const { return false; }
  // Undoes make_reachable(), ahead of the region's release, for every piece that begins in the
  // range, which must not be in use any more. Blocks: launches wait for each piece as when it is
  // made reachable.
  virtual void make_unreachable(HostAddress /*address*/, Bytes /*bytes*/) {}
  // kDevice, with the driver's words, once the device is lost: it will not work again in this
  // process.
  virtual Status health() const { return {}; }
};

}  // namespace causeway::device
