// A kernel's first launch in a stream. The driver loads a kernel when it is first launched (lazy
// loading: all of cuBLASLt's at once take 1.6 s and 0.4 GB of HBM). For that it may wait for all
// work of the GPU, and it admits no call of another thread meanwhile. Where a stream waits for
// bytes that such a thread has yet to send, that wait would be endless; so the launch is one of the
// calls that CudaStreamWaits keeps apart from waiting streams.
//
// For threads that enqueue steps. A thread that raises a semaphore must never launch a kernel,
// because the launch may wait for that semaphore. Thread-safe; process-wide, as the driver's lock
// is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/cuda/cuda_stream_waits.h"

struct CUstream_st;

namespace causeway::device {

// Held while kernels may be loaded: no stream of any machine waits for a semaphore meanwhile.
class CudaLoading {
 public:
  CudaLoading();

 private:
  std::vector<std::unique_ptr<CudaStreamWaits::Hold>> holds_;  // of every machine
};

// Held while a kernel is launched, captured or asked about that this thread may not yet have
// launched in this stream. If it has, the cost is a look into a table. A stream with the address of
// a destroyed stream of the same slice finds its kernels loaded.
class CudaFirstLaunch {
 public:
  // `kernel` identifies what is loaded: its address, or a number made from a library's choice.
  CudaFirstLaunch(std::uintptr_t kernel, const CUstream_st* stream);
  template <typename... Formal>
  CudaFirstLaunch(void (*kernel)(Formal...), const CUstream_st* stream)
      : CudaFirstLaunch(reinterpret_cast<std::uintptr_t>(kernel), stream) {}

 private:
  std::optional<CudaLoading> loading_;
};

// During the life of this object first launches respect these waits, which must outlive it.
class CudaLoadingRespects {
 public:
  explicit CudaLoadingRespects(CudaStreamWaits& waits);
  ~CudaLoadingRespects();
  CudaLoadingRespects(const CudaLoadingRespects&) = delete;
  CudaLoadingRespects& operator=(const CudaLoadingRespects&) = delete;

 private:
  CudaStreamWaits& waits_;
};

}  // namespace causeway::device
