// Loading kernels, kept apart from streams that wait (cuda_first_launch.h says why). Thread-safe;
// process-wide, as the driver's lock is.
#pragma once

#include <memory>
#include <vector>

#include "device/cuda/cuda_first_launch.h"
#include "device/cuda/cuda_stream_waits.h"

namespace causeway::device {

// Held while kernels may be loaded: no stream of any machine waits for a semaphore meanwhile.
class CudaLoading {
 public:
  CudaLoading();

 private:
  std::vector<std::unique_ptr<CudaStreamWaits::Hold>> holds_;  // of every machine
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
