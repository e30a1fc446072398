// Attention as it is defined, for any head size and grouping: a warp a query token and head.
#include "kernels/attention/cuda_paged.cuh"
#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr int kWarps = 4;
constexpr int kSizeMax = 512;
constexpr int kDimsOfLane = kSizeMax / 32;

// Grid: (query tokens, ⌈query heads / kWarps⌉). A token finds its sequence by bisection.
__global__ void __launch_bounds__(kWarps * 32) reference_kernel(const PagedArgs a) {
  wait_for_predecessor();
  const int row = a.query_begin[a.first] + static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (head >= a.query_heads || row >= a.query_begin[a.last]) return;
  int sequence = a.first;
  for (int high = a.last; high - sequence > 1;) {
    const int middle = (sequence + high) / 2;
    (a.query_begin[middle] <= row ? sequence : high) = middle;
  }
  __nv_bfloat16* out = a.out + (static_cast<int64_t>(row) * a.query_heads + head) * a.size;
  const int length = a.length[sequence];
  if (length == 0) {
    for (int d = lane; d < a.size; d += 32) out[d] = __float2bfloat16(0.0f);
    return;
  }
  const int visible = length - a.query_begin[sequence + 1] + row + 1;
  const int hidden = max(0, visible - a.window);
  const __nv_bfloat16* q = a.q + row * a.q_stride + static_cast<int64_t>(head) * a.size;
  const int64_t head_bytes = static_cast<int64_t>(head / a.group) * a.size * 2;

  // ---- a tile of 32 tokens: a lane scores one, then all lanes add their values ------------------
  float largest = -INFINITY, total = 0, sum[kDimsOfLane] = {};
  for (int tile = hidden / 32 * 32; tile < visible; tile += 32) {
    const int token = tile + lane;
    float score = -INFINITY;
    int64_t place = 0;
    if (token >= hidden && token < visible) {
      const int64_t frame = a.frames[a.frame_begin[sequence] + token / a.block_tokens];
      place = frame * a.frame_bytes + (token % a.block_tokens) * a.token_stride + head_bytes;
      float dot = 0;
      for (int d = 0; d < a.size; d += 8) {
        float k[8], x[8];
        widen(*reinterpret_cast<const Bf16x8*>(a.keys + place + d * 2), k);
        widen(*reinterpret_cast<const Bf16x8*>(q + d), x);
#pragma unroll
        for (int i = 0; i < 8; ++i) dot += k[i] * x[i];
      }
      score = a.score_of(dot);
    }
    float above = score;
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      above = fmaxf(above, __shfl_xor_sync(0xFFFFFFFFu, above, lanes));
    }
    above = fmaxf(above, largest);
    const float shrink = exp2f(largest - above);
    largest = above;
    const float weight = exp2f(score - above);
    total = total * shrink + warp_sum(weight);
#pragma unroll
    for (int i = 0; i < kDimsOfLane; ++i) sum[i] *= shrink;
    for (int t = max(0, hidden - tile); t < min(32, visible - tile); ++t) {
      const float w = __shfl_sync(0xFFFFFFFFu, weight, t);
      const int64_t at = __shfl_sync(0xFFFFFFFFu, place, t) + a.value_offset;
      const auto* v = reinterpret_cast<const __nv_bfloat16*>(a.keys + at);
#pragma unroll
      for (int i = 0; i < kDimsOfLane; ++i) {
        if (lane + 32 * i < a.size) sum[i] += w * __bfloat162float(v[lane + 32 * i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kDimsOfLane; ++i) {
    if (lane + 32 * i < a.size) out[lane + 32 * i] = __float2bfloat16(sum[i] / total);
  }
}

}  // namespace

Status run_reference(const ParamsCuda& p, std::int64_t first, std::int64_t last,
                     CudaStream stream) {
  const PagedArgs a = paged_args(p, first, last);
  const dim3 grid(static_cast<unsigned>(rows_at_most(p, first, last)),
                  (a.query_heads + kWarps - 1) / kWarps);
  return launch("attention (reference)", stream, {grid, dim3(kWarps * 32)}, reference_kernel, a);
}

}  // namespace causeway::kernels::attention::parts
