#include "kernels.cuh"

namespace {

__device__ unsigned long long thread_index() {
  return static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ unsigned long long thread_count() {
  return static_cast<unsigned long long>(gridDim.x) * blockDim.x;
}

__device__ unsigned long long nanoseconds_now() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace

__global__ void preload_fill(unsigned char* out, unsigned long long bytes,
                             program::Pattern pattern) {
  for (unsigned long long i = thread_index(); i < bytes; i += thread_count()) {
    out[i] = program::pattern_byte(pattern.seed, pattern.first + i);
  }
}

__global__ void preload_check(const unsigned char* in, unsigned long long bytes,
                              program::Pattern pattern, program::Verdict* verdict) {
  unsigned long long checked = 0;
  unsigned long long wrong = 0;
  unsigned long long first = ~0ull;
  for (unsigned long long i = thread_index(); i < bytes; i += thread_count()) {
    ++checked;
    if (in[i] != program::pattern_byte(pattern.seed, pattern.first + i)) {
      ++wrong;
      if (i < first) first = i;
    }
  }
  if (checked != 0) atomicAdd(&verdict->checked, checked);
  if (wrong != 0) {
    atomicAdd(&verdict->wrong, wrong);
    atomicMin(&verdict->first, first);
  }
}

__global__ void preload_xor(unsigned char* to, const unsigned char* from, unsigned long long bytes,
                            unsigned char key) {
  for (unsigned long long i = thread_index(); i < bytes; i += thread_count()) {
    to[i] = static_cast<unsigned char>(from[i] ^ key);
  }
}

__global__ void preload_publish(program::Verdict* found, program::Verdict* host) {
  if (thread_index() != 0) return;
  volatile program::Verdict* const seen = host;
  seen->wrong = found->wrong;
  seen->first = found->first;
  seen->checked = found->checked;
  *found = program::Verdict{0, 0, ~0ull};
  __threadfence_system();
}

__global__ void preload_spin(const volatile unsigned* flag, unsigned long long nanoseconds) {
  if (thread_index() != 0) return;
  const unsigned long long end = nanoseconds_now() + nanoseconds;
  while (nanoseconds_now() < end) {
    if (flag != nullptr && *flag != 0) return;
    __nanosleep(1000);
  }
}

namespace program {

namespace {

template <int kIndex>
__global__ void late(unsigned* out) {
  if (thread_index() == 0) *out = kIndex + 1;
}

template <int kIndex>
cudaError_t launch_one(int index, unsigned* out, cudaStream_t stream) {
  if constexpr (kIndex == kLateKernels) {
    return cudaErrorInvalidValue;
  } else {
    if (index != kIndex) return launch_one<kIndex + 1>(index, out, stream);
    late<kIndex><<<1, 1, 0, stream>>>(out);
    return cudaGetLastError();
  }
}

}  // namespace

cudaError_t launch_late(int index, unsigned* out, cudaStream_t stream) {
  return launch_one<0>(index, out, stream);
}

}  // namespace program
