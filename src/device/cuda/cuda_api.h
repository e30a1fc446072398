// The CUDA driver as a table of entry points (decision 8). device/cuda calls CUDA only through a
// CudaApi, so that the preload library can hand in the original functions and never meets itself,
// tests can hand in their own, and a build without CUDA headers still knows how to ask for a GPU.
//
// The table holds what is called so far: the driver's version and the number of devices.
#pragma once

#include <string>

#include "base/result.h"

namespace causeway::device {

// Names and signatures as in cuda.h, where the result (CUresult) is an enumeration with 0 for
// success.
struct CudaApi {
  int (*cuInit)(unsigned flags) = nullptr;
  int (*cuDriverGetVersion)(int* version) = nullptr;
  int (*cuDeviceGetCount)(int* count) = nullptr;
  int (*cuGetErrorString)(int error, const char** text) = nullptr;
};

inline constexpr const char* kCudaDriverLibrary = "libcuda.so.1";

// Opens the driver's library and looks up every entry of the table. kUnavailable, beginning with
// "no NVIDIA driver: ", when there is none; kDevice when it lacks an entry point. The library stays
// loaded until the process ends, because the driver has threads of its own.
Result<CudaApi> load_cuda_api(const std::string& library = kCudaDriverLibrary);

struct CudaFacts {
  int driver_version = 0;  // 1000 × major + 10 × minor
  int devices = 0;
};

// Initialises the driver and asks it. kUnavailable when it finds no device; kDevice, with the
// driver's own words, when it fails.
Result<CudaFacts> ask_cuda(const CudaApi& api);

}  // namespace causeway::device
