#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "kernels/bench/cuda_limits.h"
#include "kernels/bench/cuda_timer.h"
#include "kernels/cuda_status.cuh"
#include "kernels/hybrid_gemm/home_bench.h"
#include "kernels/hybrid_gemm/home_bench_library.cuh"
#include "kernels/hybrid_gemm/hybrid_gemm.h"

namespace causeway::kernels::hybrid_gemm {
namespace {

using bench::cuda_fill_random_bf16;
using bench::time_on_gpu;

constexpr std::int64_t kScratchMax = std::int64_t{80} << 20;
constexpr int kChunks = 16;
constexpr double kErrorMax = 5e-3;   // of the norm: bf16 results of sums in another order
constexpr double kPeerRelay = 26.0;  // SliceFacts::relay_gb_per_s over NVLink, measured

// Sums of (a - b)² and b² over all elements; an element that is not finite counts as infinite.
__global__ void compare(const __nv_bfloat16* a, const __nv_bfloat16* b, int64_t size,
                        double* sums) {
  double difference = 0, scale = 0;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < size;
       i += int64_t{gridDim.x} * blockDim.x) {
    const double x = __bfloat162float(a[i]), y = __bfloat162float(b[i]);
    difference += (x - y) * (x - y);
    scale += y * y;
  }
  atomicAdd(sums, isfinite(difference) ? difference : 1e300);
  atomicAdd(sums + 1, scale);
}

// Reads `size` 16-byte words once.
__global__ void read_all(const uint4* source, int64_t size, unsigned* sink) {
  unsigned sum = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  for (; i + 3 * stride < size; i += 4 * stride) {
    const uint4 a = source[i], b = source[i + stride], c = source[i + 2 * stride],
                d = source[i + 3 * stride];
    sum += a.x ^ b.y ^ c.z ^ d.w;
  }
  for (; i < size; i += stride) sum += source[i].x;
  if (sum == 0x12345678) *sink = sum;
}

struct FreeDevice {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
struct FreeHost {
  void operator()(void* memory) const { (void)cudaFreeHost(memory); }
};
struct DestroyEvent {
  void operator()(CUevent_st* event) const { (void)cudaEventDestroy(event); }
};
struct DestroyStream {
  void operator()(CUstream_st* stream) const { (void)cudaStreamDestroy(stream); }
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

Result<DeviceMemory> device_memory(std::int64_t bytes, const char* what) {
  void* memory = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), what));
  return DeviceMemory(memory);
}

Result<Event> make_event() {
  cudaEvent_t event = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event"));
  return Event(event);
}

struct Way {
  const char* name;
  double alpha;
  int cluster;
};

class Bench {
 public:
  Bench(const HomeBenchOptions& options, int gpu, int processors, CudaStream stream,
        const HomeBenchProgress& progress)
      : options_(options), gpu_(gpu), stream_(stream), progress_(progress) {
    slice_.sm_count = processors;
  }

  Status prepare();
  Status run();
  std::vector<HomeBenchRow> take() { return std::move(rows_); }

 private:
  using Work = std::function<Status()>;

  Status place_weights();
  Status measure_link();
  Status run_rivals(std::int64_t m);
  Status run_ours(std::int64_t m, const Way& way);
  Status chunked(std::int64_t m);
  Status copy();
  Status library(std::int64_t m, const void* w, void* o);
  Status time(HomeBenchRow row, const Work& work);
  Result<double> error_of(std::int64_t m, const Work& work);
  Status check_and_time(HomeBenchRow row, const Work& work);

  __nv_bfloat16* at(const DeviceMemory& memory) const {
    return static_cast<__nv_bfloat16*>(memory.get());
  }
  std::int64_t w_bytes() const { return options_.n * options_.k * 2; }

  const HomeBenchOptions& options_;
  int gpu_;
  SliceFacts slice_;
  CudaStream stream_;
  const HomeBenchProgress& progress_;
  std::vector<HomeBenchRow> rows_;
  std::unique_ptr<CUstream_st, DestroyStream> copies_;
  DeviceMemory x_;         // [m_max × k]
  DeviceMemory o_;         // [m_max × n]
  DeviceMemory expected_;  // [m_max × n]
  DeviceMemory resident_;  // [n × k]: resident copy of W, and where rivals stage
  DeviceMemory scratch_, library_workspace_, sums_, sink_;
  DeviceMemory peer_;  // W at a peer
  std::unique_ptr<void, FreeHost> host_;
  __nv_bfloat16* w_ = nullptr;  // [n × k] at home
  std::unique_ptr<LibraryProducts> library_;
  Event landed_[2], used_[2];
};

Status Bench::prepare() {
  const std::int64_t m = *std::max_element(options_.rows.begin(), options_.rows.end());
  CAUSEWAY_ASSIGN(x_, device_memory(m * options_.k * 2, "memory for X"));
  CAUSEWAY_ASSIGN(o_, device_memory(m * options_.n * 2, "memory for O"));
  CAUSEWAY_ASSIGN(expected_, device_memory(m * options_.n * 2, "memory for O"));
  CAUSEWAY_ASSIGN(resident_, device_memory(w_bytes(), "memory for W"));
  CAUSEWAY_ASSIGN(scratch_, device_memory(kScratchMax, "scratch"));
  CAUSEWAY_ASSIGN(library_workspace_, device_memory(LibraryProducts::kWorkspace, "scratch"));
  CAUSEWAY_ASSIGN(sums_, device_memory(2 * sizeof(double), "scratch"));
  CAUSEWAY_ASSIGN(sink_, device_memory(sizeof(unsigned), "scratch"));
  CAUSEWAY_TRY(place_weights());
  cudaStream_t copies = nullptr;
  CAUSEWAY_TRY(cuda_status(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking), "a stream"));
  copies_.reset(copies);
  for (int i = 0; i < 2; ++i) {
    CAUSEWAY_ASSIGN(landed_[i], make_event());
    CAUSEWAY_ASSIGN(used_[i], make_event());
  }
  CAUSEWAY_ASSIGN(library_, LibraryProducts::create(
                                {.n = options_.n, .k = options_.k, .processors = slice_.sm_count},
                                library_workspace_.get()));
  CAUSEWAY_ASSIGN(slice_.clusters, clusters_that_fit(stream_));
  CAUSEWAY_TRY(cuda_fill_random_bf16(x_.get(), Bytes(m * options_.k * 2), 1, 1.0f, stream_));
  CAUSEWAY_TRY(cuda_fill_random_bf16(resident_.get(), Bytes(w_bytes()), 2, 1.0f, stream_));
  CAUSEWAY_TRY(cuda_status(cudaMemcpyAsync(w_, resident_.get(), static_cast<std::size_t>(w_bytes()),
                                           cudaMemcpyDefault, stream_),
                           "bringing W home"));
  return cuda_status(cudaStreamSynchronize(stream_), "making inputs");
}

Status Bench::place_weights() {
  void* memory = nullptr;
  const auto bytes = static_cast<std::size_t>(w_bytes());
  if (options_.home == WeightHome::kHost) {
    CAUSEWAY_TRY(cuda_status(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped),
                             "mapped host memory for W"));
    host_.reset(memory);
    w_ = static_cast<__nv_bfloat16*>(memory);
    return {};
  }
  int count = 0, readable = 0;
  CAUSEWAY_TRY(cuda_status(cudaGetDeviceCount(&count), "counting GPUs"));
  const int peer = gpu_ == 0 ? 1 : 0;
  if (count < 2) return unavailable("--home peer needs a second GPU; this machine has one");
  CAUSEWAY_TRY(cuda_status(cudaDeviceCanAccessPeer(&readable, gpu_, peer), "asking for a peer"));
  if (readable == 0) {
    return unavailable("GPU " + std::to_string(gpu_) + " cannot read the memory of GPU " +
                       std::to_string(peer));
  }
  CAUSEWAY_TRY(cuda_status(cudaSetDevice(peer), "the peer"));
  const cudaError_t code = cudaMalloc(&memory, bytes);
  CAUSEWAY_TRY(cuda_status(cudaSetDevice(gpu_), "the GPU"));
  CAUSEWAY_TRY(cuda_status(code, "memory of the peer for W"));
  peer_.reset(memory);
  const cudaError_t opened = cudaDeviceEnablePeerAccess(peer, 0);
  if (opened != cudaErrorPeerAccessAlreadyEnabled) {
    CAUSEWAY_TRY(cuda_status(opened, "peer access"));
  }
  (void)cudaGetLastError();
  w_ = static_cast<__nv_bfloat16*>(memory);
  return {};
}

Status Bench::time(HomeBenchRow row, const Work& work) {
  std::vector<double> all;
  for (std::int64_t i = -2; i < options_.runs; ++i) {
    CAUSEWAY_ASSIGN(const Nanos took, time_on_gpu(work, stream_));
    if (i >= 0) all.push_back(static_cast<double>(took.count) * 1e-6);
  }
  std::sort(all.begin(), all.end());
  row.median_ms = all[all.size() / 2];
  row.lowest_ms = all.front();
  row.highest_ms = all.back();
  if (row.link_bytes == Bytes(0)) row.link_bytes = Bytes(w_bytes());
  rows_.push_back(row);
  if (progress_) progress_(row);
  return {};
}

// With O poisoned before.
Result<double> Bench::error_of(std::int64_t m, const Work& work) {
  const std::int64_t size = m * options_.n;
  CAUSEWAY_TRY(cuda_status(
      cudaMemsetAsync(o_.get(), 0xFF, static_cast<std::size_t>(size) * 2, stream_), "poisoning O"));
  CAUSEWAY_TRY(work());
  CAUSEWAY_TRY(
      cuda_status(cudaMemsetAsync(sums_.get(), 0, 2 * sizeof(double), stream_), "comparing"));
  compare<<<1024, 256, 0, stream_>>>(at(o_), at(expected_), size,
                                     static_cast<double*>(sums_.get()));
  double sums[2];
  CAUSEWAY_TRY(
      cuda_status(cudaMemcpyAsync(sums, sums_.get(), sizeof sums, cudaMemcpyDeviceToHost, stream_),
                  "comparing"));
  CAUSEWAY_TRY(cuda_status(cudaStreamSynchronize(stream_), "comparing"));
  return std::sqrt(sums[0] / sums[1]);
}

Status Bench::check_and_time(HomeBenchRow row, const Work& work) {
  CAUSEWAY_ASSIGN(row.error, error_of(row.m, work));
  row.right = row.error <= kErrorMax;
  return time(std::move(row), work);
}

Status Bench::copy() {
  return cuda_status(cudaMemcpyAsync(resident_.get(), w_, static_cast<std::size_t>(w_bytes()),
                                     cudaMemcpyDefault, stream_),
                     "copying W");
}

Status Bench::library(std::int64_t m, const void* w, void* o) {
  return library_->run(m, options_.n, {.x = x_.get(), .w = w, .o = o}, stream_);
}

Status Bench::measure_link() {
  const std::int64_t words = w_bytes() / 16;
  CAUSEWAY_TRY(time({.way = "floor"}, [&]() -> Status {
    read_all<<<static_cast<unsigned>(slice_.sm_count * 4), 512, 0, stream_>>>(
        reinterpret_cast<const uint4*>(w_), words, static_cast<unsigned*>(sink_.get()));
    return cuda_status(cudaGetLastError(), "reading W");
  }));
  slice_.link_gb_per_s = static_cast<double>(w_bytes()) / rows_.back().median_ms * 1e-6;
  if (options_.home == WeightHome::kPeer) slice_.relay_gb_per_s = kPeerRelay;
  return time({.way = "copy"}, [&] { return copy(); });
}

// Column chunks copied into two buffers by turns while the chunk before is multiplied.
Status Bench::chunked(std::int64_t m) {
  const std::int64_t columns = options_.n / kChunks;
  const auto bytes = static_cast<std::size_t>(columns * options_.k) * 2;
  for (const Event& event : used_) {
    CAUSEWAY_TRY(cuda_status(cudaEventRecord(event.get(), stream_), "an event"));
  }
  for (int c = 0; c < kChunks; ++c) {
    const int side = c % 2;
    __nv_bfloat16* const target = at(resident_) + side * columns * options_.k;
    CAUSEWAY_TRY(cuda_status(cudaStreamWaitEvent(copies_.get(), used_[side].get(), 0), "waiting"));
    CAUSEWAY_TRY(cuda_status(cudaMemcpyAsync(target, w_ + c * columns * options_.k, bytes,
                                             cudaMemcpyDefault, copies_.get()),
                             "copying a chunk"));
    CAUSEWAY_TRY(cuda_status(cudaEventRecord(landed_[side].get(), copies_.get()), "an event"));
    CAUSEWAY_TRY(cuda_status(cudaStreamWaitEvent(stream_, landed_[side].get(), 0), "waiting"));
    CAUSEWAY_TRY(library_->run(m, columns, {.x = x_.get(), .w = target, .o = at(o_) + c * columns},
                               stream_));
    CAUSEWAY_TRY(cuda_status(cudaEventRecord(used_[side].get(), stream_), "an event"));
  }
  return {};
}

Status Bench::run_rivals(std::int64_t m) {
  CAUSEWAY_TRY(check_and_time({.way = "resident", .m = m},
                              [&] { return library(m, resident_.get(), o_.get()); }));
  CAUSEWAY_TRY(
      check_and_time({.way = "in-place", .m = m}, [&] { return library(m, w_, o_.get()); }));
  CAUSEWAY_TRY(check_and_time({.way = "copy+gemm", .m = m}, [&]() -> Status {
    CAUSEWAY_TRY(copy());
    return library(m, resident_.get(), o_.get());
  }));
  if (options_.n % (8 * kChunks) != 0) return {};
  CAUSEWAY_TRY(check_and_time({.way = "chunked", .m = m}, [&] { return chunked(m); }));
  return copy();  // the chunks have left only the last two in the resident copy
}

// Nothing when there is no such plan for the slice.
Status Bench::run_ours(std::int64_t m, const Way& way) {
  const auto plan = choose(
      {.shape = {m, options_.n, options_.k}, .alpha = way.alpha, .cluster_ctas = way.cluster},
      slice_);
  if (!plan.ok() || plan->workspace.count > kScratchMax) return {};
  const Operands operands{.x = x_.get(),
                          .w = w_,
                          .o = o_.get(),
                          .x_stride = options_.k,
                          .w_stride = options_.k,
                          .o_stride = options_.n,
                          .workspace = scratch_.get()};
  return check_and_time({.way = way.name,
                         .m = m,
                         .alpha = way.alpha,
                         .cluster_ctas = plan->cluster_ctas,
                         .symmetric_ctas = plan->symmetric_ctas,
                         .link_bytes = plan->link_bytes},
                        [&] { return launch(*plan, operands, stream_); });
}

Status Bench::run() {
  CAUSEWAY_TRY(measure_link());
  for (const std::int64_t m : options_.rows) {
    CAUSEWAY_TRY(library(m, resident_.get(), expected_.get()));
    CAUSEWAY_TRY(run_rivals(m));
    CAUSEWAY_TRY(run_ours(m, {"symmetric", 1.0, 0}));
    CAUSEWAY_TRY(run_ours(m, {"ring", 0.0, 0}));
    const auto& sweep = options_.alpha_rows;
    if (std::find(sweep.begin(), sweep.end(), m) == sweep.end()) continue;
    CAUSEWAY_TRY(run_ours(m, {"symmetric-1", 1.0, 1}));
    for (const double alpha : options_.alphas) CAUSEWAY_TRY(run_ours(m, {"ring", alpha, 0}));
  }
  return {};
}

Status check_options(const HomeBenchOptions& options) {
  if (options.rows.empty()) return invalid_argument("no row counts to measure");
  if (options.n < 8 || options.k < 8 || options.n % 8 != 0 || options.k % 8 != 0) {
    return invalid_argument("N and K must be multiples of 8");
  }
  if (options.runs < 1) return invalid_argument("at least one run of each figure");
  for (const std::int64_t m : options.rows) {
    if (m < 1) return invalid_argument("row counts begin at 1");
  }
  return {};
}

}  // namespace

Result<std::vector<HomeBenchRow>> run_home_benchmarks(const HomeBenchOptions& options, int gpu,
                                                      int processors, CudaStream stream,
                                                      const HomeBenchProgress& progress) {
  CAUSEWAY_TRY(check_options(options));
  Bench bench(options, gpu, processors, stream, progress);
  CAUSEWAY_TRY(bench.prepare());
  CAUSEWAY_TRY(bench.run());
  return bench.take();
}

}  // namespace causeway::kernels::hybrid_gemm
