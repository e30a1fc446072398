// The kernels of these programs, by names that cuModuleGetFunction finds too. None needs a launch
// shape: all loop over what they are given.
#pragma once

#include "program.h"

namespace program {

// What a check has found; in device memory, published to the host by a kernel, so that the verdict
// does not travel by a copy.
struct Verdict {
  unsigned long long checked;  // bytes looked at
  unsigned long long wrong;
  unsigned long long first;  // index of the first wrong byte
};

inline constexpr int kLateKernels = 16;

}  // namespace program

// out[0 … bytes) = the pattern.
extern "C" __global__ void preload_fill(unsigned char* out, unsigned long long bytes,
                                        program::Pattern pattern);
// Adds what of in[0 … bytes) is not the pattern.
extern "C" __global__ void preload_check(const unsigned char* in, unsigned long long bytes,
                                         program::Pattern pattern, program::Verdict* verdict);
// to[0 … bytes) = from[0 … bytes) ^ key.
extern "C" __global__ void preload_xor(unsigned char* to, const unsigned char* from,
                                       unsigned long long bytes, unsigned char key);
// Stores what checks have found where the host sees it, and zeroes it.
extern "C" __global__ void preload_publish(program::Verdict* found, program::Verdict* host);
// One thread that ends after a time, or when *flag is not 0 (flag may be null) if that is sooner.
extern "C" __global__ void preload_spin(const volatile unsigned* flag,
                                        unsigned long long nanoseconds);

namespace program {

// Launches the `index`-th (below kLateKernels) of kernels that nothing else launches: *out = index
// + 1. With lazy loading the first launch of each loads it.
cudaError_t launch_late(int index, unsigned* out, cudaStream_t stream);

}  // namespace program
