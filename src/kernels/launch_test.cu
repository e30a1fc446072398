// A kernel behind one that does not let its successor start, as a library's do not
// (LaunchShape::behind_library), and a third behind both, in a graph and outside: the second must
// be there before the first ends, and neither may see what it is to wait for. And kernels that are
// loaded without being run (load_kernels).
//   launch_gpu_test        exit code 77: no GPU
#include "base/testing/arguments.h"
#include "kernels/cuda_graph.h"
#include "kernels/cuda_launch.cuh"
#include "kernels/testing/gpu.cuh"

namespace causeway::kernels {
namespace {

using testing::Device;
using testing::must;

constexpr int kCtas = 64;
constexpr std::uint64_t kSpin = 300'000;  // ns

__device__ std::uint64_t now() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

struct Seen {
  unsigned long long ended, came;  // when the writer's last CTA did, and the reader's first
  unsigned missing;                // words that were not found
};

__global__ void write_late(std::uint32_t* words, std::uint32_t value, Seen* seen) {
  const std::uint64_t begin = now();
  while (now() - begin < kSpin) {
  }
  words[blockIdx.x] = value;
  atomicMax(&seen->ended, now());
}

// As attention: lets the kernel behind come at once.
__global__ void read_early(const volatile std::uint32_t* words, std::uint32_t value, Seen* seen) {
  let_successor_start();
  if (threadIdx.x == 0) atomicMin(&seen->came, now());
  wait_for_predecessor();
  if (words[threadIdx.x] != value) atomicAdd(&seen->missing, 1u);
}

__global__ void read_behind(const volatile std::uint32_t* words, std::uint32_t value, Seen* seen) {
  wait_for_predecessor();
  if (words[threadIdx.x] != value) atomicAdd(&seen->missing, 1u);
}

__global__ void write_one(std::uint32_t* word) { *word = 1; }

// With an address that no kernel could write.
void check_loading(testing::Report& report) {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  Device<std::uint32_t> word(std::size_t{1});
  word.zero();
  const auto write = [&](std::uint32_t* at) {
    return launch("writing", stream, {dim3(1), dim3(1)}, write_one, at);
  };
  const Status loaded = load_kernels("a kernel", [&] { return write(nullptr); }, stream);
  report.check(loaded.ok(), "a kernel that never ran is loaded: " +
                                (loaded.ok() ? std::string() : loaded.error().message));
  report.check(cudaStreamSynchronize(stream) == cudaSuccess, "nothing ran");
  must(write(word.get()));
  must(cudaStreamSynchronize(stream), "writing");
  report.check(word.fetch()[0] == 1, "it runs when it is launched");
  (void)cudaStreamDestroy(stream);
}

class Chain {
 public:
  Chain() { must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }
  ~Chain() { (void)cudaStreamDestroy(stream_); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  Seen run(std::uint32_t value, bool captured) {
    begin();
    const auto all = [&]() -> Status {
      write_late<<<kCtas, 1, 0, stream_>>>(words_.get(), value, seen_.get());
      return read(value);
    };
    if (captured) {
      replay(all);
    } else {
      must(all());
      must(cudaStreamSynchronize(stream_), "run");
    }
    return seen_.fetch()[0];
  }
  // With no kernel in front: nothing at all, or what is not one.
  Seen run_behind_no_kernel(bool nothing) {
    begin();
    replay([&]() -> Status {
      if (!nothing) must(cudaMemsetAsync(words_.get(), 1, kCtas * 4, stream_), "words");
      return read(nothing ? 0 : 0x01010101);
    });
    return seen_.fetch()[0];
  }

 private:
  void begin() {
    seen_.put({{0, ~0ull, 0}});
    words_.zero();
    must(cudaDeviceSynchronize(), "begin");
  }
  Status read(std::uint32_t value) {
    const LaunchShape early = {.grid = dim3(8), .block = dim3(kCtas), .behind_library = true};
    CAUSEWAY_TRY(launch("reading", stream_, early, read_early, words_.get(), value, seen_.get()));
    return launch("reading behind", stream_, {dim3(8), dim3(kCtas)}, read_behind, words_.get(),
                  value, seen_.get());
  }
  void replay(const std::function<Status()>& enqueue) {
    const auto graph = capture_graph("chain", enqueue, stream_);
    must(graph.ok() ? Status() : Status(graph.error()));
    must(cudaGraphLaunch(graph->get(), stream_), "graph");
    must(cudaStreamSynchronize(stream_), "graph");
  }

  cudaStream_t stream_ = nullptr;
  Device<std::uint32_t> words_{std::size_t{kCtas}};
  Device<Seen> seen_{std::size_t{1}};
};

int run_all() {
  if (!testing::has_gpu()) return testing::kSkipped;
  testing::Report report;
  check_loading(report);
  Chain chain;
  int early = 0;
  for (std::uint32_t i = 1; i <= 20; ++i) {
    for (const bool captured : {false, true}) {
      const Seen seen = chain.run(i, captured);
      report.check(seen.missing == 0, "what the kernel in front wrote is there");
      if (captured && seen.came < seen.ended) ++early;
    }
  }
  // Not each time where others use the GPU.
  report.check(early > 0, "in a graph it is placed before the kernel in front ends");
  for (const bool nothing : {false, true}) {
    report.check(chain.run_behind_no_kernel(nothing).missing == 0, "behind what is no kernel");
  }
  return report.finish();
}

}  // namespace
}  // namespace causeway::kernels

int main(int argc, char** argv) {
  causeway::Arguments(argc, argv).finish();
  return causeway::kernels::run_all();
}
