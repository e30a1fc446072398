#include "kv/frame_arena.h"

#include <algorithm>
#include <string>
#include <utility>

namespace causeway::kv {
namespace {

constexpr Bytes kFrameMin(64);  // a cache line, which vector loads may need

bool divides(Bytes frame, Bytes extent) {
  return frame >= kFrameMin && frame <= extent && extent % frame == Bytes(0);
}

}  // namespace

Result<FrameArena> FrameArena::create(device::Device& device, const FrameArenaOptions& options) {
  const Bytes frame = options.frame;
  device::Arena& arena = device.arena();
  const Bytes extent = arena.extent_bytes();
  if (!divides(frame, extent)) {
    return invalid_argument("KV frames of " + std::to_string(frame.count) +
                            " bytes: an extent of " + std::to_string(extent.count) +
                            " bytes must hold a whole number of frames of at least " +
                            std::to_string(kFrameMin.count) + " bytes");
  }
  if (options.frames < 1) return invalid_argument("a KV cache needs at least one frame");
  const std::int64_t frames_max = std::max(options.frames, options.frames_max);
  const auto extents_for = [&](std::int64_t frames) { return (frames - 1) / (extent / frame) + 1; };
  const std::string context = "the KV cache of " + std::to_string(options.frames) + " frames";
  CAUSEWAY_ASSIGN(
      device::AddressRange range,
      arena.reserve(extents_for(frames_max), device::Arena::End::kLow).with_context(context));
  CAUSEWAY_TRY(range.commit(0, extents_for(options.frames)).with_context(context));
  return FrameArena(device.id(), std::move(range), frame, frames_max);
}

Bytes FrameArena::bytes() const {
  std::int64_t extents = 0;
  for (std::int64_t e = 0; e < range_.extents(); ++e) extents += range_.committed(e, 1) ? 1 : 0;
  return range_.bytes() / range_.extents() * extents;
}

Bytes FrameArena::offset_of(FrameId frame) const {
  CAUSEWAY_CHECK(frame.value >= 0 && frame.value < frames_max_, "no such frame");
  return frame_ * frame.value;
}

std::span<std::byte> FrameArena::bytes_of(FrameId frame) const {
  return {base() + offset_of(frame).count, to_size(frame_)};
}

device::MemoryAddress FrameArena::address_of(FrameId frame, Bytes offset) const {
  CAUSEWAY_CHECK(offset.count >= 0 && offset < frame_, "an offset beyond its frame");
  return device::MemoryAddress::in_arena(device_, range_.offset() + offset_of(frame) + offset);
}

}  // namespace causeway::kv
