#include "engine/testing/faults.cuh"

namespace causeway::engine::testing {
namespace {

__global__ void spin_kernel(const volatile int* released) {
  while (*released == 0) __nanosleep(1000);
}

__global__ void write_kernel(int* nowhere) { *nowhere = 1; }

}  // namespace

void spin(cudaStream_t stream, const volatile int* released) {
  spin_kernel<<<132 * 32, 1024, 0, stream>>>(released);
}

void write_nowhere(cudaStream_t stream) {
  write_kernel<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(16));
}

}  // namespace causeway::engine::testing
