#include "device/testing/kernels.cuh"

namespace causeway::device::testing {
namespace {

__global__ void spin_kernel(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

__global__ void mark_kernel(unsigned* seen, long long cycles) {
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  if (threadIdx.x == 0) seen[sm] = 1;
}

__global__ void add_kernel(const unsigned* source, unsigned* target, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    target[i] = source[i] + 1;
  }
}

__global__ void write_kernel(unsigned* address) { *address = 1; }

}  // namespace

void spin(cudaStream_t stream, long long cycles) { spin_kernel<<<1, 1, 0, stream>>>(cycles); }

void mark_sm(cudaStream_t stream, unsigned* seen, long long cycles) {
  mark_kernel<<<2048, 128, 0, stream>>>(seen, cycles);
}

void add_one(cudaStream_t stream, const unsigned* source, unsigned* target, int count) {
  add_kernel<<<128, 256, 0, stream>>>(source, target, count);
}

void write_to(cudaStream_t stream, unsigned* address) {
  write_kernel<<<1, 1, 0, stream>>>(address);
}

}  // namespace causeway::device::testing
