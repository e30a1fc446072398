#include "preload/pointers.h"

#include <algorithm>
#include <array>

#include "base/dcheck.h"
#include "device/cuda/cuda_physical.h"

namespace causeway::preload {
namespace {

constexpr std::size_t kRangesMax = 8;       // the ranges that are remembered
constexpr std::size_t kPiecesMax = 16'384;  // of one copy: 32 GiB of 2 MiB each

bool same(const Memory& a, const Memory& b) {
  return a.place == b.place && a.gpu == b.gpu && a.primary == b.primary && a.reached == b.reached;
}

}  // namespace

std::optional<bool> Pointers::mapped_for(int gpu, CudaDevicePointer address) const {
  if (native_.cuMemGetAccess == nullptr) return std::nullopt;
  const device::CudaMemoryLocation location{device::kCudaLocationDevice, gpu};
  unsigned long long flags = 0;
  if (native_.cuMemGetAccess(&flags, &location, address) != device::kCudaSuccess) {
    return std::nullopt;
  }
  return flags == device::kCudaAccessReadWrite;
}

// Host memory that was registered for one context alone is pageable to the relays. Host memory that
// is mapped (on a NUMA node) is mapped for each GPU separately.
bool Pointers::pinned_for_all(CudaDevicePointer address, const CUctx_st* context) const {
  for (std::size_t gpu = 0; gpu < primaries_.size(); ++gpu) {
    CUctx_st* const primary = primaries_[gpu];
    if (primary == nullptr || primary == context) continue;
    if (context == nullptr && !mapped_for(static_cast<int>(gpu), address).value_or(true)) {
      return false;
    }
    const device::CudaScope scope(native_.api, primary);
    if (scope.result() != device::kCudaSuccess) return false;
    CudaDevicePointer seen = 0;
    int attribute = kCudaPointerDeviceAddress;
    void* value = &seen;
    if (native_.cuPointerGetAttributes(1, &attribute, &value, address) != device::kCudaSuccess ||
        seen == 0) {
      return false;
    }
  }
  return true;
}

Pointers::Range Pointers::ask(CudaDevicePointer address) const {
  CUctx_st* context = nullptr;
  unsigned type = 0;
  unsigned managed = 0;
  int gpu = -1;
  CudaDevicePointer start = 0;
  std::size_t bytes = 0;
  void* pool = nullptr;
  std::array<int, 7> attributes = {
      kCudaPointerContext,    kCudaPointerMemoryType, kCudaPointerManaged, kCudaPointerDevice,
      kCudaPointerRangeStart, kCudaPointerRangeBytes, kCudaPointerPool};
  std::array<void*, 7> values = {&context, &type, &managed, &gpu, &start, &bytes, &pool};
  Range range;
  range.begin = address;
  range.end = address;
  if (native_.cuPointerGetAttributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                     values.data(), address) != device::kCudaSuccess) {
    return range;
  }
  Memory& memory = range.memory;
  if (type == 0) {
    memory.place = Place::kPageable;
    return range;
  }
  if (pool != nullptr) {
    memory.place = Place::kOther;  // of a pool: allocated and freed in stream order
  } else if (managed != 0) {
    memory.place = Place::kManaged;
  } else if (type == kCudaMemoryHost) {
    memory.place = Place::kPinned;
    memory.reached = pinned_for_all(address, context);
  } else if (type == kCudaMemoryDevice) {
    memory.place = Place::kGpu;
    memory.gpu = gpu;
    const bool known = gpu >= 0 && gpu < std::ssize(primaries_);
    // Mapped memory has no context. Its own GPU moves it, for relays too.
    memory.primary =
        context == nullptr || (known && primaries_[static_cast<std::size_t>(gpu)] == context);
    if (context == nullptr) memory.reached = mapped_for(gpu, address).value_or(false);
  }
  if (start <= address && bytes > address - start) {
    range.begin = start;
    range.end = start + bytes;
  }
  return range;
}

const Pointers::Range& Pointers::range_of(CudaDevicePointer address) {
  const auto holds = [&](const Range& range) {
    return range.begin <= address && address < range.end;
  };
  const auto found = std::find_if(ranges_.rbegin(), ranges_.rend(), holds);
  if (found != ranges_.rend()) return *found;
  if (ranges_.size() == kRangesMax) ranges_.erase(ranges_.begin());
  ranges_.push_back(ask(address));
  CAUSEWAY_DCHECK(ranges_.size() <= kRangesMax, "the oldest range goes first");
  return ranges_.back();
}

Memory Pointers::at(CudaDevicePointer address, std::size_t bytes) {
  Range range = range_of(address);
  Memory memory = range.memory;
  if (memory.place != Place::kPinned && memory.place != Place::kGpu) return memory;
  const CudaDevicePointer end = address + bytes;
  if (end < address) memory.whole = false;  // beyond the last address
  for (std::size_t piece = 1; range.end < end; ++piece) {
    CAUSEWAY_DCHECK(piece <= kPiecesMax, "a copy of many pieces ends as a partial one");
    const bool empty = range.end <= range.begin;
    // Memory of unknown extent is judged by its last byte.
    if (empty && same(ask(end - 1).memory, memory)) return memory;
    if (!empty && piece < kPiecesMax) range = range_of(range.end);
    if (empty || piece == kPiecesMax || !same(range.memory, memory)) {
      memory.whole = false;
      return memory;
    }
  }
  return memory;
}

}  // namespace causeway::preload
