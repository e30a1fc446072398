// Memory of other kinds: pageable, registered, mapped, write-combined, managed, stream-ordered,
// symbols, pitched, virtual.
#include <cuda.h>

#include <sys/mman.h>

#include "cases.h"
#include "gpu.cuh"

namespace program {

namespace {

constexpr std::size_t kBytes = 48 * kMiB;
constexpr std::size_t kTableBytes = 24 * kMiB;

__device__ unsigned char table[kTableBytes];

// Up from `host`, checked, changed, down to `host`, by async and by sync copies. A synchronous copy
// up from pageable memory returns once the driver has read it: its last bytes may come later, in
// the default stream, which `stream` does not wait for.
void through(HostMemory& host, std::uint64_t seed, const char* what, bool is_pageable = false) {
  DeviceMemory device(host.bytes());
  DeviceCheck check;
  Stream stream;
  for (const bool sync : {false, true}) {
    const Pattern pattern{seed + (sync ? 1 : 0), 0};
    fill_host(host.data(), host.bytes(), pattern);
    if (sync) {
      GPU_OK(cudaMemcpy(device.data(), host.data(), host.bytes(), cudaMemcpyHostToDevice));
      if (is_pageable) GPU_OK(cudaStreamSynchronize(nullptr));
    } else {
      GPU_OK(cudaMemcpyAsync(device.data(), host.data(), host.bytes(), cudaMemcpyHostToDevice,
                             stream));
    }
    check.add(stream, device.data(), host.bytes(), pattern, what);
    fill_device(stream, device.data(), host.bytes(), pattern.from(17));
    if (sync) {
      stream.wait();
      GPU_OK(cudaMemcpy(host.data(), device.data(), host.bytes(), cudaMemcpyDeviceToHost));
    } else {
      GPU_OK(cudaMemcpyAsync(host.data(), device.data(), host.bytes(), cudaMemcpyDeviceToHost,
                             stream));
      stream.wait();
    }
    check.finish();
    expect_host(host.data(), host.bytes(), pattern.from(17), what);
  }
}

void memory_of_kind(Context& context, Host kind, const char* what, std::size_t bytes = kBytes) {
  HostMemory host(bytes, kind);
  through(host, context.random.next(), what, kind == Host::kPageable);
}

void pageable(Context& c) { memory_of_kind(c, Host::kPageable, "pageable"); }
void registered(Context& c) { memory_of_kind(c, Host::kRegistered, "registered", kBytes + 4096); }
void mapped(Context& c) { memory_of_kind(c, Host::kMapped, "mapped"); }
void managed(Context& c) { memory_of_kind(c, Host::kManaged, "managed"); }
// Reading it on the CPU is very slow, hence its size.
void write_combined(Context& c) {
  memory_of_kind(c, Host::kWriteCombined, "write-combined", 16 * kMiB + 4096);
}

// The same addresses pinned, pageable, pinned in part and pinned again.
void registration_comes_and_goes(Context& context) {
  HostMemory host(kBytes, Host::kRegistered);
  for (int round = 0; round < 3; ++round) {
    through(host, context.random.next(), "registered");
    GPU_OK(cudaHostUnregister(host.data()));
    through(host, context.random.next(), "no longer registered", true);
    GPU_OK(cudaHostRegister(host.data(), kBytes / 2, cudaHostRegisterDefault));
    GPU_OK(cudaHostUnregister(host.data()));
    GPU_OK(cudaHostRegister(host.data(), kBytes, cudaHostRegisterDefault));
  }
}

// Memory on the GPU's side of a copy is freed and given again, maybe at the same address.
void device_memory_comes_and_goes(Context& context) {
  Stream stream;
  for (int round = 0; round < 6; ++round) {
    round_trip(stream, (16 + context.random.below(40)) * kMiB + round, context.random.next());
  }
}

void managed_on_the_device_side(Context& context) {
  HostMemory managed_memory(kBytes, Host::kManaged);
  HostMemory host(kBytes);
  Stream stream;
  const Pattern pattern{context.random.next(), 0};
  fill_host(host.data(), kBytes, pattern);
  GPU_OK(cudaMemcpyAsync(managed_memory.data(), host.data(), kBytes, cudaMemcpyDefault, stream));
  xor_device(stream, managed_memory.data(), managed_memory.data(), kBytes, 0x0f);
  GPU_OK(cudaMemcpyAsync(host.data(), managed_memory.data(), kBytes, cudaMemcpyDefault, stream));
  stream.wait();
  for (std::size_t i = 0; i < kBytes; ++i) host.data()[i] ^= 0x0f;
  expect_host(host.data(), kBytes, pattern, "managed memory");
}

// Memory that a stream allocates and frees around copies.
void stream_ordered_memory(Context& context) {
  HostMemory host(kBytes);
  HostMemory back(kBytes);
  Stream stream;
  for (int round = 0; round < 5; ++round) {
    const Pattern pattern{context.random.next(), 0};
    fill_host(host.data(), kBytes, pattern);
    void* device = nullptr;
    GPU_OK(cudaMallocAsync(&device, kBytes, stream));
    GPU_OK(cudaMemcpyAsync(device, host.data(), kBytes, cudaMemcpyHostToDevice, stream));
    GPU_OK(cudaMemcpyAsync(back.data(), device, kBytes, cudaMemcpyDeviceToHost, stream));
    GPU_OK(cudaFreeAsync(device, stream));
    stream.wait();
    expect_host(back.data(), kBytes, pattern, "stream-ordered memory");
  }
}

void symbols(Context& context) {
  HostMemory host(kTableBytes);
  Stream stream;
  DeviceCheck check;
  const Pattern pattern{context.random.next(), 0};
  fill_host(host.data(), kTableBytes, pattern);
  void* address = nullptr;
  GPU_OK(cudaGetSymbolAddress(&address, table));
  GPU_OK(
      cudaMemcpyToSymbolAsync(table, host.data(), kTableBytes, 0, cudaMemcpyHostToDevice, stream));
  check.add(stream, address, kTableBytes, pattern, "to a symbol");
  xor_device(stream, address, address, kTableBytes, 0x77);
  GPU_OK(cudaMemcpyFromSymbolAsync(host.data(), table, kTableBytes, 0, cudaMemcpyDeviceToHost,
                                   stream));
  stream.wait();
  check.finish();
  for (std::size_t i = 0; i < kTableBytes; ++i) host.data()[i] ^= 0x77;
  expect_host(host.data(), kTableBytes, pattern, "from a symbol");
}

// Two-dimensional copies and copies within the GPU, between large plain ones.
void other_copies_between(Context& context) {
  const std::size_t pitch = 12288;
  const std::size_t rows = kBytes / pitch;
  HostMemory host(kBytes);
  HostMemory back(kBytes);
  DeviceMemory one(kBytes);
  DeviceMemory two(kBytes);
  Stream stream;
  const Pattern pattern{context.random.next(), 0};
  fill_host(host.data(), kBytes, pattern);
  GPU_OK(cudaMemcpyAsync(one.data(), host.data(), kBytes, cudaMemcpyHostToDevice, stream));
  GPU_OK(cudaMemcpy2DAsync(two.data(), pitch, one.data(), pitch, pitch, rows,
                           cudaMemcpyDeviceToDevice, stream));
  GPU_OK(cudaMemcpyAsync(one.data(), two.data(), kBytes, cudaMemcpyDeviceToDevice, stream));
  GPU_OK(cudaMemsetAsync(two.data(), 0, kBytes, stream));
  GPU_OK(cudaMemcpyAsync(two.data(), one.data(), kBytes, cudaMemcpyDefault, stream));
  GPU_OK(cudaMemcpy2DAsync(back.data(), pitch, two.data(), pitch, pitch, rows,
                           cudaMemcpyDeviceToHost, stream));
  stream.wait();
  expect_host(back.data(), rows * pitch, pattern, "two-dimensional");
  GPU_OK(cudaMemcpyAsync(back.data(), host.data(), kBytes, cudaMemcpyHostToHost, stream));
  stream.wait();
  expect_host(back.data(), kBytes, pattern, "host to host");
}

// Driver functions of virtual memory, as the runtime hands them out.
template <typename Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  GPU_OK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
  expect(found != nullptr, "the driver has no %s", name);
  return reinterpret_cast<Function>(found);
}
#define DRIVER_FUNCTION(name) driver_function<decltype(&::name)>(#name)
#define DRIVER_OK(call) \
  program::expect((call) == CUDA_SUCCESS, "%s in line %d failed", #call, __LINE__)

// Virtual memory as sleeping inference servers use it: addresses stay, memory behind them goes.
void virtual_memory_sleeps_and_wakes(Context& context) {
  const std::size_t bytes = 64 * kMiB;
  const CUmemAllocationProp kind{CU_MEM_ALLOCATION_TYPE_PINNED,
                                 CU_MEM_HANDLE_TYPE_NONE,
                                 {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                 nullptr,
                                 {}};
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr address = 0;
  DRIVER_OK(DRIVER_FUNCTION(cuMemAddressReserve)(&address, bytes, 0, 0, 0));
  auto* const device = reinterpret_cast<unsigned char*>(address);
  HostMemory host(bytes);
  Stream stream;
  DeviceCheck check;
  const std::uint64_t seed = context.random.next();
  for (std::uint64_t round = 0; round < 4; ++round) {
    CUmemGenericAllocationHandle memory = 0;
    DRIVER_OK(DRIVER_FUNCTION(cuMemCreate)(&memory, bytes, &kind, 0));
    DRIVER_OK(DRIVER_FUNCTION(cuMemMap)(address, bytes, 0, memory, 0));
    DRIVER_OK(DRIVER_FUNCTION(cuMemSetAccess)(address, bytes, &access, 1));
    if (round > 0) {
      GPU_OK(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
      check.add(stream, device, bytes, {seed + round - 1, 0}, "woken up");
      check.finish();
    }
    fill_device(stream, device, bytes, {seed + round, 0});
    stream.wait();
    GPU_OK(cudaMemcpy(host.data(), device, bytes, cudaMemcpyDeviceToHost));
    expect_host(host.data(), bytes, {seed + round, 0}, "fallen asleep");
    DRIVER_OK(DRIVER_FUNCTION(cuMemUnmap)(address, bytes));
    DRIVER_OK(DRIVER_FUNCTION(cuMemRelease)(memory));
  }
  DRIVER_OK(DRIVER_FUNCTION(cuMemAddressFree)(address, bytes));
}

}  // namespace

Cases memory_cases() {
  return {{"pageable", pageable},
          {"registered", registered},
          {"mapped", mapped},
          {"write_combined", write_combined},
          {"managed", managed},
          {"managed_on_the_device_side", managed_on_the_device_side},
          {"registration_comes_and_goes", registration_comes_and_goes},
          {"device_memory_comes_and_goes", device_memory_comes_and_goes},
          {"stream_ordered_memory", stream_ordered_memory},
          {"symbols", symbols},
          {"other_copies_between", other_copies_between},
          {"virtual_memory_sleeps_and_wakes", virtual_memory_sleeps_and_wakes}};
}

}  // namespace program
