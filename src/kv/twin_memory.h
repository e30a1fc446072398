// Where the twins of a KvCache lie: host memory of its own, in one piece (a memfd region) or
// several that are taken one after the other, cut into places of a frame's size.
//
//   piece 0 │ twin 0 │ … │ twin p-1 │   piece 1 │ twin p │ … │ twin 2p-1 │   …
//
// It only has the bytes; TwinPool knows which twin holds which block. Thread-safe but for reach()
// and grow(), which one thread calls; a user of a twin has been told that the twin exists.
// (SuperInfer's DuplexKV: KV is rotated by copies of whole blocks, which are contiguous on both
// sides.)
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"
#include "device/host_memory.h"
#include "device/paced_registration.h"

namespace causeway::kv {

struct TwinMemoryOptions {
  Bytes frame;  // of one frame
  Bytes bytes;  // for all twins; rounded down to whole twins
  // The size of the first piece, and of each one that grow() takes, rounded down to whole frames,
  // at least one; zero: everything at once.
  Bytes piece = {};
};

class TwinMemory {
 public:
  // Takes the first piece's memory and touches it, which blocks. The host memory outlives the
  // twins. kInvalidArgument when the bytes are less than a frame; kResourceExhausted when host
  // memory has less left; both with the numbers.
  static Result<std::unique_ptr<TwinMemory>> create(device::HostMemory& memory,
                                                    const TwinMemoryOptions& options);
  TwinMemory(device::HostMemory& memory, Bytes frame, std::int64_t twins,
             std::int64_t twins_each);  // for create()
  // Undoes reach() at the same pace, and releases the memory. No copy may use it any more.
  ~TwinMemory();
  TwinMemory(const TwinMemory&) = delete;
  TwinMemory& operator=(const TwinMemory&) = delete;

  // Makes the existing twins reachable for the device's copies, from the first on, at the pace. The
  // device, and what the pace asks, outlive the twins. Blocks. Call it once; errors as
  // make_reachable_paced().
  Status reach(device::Device& device, device::Pace pace);
  // After reach(): takes the next piece and makes it reachable. Returns the number of added twins;
  // 0: all exist. After an error, as of create() or reach(), there are no more twins than before,
  // and the next call tries again.
  Result<std::int64_t> grow();

  std::int64_t twins() const { return twins_; }  // once all exist
  // Only for the thread that calls grow().
  std::int64_t twins_there() const { return std::min(twins_, twins_each_ * pieces_); }
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
  Bytes bytes_of_piece(std::int64_t piece) const;
  Status take_piece();

  device::HostMemory& memory_;
  const Bytes frame_;
  const std::int64_t twins_, twins_each_;  // in all; in each piece but the last
  std::vector<RegionId> regions_;          // of all pieces; invalid: not taken yet
  std::int64_t pieces_ = 0;                // pieces that exist
  std::optional<Reached> reached_;
};

}  // namespace causeway::kv
