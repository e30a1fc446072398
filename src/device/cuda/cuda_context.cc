#include "device/cuda/cuda_context.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <thread>

namespace causeway::device {
namespace {

constexpr Nanos kZeroingMax = seconds(30);
// How long an anchor serves; the GPU's oscillator and the host's drift apart by about 20 µs a
// second.
constexpr Nanos kAnchorAge = seconds(1);
// An anchor that took longer than this is less exact than the old one.
constexpr Nanos kAnchorBracketMax = micros(200);

}  // namespace

void pause_alone(Nanos most) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::nanoseconds(most.count));
}

Status poll_until(const std::function<Result<bool>()>& done, Nanos timeout,
                  const std::function<void(Nanos)>& pause) {
  constexpr int kSpins = 64;
  constexpr Nanos kPauseMin = micros(5);
  constexpr Nanos kPauseMax = millis(1);
  const RealClock clock;
  const Nanos limit = std::clamp(timeout, Nanos(0), seconds(365 * 24 * 3600));
  const Nanos start = clock.now();
  Nanos next = kPauseMin;
  for (int round = 0;; ++round) {
    CAUSEWAY_ASSIGN(const bool is_done, done());
    if (is_done) return {};
    const Nanos spent = clock.now() - start;
    if (spent >= limit) {
      return Error{
          ErrorCode::kDeadlineExceeded,
          "not done within " + std::to_string(static_cast<std::int64_t>(to_millis(limit))) + " ms"};
    }
    if (round < kSpins) {
      std::this_thread::yield();
      continue;
    }
    pause(std::min(next, limit - spent));
    next = std::min(next * 2, kPauseMax);
  }
}

Result<std::unique_ptr<CudaContext>> CudaContext::create(CudaPhysical& physical, int sms, int unit,
                                                         const Clock& clock) {
  auto context = std::make_unique<CudaContext>(physical, clock);
  CAUSEWAY_TRY(context->open(sms, unit));
  return context;
}

Status CudaContext::open(int sms, int unit) {
  CAUSEWAY_TRY(physical_.health());
  CAUSEWAY_ASSIGN(handle_, physical_.primary());
  sms_ = physical_.sms();
  if (sms > 0 && sms < physical_.sms()) CAUSEWAY_TRY(open_green(sms, unit));
  CAUSEWAY_TRY(call("cuCtxGetStreamPriorityRange", [&] {
    return api().cuCtxGetStreamPriorityRange(&priority_least_, &priority_greatest_);
  }));
  CAUSEWAY_ASSIGN(service_, make_stream(0, 1));
  CAUSEWAY_ASSIGN(zeroed_, make_event());
  CAUSEWAY_ASSIGN(anchor_, make_event());
  CAUSEWAY_ASSIGN(anchor_next_, make_event());
  const std::lock_guard lock(anchoring_);
  return anchor();
}

Status CudaContext::open_green(int sms, int unit) {
  CAUSEWAY_ASSIGN(units_, physical_.take_sms(sms, unit));
  sms_ = units_->sms;
  CUdevResourceDesc_st* description = nullptr;
  CAUSEWAY_TRY(physical_.check(
      api().cuDevResourceGenerateDesc(&description, units_->resources.data(),
                                      static_cast<unsigned>(units_->resources.size())),
      "cuDevResourceGenerateDesc"));
  CAUSEWAY_TRY(physical_.check(
      api().cuGreenCtxCreate(&green_, description, physical_.handle(), kCudaGreenDefaultStream),
      "cuGreenCtxCreate"));
  return physical_.check(api().cuCtxFromGreenCtx(&handle_, green_), "cuCtxFromGreenCtx");
}

CudaContext::~CudaContext() {
  if (physical_.hung()) return;  // destroying a context waits for its work
  for (CUevent_st* event : {zeroed_, anchor_, anchor_next_}) destroy_event(event);
  destroy_stream(service_);
  if (green_ != nullptr) api().cuGreenCtxDestroy(green_);
  if (units_) physical_.give_back(*units_);
}

Result<CUstream_st*> CudaContext::make_stream(int urgency, int classes) {
  // Smaller numbers are more urgent: greatest is -5 and least 0 on an H200.
  const int span = priority_least_ - priority_greatest_;
  const int step = classes > 1 ? (span * urgency + (classes - 1) / 2) / (classes - 1) : 0;
  const int priority = std::min(priority_greatest_ + step, priority_least_);
  CUstream_st* stream = nullptr;
  if (green_ != nullptr) {
    CAUSEWAY_TRY(physical_.check(
        api().cuGreenCtxStreamCreate(&stream, green_, kCudaStreamNonBlocking, priority),
        "cuGreenCtxStreamCreate"));
  } else {
    CAUSEWAY_TRY(call("cuStreamCreateWithPriority", [&] {
      return api().cuStreamCreateWithPriority(&stream, kCudaStreamNonBlocking, priority);
    }));
  }
  return stream;
}

// Errors of destruction only repeat what the work already reported.
void CudaContext::destroy_stream(CUstream_st* stream) {
  if (stream == nullptr) return;
  (void)physical_.check(api().cuStreamDestroy_v2(stream), "cuStreamDestroy").ok();
}

Result<CUevent_st*> CudaContext::make_event(bool timed) {
  CUevent_st* event = nullptr;
  const unsigned flags = timed ? 0 : kCudaEventDisableTiming;
  CAUSEWAY_TRY(call("cuEventCreate", [&] { return api().cuEventCreate(&event, flags); }));
  return event;
}

void CudaContext::destroy_event(CUevent_st* event) {
  if (event == nullptr) return;
  (void)physical_.check(api().cuEventDestroy_v2(event), "cuEventDestroy").ok();
}

Status CudaContext::poll(CUevent_st* event, Nanos timeout, const char* what) {
  return poll_until(
             [&]() -> Result<bool> {
               int result = kCudaSuccess;
               CAUSEWAY_TRY(call("cuEventQuery", [&] {
                 result = api().cuEventQuery(event);
                 return result == kCudaNotReady ? kCudaSuccess : result;
               }));
               return result == kCudaSuccess;
             },
             timeout, pause_alone)
      .with_context(what);
}

Status CudaContext::probe() {
  CAUSEWAY_TRY(physical_.health());
  return call("cuStreamQuery", [&] {
    const int result = api().cuStreamQuery(service_);
    return result == kCudaNotReady ? kCudaSuccess : result;
  });
}

Status CudaContext::zero(CudaDevicePointer target, Bytes bytes) {
  const std::lock_guard lock(zeroing_);
  CAUSEWAY_TRY(call("cuMemsetD8Async",
                    [&] { return api().cuMemsetD8Async(target, 0, to_size(bytes), service_); }));
  CAUSEWAY_TRY(call("cuEventRecord", [&] { return api().cuEventRecord(zeroed_, service_); }));
  Status zeroed = poll(zeroed_, kZeroingMax, "zeroing new extents");
  if (!zeroed.ok() && zeroed.error().code == ErrorCode::kDeadlineExceeded) {
    physical_.declare_hung(zeroed.error().message);
    return physical_.health();
  }
  return zeroed;
}

// The GPU reaches the event between the two readings of the clock; the middle is wrong by at most
// half of their distance.
Status CudaContext::anchor() {
  const Nanos before = clock_.now();
  anchor_tried_at_ = before;
  CAUSEWAY_TRY(call("cuEventRecord", [&] { return api().cuEventRecord(anchor_next_, service_); }));
  const Status reached = poll(anchor_next_, anchored_at_ == Nanos(0) ? seconds(10) : millis(2),
                              "relating the GPU's time to the clock");
  const Nanos after = clock_.now();
  if (!reached.ok() && anchored_at_ != Nanos(0) &&
      reached.error().code == ErrorCode::kDeadlineExceeded) {
    return {};  // the GPU is busy, and the old anchor is still used
  }
  CAUSEWAY_TRY(reached);
  if (anchored_at_ != Nanos(0) && after - before > kAnchorBracketMax) return {};
  std::swap(anchor_, anchor_next_);
  anchored_at_ = before + (after - before) / 2;
  return {};
}

Result<Nanos> CudaContext::time_of(CUevent_st* event) {
  const std::lock_guard lock(anchoring_);
  // A float of milliseconds counts microseconds only over short distances, so anchors are renewed.
  if (clock_.now() - anchor_tried_at_ > kAnchorAge) CAUSEWAY_TRY(anchor());
  float milliseconds = 0;
  CAUSEWAY_TRY(call("cuEventElapsedTime",
                    [&] { return api().cuEventElapsedTime_v2(&milliseconds, anchor_, event); }));
  const Nanos at = anchored_at_ + nanos_from_seconds(static_cast<double>(milliseconds) * 1e-3);
  return std::min(at, clock_.now());
}

}  // namespace causeway::device
