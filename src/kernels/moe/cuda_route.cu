// Routing and grouping as kernels of their own.
#include <algorithm>
#include <type_traits>

#include "kernels/moe/cuda_route.cuh"

namespace causeway::kernels::moe {
namespace {

constexpr int kGroupThreads = 1024;

struct RouteArgs {
  const float* scores;  // [tokens][experts]
  Groups groups;
  int tokens, experts, k;
  Chunking chunking;
  bool normalise;
  unsigned long long* experts_read;
  uint32_t* chosen;
};

// `kEach`: experts a lane.
template <int kEach>
__device__ void route_and_keep(const RouteArgs& a, int token, int lane) {
  const float* scores = a.scores + token * a.experts;
  const Choice choice = route_token<kEach>({scores, a.experts, a.k, a.normalise}, lane);
  if (lane >= a.k) return;
  a.groups.chosen[token * a.k + lane] = choice.expert;
  a.groups.weight[token * a.k + lane] = choice.weight;
}

// Grid: ⌈tokens / 8⌉.
template <int kEach>
__global__ void __launch_bounds__(256) route_kernel(const RouteArgs a) {
  wait_for_predecessor();
  const int token = static_cast<int>(blockIdx.x * 8 + threadIdx.x / 32);
  if (token < a.tokens) route_and_keep<kEach>(a, token, static_cast<int>(threadIdx.x) % 32);
}

// All pairs, dealt out to the CTA's threads; a thread's reads do not wait for each other.
template <int kAhead, typename Visit>
__device__ __forceinline__ void each_chosen(const int32_t* chosen, int pairs, int thread,
                                            Visit visit) {
#pragma unroll 1
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

// How an expert's rows are cut, of few tokens and of any number.
struct CutOfSmallBatch {
  __device__ explicit CutOfSmallBatch(const Chunking&) {}
  __device__ int chunks(int rows) const { return (rows + kItems.most - 1) / kItems.most; }
  __device__ int begin(int, int, int chunk) const { return chunk * kItems.most; }
};
struct CutOfAny {
  Chunking chunking;
  __device__ explicit CutOfAny(const Chunking& by) : chunking(by) {}
  __device__ int chunks(int rows) const { return (rows + chunking.most - 1) / chunking.most; }
  __device__ int begin(int rows, int of, int chunk) const {
    const int units = (rows + chunking.unit - 1) / chunking.unit;
    return units * chunk / of * chunking.unit;
  }
};

// One CTA: a counting sort of the pairs by expert, and the experts' chunks of rows. The order of a
// chunk's rows depends on timing, what is computed for a row does not. `kEach`: experts a lane of
// few tokens, which it routes too; 0: of many, which have been. An instance for few tokens is in
// every decode step's way, and all code is fetched for every launch.
template <int kEach>
__global__ void __launch_bounds__(kGroupThreads) group_kernel(const RouteArgs a) {
  using Cut = std::conditional_t<kEach == 0, CutOfAny, CutOfSmallBatch>;
  constexpr int kAhead = kEach == 0 ? 8 : 1;
  __shared__ int counts[kExpertsMax], rows_before[kExpertsMax];
  __shared__ int warp_rows[kExpertsMax / 32], warp_chunks[kExpertsMax / 32];
  wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  if constexpr (kEach != 0) {
#pragma unroll 1
    for (int t = warp; t < a.tokens; t += kGroupThreads / 32) route_and_keep<kEach>(a, t, lane);
  }
  if (thread < kExpertsMax) counts[thread] = 0;
  __syncthreads();
  const int pairs = a.tokens * a.k;
  each_chosen<kAhead>(a.groups.chosen, pairs, thread,
                      [&](int, int expert) { atomicAdd(&counts[expert], 1); });
  __syncthreads();

  // ---- where each expert's rows and chunks begin -----------------------------------------------
  const Cut cut(a.chunking);
  int rows = 0, chunks = 0, count = 0, own_chunks = 0;
  if (thread < kExpertsMax) {
    rows = count = counts[thread];
    chunks = own_chunks = cut.chunks(count);
#pragma unroll
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
  if (a.chosen != nullptr && thread < a.experts) a.chosen[thread] += static_cast<uint32_t>(count);
  if (thread < kExpertsMax) {
    rows += __reduce_add_sync(0xFFFFFFFFu, lane < warp ? warp_rows[lane] : 0);
    chunks += __reduce_add_sync(0xFFFFFFFFu, lane < warp ? warp_chunks[lane] : 0);
    rows_before[thread] = rows - count;
    if (thread == kExpertsMax - 1) *a.groups.chunks = chunks;
#pragma unroll 1
    for (int c = 0; c < own_chunks; ++c) {
      const int begin = cut.begin(count, own_chunks, c);
      const int end = min(count, cut.begin(count, own_chunks, c + 1));
      a.groups.chunk[chunks - own_chunks + c] =
          make_int4(thread, rows - count + begin, end - begin, 0);
    }
  }
  __syncthreads();
  each_chosen<kAhead>(a.groups.chosen, pairs, thread, [&](int pair, int expert) {
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
                           reinterpret_cast<unsigned long long*>(p.experts_read),
                           p.chosen};
  const bool lanes_of_4 = p.shape.experts <= 128;
  const LaunchShape one = {dim3(1), dim3(kGroupThreads)};
  if (p.tokens <= kSmallBatchTokens && chunking.most == kItems.most &&
      chunking.unit == kItems.unit) {
    return launch("routing and grouping", stream, one,
                  lanes_of_4 ? group_kernel<4> : group_kernel<kExpertsMax / 32>, route);
  }
  const LaunchShape shape = {dim3(static_cast<unsigned>((p.tokens + 7) / 8)), dim3(256)};
  CAUSEWAY_TRY(launch("routing", stream, shape,
                      lanes_of_4 ? route_kernel<4> : route_kernel<kExpertsMax / 32>, route));
  return launch("grouping by expert", stream, one, group_kernel<0>, route);
}

}  // namespace causeway::kernels::moe
