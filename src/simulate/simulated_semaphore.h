// A device::Semaphore in virtual time: a raise may lie in the future, as that of a copy does which
// is under way. One thread.
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
  // It shows `value` from then on. At most one such raise is to come.
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
  // What was to come, and has.
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
