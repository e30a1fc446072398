// The GPUs of this process as the transfer engine uses them: devices whose addresses are the
// program's own. A MemoryAddress of a device is an offset in its arena of staging memory when it
// lies within that, else a device pointer (the driver hands out no addresses that low); one of the
// host is a pointer.
//
// Bytes between two GPUs are moved by streams of the GPU that holds the program's memory: staging
// memory is mapped to every peer, so the program's contexts need no peer access and are left alone.
//
//   relay in    relay's stream ├ host → staging ┤ ── target's stream ├ staging → target ┤
//   relay out   target's stream ├ target → staging ┤ ── relay's stream ├ staging → host ┤
//
// Streams are for one thread each (the engine's), as the engine uses them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "device/arena.h"
#include "device/cuda/cuda_context.h"
#include "device/device.h"
#include "preload/native.h"
#include "transfer/path_facts.h"

namespace causeway::preload {

inline constexpr int kUrgencies = 2;  // of the streams: the more urgent one is 0

struct GpusOptions {
  std::vector<int> gpus;    // those that take part, by ordinal
  std::vector<int> relays;  // those of `gpus` that relay
  Bytes staging;            // of each relay at most
};

class Gpus {
 public:
  // Retains the primary contexts of all GPUs that take part; `gpus` must exist. The table and the
  // clock must outlive the result.
  static Result<std::unique_ptr<Gpus>> open(const Native& native, const GpusOptions& options,
                                            const Clock& clock);
  explicit Gpus(const Native& native) : native_(native) {}
  ~Gpus();

  int count() const { return static_cast<int>(gpus_.size()); }
  int ordinal(int link) const { return gpus_[index(link)].physical->ordinal(); }
  device::Device& device(int link) const { return *gpus_[index(link)].device; }
  device::CudaContext& context(int link) const { return *gpus_[index(link)].context; }
  // By ordinal; nullptr for GPUs that take no part.
  const std::vector<CUctx_st*>& primaries() const { return primaries_; }
  // The link of an ordinal; -1 when that GPU takes no part.
  int link_of(int ordinal) const;
  // Whether `relay` can pass bytes on to `target`; both are links.
  bool can_relay(int relay, int target) const;
  // Returns an error once the driver reports that a context of ours is dead.
  Status health() const;
  // Whether the contexts are still those of the opening; a program may reset its devices.
  bool same_contexts() const;
  // The driver is not called through this object any more, because the contexts or the process are
  // about to end. Streams and memory stay as they are.
  void stop() { stopped_.store(true); }
  bool stopped() const { return stopped_.load(); }
  // kCancelled after stop().
  Status running() const {
    if (stopped()) return Error{ErrorCode::kCancelled, "the session has ended"};
    return {};
  }
  // The context's own call, until stop().
  template <typename Function>
  Status call(int link, const char* name, Function&& function) const {
    CAUSEWAY_TRY(running());
    return context(link).call(name, std::forward<Function>(function));
  }

  // A stream of `target` for bytes to or from the staging memory of `relay`. It is made on first
  // use; there are few such pairs.
  Result<CUstream_st*> peer_stream(int target, int relay, bool in);
  // Makes everything that transfers to and from a target will need.
  Status prepare(int target);

  const Native& native() const { return native_; }

 private:
  struct Gpu {
    std::unique_ptr<device::CudaPhysical> physical;
    std::unique_ptr<device::CudaContext> context;
    std::unique_ptr<device::Device> device;
    bool relays = false;
    unsigned long long id = 0;  // of the context
  };
  struct PeerKey {
    int target = 0;
    int relay = 0;
    bool in = true;
    auto operator<=>(const PeerKey&) const = default;
  };
  static std::size_t index(int link) { return static_cast<std::size_t>(link); }
  Status add(int ordinal, int count, const GpusOptions& options, const Clock& clock);

  const Native& native_;
  std::atomic<bool> stopped_{false};
  std::vector<Gpu> gpus_;  // by link
  std::vector<CUctx_st*> primaries_;
  std::mutex mutex_;  // guards what follows
  std::map<PeerKey, CUstream_st*> peer_streams_;
};

// While one thread of a program captures a graph, other threads may not ask about events or
// allocate, unless they relax their own capture mode. This relaxes it for threads of ours.
void relax_capture(const Native& native);

// Which GPU helps which before anything is measured: every relay that reaches a target helps it.
transfer::PathFacts assumed_paths(const Gpus& gpus);

}  // namespace causeway::preload
