// Routing and grouping as kernels of their own.
#include <algorithm>

#include "kernels/moe/cuda_route.cuh"

namespace causeway::kernels::moe {
namespace {

constexpr int kGroupThreads = 1024;
constexpr int kFusedTokens = 64;  // up to so many, routing and grouping are one launch

struct RouteArgs {
  const float* scores;  // [tokens][experts]
  Groups groups;
  int tokens, experts, k;
  Chunking chunking;
  bool normalise, fused;
  unsigned long long* experts_read;
};

__device__ void route_and_keep(const RouteArgs& a, int token, int lane) {
  const float* scores = a.scores + static_cast<int64_t>(token) * a.experts;
  const Choice choice = route_any({scores, a.experts, a.k, a.normalise}, lane);
  if (lane >= a.k) return;
  a.groups.chosen[token * a.k + lane] = choice.expert;
  a.groups.weight[token * a.k + lane] = choice.weight;
}

// Grid: ⌈tokens / 8⌉.
__global__ void __launch_bounds__(256) route_kernel(const RouteArgs a) {
  wait_for_predecessor();
  const int token = static_cast<int>(blockIdx.x * 8 + threadIdx.x / 32);
  if (token < a.tokens) route_and_keep(a, token, static_cast<int>(threadIdx.x) % 32);
}

__device__ int ceil_div(int a, int b) { return (a + b - 1) / b; }

// All pairs, dealt out to the CTA's threads; a thread's reads do not wait for each other.
template <typename Visit>
__device__ void each_chosen(const int32_t* chosen, int pairs, int thread, Visit visit) {
  constexpr int kAhead = 8;
  for (int begin = thread; begin < pairs; begin += kAhead * kGroupThreads) {
    int expert[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int pair = begin + i * kGroupThreads;
      expert[i] = pair < pairs ? chosen[pair] : -1;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (expert[i] >= 0) visit(begin + i * kGroupThreads, expert[i]);
    }
  }
}

// One CTA: a counting sort of the pairs by expert, and the experts' chunks of rows. The order of a
// chunk's rows depends on timing, what is computed for a row does not.
__global__ void __launch_bounds__(kGroupThreads) group_kernel(const RouteArgs a) {
  __shared__ int counts[kExpertsMax], rows_before[kExpertsMax];
  __shared__ int warp_rows[kExpertsMax / 32], warp_chunks[kExpertsMax / 32];
  wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  if (a.fused) {
    for (int t = warp; t < a.tokens; t += kGroupThreads / 32) route_and_keep(a, t, lane);
  }
  if (thread < kExpertsMax) counts[thread] = 0;
  __syncthreads();
  const int pairs = a.tokens * a.k;
  each_chosen(a.groups.chosen, pairs, thread,
              [&](int, int expert) { atomicAdd(&counts[expert], 1); });
  __syncthreads();

  // ---- where each expert's rows and chunks begin -----------------------------------------------
  int rows = 0, chunks = 0, own_chunks = 0;
  if (thread < kExpertsMax) {
    rows = counts[thread];
    chunks = own_chunks = ceil_div(rows, a.chunking.most);
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int more_rows = __shfl_up_sync(0xFFFFFFFFu, rows, lanes);
      const int more_chunks = __shfl_up_sync(0xFFFFFFFFu, chunks, lanes);
      if (lane >= lanes) {
        rows += more_rows;
        chunks += more_chunks;
      }
    }
    if (lane == 31) {
      warp_rows[warp] = rows;
      warp_chunks[warp] = chunks;
    }
  }
  const int used = __syncthreads_count(own_chunks > 0);
  if (thread == 0 && a.experts_read != nullptr) *a.experts_read += used;
  if (thread < kExpertsMax) {
    for (int w = 0; w < warp; ++w) {
      rows += warp_rows[w];
      chunks += warp_chunks[w];
    }
    const int count = counts[thread], units = ceil_div(count, a.chunking.unit);
    rows_before[thread] = rows - count;
    if (thread == kExpertsMax - 1) *a.groups.chunks = chunks;
    for (int c = 0; c < own_chunks; ++c) {
      const int begin = units * c / own_chunks * a.chunking.unit;
      const int end = min(count, units * (c + 1) / own_chunks * a.chunking.unit);
      a.groups.chunk[chunks - own_chunks + c] =
          make_int4(thread, rows - count + begin, end - begin, 0);
    }
  }
  __syncthreads();
  each_chosen(a.groups.chosen, pairs, thread, [&](int pair, int expert) {
    const int row = atomicAdd(&rows_before[expert], 1);
    a.groups.row_pair[row] = pair;
    a.groups.pair_row[pair] = row;
  });
}

}  // namespace

std::int64_t chunks_max(const ShapeCuda& shape, std::int64_t tokens, Chunking chunking) {
  const std::int64_t pairs = tokens * shape.experts_per_token;
  return std::min(shape.experts, pairs) + pairs / chunking.most;
}

Status enqueue_groups(const ParamsCuda& p, const Scratch& scratch, Chunking chunking,
                      CudaStream stream) {
  const RouteArgs route = {p.scores,
                           scratch.groups,
                           static_cast<int>(p.tokens),
                           static_cast<int>(p.shape.experts),
                           static_cast<int>(p.shape.experts_per_token),
                           chunking,
                           p.normalise_top_k,
                           p.tokens <= kFusedTokens,
                           reinterpret_cast<unsigned long long*>(p.experts_read)};
  if (!route.fused) {
    const LaunchShape shape = {dim3(static_cast<unsigned>((p.tokens + 7) / 8)), dim3(256)};
    CAUSEWAY_TRY(launch("routing", stream, shape, route_kernel, route));
  }
  return launch("grouping by expert", stream, {dim3(1), dim3(kGroupThreads)}, group_kernel, route);
}

}  // namespace causeway::kernels::moe
