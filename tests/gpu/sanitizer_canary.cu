// Errors that compute-sanitizer must find, so that scripts/gpu-check knows that a clean run means
// something: on some virtual machines the tool runs and sees nothing.
//
//   sanitizer_canary memcheck|racecheck        exit code 77: no GPU
//
// memcheck: one word is written behind an allocation. racecheck: two warps write and read a word of
// shared memory without a barrier.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

namespace {

constexpr int kThreads = 64;
constexpr int kNoGpu = 77;

__global__ void write_behind(int* memory, int size) {
  memory[size] = static_cast<int>(threadIdx.x);  // one past the end
}

__global__ void race(int* out) {
  __shared__ int shared[kThreads];
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = shared[kThreads - 1 - threadIdx.x];  // the other warp's, without a barrier
}

int run(bool racecheck) {
  int* memory = nullptr;
  cudaStream_t stream = nullptr;
  if (cudaMalloc(&memory, kThreads * sizeof(int)) != cudaSuccess ||
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) {
    std::printf("SKIPPED: no GPU\n");
    return kNoGpu;
  }
  if (racecheck) {
    race<<<1, kThreads, 0, stream>>>(memory);
  } else {
    write_behind<<<1, 1, 0, stream>>>(memory, kThreads);
  }
  (void)cudaStreamSynchronize(stream);
  std::printf("planted\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run(argc > 1 && std::strcmp(argv[1], "racecheck") == 0); }
