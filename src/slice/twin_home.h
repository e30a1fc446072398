// The host memory to which a slice's KV rotates: its twins, and the gates by which steps wait for
// KV that comes back. The same for every device.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "device/device.h"
#include "device/host_memory.h"
#include "device/paced_registration.h"
#include "kv/copy_gates.h"
#include "kv/transfer_kv_mover.h"
#include "kv/twin_memory.h"
#include "slice/machine.h"

namespace causeway::slice {

struct KvHostOptions {
  Bytes bytes = {};  // for twins; zero: KV does not rotate
  // How much of it is taken when the slice opens; the rest is taken while the slice serves, in
  // pieces of this size. Zero: all at the start.
  Bytes ahead = {};
  Bytes registered_at_once = device::Pace().piece;
  Nanos late_max = millis(250);  // kv::KvMoverOptions::late_max
};

// Must outlive the transfer engine whose copies use it.
class TwinHome {
 public:
  // Takes the memory that is wanted at the start, and makes it reachable for the device, slowly
  // while other slices of the machine serve. Blocks. Device and machine must outlive the home.
  // Errors as TwinMemory::create() and reach(), with the numbers.
  static Result<std::unique_ptr<TwinHome>> open(device::Device& device, Machine& machine,
                                                Bytes frame, const KvHostOptions& options);
  explicit TwinHome(device::Device& device) : gates_(device) {}  // for open()
  ~TwinHome() { stop_growing(); }

  // Takes the rest on a thread of its own, slowly while any slice serves, and calls `there` after
  // each piece with the number of added twins. What fails is left out with a warning. Call it once.
  // kResourceExhausted: no thread is available.
  Status grow(std::function<void(std::int64_t)> there);
  // Stops within the next few MiB. When this returns, `there` is not called any more. Idempotent.
  void stop_growing();

  const kv::TwinMemory& twins() const { return *twins_; }
  kv::CopyGates& gates() { return gates_; }

 private:
  void run_growth(const std::function<void(std::int64_t)>& there);

  std::atomic<bool> cancelled_{false};
  std::unique_ptr<kv::TwinMemory> twins_;
  kv::CopyGates gates_;
  std::thread growth_;
};

// Makes the mover of these frames and twins; the device is the slice's own. All arguments must
// outlive the mover.
std::unique_ptr<kv::TransferKvMover> make_kv_mover(device::Device& device, const KvLinks& links,
                                                   const kv::FrameArena& frames, TwinHome& home,
                                                   const kv::KvMoverOptions& options,
                                                   const Clock& clock);

}  // namespace causeway::slice
