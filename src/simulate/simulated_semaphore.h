// A device::Semaphore in virtual time. A raise may lie in the future, for example at the end of a
// copy that is under way. One thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "device/device.h"

namespace causeway::simulate {

class SimulatedSemaphore final : public device::Semaphore {
 public:
  // The clock is borrowed.
  explicit SimulatedSemaphore(const Clock& clock) : clock_(clock) {}

  std::uint32_t value() const override {
    return coming_ && coming_->at <= clock_.now() ? coming_->value : value_;
  }
  void raise(std::uint32_t value) override {
    settle();
    if (!device::reached(value_, value)) value_ = value;
  }
  // The semaphore shows `value` from `at` on. At most one such raise may be outstanding.
  void raise_at(std::uint32_t value, Nanos at) {
    settle();
    coming_ = {.value = value, .at = at};
  }
  // Virtual time stands still while a thread waits.
  Status wait(std::uint32_t value, Nanos) const override {
    if (device::reached(this->value(), value)) return {};
    return Error{ErrorCode::kDeadlineExceeded, "simulated: the semaphore is not raised yet"};
  }

 private:
  struct Raise {
    std::uint32_t value = 0;
    Nanos at;
  };
  // Applies the outstanding raise when its time has come.
  void settle() {
    if (!coming_ || coming_->at > clock_.now()) return;
    value_ = coming_->value;
    coming_.reset();
  }

  const Clock& clock_;
  std::uint32_t value_ = 0;
  std::optional<Raise> coming_;
};

}  // namespace causeway::simulate
