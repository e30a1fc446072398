// Which host regions the GPUs can reach: a region is registered with the driver when first used,
// whole, for all contexts, and unregistered when it is released. Registering pins every page and
// takes time (12 GiB: half a second), so large pools are registered ahead of use.
//
// Private to device/cuda. Thread-safe; must go before the HostMemory and the contexts.
#pragma once

#include <map>
#include <mutex>

#include "device/cuda/cuda_context.h"
#include "device/host_memory.h"

namespace causeway::device {

class CudaHostRegions final : public HostRegionWatcher {
 public:
  explicit CudaHostRegions(HostMemory& memory);
  ~CudaHostRegions() override;
  CudaHostRegions(const CudaHostRegions&) = delete;
  CudaHostRegions& operator=(const CudaHostRegions&) = delete;

  // How GPUs see [address, address + bytes), which must lie inside its region. The context's GPU
  // registers it if need be.
  Result<CudaDevicePointer> resolve(HostAddress address, Bytes bytes, CudaContext& context);

  void releasing(RegionId region) override;
  HostMemory& memory() const { return memory_; }

 private:
  struct Registered {
    std::byte* base = nullptr;
    Bytes bytes;
    CudaDevicePointer seen = 0;
    CudaPhysical* physical = nullptr;
  };
  Result<Registered> register_region(RegionId region, CudaContext& context);
  static void unregister(const Registered& registered);

  HostMemory& memory_;
  std::mutex mutex_;  // guards what follows
  std::map<RegionId, Registered> regions_;
};

}  // namespace causeway::device
