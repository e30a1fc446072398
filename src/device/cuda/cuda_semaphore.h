// Semaphores of the CUDA backend: words of pinned host memory, which streams write and wait for
// (cuStreamWriteValue32, cuStreamWaitValue32) and the host reads. Private to device/cuda.
//
//   pool ── page, 64 KiB of pinned memory ── 1,024 slots, each a word at the start of its own cache
//                                            line, so that what polls one slows down no other
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "device/cuda/cuda_pinned.h"
#include "device/cuda/cuda_stream_waits.h"
#include "device/cuda/cuda_types.h"
#include "device/device.h"

namespace causeway::device {

class CudaContext;
class CudaEventBoard;

// The slots of a machine. Pages are made when needed and stay. Thread-safe.
class CudaSemaphorePool {
 public:
  explicit CudaSemaphorePool(CudaStreamWaits& waits) : waits_(waits) {}

  struct Slot {
    std::uint32_t* word = nullptr;  // as the host sees it
    CudaDevicePointer seen = 0;     // as all GPUs see it
  };
  // A slot at 0; if a new page is needed, `slice` registers it. kResourceExhausted.
  Result<Slot> take(Device& slice);
  // No work that uses it may be left.
  void give_back(const Slot& slot);

 private:
  Status grow(Device& slice);  // with mutex_ held

  CudaStreamWaits& waits_;
  std::mutex mutex_;  // guards what follows; taken before the host regions'
  std::vector<CudaPinned> pages_;
  std::vector<Slot> free_;
};

class CudaSemaphore final : public Semaphore {
 public:
  // Waiting host threads pause on `sleepers`.
  CudaSemaphore(CudaSemaphorePool& pool, CudaSemaphorePool::Slot slot, CudaContext& context,
                CudaEventBoard& sleepers)
      : pool_(pool), slot_(slot), context_(context), sleepers_(sleepers) {}
  ~CudaSemaphore() override;
  CudaSemaphore(const CudaSemaphore&) = delete;
  CudaSemaphore& operator=(const CudaSemaphore&) = delete;

  std::uint32_t value() const override;
  void raise(std::uint32_t value) override;
  Status wait(std::uint32_t value, Nanos timeout) const override;

  CudaDevicePointer seen() const { return slot_.seen; }
  const std::uint32_t* word() const { return slot_.word; }
  const CudaSemaphorePool& pool() const { return pool_; }

 private:
  CudaSemaphorePool& pool_;
  const CudaSemaphorePool::Slot slot_;
  CudaContext& context_;
  CudaEventBoard& sleepers_;
};

}  // namespace causeway::device
