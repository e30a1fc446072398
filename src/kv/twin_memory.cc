#include "kv/twin_memory.h"

#include <string>
#include <utility>

#include "base/check.h"

namespace causeway::kv {
namespace {

constexpr int kGrowThreads = 2;

}  // namespace

Result<std::unique_ptr<TwinMemory>> TwinMemory::create(device::HostMemory& memory,
                                                       const TwinMemoryOptions& options) {
  CAUSEWAY_CHECK(options.frame > Bytes(0), "frames without a size");
  if (options.bytes < options.frame) {
    return invalid_argument(std::to_string(options.bytes.count) +
                            " bytes of host memory for KV are less than one block of " +
                            std::to_string(options.frame.count));
  }
  const std::int64_t twins = options.bytes / options.frame;
  const Bytes piece =
      options.piece > Bytes(0) ? std::min(options.piece, options.bytes) : options.bytes;
  auto made = std::make_unique<TwinMemory>(memory, options.frame, twins,
                                           std::max<std::int64_t>(1, piece / options.frame));
  CAUSEWAY_TRY(made->take_piece());
  made->pieces_ = 1;
  return made;
}

TwinMemory::TwinMemory(device::HostMemory& memory, Bytes frame, std::int64_t twins,
                       std::int64_t twins_each)
    : memory_(memory),
      frame_(frame),
      twins_(twins),
      twins_each_(twins_each),
      regions_(static_cast<std::size_t>((twins + twins_each - 1) / twins_each)) {}

TwinMemory::~TwinMemory() {
  for (std::int64_t piece = 0; piece < std::ssize(regions_); ++piece) {
    const RegionId region = regions_[static_cast<std::size_t>(piece)];
    if (!region.valid()) continue;
    if (reached_) {
      device::make_unreachable_paced(reached_->device, {region, Bytes(0)}, bytes_of_piece(piece),
                                     reached_->pace);
    }
    const Status released = memory_.release(region);
    CAUSEWAY_CHECK(released.ok(), "twins lie in no region");
  }
}

Bytes TwinMemory::bytes_of_piece(std::int64_t piece) const {
  return frame_ * std::min(twins_each_, twins_ - twins_each_ * piece);
}

Status TwinMemory::take_piece() {
  RegionId& region = regions_[static_cast<std::size_t>(pieces_)];
  if (region.valid()) return {};  // it could not be made reachable
  // Pieces after the first are touched by fewer threads, because the slice serves meanwhile.
  CAUSEWAY_ASSIGN(region, memory_
                              .allocate({.name = "kv twins",
                                         .bytes = bytes_of_piece(pieces_),
                                         .touch_threads = pieces_ > 0 ? kGrowThreads : 0})
                              .with_context("host memory for KV that gives up its frames"));
  return {};
}

// Memory that was registered stays so when the rest fails; it is unregistered before the memory is
// released.
Status TwinMemory::reach(device::Device& device, device::Pace pace) {
  CAUSEWAY_CHECK(!reached_, "twins are reachable already");
  reached_.emplace(Reached{device, std::move(pace)});
  return device::make_reachable_paced(device, {regions_[0], Bytes(0)}, bytes_of_piece(0),
                                      reached_->pace);
}

Result<std::int64_t> TwinMemory::grow() {
  CAUSEWAY_CHECK(reached_, "twins grow once the first are reachable");
  const std::int64_t before = twins_there();
  if (before == twins_) return 0;
  CAUSEWAY_TRY(take_piece());
  CAUSEWAY_TRY(device::make_reachable_paced(reached_->device,
                                            {regions_[static_cast<std::size_t>(pieces_)], Bytes(0)},
                                            bytes_of_piece(pieces_), reached_->pace));
  pieces_ += 1;
  return twins_there() - before;
}

device::HostAddress TwinMemory::place_of(TwinId twin) const {
  CAUSEWAY_CHECK(twin.value >= 0 && twin.value < twins_, "no such twin");
  const RegionId region = regions_[static_cast<std::size_t>(twin.value / twins_each_)];
  CAUSEWAY_CHECK(region.valid(), "the twin is not there yet");
  return {region, frame_ * (twin.value % twins_each_)};
}

device::MemoryAddress TwinMemory::address_of(TwinId twin) const {
  return device::MemoryAddress::in_host(place_of(twin));
}

std::span<std::byte> TwinMemory::bytes_of(TwinId twin) const {
  return memory_.resolve(place_of(twin), frame_);
}

}  // namespace causeway::kv
