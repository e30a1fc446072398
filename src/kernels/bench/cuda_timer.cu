#include "kernels/bench/cuda_timer.h"

#include <cuda_runtime.h>

#include <memory>
#include <string>

#include "base/clock.h"

namespace causeway::kernels::bench {
namespace {

struct DestroyEvent {
  void operator()(CUevent_st* event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

Status check(cudaError_t code) {
  if (code == cudaSuccess) return {};
  return Error{ErrorCode::kDevice, std::string("timing on the GPU: ") + cudaGetErrorString(code)};
}

Result<Event> make_event() {
  cudaEvent_t event = nullptr;
  CAUSEWAY_TRY(check(cudaEventCreate(&event)));
  return Event(event);
}

Status wait(const Event& event) {
  const RealClock clock;
  const Nanos deadline = clock.now() + seconds(60);
  while (true) {
    const cudaError_t code = cudaEventQuery(event.get());
    if (code != cudaErrorNotReady) return check(code);
    if (clock.now() > deadline) {
      return Error{ErrorCode::kDeadlineExceeded, "the GPU did not end its work within a minute"};
    }
  }
}

}  // namespace

Result<Nanos> time_on_gpu(const std::function<Status()>& enqueue, CudaStream stream) {
  CAUSEWAY_ASSIGN(const Event begin, make_event());
  CAUSEWAY_ASSIGN(const Event end, make_event());
  CAUSEWAY_TRY(check(cudaEventRecord(begin.get(), stream)));
  CAUSEWAY_TRY(enqueue());
  CAUSEWAY_TRY(check(cudaEventRecord(end.get(), stream)));
  CAUSEWAY_TRY(wait(end));
  float millis = 0;
  CAUSEWAY_TRY(check(cudaEventElapsedTime(&millis, begin.get(), end.get())));
  return nanos_from_seconds(static_cast<double>(millis) * 1e-3);
}

}  // namespace causeway::kernels::bench
