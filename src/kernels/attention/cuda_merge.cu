// Adds up the pieces of sequences that several workers of the decode kernel share, in the order of
// slots: the result does not depend on timing.
#include <algorithm>

#include "kernels/attention/cuda_split.cuh"
#include "kernels/cuda_mma.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr int kMergeThreads = 256;
constexpr int kMergeUnroll = 8;  // pieces asked for at once
constexpr int kMergeTurns = 4;   // or heads of two pieces
// The product behind is placed when all CTAs of this kernel have been: no more than two an SM.
constexpr int kMergeCtasMax = 264;

// Adds a piece, of which the largest score is at most `above`.
__device__ void add_piece(const float2& state, const float4& part, float above, float& sum,
                          float4& value) {
  const float factor = exp2f(state.x - above);
  sum += state.y * factor;
  value.x += part.x * factor;
  value.y += part.y * factor;
  value.z += part.z * factor;
  value.w += part.w * factor;
}

// What the merging kernel adds up of one element: `above` is the largest score of all.
struct Merged {
  float above = -INFINITY, sum = 0;
  float4 value = {0, 0, 0, 0};

  template <int kCount>
  __device__ void add(const float2 (&state)[kCount], const float4 (&part)[kCount]) {
    float next = above;
#pragma unroll
    for (int j = 0; j < kCount; ++j) next = fmaxf(next, state[j].x);
    rescale(next);
#pragma unroll
    for (int j = 0; j < kCount; ++j) add_piece(state[j], part[j], above, sum, value);
  }
  __device__ void rescale(float next) {
    const float shrink = exp2f(above - next);
    above = next;
    sum *= shrink;
    value = make_float4(value.x * shrink, value.y * shrink, value.z * shrink, value.w * shrink);
  }
  __device__ void store(uint2* target) const {
    const float inverse = 1.0f / sum;
    *target = make_uint2(mma::pack(value.x * inverse, value.y * inverse),
                         mma::pack(value.z * inverse, value.w * inverse));
  }
};

// With many sequences most have two pieces: kMergeTurns heads of one at a time, all loads together.
template <int kSize>
__device__ void merge_pairs(const SplitArgs& a, const SequencePlan& pieces, int sequence, int head,
                            int step, int turns, int element) {
  const int heads = a.kv_heads * a.group;
  float2 state[kMergeTurns][2];
  float4 part[kMergeTurns][2];
#pragma unroll
  for (int t = 0; t < kMergeTurns; ++t) {
    const int h = min(head + t * step, heads - 1);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int64_t piece =
          piece_of(a, h / a.group, pieces.first + j, j == 0 && pieces.within != 0) * a.group +
          h % a.group;
      state[t][j] = __ldcg(a.state + piece);
      part[t][j] = __ldcg(reinterpret_cast<const float4*>(a.partial + piece * kSize) + element);
    }
  }
#pragma unroll
  for (int t = 0; t < kMergeTurns; ++t) {
    const int h = head + t * step;
    if (t >= turns || h >= heads) continue;
    Merged merged;
    merged.add(state[t], part[t]);
    merged.store(reinterpret_cast<uint2*>(a.out + (int64_t{sequence} * heads + h) * kSize) +
                 element);
  }
}

// Or of the last sequence, where there is none.
__device__ SequencePlan read_plan(const SplitArgs& a, int sequence) {
  const int4 four =
      *reinterpret_cast<const int4*>(a.sequence_plan + min(sequence, a.sequences - 1));
  return {four.x, four.y, four.z, four.w};
}

// What the threads of a CTA share.
struct MergeShared {
  float4 values[kMergeThreads];
  float2 states[kMergeThreads];
};

// All threads of the CTA: party 0's `merged` gets what the other parties have.
template <int kTeam>
__device__ void join_parties(int parties, int party, MergeShared& shared, Merged& merged) {
  const int thread = static_cast<int>(threadIdx.x);
  shared.values[thread] = merged.value;
  shared.states[thread] = make_float2(merged.above, merged.sum);
  __syncthreads();
  if (party == 0) {
    float above = merged.above;
    for (int other = 1; other < parties; ++other) {
      above = fmaxf(above, shared.states[thread + other * kTeam].x);
    }
    merged.rescale(above);
    for (int other = 1; other < parties; ++other) {
      const int at = thread + other * kTeam;
      add_piece(shared.states[at], shared.values[at], above, merged.sum, merged.value);
    }
  }
  __syncthreads();
}

// Merges pieces: `parties` teams of kSize / 4 threads share those of a query head, and a CTA takes
// as many heads of a sequence at once as it has room for. An item is such a turn; CTAs have items
// next to each other, so that they look a sequence up once. Also zeroes rows without a sequence.
template <int kSize>
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(const SplitArgs a, int parties) {
  constexpr int kTeam = kSize / 4, kTeams = kMergeThreads / kTeam;
  __shared__ MergeShared shared;
  if (!a.tables_early) wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x);
  const int team = thread / kTeam, element = thread % kTeam, party = team % parties;
  const int heads = a.kv_heads * a.group, at_once = kTeams / parties;
  const int turns = (heads + at_once - 1) / at_once, items = a.sequences * turns;
  int item = static_cast<int>(int64_t{blockIdx.x} * items / gridDim.x);
  const int end = static_cast<int>((int64_t{blockIdx.x} + 1) * items / gridDim.x);
  int sequence = item / turns;
  SequencePlan pieces = read_plan(a, sequence), next = read_plan(a, sequence + 1);
  if (a.tables_early) wait_for_predecessor();
  for (; item < end; ++item) {
    if (item / turns != sequence) {
      ++sequence;
      pieces = next;
      next = read_plan(a, sequence + 1);
    }
    if (pieces.count == 1) continue;  // its worker had all of it
    if (pieces.count == 2 && parties == 1) {
      const int together = min(kMergeTurns, min(end - item, turns - item % turns));
      merge_pairs<kSize>(a, pieces, sequence, item % turns * at_once + team, at_once, together,
                         element);
      item += together - 1;
      continue;
    }
    const int head = item % turns * at_once + team / parties;
    const int kv_head = head / a.group, row = head % a.group;
    const bool inside = head < heads;
    auto* target =
        reinterpret_cast<uint2*>(a.out + (static_cast<int64_t>(sequence) * heads + head) * kSize) +
        element;
    if (pieces.count == 0) {
      if (inside && party == 0) *target = make_uint2(0, 0);
      continue;
    }

    // ---- this party's pieces --------------------------------------------------------------------
    Merged merged;
    for (int i = party; inside && i < pieces.count; i += parties * kMergeUnroll) {
      float2 state[kMergeUnroll];
      float4 part[kMergeUnroll];
#pragma unroll
      for (int j = 0; j < kMergeUnroll; ++j) {
        const int at = i + j * parties;
        state[j] = make_float2(-INFINITY, 0);
        part[j] = make_float4(0, 0, 0, 0);
        if (at >= pieces.count) continue;
        const int64_t piece =
            piece_of(a, kv_head, pieces.first + at, at == 0 && pieces.within != 0) * a.group + row;
        state[j] = __ldcg(a.state + piece);
        part[j] = __ldcg(reinterpret_cast<const float4*>(a.partial + piece * kSize) + element);
      }
      merged.add(state, part);
    }

    if (parties > 1) join_parties<kTeam>(parties, party, shared, merged);
    if (inside && party == 0) merged.store(target);
  }
}

// How many teams share a head: as many as keep the items within kMergeCtasMax, and at least a warp.
template <int kSize>
int merge_parties(int sequences, int heads) {
  constexpr int kTeams = kMergeThreads / (kSize / 4);
  int parties = kTeams;
  while (parties > 128 / kSize && sequences * heads > kMergeCtasMax * (kTeams / parties)) {
    parties /= 2;
  }
  return parties;
}

template <int kSize>
Status launch_merge(const SplitArgs& a, CudaStream stream) {
  const int heads = a.kv_heads * a.group, parties = merge_parties<kSize>(a.sequences, heads);
  const int at_once = kMergeThreads / (kSize / 4) / parties;
  const int grid = std::min(kMergeCtasMax, a.sequences * ((heads + at_once - 1) / at_once));
  return launch("attention (merging)", stream,
                {dim3(static_cast<unsigned>(grid)), dim3(kMergeThreads)}, merge_kernel<kSize>, a,
                parties);
}

}  // namespace

Status merge_pieces(const SplitArgs& args, std::int64_t size, CudaStream stream) {
  return size == 64 ? launch_merge<64>(args, stream) : launch_merge<128>(args, stream);
}

}  // namespace causeway::kernels::attention::parts
