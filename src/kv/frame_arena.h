// Where the frames of a KvCache lie: a run of neighbouring extents at the low end of a device's
// arena, cut into frames of one size.
//
//   extent 0 (32 MiB)                     │ extent 1
//   frame 0 │ frame 1 │ … │ frame 7       │ frame 8 │ …        frame f at base + f × frame bytes
//
// An extent holds a whole number of frames, so that no frame straddles two. Frames of 4 MiB are for
// real models; tiny ones may use smaller frames, down to 64 bytes. Kernels and copies address a
// frame by this and nothing else. Immutable after creation; thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "device/arena.h"
#include "device/device.h"

namespace causeway::kv {

class FrameArena {
 public:
  // Takes as many extents as `frames` ≥ 1 frames need. kInvalidArgument when an extent does not
  // hold a whole number of frames; kResourceExhausted when the arena lacks extents or memory. The
  // arena must outlive the frames.
  static Result<FrameArena> create(device::Device& device, Bytes frame, std::int64_t frames);

  // How many frames the device's arena could hold if nothing else used it.
  static std::int64_t frames_that_fit(const device::Arena& arena, Bytes frame);

  std::int64_t frames() const { return frames_; }
  Bytes frame_bytes() const { return frame_; }
  // What it takes from the arena: whole extents.
  Bytes bytes() const { return extents_.bytes(); }

  // The start of frame 0.
  std::byte* base() const { return extents_.data(); }
  // The bytes of a frame (readable by the CPU only if the device's memory is).
  std::span<std::byte> bytes_of(FrameId frame) const;
  // Part of a frame, for copies.
  device::MemoryAddress address_of(FrameId frame, Bytes offset = Bytes(0)) const;

 private:
  FrameArena(device::DeviceId device, device::Extents extents, Bytes frame, std::int64_t frames)
      : device_(device), extents_(std::move(extents)), frame_(frame), frames_(frames) {}
  Bytes offset_of(FrameId frame) const;

  device::DeviceId device_;
  device::Extents extents_;
  Bytes frame_;
  std::int64_t frames_ = 0;
};

}  // namespace causeway::kv
