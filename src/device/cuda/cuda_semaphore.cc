#include "device/cuda/cuda_semaphore.h"

#include <atomic>
#include <string>
#include <utility>

#include "device/cuda/cuda_context.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_event_board.h"

namespace causeway::device {
namespace {

constexpr Bytes kPageBytes = kib(64);
constexpr Bytes kSlotBytes = Bytes(64);

}  // namespace

Result<CudaSemaphorePool::Slot> CudaSemaphorePool::take(Device& slice) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) CAUSEWAY_TRY(grow(slice));
  const Slot slot = free_.back();
  free_.pop_back();
  std::atomic_ref(*slot.word).store(0, std::memory_order_relaxed);
  return slot;
}

Status CudaSemaphorePool::grow(Device& slice) {
  CAUSEWAY_ASSIGN(CudaPinned page, CudaPinned::make(slice, "semaphores", kPageBytes));
  const MemoryAddress begin = page.address();
  CAUSEWAY_ASSIGN(const CudaDevicePointer seen,
                  cuda_address_of(slice, {begin.region, begin.offset}, kPageBytes));
  for (Bytes at = kPageBytes - kSlotBytes; at >= Bytes(0); at -= kSlotBytes) {
    free_.push_back({reinterpret_cast<std::uint32_t*>(page.data() + at.count),
                     seen + static_cast<CudaDevicePointer>(at.count)});
  }
  pages_.push_back(std::move(page));
  return {};
}

void CudaSemaphorePool::give_back(const Slot& slot) {
  waits_.forget(slot.word);
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

// Hanging work may still write the slot, so it is not lent again.
CudaSemaphore::~CudaSemaphore() {
  if (!context_.physical().hung()) pool_.give_back(slot_);
}

std::uint32_t CudaSemaphore::value() const {
  return std::atomic_ref(*slot_.word).load(std::memory_order_acquire);
}

void CudaSemaphore::raise(std::uint32_t value) {
  const std::atomic_ref word(*slot_.word);
  std::uint32_t now = word.load(std::memory_order_acquire);
  CudaEventBoard& sleepers = sleepers_;  // a thread that sees the new value may destroy *this
  while (!reached(now, value)) {
    if (word.compare_exchange_weak(now, value, std::memory_order_acq_rel)) return sleepers.wake();
  }
}

// The driver is asked as well, because only a call reports that a GPU is lost.
Status CudaSemaphore::wait(std::uint32_t value, Nanos timeout) const {
  return poll_until(
             [&]() -> Result<bool> {
               if (reached(this->value(), value)) return true;
               CAUSEWAY_TRY(context_.probe());
               return reached(this->value(), value);
             },
             timeout, [&](Nanos most) { sleepers_.pause(most); })
      .with_context("waiting for a semaphore to reach " + std::to_string(value));
}

}  // namespace causeway::device
