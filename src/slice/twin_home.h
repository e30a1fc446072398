// The host memory of a slice to which KV turns that gives up its frames: its twins, and the gates
// by which steps wait for what comes back. The same for every device.
#pragma once

#include <memory>

#include "device/device.h"
#include "device/host_memory.h"
#include "kv/copy_gates.h"
#include "kv/transfer_kv_mover.h"
#include "kv/twin_memory.h"
#include "slice/machine.h"

namespace causeway::slice {

struct KvHostOptions {
  Bytes bytes = {};              // for twins; zero: KV does not rotate
  Nanos late_max = millis(250);  // kv::KvMoverOptions::late_max
};

// Outlives the transfer engine whose copies use it.
class TwinHome {
 public:
  // Takes the memory and makes it reachable for the device, slowly while other slices of the
  // machine serve: blocks. Device and machine outlive the home. Errors as TwinMemory::create() and
  // reach(), with the numbers.
  static Result<std::unique_ptr<TwinHome>> open(device::Device& device, Machine& machine,
                                                Bytes frame, const KvHostOptions& options);
  TwinHome(device::Device& device, std::unique_ptr<kv::TwinMemory> twins)
      : twins_(std::move(twins)), gates_(device) {}  // for open()

  const kv::TwinMemory& twins() const { return *twins_; }
  kv::CopyGates& gates() { return gates_; }

 private:
  std::unique_ptr<kv::TwinMemory> twins_;
  kv::CopyGates gates_;
};

// Of these frames and twins; the device is the slice's own. All outlive the mover.
std::unique_ptr<kv::TransferKvMover> make_kv_mover(device::Device& device, const KvLinks& links,
                                                   const kv::FrameArena& frames, TwinHome& home,
                                                   const kv::KvMoverOptions& options,
                                                   const Clock& clock);

}  // namespace causeway::slice
