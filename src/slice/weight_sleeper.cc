#include "slice/weight_sleeper.h"

#include <algorithm>
#include <vector>

#include "base/dcheck.h"
#include "base/log.h"

namespace causeway::slice {
namespace {

constexpr Bytes kSleepPiece = mib(256);
constexpr Bytes kSleepCopy = mib(32);
constexpr Nanos kSleepPatience = seconds(30);

}  // namespace

Result<std::unique_ptr<WeightSleeper>> WeightSleeper::open(device::Device& device,
                                                           device::HostMemory& memory) {
  CAUSEWAY_ASSIGN(const RegionId region, memory.allocate({.name = "sleep", .bytes = kSleepPiece}));
  auto sleeper = std::make_unique<WeightSleeper>(device, memory, region);
  CAUSEWAY_ASSIGN(sleeper->stream_, device.make_stream("sleep"));
  return sleeper;
}

WeightSleeper::WeightSleeper(device::Device& device, device::HostMemory& memory, RegionId region)
    : device_(device), memory_(memory), region_(region) {}

WeightSleeper::~WeightSleeper() {
  stream_.reset();
  if (const Status gone = memory_.release(region_); !gone.ok()) {
    spdlog::error("host memory stays: {}", gone.error().message);
  }
}

void WeightSleeper::copy_out(Bytes offset, Bytes bytes) {
  for (Bytes at; at < bytes; at += kSleepPiece) {
    const Bytes piece = std::min(kSleepPiece, bytes - at);
    const Status copied = copy_piece(offset + at, piece);
    if (!copied.ok()) {
      return spdlog::error("weights go without being put to sleep: {}", copied.error().message);
    }
    const std::scoped_lock lock(mutex_);
    copied_ += piece;
  }
}

Status WeightSleeper::copy_piece(Bytes offset, Bytes bytes) {
  CAUSEWAY_DCHECK(bytes > Bytes(0) && bytes <= kSleepPiece, "a piece fits the memory for it");
  std::vector<device::Copy> copies;
  for (Bytes at; at < bytes; at += kSleepCopy) {
    copies.push_back({.target = device::MemoryAddress::in_host({region_, at}),
                      .source = device::MemoryAddress::in_arena(device_.id(), offset + at),
                      .bytes = std::min(kSleepCopy, bytes - at)});
  }
  CAUSEWAY_TRY(stream_->copy(copies, device::CopyPriority::kStep));
  return stream_->synchronize(kSleepPatience);
}

Bytes WeightSleeper::copied() const {
  const std::scoped_lock lock(mutex_);
  return copied_;
}

}  // namespace causeway::slice
