// A kernel's first launch in a stream. The driver loads kernels when they are first launched (lazy
// loading: all of cuBLASLt's at once take 1.6 s and 0.4 GB of HBM), may wait for all that the GPU
// has to do for that, and lets no other thread call it meanwhile. Where a stream waits for bytes
// that such a thread has yet to send, that would be for ever; so the launch is one of the calls
// that CudaStreamWaits keeps apart from streams that wait.
//
// For threads that enqueue steps: what raises a semaphore must never launch a kernel, since the
// launch may wait for that semaphore. Thread-safe; process-wide, as the driver's lock is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/cuda/cuda_stream_waits.h"

struct CUstream_st;

namespace causeway::device {

// Had while kernels may be loaded: no stream of any machine waits for a semaphore meanwhile.
class CudaLoading {
 public:
  CudaLoading();

 private:
  std::vector<std::unique_ptr<CudaStreamWaits::Hold>> holds_;  // of every machine
};

// Had while a kernel is launched, captured or asked about that this thread may not have launched in
// this stream before. Where it has, that costs a look into a table. A stream that gets a destroyed
// one's address within the same slice finds its kernels loaded.
class CudaFirstLaunch {
 public:
  // `kernel` stands for what is loaded: its address, or a number made of a library's choice.
  CudaFirstLaunch(std::uintptr_t kernel, const CUstream_st* stream);
  template <typename... Formal>
  CudaFirstLaunch(void (*kernel)(Formal...), const CUstream_st* stream)
      : CudaFirstLaunch(reinterpret_cast<std::uintptr_t>(kernel), stream) {}

 private:
  std::optional<CudaLoading> loading_;
};

// From construction to destruction, first launches respect these waits, which outlive it.
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
