// Which host regions the GPUs can reach: a region is registered with the driver when first used,
// whole, for all contexts, and unregistered when it is released. Registering pins every page and
// takes time (12 GiB: half a second), so large pools are registered ahead of use.
//
// Private to device/cuda. Thread-safe; must go before the HostMemory and the contexts.
#pragma once

#include <atomic>
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

  // A region as GPUs see it, for who asks for the same one again and again.
  struct View {
    RegionId region;
    Bytes bytes;
    CudaDevicePointer at = 0;
    std::int64_t releases = -1;  // so far when it was looked up
  };
  // How GPUs see [address, address + bytes), which must lie inside its region. The context's GPU
  // registers it if need be. What was found is also in `view`.
  Result<CudaDevicePointer> resolve(HostAddress address, Bytes bytes, CudaContext& context,
                                    View& view);
  // Whether a view shows such a range still. Takes no lock: nobody may use a region while it is
  // released, so what is true now stays so for the caller.
  bool shows(const View& view, HostAddress address, Bytes bytes) const {
    return view.region == address.region && inside(address.offset, bytes, view.bytes) &&
           view.releases == releases_.load(std::memory_order_acquire);
  }

  void releasing(RegionId region) override;
  HostMemory& memory() const { return memory_; }

 private:
  struct Registered {
    std::byte* base = nullptr;
    Bytes bytes;
    CudaDevicePointer seen = 0;
    CudaPhysical* physical = nullptr;
  };
  static bool inside(Bytes offset, Bytes bytes, Bytes whole) {
    return offset >= Bytes(0) && bytes >= Bytes(0) && bytes <= whole && offset <= whole - bytes;
  }
  Result<Registered> register_region(RegionId region, CudaContext& context);
  static void unregister(const Registered& registered);

  HostMemory& memory_;
  std::atomic<std::int64_t> releases_{0};  // written with mutex_ held
  std::mutex mutex_;  // guards what follows
  std::map<RegionId, Registered> regions_;
};

}  // namespace causeway::device
