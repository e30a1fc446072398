// Where the twins of a KvCache lie: host memory of its own (a memfd region), cut into places of a
// frame's size.
//
//   region │ twin 0 │ twin 1 │ … │ twin n-1 │        twin t at offset t × frame bytes
//
// Bytes only: which twin holds what is TwinPool's to know. Thread-safe but for reach().
// (SuperInfer's DuplexKV: KV is rotated by copies of whole blocks, which are contiguous on both
// sides.)
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "device/paced_registration.h"

namespace causeway::kv {

struct TwinMemoryOptions {
  Bytes frame;  // of one
  Bytes bytes;  // for all twins: whole ones of it are used
};

class TwinMemory {
 public:
  // Takes and touches the memory, which outlives the twins: blocks for as long as that takes.
  // kInvalidArgument when the bytes are less than a frame; kResourceExhausted when host memory has
  // not that much left; both with the numbers.
  static Result<std::unique_ptr<TwinMemory>> create(device::HostMemory& memory,
                                                    const TwinMemoryOptions& options);
  TwinMemory(device::HostMemory& memory, RegionId region, Bytes frame, std::int64_t twins)
      : memory_(memory), region_(region), frame_(frame), twins_(twins) {}  // for create()
  // Takes back what reach() did, as gently, and releases the memory. No copy may use it any more.
  ~TwinMemory();
  TwinMemory(const TwinMemory&) = delete;
  TwinMemory& operator=(const TwinMemory&) = delete;

  // Makes all twins reachable for the device's copies, ahead of the first, in pieces. The device,
  // and what the pace asks, outlive the twins. Blocks. Once; errors as make_reachable_paced().
  Status reach(device::Device& device, device::Pace pace);

  std::int64_t twins() const { return twins_; }
  Bytes frame_bytes() const { return frame_; }
  Bytes bytes() const { return frame_ * twins_; }
  device::MemoryAddress address_of(TwinId twin) const;
  std::span<std::byte> bytes_of(TwinId twin) const;

 private:
  struct Reached {
    device::Device& device;
    device::Pace pace;
  };
  device::HostAddress place_of(TwinId twin) const;

  device::HostMemory& memory_;
  const RegionId region_;
  const Bytes frame_;
  const std::int64_t twins_;
  std::optional<Reached> reached_;
};

}  // namespace causeway::kv
