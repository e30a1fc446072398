// What steps wait for on their stream before they read KV that copies bring: semaphores. Each is
// lent to one submission of copies at a time, because submissions may end in any order.
//
//   take() ─▶ closed ──raised by the copy stream, or by the mover──▶ open ──give_back()──▶ take() …
//
// Streams refer to a gate until its copies have really ended. When a copy hangs that moment is
// unknown, so gates outlive the transfer engine. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace causeway::kv {

// A step that waits at the gate goes on when the semaphore has reached the value.
struct CopyGate {
  device::Semaphore* semaphore = nullptr;
  std::uint32_t value = 0;

  bool open() const { return device::reached(semaphore->value(), value); }
};

class CopyGates {
 public:
  // The device outlives the gates.
  explicit CopyGates(device::Device& device) : device_(device) {}

  // Lends a closed gate. kUnsupported: the device has no semaphores; other errors are the device's.
  Result<CopyGate> take();
  // The gate is open, and nothing raises it any more. A gate that is never given back does not
  // reduce what others get.
  void give_back(const CopyGate& gate);
  // The number of gates, lent or not.
  std::int64_t size() const { return std::ssize(semaphores_); }

 private:
  device::Device& device_;
  std::vector<std::unique_ptr<device::Semaphore>> semaphores_;
  std::vector<CopyGate> free_;
};

}  // namespace causeway::kv
