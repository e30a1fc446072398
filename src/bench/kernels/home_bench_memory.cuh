// What the benchmarks of products at home hold: memory, the weight where it lives, and the
// comparison of results.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <memory>

#include "base/result.h"
#include "bench/kernels/home_bench.h"

namespace causeway::kernels::home_gemm {

struct FreeDevice {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
struct FreeHost {
  void operator()(void* memory) const { (void)cudaFreeHost(memory); }
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;
using HostMemory = std::unique_ptr<void, FreeHost>;

Result<DeviceMemory> device_memory(std::int64_t bytes, const char* what);

// A weight of `bytes` at home, its contents not yet written.
class WeightAtHome {
 public:
  static Result<WeightAtHome> create(Home home, std::int64_t bytes, int gpu);
  void* get() const { return host_ ? host_.get() : peer_.get(); }

 private:
  HostMemory host_;
  DeviceMemory peer_;
};

// ‖a − b‖ ÷ ‖b‖ of `size` bf16 values in device memory, infinite when a has one that is none.
// `sums`: two doubles of device memory. Waits.
Result<double> relative_error(const void* a, const void* b, std::int64_t size, void* sums,
                              CudaStream stream);

// Reads `bytes` once, at home; `sink` is a word of device memory.
Status read_once(const void* memory, std::int64_t bytes, int processors, void* sink,
                 CudaStream stream);

}  // namespace causeway::kernels::home_gemm
