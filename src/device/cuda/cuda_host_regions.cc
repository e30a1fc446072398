#include "device/cuda/cuda_host_regions.h"

namespace causeway::device {

CudaHostRegions::CudaHostRegions(HostMemory& memory) : memory_(memory) { memory_.watch(this); }

CudaHostRegions::~CudaHostRegions() {
  memory_.unwatch(this);
  for (const auto& [region, registered] : regions_) unregister(registered);
}

Result<CudaDevicePointer> CudaHostRegions::resolve(HostAddress address, Bytes bytes,
                                                   CudaContext& context, View& view) {
  const std::lock_guard lock(mutex_);
  auto found = regions_.find(address.region);
  if (found == regions_.end() || !inside(address.offset, bytes, found->second.bytes)) {
    (void)memory_.resolve(address, bytes);  // checks that the range lies inside
  }
  if (found == regions_.end()) {
    CAUSEWAY_ASSIGN(const Registered registered, register_region(address.region, context));
    found = regions_.emplace(address.region, registered).first;
  }
  view = {address.region, found->second.bytes, found->second.seen, releases_.load()};
  return view.at + static_cast<CudaDevicePointer>(address.offset.count);
}

Result<CudaHostRegions::Registered> CudaHostRegions::register_region(RegionId region,
                                                                     CudaContext& context) {
  const Bytes bytes = memory_.region_bytes(region);
  Registered registered;
  registered.base = memory_.resolve({region, Bytes(0)}, bytes).data();
  registered.bytes = bytes;
  registered.physical = &context.physical();
  const std::string what = "making host region " + std::to_string(region.value) + " of " +
                           std::to_string(bytes.count >> 20) + " MiB reachable for " +
                           context.physical().label();
  const CudaApi& api = context.api();
  CAUSEWAY_TRY(context
                   .call("cuMemHostRegister",
                         [&] {
                           return api.cuMemHostRegister_v2(
                               registered.base, to_size(bytes),
                               kCudaRegisterPortable | kCudaRegisterDeviceMap);
                         })
                   .with_context(what));
  Status seen =
      context
          .call("cuMemHostGetDevicePointer",
                [&] {
                  return api.cuMemHostGetDevicePointer_v2(&registered.seen, registered.base, 0);
                })
          .with_context(what);
  if (!seen.ok()) {
    unregister(registered);
    return seen.error();
  }
  return registered;
}

// In the primary context, which lives as long as the machine. An error here means that the context
// is dead, and the registration with it.
void CudaHostRegions::unregister(const Registered& registered) {
  CudaPhysical& physical = *registered.physical;
  if (physical.hung()) return;  // would wait for the work that hangs
  const auto context = physical.primary();
  if (!context.ok()) return;
  const CudaScope scope(physical.api(), *context);
  (void)physical.check(physical.api().cuMemHostUnregister(registered.base), "cuMemHostUnregister")
      .ok();
}

void CudaHostRegions::releasing(RegionId region) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(region);
  if (found == regions_.end()) return;
  releases_.store(releases_.load() + 1, std::memory_order_release);
  unregister(found->second);
  regions_.erase(found);
}

}  // namespace causeway::device
