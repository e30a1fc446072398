// The CUDA side of an opened slice: its context (primary, or a green one with its own SMs), a
// stream for the backend's own work, and the relation between the GPU's time and the machine's
// clock. Private to device/cuda.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "device/cuda/cuda_physical.h"

namespace causeway::device {

class CudaContext {
 public:
  // With so many SMs, in whole units of so many (0: the finest), at least one; with 0 or all of the
  // GPU's SMs the primary context. kResourceExhausted when other slices hold the SMs.
  static Result<std::unique_ptr<CudaContext>> create(CudaPhysical& physical, int sms, int unit,
                                                     const Clock& clock);
  CudaContext(CudaPhysical& physical, const Clock& clock) : physical_(physical), clock_(clock) {}
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  CudaPhysical& physical() const { return physical_; }
  const CudaApi& api() const { return physical_.api(); }
  CUctx_st* handle() const { return handle_; }
  int sms() const { return sms_; }
  bool green() const { return green_ != nullptr; }

  // Calls the driver with this context current.
  template <typename Call>
  Status call(const char* name, Call&& call) {
    return call_in(CudaScope(api(), handle_), name, std::forward<Call>(call));
  }
  // The same, in a scope of this context that is already open.
  template <typename Call>
  Status call_in(const CudaScope& scope, const char* name, Call&& call) {
    if (!scope.ok()) return physical_.check(scope.result(), "cuCtxPushCurrent");
    return physical_.check(call(), name);
  }

  // `urgency` from 0 (the most urgent) to `classes` - 1, spread over the priorities that the GPU
  // has. The caller destroys it.
  Result<CUstream_st*> make_stream(int urgency, int classes);
  void destroy_stream(CUstream_st* stream);
  Result<CUevent_st*> make_event(bool timed = true);
  void destroy_event(CUevent_st* event);

  // Asks the driver whether the GPU is still there.
  Status probe();
  // Zeroes device memory and waits for it.
  Status zero(CudaDevicePointer target, Bytes bytes);
  // When an event of this context, which is done, was reached, by the clock.
  Result<Nanos> time_of(CUevent_st* event);

 private:
  Status open(int sms, int unit);
  Status open_green(int sms, int unit);
  Status poll(CUevent_st* event, Nanos timeout, const char* what);
  Status anchor();

  CudaPhysical& physical_;
  const Clock& clock_;
  CUctx_st* handle_ = nullptr;
  CUgreenCtx_st* green_ = nullptr;
  std::optional<CudaPhysical::SmUnits> units_;
  int sms_ = 0;
  int priority_least_ = 0;
  int priority_greatest_ = 0;
  CUstream_st* service_ = nullptr;

  std::mutex zeroing_;  // guards zeroed_; held while the GPU zeroes
  CUevent_st* zeroed_ = nullptr;

  std::mutex anchoring_;  // guards what follows
  // The event and the instant that times are counted from, and the event for the next attempt.
  CUevent_st* anchor_ = nullptr;
  CUevent_st* anchor_next_ = nullptr;
  Nanos anchored_at_;
  Nanos anchor_tried_at_;
};

// Asks `done` until it is true or fails: at once, then ever more rarely, up to a millisecond.
// kDeadlineExceeded after `timeout` of real time; `pause` waits at most for the time it is given.
Status poll_until(const std::function<Result<bool>()>& done, Nanos timeout,
                  const std::function<void(Nanos)>& pause);
// A pause that nothing ends early.
void pause_alone(Nanos most);

}  // namespace causeway::device
