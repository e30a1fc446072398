// The semaphores of a CPU machine. Private to device/host.
//
// Thread-safe. All semaphores of a machine share one lock and one condition variable, because
// raises are rare.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "device/device.h"

namespace causeway::device {

class HostSemaphore;

class SemaphoreBoard {
 public:
  void raise(std::atomic<std::uint32_t>& counter, std::uint32_t value);
  Status wait(const std::atomic<std::uint32_t>& counter, std::uint32_t value, Nanos timeout) const;
  // As wait() without a limit, but gives up with kCancelled when `stop` becomes true (then wake()).
  Status wait_unless(const HostSemaphore& semaphore, std::uint32_t value,
                     const std::atomic<bool>& stop) const;
  void wake();

 private:
  mutable std::mutex mutex_;  // a leaf
  mutable std::condition_variable changed_;
};

class HostSemaphore final : public Semaphore {
 public:
  explicit HostSemaphore(SemaphoreBoard& board) : board_(board) {}
  HostSemaphore(const HostSemaphore&) = delete;
  HostSemaphore& operator=(const HostSemaphore&) = delete;

  std::uint32_t value() const override { return counter_.load(std::memory_order_acquire); }
  void raise(std::uint32_t value) override { board_.raise(counter_, value); }
  Status wait(std::uint32_t value, Nanos timeout) const override {
    return board_.wait(counter_, value, timeout);
  }
  SemaphoreBoard& board() const { return board_; }

 private:
  SemaphoreBoard& board_;
  std::atomic<std::uint32_t> counter_{0};  // grows with the board's lock held
};

}  // namespace causeway::device
