#include "bench/kernels/cuda_timer.h"

#include <cuda_runtime.h>

#include <memory>

#include "base/clock.h"
#include "kernels/cuda_status.cuh"

namespace causeway::kernels::bench {
namespace {

constexpr const char* kWhat = "timing on the GPU";

struct DestroyEvent {
  void operator()(CUevent_st* event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

Result<Event> make_event() {
  cudaEvent_t event = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaEventCreate(&event), kWhat));
  return Event(event);
}

Status wait(const Event& event) {
  const RealClock clock;
  const Nanos deadline = clock.now() + seconds(60);
  while (true) {
    const cudaError_t code = cudaEventQuery(event.get());
    if (code != cudaErrorNotReady) return cuda_status(code, kWhat);
    if (clock.now() > deadline) {
      return Error{ErrorCode::kDeadlineExceeded, "the GPU did not end its work within a minute"};
    }
  }
}

}  // namespace

Result<Nanos> time_on_gpu(const std::function<Status()>& enqueue, CudaStream stream) {
  CAUSEWAY_ASSIGN(const Event begin, make_event());
  CAUSEWAY_ASSIGN(const Event end, make_event());
  CAUSEWAY_TRY(cuda_status(cudaEventRecord(begin.get(), stream), kWhat));
  CAUSEWAY_TRY(enqueue());
  CAUSEWAY_TRY(cuda_status(cudaEventRecord(end.get(), stream), kWhat));
  CAUSEWAY_TRY(wait(end));
  float millis = 0;
  CAUSEWAY_TRY(cuda_status(cudaEventElapsedTime(&millis, begin.get(), end.get()), kWhat));
  return nanos_from_seconds(static_cast<double>(millis) * 1e-3);
}

}  // namespace causeway::kernels::bench
