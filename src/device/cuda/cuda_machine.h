// The CUDA backend: the GPUs of a machine, through the driver's table of entry points.
//
//   CudaMachine ─┬─ HostMemory (the caller's)   host regions, registered on first use
//                ├─ GPUs                        primary context, SMs, whether lost
//                └─ devices (slices) ─┬─ context   the primary one, or a green one with own SMs
//                                     ├─ Arena     reserved addresses, 32 MiB extents mapped in
//                                     └─ streams   CUDA streams; a thread each once run() is used
//
// Copies, events and waits go directly into the CUDA stream on the caller's thread. Work of run()
// must happen between them, and its failure must stop what follows. From a run() until its queue is
// empty again, a stream's work therefore passes through a thread of its own.
//
// A CUDA stream waits for other CUDA streams, and for the host only by a semaphore: a caller that
// makes a stream wait for a value must ensure that the value comes. Every wait of the host polls
// and has an end.
//
// Thread-safe. Devices must be destroyed before their machine. Graphs are captured in
// thread-local or relaxed mode: polling from other threads would break a global capture.
#pragma once

#include <limits>
#include <memory>

#include "base/clock.h"
#include "device/arena.h"
#include "device/cuda/cuda_api.h"
#include "device/device.h"

namespace causeway::device {

struct CudaMachineOptions {
  Bytes extent_bytes = kExtentBytes;  // a multiple of 2 MiB
  // How much freed memory each arena keeps for its next extents (Arena::trim() gives it back). It
  // counts as used.
  Bytes spares_max = Bytes(std::numeric_limits<std::int64_t>::max());
  // How long a destroyed stream's work may still take; after that the GPU counts as lost.
  Nanos drain_max = seconds(30);
  // No copy passes through another GPU than its own: then fewer hardware queues are enough.
  bool own_links = false;
};

// One GPU, before any slice of it is opened.
struct CudaGpu {
  int ordinal = 0;
  std::string name;    // "GPU 0 (NVIDIA H200)"
  std::string pci_id;  // "0000:1b:00.0"
  int sms = 0;
  Bytes memory;
  // What its memory can carry at most, in bytes a second; zero where the driver does not say.
  double memory_peak = 0;
};

// A way to split a GPU's SMs into units for slices that are a part of it. Some SMs may be in no
// unit, and all slices that are open at once are of the same split. The finest units consist of
// SMs that lie together. Larger ones are sets that the driver chooses: they may reach more SMs, and
// have room for fewer clusters.
struct CudaSmUnits {
  int sms = 0;  // of a unit
  int count = 0;
};

class CudaMachine {
 public:
  // Initialises the driver. The clock and the host memory must outlive the machine. kUnavailable
  // when there is no GPU, kUnsupported for an old driver, kDevice when the driver fails.
  static Result<std::unique_ptr<CudaMachine>> create(const CudaApi& api, CudaMachineOptions options,
                                                     const Clock& clock, HostMemory& memory);
  ~CudaMachine();
  CudaMachine(const CudaMachine&) = delete;
  CudaMachine& operator=(const CudaMachine&) = delete;

  int gpus() const;
  Result<CudaGpu> describe(int ordinal) const;
  // The finest split, then those with larger units that reach more SMs and that the driver makes.
  // Errors are those of open().
  Result<std::vector<CudaSmUnits>> sm_splits(int ordinal);
  // Whether one GPU's copies reach another's memory.
  bool reaches(int source, int target) const;
  // Which memory of other processes (HostMemory::adopt) all of its GPUs register. What a GPU cannot
  // write need not count as changed page by page when it is unregistered, as when a process ends.
  HostAccess registered_access() const;
  // Free memory of a GPU, in its primary context.
  Result<Bytes> free_memory(int ordinal);

  // Opens a slice. A part of a GPU gets whole units of SMs (the finest have 8 on an H200), at least
  // one, that no other part has; memory and its bandwidth are shared. kResourceExhausted where
  // others have them, or another split. The arena is only addresses: extents fail
  // with kResourceExhausted when the GPU's memory is used up. Opening and closing a part waits, for
  // 30 s at most, until no stream of the machine waits for a semaphore.
  Result<std::unique_ptr<Device>> open(const SliceSpec& slice);

  class State;
  explicit CudaMachine(std::unique_ptr<State> state);  // for create()

 private:
  std::unique_ptr<State> state_;
};

}  // namespace causeway::device
