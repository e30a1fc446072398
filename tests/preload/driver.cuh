// The CUDA driver's functions for a program without the runtime, found in one of the ways that
// programs use: linked, by dlsym(), or by cuGetProcAddress; by the latter two also the twins that
// use per-thread default streams.
#pragma once

#include <cuda.h>

#include <string>

namespace program {

#define PROGRAM_DRIVER_FUNCTIONS(X)                                                                \
  X(cuInit)                                                                                        \
  X(cuDeviceGet)                                                                                   \
  X(cuDeviceGetCount) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxGetCurrent)            \
      X(cuCtxCreate) X(cuCtxDestroy) X(cuCtxSynchronize) X(cuMemAlloc) X(cuMemFree)                \
          X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyHtoD)          \
              X(cuMemcpyDtoH) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyBatchAsync)      \
                  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamWaitEvent) \
                      X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuModuleLoadData)      \
                          X(cuModuleGetFunction) X(cuLaunchKernel) X(cuGetErrorName)

// A pointer for each function, of its name and an underscore: the names themselves are macros.
struct Driver {
#define PROGRAM_DRIVER_MEMBER(name) decltype(&::name) name##_ = nullptr;
  PROGRAM_DRIVER_FUNCTIONS(PROGRAM_DRIVER_MEMBER)
#undef PROGRAM_DRIVER_MEMBER
};

// linked, dlsym, dlsym-ptds, proc, proc-ptds. Throws Skip where there is no driver, Wrong where it
// lacks a function or the way is unknown.
Driver find_driver(const std::string& way);

}  // namespace program
