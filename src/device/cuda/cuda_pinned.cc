#include "device/cuda/cuda_pinned.h"

#include <utility>

#include "device/cuda/cuda_device.h"

namespace causeway::device {

Result<CudaPinned> CudaPinned::make(Device& slice, const std::string& name, Bytes bytes) {
  HostMemory& memory = cuda_host_memory_of(slice);
  CAUSEWAY_ASSIGN(const RegionId region,
                  memory.allocate({.name = name, .bytes = bytes, .touch_threads = 1}));
  CudaPinned made(memory, region, bytes);
  CAUSEWAY_TRY(cuda_address_of(slice, {region, Bytes(0)}, bytes));
  return Result<CudaPinned>(std::move(made));
}

CudaPinned::CudaPinned(HostMemory& memory, RegionId region, Bytes bytes)
    : memory_(&memory),
      region_(region),
      data_(memory.resolve({region, Bytes(0)}, bytes).data()),
      bytes_(bytes) {}

CudaPinned::CudaPinned(CudaPinned&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      region_(std::exchange(other.region_, RegionId())),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, Bytes(0))) {}

CudaPinned& CudaPinned::operator=(CudaPinned&& other) noexcept {
  if (this == &other) return *this;
  release();
  memory_ = std::exchange(other.memory_, nullptr);
  region_ = std::exchange(other.region_, RegionId());
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, Bytes(0));
  return *this;
}

CudaPinned::~CudaPinned() { release(); }

void CudaPinned::release() {
  if (memory_ == nullptr) return;
  const Status released = memory_->release(region_);
  CAUSEWAY_CHECK(released.ok(), "a region was released behind its owner's back");
}

}  // namespace causeway::device
