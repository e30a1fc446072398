#include "device/cuda/cuda_stream_waits.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/log.h"
#include "device/device.h"

namespace causeway::device {
namespace {

constexpr auto kLook = std::chrono::microseconds(100);
constexpr int kLooksMax = 300'000;

bool over(const std::uint32_t* word, std::uint32_t value) {
  // atomic_ref needs a word that is not const even for reads.
  const std::atomic_ref counter(*const_cast<std::uint32_t*>(word));
  return reached(counter.load(std::memory_order_acquire), value);
}

}  // namespace

void CudaStreamWaits::drop_ended() {
  std::erase_if(waits_, [](const Wait& wait) { return over(wait.word, wait.value); });
}

void CudaStreamWaits::note(const std::uint32_t* word, std::uint32_t value) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return holds_ == 0; });
  drop_ended();
  waits_.push_back({word, value});
}

void CudaStreamWaits::forget(const std::uint32_t* word) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waits_, [&](const Wait& wait) { return wait.word == word; });
}

CudaStreamWaits::Hold::Hold(CudaStreamWaits& waits) : waits_(waits) {
  std::unique_lock lock(waits_.mutex_);
  ++waits_.holds_;
  waits_.drop_ended();
  for (int looks = 0; !waits_.waits_.empty() && looks < kLooksMax; ++looks) {
    waits_.changed_.wait_for(lock, kLook);
    waits_.drop_ended();
  }
  if (!waits_.waits_.empty()) {
    spdlog::error("a stream has waited for 30 s for bytes that do not come");
  }
}

CudaStreamWaits::Hold::~Hold() {
  const std::lock_guard lock(waits_.mutex_);
  --waits_.holds_;
  waits_.changed_.notify_all();
}

}  // namespace causeway::device
