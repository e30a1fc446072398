#include "transfer/testing/faulty_device.h"

#include <chrono>

namespace causeway::transfer::testing {
namespace {

using device::Copy;
using device::CopyPriority;
using device::Event;
using device::Semaphore;
using device::Stream;

const Error kInjected{ErrorCode::kDevice, "a fault of the test"};

bool hangs(FaultPlan::Kind kind) {
  return kind == FaultPlan::Kind::kHang || kind == FaultPlan::Kind::kHangThenFail;
}

class FaultyStream final : public Stream {
 public:
  FaultyStream(std::unique_ptr<Stream> inner, FaultPlan& plan)
      : inner_(std::move(inner)), plan_(plan) {}

  Status copy(std::span<const Copy> copies, CopyPriority priority) override {
    switch (plan_.take()) {
      case FaultPlan::Kind::kRefuse: return kInjected;
      case FaultPlan::Kind::kFail: return inner_->run([]() -> Status { return kInjected; });
      case FaultPlan::Kind::kHang:
        CAUSEWAY_TRY(inner_->run([plan = &plan_] { return plan->wait_for_release(); }));
        break;
      case FaultPlan::Kind::kHangThenFail:
        return inner_->run([plan = &plan_]() -> Status {
          CAUSEWAY_TRY(plan->wait_for_release());
          return kInjected;
        });
      case FaultPlan::Kind::kNone: break;
    }
    return inner_->copy(copies, priority);
  }
  Status run(std::function<Status()> work) override { return inner_->run(std::move(work)); }
  Status record(Event& event) override { return inner_->record(event); }
  Status wait(const Event& event) override { return inner_->wait(event); }
  Status signal(Semaphore& semaphore, std::uint32_t value) override {
    return inner_->signal(semaphore, value);
  }
  Status wait(const Semaphore& semaphore, std::uint32_t value) override {
    return inner_->wait(semaphore, value);
  }
  Status synchronize(Nanos timeout) override { return inner_->synchronize(timeout); }

 private:
  std::unique_ptr<Stream> inner_;
  FaultPlan& plan_;
};

}  // namespace

void FaultPlan::next(Kind kind, int count, int skip) {
  const std::lock_guard lock(mutex_);
  kind_ = kind;
  count_ = count;
  skip_ = skip;
}

FaultPlan::Kind FaultPlan::take() {
  const std::lock_guard lock(mutex_);
  if (count_ == 0 || (hangs(kind_) && released_)) return Kind::kNone;
  if (skip_ > 0) {
    --skip_;
    return Kind::kNone;
  }
  --count_;
  ++happened_;
  return kind_;
}

void FaultPlan::release() {
  const std::lock_guard lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

void FaultPlan::release_after(Nanos delay) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(delay.count), [&] { return released_; });
  released_ = true;
  changed_.notify_all();
}

void FaultPlan::reopen() {
  const std::lock_guard lock(mutex_);
  released_ = false;
}

Status FaultPlan::wait_for_release() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return released_; })) {
    return Error{ErrorCode::kDeadlineExceeded, "the test released nothing"};
  }
  return {};
}

void FaultPlan::lose() {
  const std::lock_guard lock(mutex_);
  lost_ = true;
}

bool FaultPlan::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void FaultPlan::refuse_streams(bool refuse) {
  const std::lock_guard lock(mutex_);
  refuses_streams_ = refuse;
}

bool FaultPlan::refuses_streams() const {
  const std::lock_guard lock(mutex_);
  return refuses_streams_;
}

int FaultPlan::happened() const {
  const std::lock_guard lock(mutex_);
  return happened_;
}

Result<std::unique_ptr<Stream>> FaultyDevice::make_stream(const std::string& name) {
  if (plan_.refuses_streams()) return exhausted("no memory for a stream");
  CAUSEWAY_ASSIGN(auto inner, inner_.make_stream(name));
  return std::unique_ptr<Stream>(std::make_unique<FaultyStream>(std::move(inner), plan_));
}

Status FaultyDevice::health() const {
  if (plan_.lost()) return Error{ErrorCode::kDevice, "the GPU fell off the bus"};
  return inner_.health();
}

}  // namespace causeway::transfer::testing
