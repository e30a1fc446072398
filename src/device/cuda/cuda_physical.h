// One GPU of a machine: its facts, its primary context, its SMs in units that slices can own, and
// whether it is lost. Private to device/cuda.
//
// A GPU is lost when a kernel or the hardware has destroyed its context: no later call can succeed
// in this process. All slices of the GPU are lost with it, because green contexts live in the
// primary one.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_machine.h"

namespace causeway::device {

// Attributes that no other part asks for, beside those of cuda_types.h.
inline constexpr int kCudaAttributeMemoryClock = 36;  // kHz
inline constexpr int kCudaAttributeMemoryBus = 37;    // bits

class CudaPhysical {
 public:
  // Asks the driver, which is initialised, about GPU `ordinal` of `count`.
  static Result<std::unique_ptr<CudaPhysical>> create(const CudaApi& api, int ordinal, int count);
  explicit CudaPhysical(const CudaApi& api, int ordinal) : api_(api), ordinal_(ordinal) {}
  // Releases the primary context, unless work hangs in it.
  ~CudaPhysical();
  CudaPhysical(const CudaPhysical&) = delete;
  CudaPhysical& operator=(const CudaPhysical&) = delete;

  const CudaApi& api() const { return api_; }
  int ordinal() const { return ordinal_; }
  int handle() const { return device_; }
  const std::string& label() const { return label_; }  // "GPU 0 (NVIDIA H200)"
  int sms() const { return sms_; }
  // In bytes a second; zero where the driver does not say.
  double memory_peak() const { return memory_peak_; }
  bool maps_host_memory() const { return maps_host_memory_; }
  // Whether it registers memory that this process may not write (HostAccess::kRead).
  bool registers_read_only() const { return registers_read_only_; }
  // Whether its streams can wait for and write a word of host memory.
  bool waits_for_memory() const { return waits_for_memory_; }
  // Whether this GPU can read and write the memory of GPU `other`; true for itself.
  bool reaches(int other) const { return reaches_[static_cast<std::size_t>(other)]; }
  bool reaches_any_peer() const;

  // The primary context, retained on first use and kept until this object is destroyed.
  Result<CUctx_st*> primary();

  // A set of neighbouring units of SMs that no other slice has, given back by give_back().
  struct SmUnits {
    int first = 0;
    int count = 0;
    int sms = 0;
    std::vector<CudaResource> resources;
  };
  // How the SMs can be split, whatever slices have them. kUnsupported: they cannot be split.
  Result<std::vector<CudaSmUnits>> sm_splits();
  // As many whole units of `unit` SMs (0: the finest) as fit into `sms`, at least one.
  // kResourceExhausted when other slices have them, or units of another size.
  Result<SmUnits> take_sms(int sms, int unit);
  void give_back(const SmUnits& units);

  // Converts a call's result to a Status; remembers the loss of the GPU.
  Status check(int result, const char* call) {
    if (result == kCudaSuccess) [[likely]]
      return {};
    return failure_of(result, call);
  }
  // Work did not end in time and cannot be stopped: the GPU counts as lost, and memory that such
  // work may still use is kept.
  void declare_hung(const std::string& what);
  Status health() const {
    if (well_.load()) [[likely]]
      return {};  // asked at every poll of an event
    return loss();
  }
  bool hung() const;

 private:
  // With mutex_ held.
  void lose(const std::string& what);
  Status failure_of(int result, const char* call);
  Status loss() const;

  Status ask(int count);
  // With mutex_ held.
  Result<CudaResource> all_sms() const;
  Result<std::vector<CudaResource>> split(const CudaResource& all, unsigned unit) const;
  Status split_for(int unit);

  const CudaApi api_;
  const int ordinal_;
  int device_ = 0;
  std::string label_;
  int sms_ = 0;
  double memory_peak_ = 0;
  bool maps_host_memory_ = false;
  bool waits_for_memory_ = false;
  bool registers_read_only_ = false;
  std::vector<bool> reaches_;

  mutable std::mutex mutex_;  // guards what follows
  CUctx_st* primary_ = nullptr;
  unsigned unit_ = 0;  // of the split that slices have
  std::vector<CudaResource> units_;
  std::vector<bool> unit_used_;
  std::optional<Error> lost_;
  bool hung_ = false;
  std::atomic<bool> well_{true};  // whether lost_ is empty; written with mutex_ held
};

// Makes a context current on this thread during its life, and afterwards the former one. Where the
// context is current already it does little, which is cheaper than pushing it again.
class CudaScope {
 public:
  CudaScope(const CudaApi& api, CUctx_st* context) : api_(api) {
    CUctx_st* current = nullptr;
    if (api.cuCtxGetCurrent(&current) == kCudaSuccess && current == context) return;
    result_ = api.cuCtxPushCurrent_v2(context);
    pushed_ = result_ == kCudaSuccess;
  }
  ~CudaScope() {
    CUctx_st* popped = nullptr;
    if (pushed_) api_.cuCtxPopCurrent_v2(&popped);
  }
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;
  int result() const { return result_; }
  bool ok() const { return result_ == kCudaSuccess; }

 private:
  const CudaApi& api_;
  int result_ = kCudaSuccess;
  bool pushed_ = false;
};

}  // namespace causeway::device
