// What steps wait for on their stream before they read KV that copies bring: semaphores, each lent
// to one submission of copies at a time, because submissions may end in any order.
//
//   take() ─▶ closed ──raised by the copy stream, or by the mover──▶ open ──give_back()──▶ take() …
//
// Streams refer to a gate until its copies have really ended. When a copy hangs, that moment is not
// known: so gates outlive the transfer engine. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "device/device.h"

namespace causeway::kv {

// A place that a step passes when the semaphore has reached the value.
struct CopyGate {
  device::Semaphore* semaphore = nullptr;
  std::uint32_t value = 0;

  bool open() const { return device::reached(semaphore->value(), value); }
};

class CopyGates {
 public:
  // The device outlives the gates.
  explicit CopyGates(device::Device& device) : device_(device) {}

  // One that is closed. kUnsupported: the device has no semaphores; a device's error.
  Result<CopyGate> take();
  // It is open, and nothing raises it any more. A caller that never gives one back takes nothing
  // from others.
  void give_back(const CopyGate& gate);
  // That there are, lent or not.
  std::int64_t size() const { return std::ssize(semaphores_); }

 private:
  device::Device& device_;
  std::vector<std::unique_ptr<device::Semaphore>> semaphores_;
  std::vector<CopyGate> free_;
};

}  // namespace causeway::kv
