#include <cfloat>
#include <string>

#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_discard.cuh"
#include "kernels/cuda_launch.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/rms_norm/rms_norm_cuda.h"

namespace causeway::kernels::rms_norm {
namespace {

constexpr int kThreadsMax = 1024;
constexpr std::int64_t kSizeMax = 4 * kThreadsMax * 8;

struct Args {
  const Bf16x8* x;        // [tokens][vectors]
  const Bf16x8* weight;   // [vectors]
  Bf16x8* out;            // [rows][vectors]
  const int32_t* wanted;  // [rows] or null
  float epsilon, offset;
  float size, inverse;         // of a row; 1 / size
  int vectors;                 // of eight, in a row
  const float4* parts;         // [kParts][tokens][vectors][2]: to be added to x
  int64_t part_stride;         // of float4
  Bf16x8* sum;                 // [tokens][vectors], may be x
  const Bf16x8* added;         // [tokens][vectors]: whose norm is added to x
  const Bf16x8* added_weight;  // [vectors]
  bool drops;                  // parts are dropped: their rows are whole lines
  DiscardLines discards[kDiscardsMax];
};

// Four threads share a line of a vector's parts: the first drops it, when all have read theirs.
__device__ __forceinline__ void drop_parts(const Args& a, int64_t at) {
  if (!a.drops || at % 4 != 0) return;
#pragma unroll
  for (int p = 0; p < kParts; ++p) discard_line(a.parts + 2 * at + p * a.part_stride);
}

// Relaxed: with ordinary loads, of which the last is put behind the use of the first, a vector
// costs a round trip more.
__device__ __forceinline__ float4 read_floats(const float4* source) {
  const uint4 words = ptx::load_relaxed(source);
  return make_float4(__uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z),
                     __uint_as_float(words.w));
}

// x + parts, which becomes the sum. x is asked for last: the first sum needs it.
__device__ __forceinline__ Bf16x8 add_parts(const Args& a, int64_t at) {
  float4 part[kParts][2];
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const float4* source = a.parts + 2 * at + p * a.part_stride;
    part[p][0] = read_floats(source);
    part[p][1] = read_floats(source + 1);
  }
  const Bf16x8 x = {ptx::load_relaxed(a.x + at)};
  float wide[8];
  widen(x, wide);
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const float4 low = part[p][0], high = part[p][1];
    const float eight[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) wide[j] += eight[j];
  }
  const Bf16x8 sum = narrow(wide);
  a.sum[at] = sum;
  return sum;
}

// total / a.size to the bit (Markstein: the inverse is rounded correctly), without the paths of a
// division for the ends of the range: below it epsilon is all, beyond it total is infinite.
__device__ __forceinline__ float mean(const Args& a, float total) {
  const float near = total * a.inverse;
  const float exact = fmaf(fmaf(-near, a.size, total), a.inverse, near);
  return total <= FLT_MAX ? exact : total;
}

// factor × (offset + weight) in one instruction; without an offset factor × weight to the bit.
struct Gain {
  float factor, shift;
  __device__ Gain(const Args& a, float total)
      : factor(rsqrtf(mean(a, total) + a.epsilon)), shift(factor * a.offset) {}
  __device__ float of(float weight) const { return fmaf(factor, weight, shift); }
};

// Grid: rows. A row stays in registers between its two passes, kVectors of a thread: few threads
// leave room on an SM beside the CTAs of products.
template <int kVectors, bool kAdds>
__global__ void __launch_bounds__(kThreadsMax) norm_kernel(const Args a) {
  __shared__ float sums[32];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread & 31, warp = thread >> 5;
  // No kernel writes weights: they come from HBM while the kernel in front ends.
  let_successor_start();
  Bf16x8 weights[kVectors], x[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = thread + i * threads;
    if (at < a.vectors) weights[i] = a.weight[at];
  }
  wait_for_predecessor();
  const int64_t token = a.wanted != nullptr ? a.wanted[blockIdx.x] : static_cast<int>(blockIdx.x);
  if (token < 0) return;
  const Bf16x8* row = a.x + token * a.vectors;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = thread + i * threads;
    x[i] = Bf16x8{};
    if (at < a.vectors) x[i] = kAdds ? add_parts(a, token * a.vectors + at) : row[at];
  }

  // Beside the loads, which are on their way. Unrolled: what is indexed by a variable of the
  // arguments lies in the thread's own memory.
#pragma unroll
  for (const DiscardLines& lines : a.discards) discard(lines);

  // ---- squares -------------------------------------------------------------------------------
  float squares = 0, wide[8];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    widen(x[i], wide);
#pragma unroll
    for (int j = 0; j < 8; ++j) squares += wide[j] * wide[j];
  }
  squares = warp_sum(squares);
  if (lane == 0) sums[warp] = squares;
  __syncthreads();
  const float total = warp_sum(lane < threads >> 5 ? sums[lane] : 0.0f);
  const Gain gain(a, total);

  // ---- out -----------------------------------------------------------------------------------
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int at = thread + i * threads;
    if (at >= a.vectors) continue;
    float weight[8];
    widen(x[i], wide);
    widen(weights[i], weight);
#pragma unroll
    for (int j = 0; j < 8; ++j) wide[j] *= gain.of(weight[j]);
    a.out[static_cast<int64_t>(blockIdx.x) * a.vectors + at] = narrow(wide);
    if constexpr (kAdds) drop_parts(a, token * a.vectors + at);
  }
}

// The sum over a CTA's threads. `sums` is one place of two, taken in turn.
__device__ __forceinline__ float block_sum(float mine, float* sums) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  mine = warp_sum(mine);
  if (thread % 32 == 0) sums[thread / 32] = mine;
  __syncthreads();
  return warp_sum(thread % 32 < threads / 32 ? sums[thread % 32] : 0.0f);
}

__device__ __forceinline__ float sum_of_squares(const float (&x)[8]) {
  float squares = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) squares += x[j] * x[j];
  return squares;
}

// x += norm(added), then out = norm(x), of a row: a vector a thread. Grid: rows.
__global__ void __launch_bounds__(kThreadsMax) join_kernel(const Args a) {
  __shared__ float sums[2][32];
  const int at = static_cast<int>(threadIdx.x);
  let_successor_start();
  const bool holds = at < a.vectors;
  const Bf16x8 zero = {};
  const Bf16x8 added_gains = holds ? a.added_weight[at] : zero;
  const Bf16x8 gains = holds && a.out != nullptr ? a.weight[at] : zero;
  wait_for_predecessor();
  const int64_t token = a.wanted != nullptr ? a.wanted[blockIdx.x] : static_cast<int>(blockIdx.x);
  if (token < 0) return;
  const int64_t place = token * a.vectors + at;
  float x[8], y[8], weight[8];
  widen(holds ? a.x[place] : zero, x);
  widen(holds ? a.added[place] : zero, y);
#pragma unroll
  for (const DiscardLines& lines : a.discards) discard(lines);

  // ---- the sum, as it is kept -----------------------------------------------------------------
  const Gain of_added(a, block_sum(sum_of_squares(y), sums[0]));
  widen(added_gains, weight);
#pragma unroll
  for (int j = 0; j < 8; ++j) x[j] += y[j] * of_added.of(weight[j]);
  const Bf16x8 sum = narrow(x);
  if (holds) a.sum[place] = sum;
  if (a.out == nullptr) return;

  // ---- its norm -------------------------------------------------------------------------------
  widen(sum, x);
  const float squares = holds ? sum_of_squares(x) : 0.0f;
  const Gain gain(a, block_sum(squares, sums[1]));
  widen(gains, weight);
#pragma unroll
  for (int j = 0; j < 8; ++j) x[j] *= gain.of(weight[j]);
  if (holds) a.out[static_cast<int64_t>(blockIdx.x) * a.vectors + at] = narrow(x);
}

}  // namespace

Status run(const ParamsCuda& p, CudaStream stream) {
  if (p.size < 8 || p.size % 8 != 0 || p.size > kSizeMax) {
    return invalid_argument("rms_norm: a row of " + std::to_string(p.size) +
                            " is not a multiple of 8 up to 32768");
  }
  const int vectors = static_cast<int>(p.size / 8);
  const bool adds = p.parts != nullptr;
  if (adds && (p.size > kPartsSizeMax || p.sum == nullptr)) {
    return invalid_argument("rms_norm: parts of a row of " + std::to_string(p.size) +
                            ", which is more than 8192, or no place for the sum");
  }
  const bool joins = p.added != nullptr;
  if (joins && (adds || p.size > kPartsSizeMax || p.sum == nullptr || p.added_weight == nullptr)) {
    return invalid_argument("rms_norm: what is added to a row of " + std::to_string(p.size) +
                            ", which is more than 8192, or beside parts, or without its place");
  }
  const int of_thread = adds || joins ? 1 : vectors <= 2 * kThreadsMax ? 2 : 4;
  const int threads = ((vectors + of_thread - 1) / of_thread + 31) / 32 * 32;
  Args args = {.x = static_cast<const Bf16x8*>(p.x),
               .weight = static_cast<const Bf16x8*>(p.weight),
               .out = static_cast<Bf16x8*>(p.out),
               .wanted = p.rows_wanted,
               .epsilon = p.epsilon,
               .offset = p.offset,
               .size = static_cast<float>(p.size),
               .inverse = 1.0f / static_cast<float>(p.size),
               .vectors = vectors,
               .parts = reinterpret_cast<const float4*>(p.parts),
               .part_stride = p.tokens * vectors * 2,
               .sum = static_cast<Bf16x8*>(p.sum),
               .added = static_cast<const Bf16x8*>(p.added),
               .added_weight = static_cast<const Bf16x8*>(p.added_weight),
               .drops = !p.parts_stay && vectors % 4 == 0 &&
                        reinterpret_cast<uintptr_t>(p.parts) % 128 == 0};
  for (std::size_t i = 0; i < kDiscardsMax; ++i) args.discards[i] = discard_lines(p.discards[i]);
  const LaunchShape shape = {dim3(static_cast<unsigned>(p.rows)), dim3(threads)};
  auto* kernel = joins            ? join_kernel
                 : adds           ? norm_kernel<1, true>
                 : of_thread == 2 ? norm_kernel<2, false>
                                  : norm_kernel<4, false>;
  return launch("rms_norm", stream, shape, kernel, args);
}

}  // namespace causeway::kernels::rms_norm
