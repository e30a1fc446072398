// Helpers for tests and benchmarks of GPU kernels: device memory by value, fresh inputs as bf16 and
// as the floats that they stand for, comparison, medians of timed graph replays, and the machine's
// own limits.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/random.h"
#include "base/result.h"
#include "base/testing/must.h"

namespace causeway::kernels::testing {

using causeway::must;

inline void must(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "FAILED: %s: %s\n", what, cudaGetErrorString(code));
  std::exit(1);
}
constexpr int kSkipped = 77;  // exit code of a test that could not run

inline bool has_gpu() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return true;
  std::fprintf(stdout, "SKIPPED: no GPU: %s\n", cudaGetErrorString(code));
  return false;
}

// Device memory of `size` elements, poisoned with 0xFF bytes (NaN in every float type).
template <typename T>
class Device {
 public:
  Device() = default;
  explicit Device(std::size_t size) : size_(size) {
    take();
    poison();
  }
  explicit Device(const std::vector<T>& values) : size_(values.size()) {
    take();
    put(values);
  }
  ~Device() { (void)cudaFree(data_); }
  Device(Device&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Device& operator=(Device&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* get() const { return data_; }
  std::size_t size() const { return size_; }
  void poison() { set(0xFF, "poison"); }
  // Enqueued.
  void poison(cudaStream_t stream) {
    must(cudaMemsetAsync(data_, 0xFF, size_ * sizeof(T), stream), "poison");
  }
  void copy_from(const Device& other, cudaStream_t stream) {
    must(cudaMemcpyAsync(data_, other.data_, size_ * sizeof(T), cudaMemcpyDeviceToDevice, stream),
         "copy");
  }
  void zero() { set(0, "zero"); }
  void put(const std::vector<T>& values) {
    must(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
         "upload");
    settle("upload");
  }
  std::vector<T> fetch() const {
    std::vector<T> values;
    fetch_to(values);
    return values;
  }
  void fetch_to(std::vector<T>& values) const {
    values.resize(size_);
    must(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "fetch");
  }

 private:
  void take() {
    must(cudaMalloc(&data_, std::max<std::size_t>(size_, 1) * sizeof(T)), "allocating");
  }
  void set(int byte, const char* what) {
    must(cudaMemset(data_, byte, size_ * sizeof(T)), what);
    settle(what);
  }
  // Both return before the GPU is done, and the streams that tests use do not wait for the default
  // one: with the GPU shared, poison arrived behind a kernel's results, tables behind the kernel.
  static void settle(const char* what) { must(cudaStreamSynchronize(nullptr), what); }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// Random bf16, and the floats that they are.
struct BothTypes {
  std::vector<BFloat16> bf16;
  std::vector<float> f32;
};

inline BothTypes random_bf16(Random& random, std::int64_t count, double scale = 1) {
  BothTypes both;
  both.bf16.resize(static_cast<std::size_t>(count));
  both.f32.resize(both.bf16.size());
  for (std::size_t i = 0; i < both.bf16.size(); ++i) {
    // Box-Muller is slow for the millions that tests draw: a sum of four uniforms is normal enough.
    const std::uint64_t bits = random.bits();
    double sum = -2;
    for (int j = 0; j < 4; ++j) sum += static_cast<double>((bits >> (16 * j)) & 0xFFFF) / 65536.0;
    both.bf16[i] = to_bfloat16(static_cast<float>(scale * 1.732 * sum));
    both.f32[i] = to_float(both.bf16[i]);
  }
  return both;
}

inline std::vector<float> to_floats(const std::vector<BFloat16>& values) {
  std::vector<float> floats(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) floats[i] = to_float(values[i]);
  return floats;
}

inline std::vector<BFloat16> to_bf16(const std::vector<float>& values) {
  std::vector<BFloat16> rounded(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) rounded[i] = to_bfloat16(values[i]);
  return rounded;
}

// ‖x - wanted‖₂ ÷ ‖wanted‖₂; infinite when anything is not finite.
inline double relative_error(const std::vector<float>& x, const std::vector<float>& wanted) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!std::isfinite(x[i])) return INFINITY;
    difference += (double{x[i]} - wanted[i]) * (double{x[i]} - wanted[i]);
    norm += double{wanted[i]} * wanted[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

// Keeps count of what a test found wrong.
class Report {
 public:
  void check(bool right, const std::string& what) {
    ++checks_;
    if (right) return;
    ++wrong_;
    if (wrong_ <= 20) std::fprintf(stderr, "WRONG: %s\n", what.c_str());
  }
  void error_at_most(double error, double limit, const std::string& what) {
    worst_ = std::max(worst_, error / limit);
    check(error <= limit, what + ": error " + std::to_string(error));
  }
  int finish() const {
    std::fprintf(stdout, "%s: %d checks, %d wrong, largest error %.2f of what is allowed\n",
                 wrong_ == 0 && checks_ > 0 ? "PASSED" : "FAILED", checks_, wrong_, worst_);
    return wrong_ == 0 && checks_ > 0 ? 0 : 1;
  }

 private:
  int checks_ = 0, wrong_ = 0;
  double worst_ = 0;
};

// Microseconds a replay of what `enqueue` does, captured once: median of `samples`.
inline double graph_us(cudaStream_t stream, const std::function<void(cudaStream_t)>& enqueue,
                       int samples = 9) {
  cudaGraph_t graph;
  cudaGraphExec_t program;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  enqueue(stream);
  must(cudaStreamEndCapture(stream, &graph), "capture");
  must(cudaGraphInstantiate(&program, graph, 0), "instantiate");
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = -2; i < samples; ++i) {
    must(cudaEventRecord(begin, stream), "event");
    must(cudaGraphLaunch(program, stream), "replay");
    must(cudaEventRecord(end, stream), "event");
    must(cudaEventSynchronize(end), "replay");
    float milliseconds = 0;
    must(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    if (i >= 0) times.push_back(milliseconds * 1000);
  }
  must(cudaEventDestroy(begin), "event");
  must(cudaEventDestroy(end), "event");
  must(cudaGraphExecDestroy(program), "graph");
  must(cudaGraphDestroy(graph), "graph");
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Random values in [-1, 1), made on the GPU; returns when they are there.
void fill(Device<BFloat16>& memory, std::uint64_t seed);

// GB/s of reading HBM by a plain kernel, over `bytes` of `memory` (several times the L2).
double hbm_read_gb_per_s(cudaStream_t stream, const void* memory, std::int64_t bytes);

// Largest difference between two memories, in bf16 steps of the value; NaN must be NaN in both.
inline double steps_apart(const std::vector<BFloat16>& a, const std::vector<BFloat16>& b) {
  constexpr std::size_t kStretch = 4096;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Nearly all of it is what was there before.
    while (i % kStretch == 0 && i + kStretch <= a.size() &&
           std::memcmp(&a[i], &b[i], kStretch * sizeof(BFloat16)) == 0) {
      i += kStretch;
    }
    if (i == a.size()) break;
    if (a[i].bits == b[i].bits) continue;
    const float x = to_float(a[i]), y = to_float(b[i]);
    if (!std::isfinite(x) || !std::isfinite(y)) return INFINITY;
    worst = std::max(worst, double{std::abs(x - y)} / (std::max(std::abs(x), std::abs(y)) + 1e-3));
  }
  return worst * 128;
}

}  // namespace causeway::kernels::testing
