#include "kernels/testing/late.cuh"

#include <cstdint>

#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::testing {
namespace {

constexpr int kThreads = 512;
constexpr std::uint64_t kPatience = 10'000'000, kDelay = 30'000;  // ns

// A warp a part.
template <typename Body>
__device__ void for_late_words(const LatePart* parts, int count, Body body) {
  const int warps = static_cast<int>(gridDim.x * blockDim.x / 32);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) / 32; i < count;
       i += warps) {
    const LatePart part = parts[i];
    for (int word = static_cast<int>(threadIdx.x) % 32; word < part.words; word += 32) {
      body(part, word);
    }
  }
}

__global__ void keep_and_poison_kernel(const LatePart* parts, int count) {
  for_late_words(parts, count, [](const LatePart& part, int word) {
    part.kept[word] = part.memory[word];
    part.memory[word] = part.poison;
  });
}

__device__ std::uint64_t late_nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// Not before the host has let go, nor `patience` later whatever it does, which it says; and then
// `delay`, for what it has enqueued last to start.
__global__ void write_late_kernel(const LatePart* parts, int count, volatile LateFlags* flags,
                                  std::uint64_t patience, std::uint64_t delay) {
  wait_for_predecessor();
  if (threadIdx.x == 0) {
    const std::uint64_t end = late_nanoseconds() + patience;
    while (flags->go == 0 && late_nanoseconds() < end) {
    }
    if (flags->go == 0) flags->early = 1;
    const std::uint64_t begin = late_nanoseconds();
    while (late_nanoseconds() < begin + delay) {
    }
  }
  __syncthreads();
  for_late_words(parts, count,
                 [](const LatePart& part, int word) { part.memory[word] = part.kept[word]; });
}

}  // namespace

void keep_and_poison(const LatePart* parts, int count, unsigned ctas, cudaStream_t stream) {
  keep_and_poison_kernel<<<ctas, kThreads, 0, stream>>>(parts, count);
  must(cudaGetLastError(), "poison");
}

void write_late(const LatePart* parts, int count, volatile LateFlags* flags, cudaStream_t stream) {
  // Few CTAs: those of the kernels behind need the other SMs' registers and shared memory.
  constexpr unsigned kCtas = 8;
  must(launch("late inputs", stream, {dim3(kCtas), dim3(kThreads)}, write_late_kernel, parts, count,
              flags, kPatience, kDelay));
}

}  // namespace causeway::kernels::testing
