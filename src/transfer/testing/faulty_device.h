// A device whose copies fail, are refused or hang on command, and that makes no streams on command;
// everything else is the real one's.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "device/device.h"

namespace causeway::transfer::testing {

// The faults to inject, shared by a device's streams. Thread-safe. Must outlive them.
class FaultPlan {
 public:
  enum class Kind { kNone, kFail, kRefuse, kHang, kHangThenFail };

  // The next `count` batches of copies, after `skip` good ones.
  void next(Kind kind, int count, int skip = 0);
  // Lets hanging copies continue, and none hang any more, until reopen().
  void release();
  void release_after(Nanos delay);
  void reopen();
  void lose();  // health() fails from now on
  void refuse_streams(bool refuse);

  Kind take();
  Status wait_for_release();
  bool lost() const;
  bool refuses_streams() const;
  int happened() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Kind kind_ = Kind::kNone;
  int skip_ = 0;
  int count_ = 0;
  int happened_ = 0;
  bool released_ = false;
  bool lost_ = false;
  bool refuses_streams_ = false;
};

// `inner` and `plan` must outlive the device.
class FaultyDevice final : public device::Device {
 public:
  FaultyDevice(device::Device& inner, FaultPlan& plan) : inner_(inner), plan_(plan) {}

  device::DeviceId id() const override { return inner_.id(); }
  const device::Capabilities& capabilities() const override { return inner_.capabilities(); }
  device::Arena& arena() override { return inner_.arena(); }
  Result<std::unique_ptr<device::Stream>> make_stream(const std::string& name) override;
  Result<std::unique_ptr<device::Event>> make_event() override { return inner_.make_event(); }
  Result<std::unique_ptr<device::Event>> make_mark() override { return inner_.make_mark(); }
  Result<std::unique_ptr<device::Semaphore>> make_semaphore() override {
    return inner_.make_semaphore();
  }
  Status make_reachable(device::HostAddress address, Bytes bytes) override {
    return inner_.make_reachable(address, bytes);
  }
  bool is_reachable(device::HostAddress address, Bytes bytes) const override {
    return inner_.is_reachable(address, bytes);
  }
  void make_unreachable(device::HostAddress address, Bytes bytes) override {
    inner_.make_unreachable(address, bytes);
  }
  Status health() const override;

 private:
  device::Device& inner_;
  FaultPlan& plan_;
};

}  // namespace causeway::transfer::testing
