// Graphs of steps on a GPU: captured the second time, replayed the third; and where capturing,
// instantiating or memory fails, the step runs plainly and nothing is left half captured.
//   cuda_graphs_gpu_test        exit code 77: no GPU
#include "model/cuda_graphs.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/testing/arguments.h"
#include "base/testing/must.h"
#include "device/cuda/cuda_machine.h"
#include "kernels/cuda_status.cuh"

namespace causeway::model {
namespace {

using kernels::cuda_status;

int failures = 0;

void expect(bool good, const char* what) {
  if (good) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

__global__ void add_one(int* counter) { *counter += 1; }

// A counter on the device that a step of `kernels` launches raises by as many.
class Counter {
 public:
  explicit Counter(cudaStream_t stream) : stream_(stream) {
    (void)cudaMalloc(&counter_, sizeof(int));
    (void)cudaMemset(counter_, 0, sizeof(int));
    (void)cudaStreamSynchronize(nullptr);
  }
  ~Counter() { (void)cudaFree(counter_); }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  Status launch(int kernels) const {
    for (int i = 0; i < kernels; ++i) add_one<<<1, 1, 0, stream_>>>(counter_);
    return cuda_status(cudaGetLastError(), "launching");
  }
  int value() const {
    int seen = -1;
    (void)cudaStreamSynchronize(stream_);
    (void)cudaMemcpy(&seen, counter_, sizeof(int), cudaMemcpyDeviceToHost);
    return seen;
  }

 private:
  cudaStream_t stream_;
  int* counter_ = nullptr;
};

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &state) != cudaSuccess ||
         state != cudaStreamCaptureStatusNone;
}

void captures_the_second_time(const device::Device& slice, cudaStream_t stream) {
  const Counter counter(stream);
  CudaGraphs graphs(slice);
  int enqueued = 0;
  for (int step = 0; step < 4; ++step) {
    const Status ran = graphs.run(
        7,
        [&] {
          ++enqueued;
          return counter.launch(10);
        },
        stream);
    expect(ran.ok(), "a step");
    expect(counter.value() == 10 * (step + 1), "each step runs once");
  }
  expect(enqueued == 2 && graphs.captured() == 1, "plain, captured, then replayed");
}

// `spoil` is called during capture only and fails it in a way of its own.
void runs_plainly_when_capture_fails(const device::Device& slice, cudaStream_t stream,
                                     const char* what, const std::function<Status()>& spoil) {
  const Counter counter(stream);
  CudaGraphs graphs(slice);
  int enqueued = 0;
  for (int step = 0; step < 4; ++step) {
    const Status ran = graphs.run(
        7,
        [&]() -> Status {
          ++enqueued;
          CAUSEWAY_TRY(counter.launch(5));
          if (capturing(stream)) CAUSEWAY_TRY(spoil());
          return counter.launch(5);
        },
        stream);
    expect(ran.ok(), what);
    expect(!capturing(stream), "nothing is left half captured");
    expect(counter.value() == 10 * (step + 1), "each step runs once though capturing failed");
  }
  expect(enqueued == 5, "capturing is tried once");  // 4 plainly, and the attempt
  expect(graphs.given_up() && graphs.captured() == 0, "it has given up");
  expect(graphs.run(
                   8, [&] { return counter.launch(1); }, stream)
                 .ok() &&
             graphs
                 .run(
                     8, [&] { return counter.launch(1); }, stream)
                 .ok(),
         "another shape runs plainly too");
}

// All memory of the GPU but less than `left`, taken while it lives.
class Hog {
 public:
  explicit Hog(std::size_t left) {
    for (std::size_t piece = std::size_t{1} << 33; piece >= left; piece /= 2) {
      void* taken = nullptr;
      while (cudaMalloc(&taken, piece) == cudaSuccess) taken_.push_back(taken);
      (void)cudaGetLastError();
    }
  }
  ~Hog() {
    for (void* taken : taken_) (void)cudaFree(taken);
  }
  Hog(const Hog&) = delete;
  Hog& operator=(const Hog&) = delete;

 private:
  std::vector<void*> taken_;
};

// Many graphs on a GPU without memory: every step is right, whether it got one or not.
void survives_a_full_gpu(const device::Device& slice, cudaStream_t stream) {
  constexpr int kKernels = 4000;
  constexpr int kShapes = 40;
  const Counter counter(stream);
  CudaGraphs graphs(slice);
  int steps = 0;
  {
    const Hog hog(std::size_t{64} << 10);
    for (int shape = 0; shape < kShapes; ++shape) {
      for (int again = 0; again < 3; ++again) {
        const Status ran = graphs.run(
            shape, [&] { return counter.launch(kKernels); }, stream);
        expect(ran.ok(), ran.ok() ? "" : ran.error().message.c_str());
        ++steps;
      }
    }
    expect(counter.value() == steps * kKernels, "each step ran once on a full GPU");
  }
  std::printf("a full GPU: %lld of %d graphs were made%s\n",
              static_cast<long long>(graphs.captured()), kShapes,
              graphs.given_up() ? ", then it ran plainly" : "");
  expect(!capturing(stream), "nothing is left half captured on a full GPU");
  expect(graphs.given_up(), "a full GPU was never noticed");
}

int run() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::printf("SKIPPED: no GPU\n");
    return 77;
  }
  const RealClock clock;
  device::HostMemory memory;
  const auto api = must(device::load_cuda_api(), "the driver");
  const auto machine = must(device::CudaMachine::create(api, {}, clock, memory), "the machine");
  const auto slice = must(machine->open({.name = "test", .arena_bytes = mib(32)}), "the slice");
  const auto stream = must(slice->make_stream("test"), "a stream");
  const auto current = must(device::CudaCurrent::enter(*slice), "the context");
  cudaStream_t cuda = device::cuda_stream_of(*stream);
  captures_the_second_time(*slice, cuda);
  runs_plainly_when_capture_fails(*slice, cuda, "a step whose capture runs out of memory",
                                  [] { return exhausted("planted"); });
  // What capture does not allow, and what invalidates it.
  runs_plainly_when_capture_fails(*slice, cuda, "a step that cannot be captured", [cuda] {
    return cuda_status(cudaStreamSynchronize(cuda), "synchronising");
  });
  survives_a_full_gpu(*slice, cuda);
  expect(slice->health().ok(), "the GPU is well after all this");
  std::printf(failures == 0 ? "PASSED\n" : "FAILED\n");
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace causeway::model

int main(int argc, char** argv) {
  causeway::Arguments(argc, argv).finish();
  return causeway::model::run();
}
