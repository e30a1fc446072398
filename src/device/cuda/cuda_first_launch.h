// A kernel's first launch in a stream. The driver loads a kernel when it is first launched (lazy
// loading: all of cuBLASLt's at once take 1.6 s and 0.4 GB of HBM). For that it may wait for all
// work of the GPU, and it admits no call of another thread meanwhile. Where a stream waits for
// bytes that such a thread has yet to send, that wait would be endless; so the launch is one of the
// calls that CudaStreamWaits keeps apart from waiting streams.
//
// For threads that enqueue steps. A thread that raises a semaphore must never launch a kernel,
// because the launch may wait for that semaphore. Thread-safe; process-wide, as the driver's lock
// is.
//
// Every file with a kernel reads this header, so it has none of the standard library's large ones:
// with CudaLoading's they take nvcc 2 s a file.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace causeway::device {

class CudaLoading;

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
  ~CudaFirstLaunch() {
    if (loading_ != nullptr) end();
  }
  CudaFirstLaunch(const CudaFirstLaunch&) = delete;
  CudaFirstLaunch& operator=(const CudaFirstLaunch&) = delete;

 private:
  void end();

  CudaLoading* loading_ = nullptr;  // owned
};

}  // namespace causeway::device
