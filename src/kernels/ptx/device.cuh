// The folder of PTX instructions that have no name in CUDA C++, one thin function each. They are
// for device code. Each function says whether a warp, a warpgroup (128 threads) or a cluster must
// call it; else any thread may. Addresses of shared memory are 32-bit shared-window
// addresses (shared_address); a "rank" is a CTA's place in its cluster.
#pragma once

#define CAUSEWAY_DEVICE __device__ __forceinline__
