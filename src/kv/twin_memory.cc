#include "kv/twin_memory.h"

#include <string>
#include <utility>

#include "base/check.h"

namespace causeway::kv {

Result<std::unique_ptr<TwinMemory>> TwinMemory::create(device::HostMemory& memory,
                                                       const TwinMemoryOptions& options) {
  CAUSEWAY_CHECK(options.frame > Bytes(0), "frames have a size");
  if (options.bytes < options.frame) {
    return invalid_argument(std::to_string(options.bytes.count) +
                            " bytes of host memory for KV are less than one block of " +
                            std::to_string(options.frame.count));
  }
  const std::int64_t twins = options.bytes / options.frame;
  CAUSEWAY_ASSIGN(const RegionId region,
                  memory.allocate({.name = "kv twins", .bytes = options.frame * twins})
                      .with_context("host memory for KV that gives up its frames"));
  return std::make_unique<TwinMemory>(memory, region, options.frame, twins);
}

TwinMemory::~TwinMemory() {
  if (reached_) {
    device::make_unreachable_paced(reached_->device, {region_, Bytes(0)}, bytes(), reached_->pace);
  }
  const Status released = memory_.release(region_);
  CAUSEWAY_CHECK(released.ok(), "twins lie in no region");
}

// What was registered stays so when the rest fails: it is taken back with the memory.
Status TwinMemory::reach(device::Device& device, device::Pace pace) {
  CAUSEWAY_CHECK(!reached_, "twins are reachable already");
  reached_.emplace(Reached{device, std::move(pace)});
  return device::make_reachable_paced(device, {region_, Bytes(0)}, bytes(), reached_->pace);
}

device::HostAddress TwinMemory::place_of(TwinId twin) const {
  CAUSEWAY_CHECK(twin.value >= 0 && twin.value < twins_, "no such twin");
  return {region_, frame_ * twin.value};
}

device::MemoryAddress TwinMemory::address_of(TwinId twin) const {
  return device::MemoryAddress::in_host(place_of(twin));
}

std::span<std::byte> TwinMemory::bytes_of(TwinId twin) const {
  return memory_.resolve(place_of(twin), frame_);
}

}  // namespace causeway::kv
