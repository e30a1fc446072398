// Few tokens an expert: reading the weights once is all that counts. A warp multiplies 16 rows of a
// weight (8 of gate and the same 8 of up, so that the activation needs nobody else) with up to 64
// tokens by tensor cores, weights going from memory to registers. Sixteen bytes of a row, eight
// neighbouring k, are what a thread loads at once; the product takes k in any order, so the eight
// are handed to two products of the tensor core as they come, from weights and tokens alike.
#include <algorithm>
#include <string>

#include "kernels/cuda_launch.cuh"
#include "kernels/cuda_mma.cuh"
#include "kernels/moe/moe_cuda.h"

namespace causeway::kernels::moe {
namespace {

constexpr int kExpertsMax = 512;
constexpr int kChosenMax = 32;
constexpr int kGroupThreads = 1024;
constexpr int kFusedTokens = 64;  // up to so many, routing and grouping are one launch
constexpr int kWarps = 4;         // of a CTA of the expert kernels
constexpr int kStep = 32;         // k of a warp's step: four lanes × 8
constexpr int kSteps = 4;         // asked for at once

// What routing and grouping leave for the expert kernels. A pair is (token, choice); a row is a
// pair's place when sorted by expert.
struct Groups {
  int32_t* chosen;    // [pairs] expert
  float* weight;      // [pairs]
  int32_t* row_pair;  // [pairs] which pair is row r
  int32_t* pair_row;  // [pairs]
  int4* chunk;        // [chunks] expert, first row, rows, unused
  int32_t* chunks;    // [1]
};

struct RouteArgs {
  const float* scores;  // [tokens][experts]
  Groups groups;
  int tokens, experts, k;
  int chunk_rows;
  bool normalise, fused;
};

// The choice that lane l has is the token's l-th.
struct Choice {
  int expert;
  float weight;
};

// One warp: the best k of a token, the lower index among equals, NaN last. `kEach`: experts a lane.
template <int kEach>
__device__ Choice route_token(const RouteArgs& a, int token, int lane) {
  const float* scores = a.scores + static_cast<int64_t>(token) * a.experts;
  float own[kEach];
  uint32_t taken = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    own[i] = lane + 32 * i < a.experts ? scores[lane + 32 * i] : 0.0f;
  }
  float largest = 0, total = 0, chosen_total = 0, my_weight = 0;
  int my_expert = 0;
  for (int choice = 0; choice < a.k; ++choice) {
    unsigned long long best = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int expert = lane + 32 * i;
      if (expert >= a.experts || (taken >> i & 1) != 0) continue;
      const uint32_t bits = __float_as_uint(own[i] + 0.0f);
      const uint32_t key = isnan(own[i])       ? 0x007FFFFFu
                           : (bits >> 31) != 0 ? ~bits
                                               : bits | 0x80000000u;
      const unsigned long long packed =
          static_cast<unsigned long long>(key) << 32 | static_cast<uint32_t>(~expert);
      best = packed > best ? packed : best;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      const unsigned long long other = __shfl_xor_sync(0xFFFFFFFFu, best, lanes);
      best = other > best ? other : best;
    }
    const int expert = static_cast<int>(~static_cast<uint32_t>(best));
    float score = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (lane + 32 * i == expert) {
        taken |= 1u << i;
        score = own[i];
      }
    }
    score = __shfl_sync(0xFFFFFFFFu, score, expert % 32);
    if (choice == 0) {
      largest = score;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (lane + 32 * i < a.experts) total += expf(own[i] - largest);
      }
      total = warp_sum(total);
    }
    const float weight = expf(score - largest) / total;
    chosen_total += weight;
    if (lane == choice) {
      my_weight = weight;
      my_expert = expert;
    }
  }
  return {my_expert, a.normalise ? my_weight / chosen_total : my_weight};
}

__device__ Choice route_any(const RouteArgs& a, int token, int lane) {
  return a.experts <= 128 ? route_token<4>(a, token, lane)
                          : route_token<kExpertsMax / 32>(a, token, lane);
}

__device__ void route_and_keep(const RouteArgs& a, int token, int lane) {
  const Choice choice = route_any(a, token, lane);
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

// One CTA: a counting sort of the pairs by expert, and the experts' chunks of rows. The order of a
// chunk's rows depends on timing, what is computed for a row does not.
__global__ void __launch_bounds__(kGroupThreads) group_kernel(const RouteArgs a) {
  __shared__ int counts[kExpertsMax], rows_before[kExpertsMax], chunks_before[kExpertsMax];
  __shared__ int warp_rows[kExpertsMax / 32], warp_chunks[kExpertsMax / 32];
  wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  if (a.fused) {
    for (int t = warp; t < a.tokens; t += kGroupThreads / 32) route_and_keep(a, t, lane);
  }
  if (thread < kExpertsMax) counts[thread] = 0;
  __syncthreads();
  const int pairs = a.tokens * a.k;
  for (int p = thread; p < pairs; p += kGroupThreads) atomicAdd(&counts[a.groups.chosen[p]], 1);
  __syncthreads();

  // ---- where each expert's rows and chunks begin -----------------------------------------------
  int rows = 0, chunks = 0, own_chunks = 0;
  if (thread < kExpertsMax) {
    rows = counts[thread];
    chunks = own_chunks = (rows + a.chunk_rows - 1) / a.chunk_rows;
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
  __syncthreads();
  if (thread < kExpertsMax) {
    for (int w = 0; w < warp; ++w) {
      rows += warp_rows[w];
      chunks += warp_chunks[w];
    }
    rows_before[thread] = rows - counts[thread];
    chunks_before[thread] = chunks - own_chunks;
    if (thread == kExpertsMax - 1) *a.groups.chunks = chunks;
    for (int c = 0; c < own_chunks; ++c) {
      const int left = counts[thread] - c * a.chunk_rows;
      a.groups.chunk[chunks_before[thread] + c] =
          make_int4(thread, rows_before[thread] + c * a.chunk_rows, min(left, a.chunk_rows), 0);
    }
  }
  __syncthreads();
  for (int p = thread; p < pairs; p += kGroupThreads) {
    const int row = atomicAdd(&rows_before[a.groups.chosen[p]], 1);
    a.groups.row_pair[row] = p;
    a.groups.pair_row[p] = row;
  }
}

struct ExpertArgs {
  Groups groups;
  const void* const* top;     // gate, or down
  const void* const* bottom;  // up, or down
  const __nv_bfloat16* x;     // [tokens][depth] (gated), or [rows][depth]
  __nv_bfloat16* out;         // [rows][features]
  int depth;                  // k
  int features;               // of out
  int tiles;                  // of kWarps warps' features
  int k;                      // choices of a token
};

__device__ uint4 load_once(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

// sum += 16 rows of a weight (this lane's: top, bottom) × up to kEights × 8 tokens, over k in
// [begin, end). While a batch of steps is multiplied, the next is on its way. x: of the lane's
// token of each eight, from its piece on.
template <int kEights, int kSteps>
__device__ __forceinline__ void add_products(const char* top, const char* bottom,
                                             const __nv_bfloat16* const (&x)[kEights], int eights,
                                             int begin, int end, float (&sum)[kEights][4]) {
  const int piece = static_cast<int>(threadIdx.x) % 4 * 8;
  uint4 weights[2][kSteps][2];
  const auto load = [&](int batch, int k) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int at = k + s * kStep;
      if (at >= end) continue;
      weights[batch][s][0] = load_once(top + (at + piece) * 2);
      weights[batch][s][1] = load_once(bottom + (at + piece) * 2);
    }
  };
  const auto multiply = [&](int batch, int k) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int at = k + s * kStep;
      if (at >= end) continue;
      const uint4 t = weights[batch][s][0], b = weights[batch][s][1];
      const uint32_t low[4] = {t.x, b.x, t.y, b.y}, high[4] = {t.z, b.z, t.w, b.w};
#pragma unroll
      for (int n = 0; n < kEights; ++n) {
        if (n >= eights) continue;
        const uint4 token = *reinterpret_cast<const uint4*>(x[n] + at);
        mma::multiply_add(sum[n], low, token.x, token.y);
        mma::multiply_add(sum[n], high, token.z, token.w);
      }
    }
  };
  constexpr int kBatch = kSteps * kStep;
  load(0, begin);
  for (int k = begin; k < end; k += 2 * kBatch) {
    load(1, k + kBatch);
    multiply(0, k);
    load(0, k + 2 * kBatch);
    multiply(1, k + kBatch);
  }
}

__device__ float silu(float x) { return x / (1.0f + __expf(-x)); }

// Grid: work items, (chunk of rows, tile of features), those that may be. Gated: out is
// silu(gate · x) × (up · x). Else: out is weight × (down · x), of the row's pair.
template <int kEights, bool kGated>
__global__ void __launch_bounds__(kWarps * 32, kEights <= 2 ? 4 : 1)
    expert_kernel(const ExpertArgs a) {
  constexpr int kFeatures = kGated ? 8 : 16;  // of a warp
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int group = lane / 4, piece = lane % 4 * 8;
  const int items = *a.groups.chunks * a.tiles;
  for (int item = static_cast<int>(blockIdx.x); item < items; item += static_cast<int>(gridDim.x)) {
    const int4 chunk = a.groups.chunk[item / a.tiles];
    const int feature = (item % a.tiles * kWarps + warp) * kFeatures;
    if (feature >= a.features) continue;

    // ---- this lane's rows of the weights, and its token of each eight ---------------------------
    const int64_t row_bytes = int64_t{a.depth} * 2;
    const auto* top = static_cast<const char*>(a.top[chunk.x]) + (feature + group) * row_bytes;
    const auto* bottom = static_cast<const char*>(a.bottom[chunk.x]) +
                         (feature + group + (kGated ? 0 : 8)) * row_bytes;
    const __nv_bfloat16* x[kEights];
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
      const int row = chunk.y + min(n * 8 + group, chunk.z - 1);
      const int64_t source = kGated ? a.groups.row_pair[row] / a.k : row;
      x[n] = a.x + source * a.depth + piece;
    }
    const int eights = (chunk.z + 7) / 8;

    // ---- products -------------------------------------------------------------------------------
    float sum[kEights][4] = {};
    add_products<kEights, kSteps>(top, bottom, x, eights, 0, a.depth, sum);

    // ---- out: a group of eight lanes holds neighbouring features of a row ----------------------
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int in_chunk = n * 8 + lane % 4 * 2 + c;
        if (in_chunk >= chunk.z) continue;
        const int row = chunk.y + in_chunk;
        __nv_bfloat16* out = a.out + static_cast<int64_t>(row) * a.features + feature + group;
        if (kGated) {
          out[0] = __float2bfloat16(silu(sum[n][c]) * sum[n][2 + c]);
        } else {
          const float weight = a.groups.weight[a.groups.row_pair[row]];
          out[0] = __float2bfloat16(weight * sum[n][c]);
          out[8] = __float2bfloat16(weight * sum[n][2 + c]);
        }
      }
    }
  }
}

// Grid: (⌈vectors / 256⌉, tokens): the sum of a token's rows, in the order of its choices.
__global__ void __launch_bounds__(256)
    combine_kernel(const Bf16x8* rows, const int32_t* pair_row, Bf16x8* out, int vectors, int k) {
  wait_for_predecessor();
  const int at = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (at >= vectors) return;
  const int64_t token = blockIdx.y;
  float sum[8] = {};
#pragma unroll 8
  for (int i = 0; i < k; ++i) {
    float part[8];
    widen(rows[pair_row[token * k + i] * int64_t{vectors} + at], part);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[j] += part[j];
  }
  out[token * vectors + at] = narrow(sum);
}

// ---- one token: no grouping, and the sum over experts is the product's own ---------------------

struct OneArgs {
  RouteArgs route;
  const void* const* gate;
  const void* const* up;
  const void* const* down;
  const __nv_bfloat16* x;  // [hidden]
  __nv_bfloat16* active;   // [k][intermediate]
  __nv_bfloat16* out;      // [hidden]
  int hidden, intermediate;
};

// Grid: k × intermediate / 8; the warps of a CTA share the depth. Every warp routes the token for
// itself: that is sooner than being told.
__global__ void __launch_bounds__(kWarps * 32, 6) one_gated_kernel(const OneArgs a) {
  __shared__ float4 partial[kWarps][32];
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int tiles = a.intermediate / 8;
  const int choice = static_cast<int>(blockIdx.x) / tiles;
  const int feature = static_cast<int>(blockIdx.x) % tiles * 8 + lane / 4;
  const Choice mine = route_any(a.route, 0, lane);
  if (blockIdx.x == 0 && warp == 0 && lane < a.route.k) {
    a.route.groups.chosen[lane] = mine.expert;
    a.route.groups.weight[lane] = mine.weight;
  }
  const int expert = __shfl_sync(0xFFFFFFFFu, mine.expert, choice);
  const int64_t row = int64_t{feature} * a.hidden * 2;
  const int each = (a.hidden / kStep + kWarps - 1) / kWarps * kStep;
  const int begin = min(a.hidden, warp * each), end = min(a.hidden, begin + each);
  const __nv_bfloat16* x[1] = {a.x + lane % 4 * 8};
  float sum[1][4] = {};
  add_products<1, 2>(static_cast<const char*>(a.gate[expert]) + row,
                     static_cast<const char*>(a.up[expert]) + row, x, 1, begin, end, sum);
  partial[warp][lane] = make_float4(sum[0][0], sum[0][1], sum[0][2], sum[0][3]);
  __syncthreads();
  if (warp != 0 || lane % 4 != 0) return;  // all eight tokens of the product are the same
  float gate = 0, up = 0;
  for (const auto& part : partial) {
    gate += part[lane].x;
    up += part[lane].z;
  }
  a.active[choice * a.intermediate + feature] = __float2bfloat16(silu(gate) * up);
}

// Grid: hidden / 16; a warp a choice.
__global__ void __launch_bounds__(kChosenMax * 32 / 2) one_down_kernel(const OneArgs a) {
  __shared__ float2 partial[kChosenMax / 2][8];
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % 32, choice = static_cast<int>(threadIdx.x) / 32;
  const int feature = static_cast<int>(blockIdx.x) * 16 + lane / 4;
  const auto* down = static_cast<const char*>(a.down[a.route.groups.chosen[choice]]);
  const __nv_bfloat16* x[1] = {a.active + choice * a.intermediate + lane % 4 * 8};
  const float weight = a.route.groups.weight[choice];
  float sum[1][4] = {};
  add_products<1, kSteps>(down + int64_t{feature} * a.intermediate * 2,
                          down + int64_t{feature + 8} * a.intermediate * 2, x, 1, 0, a.intermediate,
                          sum);
  if (lane % 4 == 0)
    partial[choice][lane / 4] = make_float2(weight * sum[0][0], weight * sum[0][2]);
  __syncthreads();
  if (choice != 0 || lane % 4 != 0) return;
  float2 total = {0, 0};
  for (int i = 0; i < a.route.k; ++i) {
    total.x += partial[i][lane / 4].x;
    total.y += partial[i][lane / 4].y;
  }
  a.out[feature] = __float2bfloat16(total.x);
  a.out[feature + 8] = __float2bfloat16(total.y);
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Rows of a chunk: what an expert gets of so few tokens, mostly in one chunk.
int chunk_rows(const ShapeCuda& shape, std::int64_t tokens) {
  const std::int64_t mean =
      tokens * shape.experts_per_token / std::max<std::int64_t>(1, shape.experts);
  return tokens <= 8 ? 8 : mean <= 4 ? 16 : mean <= 12 ? 32 : 64;
}

std::int64_t chunks_max(const ShapeCuda& shape, std::int64_t tokens) {
  const std::int64_t pairs = tokens * shape.experts_per_token;
  return std::min(shape.experts, pairs) + pairs / chunk_rows(shape, tokens);
}

Status check(const ParamsCuda& p) {
  const ShapeCuda& s = p.shape;
  if (s.hidden < 32 || s.hidden % 32 != 0 || s.intermediate < 32 || s.intermediate % 32 != 0 ||
      s.experts < 1 || s.experts > kExpertsMax || s.experts_per_token < 1 ||
      s.experts_per_token > std::min<std::int64_t>(s.experts, kChosenMax) || p.tokens < 0 ||
      p.tokens > 65535) {
    return invalid_argument("moe: cannot run " + std::to_string(s.experts_per_token) + " of " +
                            std::to_string(s.experts) + " experts of " + std::to_string(s.hidden) +
                            " × " + std::to_string(s.intermediate) + " on " +
                            std::to_string(p.tokens) +
                            " tokens: sizes are multiples of 32, at most 32 of 512 experts");
  }
  return {};
}

template <bool kGated>
Status launch_experts(ExpertArgs a, int rows, std::int64_t chunks, CudaStream stream) {
  const int features = kGated ? 8 : 16;  // of a warp
  a.tiles = (a.features + kWarps * features - 1) / (kWarps * features);
  const auto ctas = static_cast<unsigned>(std::min<std::int64_t>(chunks * a.tiles, 1 << 20));
  auto* kernel = rows <= 8    ? expert_kernel<1, kGated>
                 : rows <= 16 ? expert_kernel<2, kGated>
                 : rows <= 32 ? expert_kernel<4, kGated>
                              : expert_kernel<8, kGated>;
  return launch(kGated ? "experts (gate and up)" : "experts (down)", stream,
                {dim3(ctas), dim3(kWarps * 32)}, kernel, a);
}

}  // namespace

Bytes workspace_bytes(const ShapeCuda& s, std::int64_t tokens) {
  const std::int64_t pairs = tokens * s.experts_per_token;
  // chunks_max falls where chunk_rows grows: smaller steps may need more than the largest.
  const std::int64_t chunks = std::min(s.experts, pairs) + pairs / 8 + 1;
  return Bytes(4 * aligned(pairs * 4) + aligned(chunks * 16) + aligned(4) +
               aligned(pairs * s.intermediate * 2) + aligned(pairs * s.hidden * 2));
}

namespace {

// The scratch memory of one run.
struct Scratch {
  Groups groups;
  __nv_bfloat16* active;    // [pairs][intermediate]
  __nv_bfloat16* weighted;  // [pairs][hidden]
};

Scratch carve(const ParamsCuda& p) {
  const ShapeCuda& s = p.shape;
  const std::int64_t pairs = p.tokens * s.experts_per_token;
  char* memory = static_cast<char*>(p.workspace);
  const auto take = [&memory](std::int64_t bytes) {
    char* taken = memory;
    memory += aligned(bytes);
    return taken;
  };
  Scratch scratch;
  scratch.groups.chosen = reinterpret_cast<int32_t*>(take(pairs * 4));
  scratch.groups.weight = reinterpret_cast<float*>(take(pairs * 4));
  scratch.groups.row_pair = reinterpret_cast<int32_t*>(take(pairs * 4));
  scratch.groups.pair_row = reinterpret_cast<int32_t*>(take(pairs * 4));
  scratch.groups.chunk = reinterpret_cast<int4*>(take(chunks_max(s, p.tokens) * 16));
  scratch.groups.chunks = reinterpret_cast<int32_t*>(take(4));
  scratch.active = reinterpret_cast<__nv_bfloat16*>(take(pairs * s.intermediate * 2));
  scratch.weighted = reinterpret_cast<__nv_bfloat16*>(take(pairs * s.hidden * 2));
  return scratch;
}

Status run_one(const ParamsCuda& p, const RouteArgs& route, const Scratch& scratch,
               CudaStream stream) {
  const ShapeCuda& s = p.shape;
  const OneArgs one = {route,
                       p.gate,
                       p.up,
                       p.down,
                       static_cast<const __nv_bfloat16*>(p.x),
                       scratch.active,
                       static_cast<__nv_bfloat16*>(p.out),
                       static_cast<int>(s.hidden),
                       static_cast<int>(s.intermediate)};
  const auto gated_ctas = static_cast<unsigned>(s.experts_per_token * s.intermediate / 8);
  CAUSEWAY_TRY(launch("one token's experts (gate and up)", stream,
                      {dim3(gated_ctas), dim3(kWarps * 32)}, one_gated_kernel, one));
  return launch("one token's experts (down)", stream,
                {dim3(static_cast<unsigned>(s.hidden / 16)),
                 dim3(static_cast<unsigned>(s.experts_per_token * 32))},
                one_down_kernel, one);
}

Status run_grouped(const ParamsCuda& p, const RouteArgs& route, const Scratch& scratch,
                   CudaStream stream) {
  const ShapeCuda& s = p.shape;
  if (!route.fused) {
    const LaunchShape shape = {dim3(static_cast<unsigned>((p.tokens + 7) / 8)), dim3(256)};
    CAUSEWAY_TRY(launch("routing", stream, shape, route_kernel, route));
  }
  CAUSEWAY_TRY(
      launch("grouping by expert", stream, {dim3(1), dim3(kGroupThreads)}, group_kernel, route));
  const std::int64_t chunks = chunks_max(s, p.tokens);
  const int hidden = static_cast<int>(s.hidden), intermediate = static_cast<int>(s.intermediate);
  const ExpertArgs gated = {
      scratch.groups, p.gate, p.up,         static_cast<const __nv_bfloat16*>(p.x),
      scratch.active, hidden, intermediate, 0,
      route.k};
  CAUSEWAY_TRY(launch_experts<true>(gated, route.chunk_rows, chunks, stream));
  const ExpertArgs down = {scratch.groups, p.down, p.down, scratch.active, scratch.weighted,
                           intermediate,   hidden, 0,      route.k};
  CAUSEWAY_TRY(launch_experts<false>(down, route.chunk_rows, chunks, stream));
  const int vectors = hidden / 8;
  const dim3 grid(static_cast<unsigned>((vectors + 255) / 256), static_cast<unsigned>(p.tokens));
  return launch("sum of experts", stream, {grid, dim3(256)}, combine_kernel,
                reinterpret_cast<const Bf16x8*>(scratch.weighted), scratch.groups.pair_row,
                static_cast<Bf16x8*>(p.out), vectors, route.k);
}

}  // namespace

Status run(const ParamsCuda& p, CudaStream stream) {
  CAUSEWAY_TRY(check(p));
  if (p.tokens == 0) return {};
  const ShapeCuda& s = p.shape;
  const Scratch scratch = carve(p);
  const RouteArgs route = {p.scores,
                           scratch.groups,
                           static_cast<int>(p.tokens),
                           static_cast<int>(s.experts),
                           static_cast<int>(s.experts_per_token),
                           chunk_rows(s, p.tokens),
                           p.normalise_top_k,
                           p.tokens <= kFusedTokens};
  const bool one = p.tokens == 1 && s.experts_per_token <= kChosenMax / 2;
  return one ? run_one(p, route, scratch, stream) : run_grouped(p, route, scratch, stream);
}

}  // namespace causeway::kernels::moe
