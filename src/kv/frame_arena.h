// Where the frames of a KvCache lie: a range of addresses at the low end of a device's arena, for
// the most frames that there may ever be, cut into frames of one size. Memory is put behind it
// extent by extent: at the start for so many frames; then it comes and goes through range().
//
//   extent 0 (32 MiB)                     │ extent 1
//   frame 0 │ frame 1 │ … │ frame 7       │ frame 8 │ …        frame f at base + f × frame bytes
//
// An extent holds a whole number of frames, so that no frame straddles two. Frames of 4 MiB are for
// real models; tiny ones may use smaller frames, down to 64 bytes. Kernels and copies address a
// frame by this and nothing else. Addresses never change. Thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "device/arena.h"
#include "device/device.h"

namespace causeway::kv {

struct FrameArenaOptions {
  Bytes frame;                  // of one frame
  std::int64_t frames = 0;      // with memory from the start, ≥ 1
  std::int64_t frames_max = 0;  // the most there may ever be; 0: as frames
};

class FrameArena {
 public:
  // Takes as many extents as the frames need. kInvalidArgument when an extent does not hold a whole
  // number of frames; kResourceExhausted when the arena lacks extents or memory. The arena must
  // outlive the frames.
  static Result<FrameArena> create(device::Device& device, const FrameArenaOptions& options);

  // The most frames that there may ever be.
  std::int64_t frames_max() const { return frames_max_; }
  Bytes frame_bytes() const { return frame_; }
  // The bytes of the extents that have memory now.
  Bytes bytes() const;
  // The extents, for the caller that commits and decommits them. Frames of an extent without memory
  // must not be used.
  device::AddressRange& range() { return range_; }

  // The start of frame 0.
  std::byte* base() const { return range_.data(); }
  // The bytes of a frame (readable by the CPU only if the device's memory is).
  std::span<std::byte> bytes_of(FrameId frame) const;
  // The address of a part of a frame, for copies.
  device::MemoryAddress address_of(FrameId frame, Bytes offset = Bytes(0)) const;

 private:
  FrameArena(device::DeviceId device, device::AddressRange range, Bytes frame,
             std::int64_t frames_max)
      : device_(device), range_(std::move(range)), frame_(frame), frames_max_(frames_max) {}
  Bytes offset_of(FrameId frame) const;

  device::DeviceId device_;
  device::AddressRange range_;
  Bytes frame_;
  std::int64_t frames_max_ = 0;
};

}  // namespace causeway::kv
