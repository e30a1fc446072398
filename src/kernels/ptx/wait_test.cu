// Whether waits on the device end (wait.cuh): when what they wait for comes, and by a trap, which
// the host sees, when it never comes. A trap cannot be undone in a process, so each case is a
// process of its own.
//   wait_gpu_test        exit code 77: no GPU
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "base/testing/arguments.h"
#include "base/units.h"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels::ptx {
namespace {

constexpr Nanos kPatience = seconds(30);

__global__ void wait_for_flag(const uint32_t* flag) { flag_wait(flag, 1); }

// With the shortest bound there is: until the next tick, at most 4.3 s.
__global__ void wait_briefly(const uint32_t* flag) {
  wait_until<0>([=] { return flag_load(flag) != 0; });
}

// At an mbarrier to which nobody comes.
__global__ void wait_at_barrier(const uint32_t*) {
  __shared__ uint64_t barrier;
  const uint32_t address = shared_address(&barrier);
  barrier_init(address, 1);
  wait_until<0>([=] { return barrier_try_wait(address, 0); });
}

using Kernel = void (*)(const uint32_t*);

class Bench {
 public:
  Bench() {
    for (cudaStream_t* stream : {&waiting_, &copying_}) {
      testing::must(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "stream");
    }
    testing::must(cudaMalloc(&flag_, sizeof *flag_), "flag");
    testing::must(cudaMemset(flag_, 0, sizeof *flag_), "flag");
    testing::must(cudaHostAlloc(&one_, sizeof *one_, cudaHostAllocDefault), "one");
    *one_ = 1;
    testing::must(cudaDeviceSynchronize(), "flag");
  }

  void start(Kernel kernel) {
    kernel<<<4, 1, 0, waiting_>>>(flag_);
    testing::must(cudaGetLastError(), "launch");
  }
  // By a copy engine: a kernel's code may have to wait for the GPU before it is there.
  void set_flag() {
    testing::must(cudaMemcpyAsync(flag_, one_, sizeof *flag_, cudaMemcpyHostToDevice, copying_),
                  "flag");
  }
  bool waits() const { return cudaStreamQuery(waiting_) == cudaErrorNotReady; }

  // What the kernel comes to; cudaErrorNotReady if that takes too long.
  cudaError_t outcome() const {
    const RealClock clock;
    const Nanos end = clock.now() + kPatience;
    cudaError_t code = cudaStreamQuery(waiting_);
    while (code == cudaErrorNotReady && clock.now() < end) {
      std::this_thread::yield();
      code = cudaStreamQuery(waiting_);
    }
    return code;
  }

 private:
  cudaStream_t waiting_ = nullptr, copying_ = nullptr;
  uint32_t *flag_ = nullptr, *one_ = nullptr;
};

int run(Kernel never, const char* name) {
  if (!testing::has_gpu()) return testing::kSkipped;
  testing::Report report;
  Bench bench;
  bench.start(never == nullptr ? wait_for_flag : never);
  if (never == nullptr) {
    report.check(bench.waits(), "a flag is waited for");
    bench.set_flag();
    report.check(bench.outcome() == cudaSuccess, "and when it is set the kernel ends");
  } else {
    const cudaError_t code = bench.outcome();
    std::printf("%s: %s\n", name, cudaGetErrorString(code));
    report.check(code == cudaErrorLaunchFailure, "what never comes is waited for until a trap");
  }
  return report.finish();
}

// The exit code. Nothing that a lost GPU still holds is given back.
int run_apart(Kernel never, const char* name) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int code = run(never, name);
    std::fflush(stdout);
    std::_Exit(code);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 1;
  return WEXITSTATUS(status);
}

int run_all() {
  int worst = 0;
  for (const int code : {run_apart(nullptr, "flag that comes"), run_apart(wait_briefly, "flag"),
                         run_apart(wait_at_barrier, "barrier")}) {
    if (code == testing::kSkipped) return code;
    worst = std::max(worst, code);
  }
  return worst;
}

}  // namespace
}  // namespace causeway::kernels::ptx

int main(int argc, char** argv) {
  causeway::Arguments(argc, argv).finish();
  return causeway::kernels::ptx::run_all();
}
