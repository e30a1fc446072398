// Adds up the pieces of sequences that several workers of the decode kernel share, in the order of
// slots: the result does not depend on timing.
#include <algorithm>

#include "kernels/attention/cuda_merge.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr int kMergeTurns = 4;  // heads of two pieces at once

// Beyond so many sequences merge_many_kernel merges. It adds 3.3 µs to a layer of Llama-3.1-8B at
// 128 and 256 sequences, this file's kernel 4.4 and 4.2; but 6.9 beside 2.6 at 48, and at 64 a step
// is 2 % slower with it (docs/measurements/model-h200.md).
constexpr int kManyBeyond = 96;
// Beyond so many this file's kernel rehearses: 2.6 µs instead of 4.5 at 48. A step of 16 sequences
// is 3 % slower with it, of 24 and 32 0.4 and 0.2 %.
constexpr int kRehearsesBeyond = 32;

// With many sequences most have two pieces: kMergeTurns heads of one at a time, all loads together.
template <int kSize>
__device__ void merge_pairs(const SplitArgs& a, const SequencePlan& pieces, int sequence, int head,
                            int step, int turns, int element, bool real) {
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
    if (!real) continue;
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

// This party's pieces of a query head.
template <int kSize>
__device__ __forceinline__ void add_pieces(const SplitArgs& a, const SequencePlan& pieces, int head,
                                           int parties, int party, int element, Merged& merged) {
  const int kv_head = head / a.group, row = head % a.group;
  for (int i = party; i < pieces.count; i += parties * kMergeUnroll) {
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
}

// What a CTA merges. An item is a turn: so many heads of a sequence as it has room for at once.
struct Items {
  int parties;  // teams of kSize / 4 threads that share the pieces of a head
  int at_once;  // heads
  int turns;    // of a sequence
  int begin, end;
};

template <int kSize>
__device__ Items items_of(const SplitArgs& a, int parties) {
  constexpr int kTeams = kMergeThreads / (kSize / 4);
  const int at_once = kTeams / parties, turns = (a.kv_heads * a.group + at_once - 1) / at_once;
  const int64_t items = int64_t{a.sequences} * turns;
  return {.parties = parties,
          .at_once = at_once,
          .turns = turns,
          .begin = static_cast<int>(blockIdx.x * items / gridDim.x),
          .end = static_cast<int>((blockIdx.x + int64_t{1}) * items / gridDim.x)};
}

// The sequence of an item, its pieces, and those of the one behind.
struct Cursor {
  int sequence;
  SequencePlan pieces, next;
};

__device__ Cursor read_cursor(const SplitArgs& a, int sequence) {
  return {sequence, read_plan(a, sequence), read_plan(a, sequence + 1)};
}

// All threads of the CTA. `at`: of the first item, then of the last. Not real: nothing is stored.
template <int kSize>
__device__ __forceinline__ void merge_items(const SplitArgs& a, const Items& items, Cursor& at,
                                            MergeShared& shared, bool real) {
  constexpr int kTeam = kSize / 4;
  const int thread = static_cast<int>(threadIdx.x), heads = a.kv_heads * a.group;
  const int parties = items.parties, team = thread / kTeam, element = thread % kTeam;
  const int party = team % parties;
  for (int item = items.begin; item < items.end; ++item) {
    if (item / items.turns != at.sequence) {
      ++at.sequence;
      at.pieces = at.next;
      at.next = read_plan(a, at.sequence + 1);
    }
    const SequencePlan& pieces = at.pieces;
    if (pieces.count == 1) continue;  // its worker had all of it
    const int turn = item % items.turns;
    if (pieces.count == 2 && parties == 1) {
      const int together = min(kMergeTurns, min(items.end - item, items.turns - turn));
      merge_pairs<kSize>(a, pieces, at.sequence, turn * items.at_once + team, items.at_once,
                         together, element, real);
      item += together - 1;
      continue;
    }
    const int head = turn * items.at_once + team / parties;
    const bool inside = head < heads, stores = real && inside && party == 0;
    auto* target =
        reinterpret_cast<uint2*>(a.out + (int64_t{at.sequence} * heads + head) * kSize) + element;
    if (pieces.count == 0) {
      if (stores) *target = make_uint2(0, 0);
      continue;
    }
    Merged merged;
    if (inside) add_pieces<kSize>(a, pieces, head, parties, party, element, merged);
    if (parties > 1) join_parties<kTeam>(parties, party, shared, merged);
    if (stores) merged.store(target);
  }
}

// Merges pieces. CTAs have items next to each other, so that they look a sequence up once. Also
// zeroes rows without a sequence. kRehearses: tables come early, and first all is done once without
// effect, while the kernel in front still writes what this reads: the instructions are in no cache.
// Which pieces there are the plan says, which is complete.
template <int kSize, bool kRehearses>
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(const SplitArgs a, int parties) {
  __shared__ MergeShared shared;
  if (a.tables_early) {
    let_successor_start();
  } else {
    wait_for_predecessor();
  }
  const Items items = items_of<kSize>(a, parties);
  const int first = items.begin / items.turns;
  Cursor at = read_cursor(a, first);
#pragma unroll 1
  for (int pass = kRehearses ? 0 : 1; pass < 2; ++pass) {
    const bool real = pass == 1;
    if (real && a.tables_early) wait_for_predecessor();
    if (real && at.sequence != first) at = read_cursor(a, first);
    merge_items<kSize>(a, items, at, shared, real);
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
  const bool rehearses = a.tables_early && a.sequences > kRehearsesBeyond;
  return launch("attention (merging)", stream,
                {dim3(static_cast<unsigned>(grid)), dim3(kMergeThreads)},
                rehearses ? merge_kernel<kSize, true> : merge_kernel<kSize, false>, a, parties);
}

}  // namespace

Status merge_pieces(const SplitArgs& args, std::int64_t size, CudaStream stream) {
  if (args.sequences > kManyBeyond) return merge_many(args, size, stream);
  return size == 64 ? launch_merge<64>(args, stream) : launch_merge<128>(args, stream);
}

}  // namespace causeway::kernels::attention::parts
