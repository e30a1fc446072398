#include "device/cuda/cuda_kernel_loading.h"

#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace causeway::device {
namespace {

// The machines that exist: one in a program, more in some tests.
struct Respected {
  std::mutex mutex;  // guards what follows
  std::vector<CudaStreamWaits*> waits;
};

Respected& respected() {
  static Respected all;
  return all;
}

// By thread, so that a launch takes no lock: few threads enqueue steps, each in few streams.
bool seen_before(std::uintptr_t kernel, const CUstream_st* stream) {
  thread_local std::unordered_map<const CUstream_st*, std::unordered_set<std::uintptr_t>> seen;
  return !seen[stream].insert(kernel).second;
}

}  // namespace

CudaLoading::CudaLoading() {
  Respected& all = respected();
  const std::lock_guard lock(all.mutex);
  for (CudaStreamWaits* const waits : all.waits) {
    holds_.push_back(std::make_unique<CudaStreamWaits::Hold>(*waits));
  }
}

CudaFirstLaunch::CudaFirstLaunch(std::uintptr_t kernel, const CUstream_st* stream) {
  if (!seen_before(kernel, stream)) loading_ = std::make_unique<CudaLoading>().release();
}

void CudaFirstLaunch::end() { const std::unique_ptr<CudaLoading> ends(loading_); }

CudaLoadingRespects::CudaLoadingRespects(CudaStreamWaits& waits) : waits_(waits) {
  const std::lock_guard lock(respected().mutex);
  respected().waits.push_back(&waits_);
}

CudaLoadingRespects::~CudaLoadingRespects() {
  const std::lock_guard lock(respected().mutex);
  std::erase(respected().waits, &waits_);
}

}  // namespace causeway::device
