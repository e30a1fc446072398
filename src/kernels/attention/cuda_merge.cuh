// What both merging kernels add up with (cuda_merge.cu, cuda_merge_many.cu).
#pragma once

#include "kernels/attention/cuda_split.cuh"
#include "kernels/cuda_bf16.cuh"

namespace causeway::kernels::attention::parts {

constexpr int kMergeThreads = 256;
constexpr int kMergeUnroll = 8;  // pieces asked for at once
// The product behind is placed when all CTAs of this kernel have been: no more than two an SM.
constexpr int kMergeCtasMax = 264;

// Division by what the host knows, as a multiplication: exact while x × (divisor - 1) < 2^31, and
// beyond never too small.
struct Divider {
  uint32_t factor;
  __device__ int of(int x) const {
    return static_cast<int>(__umulhi(2u * static_cast<uint32_t>(x), factor));
  }
};
inline Divider divider(int divisor) {
  const auto d = static_cast<uint32_t>(divisor);
  return {((uint32_t{1} << 31) + d - 1) / d};
}

// What both kernels know of SplitArgs.
struct MergeArgs {
  const float2* state;
  const float* partial;
  __nv_bfloat16* out;
  const SequencePlan* plan;  // [sequences]
  int sequences, heads, group;
  Divider by_group;
  bool early;  // the plan may be read before the kernel in front has ended
};

inline MergeArgs merge_args(const SplitArgs& a) {
  return {.state = a.state,
          .partial = a.partial,
          .out = a.out,
          .plan = a.sequence_plan,
          .sequences = a.sequences,
          .heads = a.kv_heads * a.group,
          .group = a.group,
          .by_group = divider(a.group),
          .early = a.tables_early};
}

// What a head adds to a slot's row of `state` and `partial` (SplitArgs): a KV head's are
// those of its group's pieces not within, then of the others. All rows are less than 2^16.
__device__ inline int row_of(const MergeArgs& a, int head) {
  return a.by_group.of(head) * a.group + head;
}

// What a piece's worker left, where `wanted`, else nothing to add. Relaxed: past the first cache,
// where a rehearsal may have left what lay there before, and in the order written: the assembler
// puts half of weak loads behind the use of others. What a use waits for first, the states, is to
// be asked for last.
template <int kSize>
__device__ __forceinline__ float4 read_value(const char* partial, int row, bool wanted) {
  float4 value = make_float4(0, 0, 0, 0);
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n"
      "@p ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
      : "+f"(value.x), "+f"(value.y), "+f"(value.z), "+f"(value.w)
      : "l"(partial + int64_t{row} * (kSize * 4)), "r"(wanted ? 1 : 0)
      : "memory");
  return value;
}

__device__ __forceinline__ float2 read_state(const MergeArgs& a, int row, bool wanted) {
  float2 state = make_float2(-INFINITY, 0);
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.s32 p, %3, 0;\n"
      "@p ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];\n}"
      : "+f"(state.x), "+f"(state.y)
      : "l"(a.state + row), "r"(wanted ? 1 : 0)
      : "memory");
  return state;
}

// What the merging kernels add up of four elements: `above` is the largest score of all.
struct Merged {
  float above = -INFINITY, sum = 0;
  float4 value = {0, 0, 0, 0};

  // A piece, of which the largest score is at most `above`.
  __device__ void add(const float2& state, const float4& part) {
    const float factor = exp2_flushed(state.x - above);
    sum += state.y * factor;
    value.x += part.x * factor;
    value.y += part.y * factor;
    value.z += part.z * factor;
    value.w += part.w * factor;
  }
  __device__ void rescale(float next) {
    const float shrink = exp2_flushed(above - next);
    above = next;
    sum *= shrink;
    value = make_float4(value.x * shrink, value.y * shrink, value.z * shrink, value.w * shrink);
  }
  __device__ void store(char* target) const {
    const float inverse = inverse_of_sum(sum);
    *reinterpret_cast<uint2*>(target) = make_uint2(pack(value.x * inverse, value.y * inverse),
                                                   pack(value.z * inverse, value.w * inverse));
  }
};

// Threads that have the elements of a head, four each: a power of two, so of 96 elements the last
// eight of 32 do what the one in front of them does, and write the same.
template <int kSize>
constexpr int kMergeTeam = kSize == 96 ? 32 : kSize / 4;
template <int kSize>
__device__ __forceinline__ unsigned element_of_team(unsigned thread) {
  return kSize == 96 ? min(thread % kMergeTeam<kSize>, unsigned{kSize / 4 - 1})
                     : thread % kMergeTeam<kSize>;
}

// Enqueues merge_many_kernel, for heads of 64, 96, 128 or 256.
Status merge_many(const SplitArgs& args, std::int64_t size, CudaStream stream);

}  // namespace causeway::kernels::attention::parts
