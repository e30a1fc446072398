#include "device/host/host_semaphore.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace causeway::device {

// The counter may be destroyed once its new value can be seen, so nothing touches it after that.
void SemaphoreBoard::raise(std::atomic<std::uint32_t>& counter, std::uint32_t value) {
  const std::lock_guard lock(mutex_);
  if (reached(counter.load(std::memory_order_relaxed), value)) return;
  counter.store(value, std::memory_order_release);
  changed_.notify_all();
}

Status SemaphoreBoard::wait(const std::atomic<std::uint32_t>& counter, std::uint32_t value,
                            Nanos timeout) const {
  constexpr Nanos kWaitMax = seconds(365 * 24 * 3600);  // more would overflow the deadline
  const Nanos limit = std::clamp(timeout, Nanos(0), kWaitMax);
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, std::chrono::nanoseconds(limit.count),
                        [&] { return reached(counter.load(std::memory_order_acquire), value); })) {
    return {};
  }
  return Error{ErrorCode::kDeadlineExceeded,
               "a semaphore did not reach " + std::to_string(value) + " within " +
                   std::to_string(static_cast<std::int64_t>(to_millis(limit))) + " ms; it is at " +
                   std::to_string(counter.load())};
}

Status SemaphoreBoard::wait_unless(const HostSemaphore& semaphore, std::uint32_t value,
                                   const std::atomic<bool>& stop) const {
  std::unique_lock lock(mutex_);
  bool is_reached = false;
  changed_.wait(lock, [&] {
    is_reached = reached(semaphore.value(), value);
    return is_reached || stop.load();
  });
  if (is_reached) return {};
  return Error{ErrorCode::kCancelled, "the wait was cancelled with its stream"};
}

void SemaphoreBoard::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace causeway::device
