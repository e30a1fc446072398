// Adds up the pieces of sequences that several workers of the decode kernel share, in the order of
// slots: the result does not depend on timing.
#include <algorithm>

#include "kernels/attention/cuda_merge.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr int kMergeRounds = kMergeUnroll / 2;  // heads of two pieces at once

// Beyond so many sequences merge_many_kernel merges. It adds 3.3 µs to a layer of Llama-3.1-8B at
// 128 and 256 sequences, this file's kernel 4.4 and 4.2; but 6.9 beside 2.6 at 48, and at 64 a step
// is 2 % slower with it (README).
constexpr int kManyBeyond = 96;
// Beyond so many this file's kernel rehearses: 2.6 µs instead of 4.5 at 48. A step of 16 sequences
// is 3 % slower with it, of 24 and 32 0.4 and 0.2 %.
constexpr int kRehearsesBeyond = 32;

// With a warp more than works an SM has registers for two CTAs of the kernel for small batches (80
// a thread), and not for a third. Three lie where attention ends first, and leave no room there for
// the product behind: a step is 1.7 % slower at 8 and 16 sequences, and at 64, of the other kernel,
// 0.5 %. At 24 and 32 it is 0.6 % faster with room for three.
constexpr int kMergeLaunched = kMergeThreads + 32;
constexpr int merge_registers(bool shared, bool rehearses) {
  return shared && !rehearses ? 80 : 96;
}
bool fits_thrice(int sequences) { return sequences > 16 && sequences <= kRehearsesBeyond; }

// What a CTA merges. An item is a round: so many heads of a sequence as it has room for at once.
struct Items {
  int parties, party_bits;  // teams of threads that share the pieces of a head; log 2
  int at_once;              // heads
  int rounds;               // of a sequence
  int each, rest;           // items of a CTA; so many CTAs have one more
  Divider by_rounds;
  bool rehearses;
};

// Where a sequence's pieces lie.
struct Pieces {
  int count;
  int row;    // of the first slot, in `state` and `partial`
  int inner;  // the first piece lies so many rows further
};

__device__ __forceinline__ Pieces read_pieces(const MergeArgs& a, int sequence) {
  const int4 plan = *reinterpret_cast<const int4*>(a.plan + sequence);
  return {plan.y, 2 * plan.x * a.heads, plan.z != 0 ? a.group : 0};
}

// A thread's place in its CTA, and the rows of its elements.
struct Place {
  int team, party;
  const char* partial;
  char* out;
};

// A team's part of an item: a head's pieces, or with a step those of several heads of two pieces.
struct HeadRange {
  int first, end;
  int step;  // from one of kMergeRounds heads to the next; 0: there is one
};

// This party's pieces of a head; or (not kShared) those of several heads of two pieces, which are
// stored. All loads of a round together.
template <int kSize, bool kShared>
__device__ __forceinline__ void add_pieces(const MergeArgs& a, const Items& items,
                                           const Place& place, const Pieces& pieces,
                                           const HeadRange& heads, char* target, bool real,
                                           Merged& merged) {
  const int parties = kShared ? items.parties : 1;
  const bool pairs = !kShared && heads.step > 0;
  const int stored = real ? heads.end : 0;
  const int next = parties * 2 * a.heads;  // from a piece's row to this party's next
  const int step = pairs ? 0 : 2 * parties;
#pragma unroll 1
  for (int at = place.party; at < pieces.count; at += parties * kMergeUnroll) {
    float2 states[kMergeUnroll];
    float4 values[kMergeUnroll];
#pragma unroll
    for (int t = 0; t < kMergeRounds; ++t) {
      const int head = min(heads.first + t * (pairs ? heads.step : 0), a.heads - 1),
                piece = at + t * step;
      const int row = pieces.row + piece * 2 * a.heads + row_of(a, head);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int at_row = j == 1 ? row + next : piece == 0 ? row + pieces.inner : row;
        const bool wanted = piece + j * parties < pieces.count;
        values[2 * t + j] = read_value<kSize>(place.partial, at_row, wanted);
        states[2 * t + j] = read_state(a, at_row, wanted);
      }
    }
    float above[kMergeRounds], all = merged.above;
#pragma unroll
    for (int t = 0; t < kMergeRounds; ++t) {
      above[t] = fmaxf(states[2 * t].x, states[2 * t + 1].x);
      all = fmaxf(all, above[t]);
    }
    merged.rescale(all);  // of pairs: nothing
#pragma unroll
    for (int t = 0; t < kMergeRounds; ++t) {
      if (pairs) merged.above = above[t];
      merged.add(states[2 * t], values[2 * t]);
      merged.add(states[2 * t + 1], values[2 * t + 1]);
      if (!pairs) continue;
      if (heads.first + t * heads.step < stored) {
        merged.store(target + t * heads.step * (kSize * 2));
      }
      merged.sum = 0;
      merged.value = make_float4(0, 0, 0, 0);
    }
  }
}

// What the threads of a CTA share.
struct MergeShared {
  float4 values[kMergeThreads];
  float2 states[kMergeThreads];
};

// All threads of the CTA: party 0's `merged` gets what the other parties have.
template <int kTeam>
__device__ __forceinline__ void join_parties(int parties, int party, MergeShared& shared,
                                             Merged& merged) {
  constexpr int kTeams = kMergeThreads / kTeam, kAtOnce = 4;
  const int thread = static_cast<int>(threadIdx.x);
  shared.values[thread] = merged.value;
  shared.states[thread] = make_float2(merged.above, merged.sum);
  __syncthreads();
  if (party == 0) {
    float above = merged.above;
#pragma unroll
    for (int other = 1; other < kTeams; ++other) {
      if (other < parties) above = fmaxf(above, shared.states[thread + other * kTeam].x);
    }
    merged = {.above = above};
#pragma unroll 1
    for (int first = 0; first < parties; first += kAtOnce) {
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int at = thread + (first + j) * kTeam;
        float2 state = make_float2(-INFINITY, 0);
        float4 value = make_float4(0, 0, 0, 0);
        if (first + j < parties) state = shared.states[at], value = shared.values[at];
        merged.add(state, value);
      }
    }
  }
  __syncthreads();
}

// A place in the items, and its sequence's pieces.
struct Cursor {
  int sequence, round;
  Pieces pieces;
};

__device__ __forceinline__ Cursor read_cursor(const MergeArgs& a, int sequence, int round) {
  return {sequence, round, read_pieces(a, sequence)};
}

// All threads of the CTA. `at`: of the first of `left` items, then behind the last. Not real:
// nothing is stored.
template <int kSize, bool kShared>
__device__ __forceinline__ void merge_items(const MergeArgs& a, const Items& items,
                                            const Place& place, int left, Cursor& at,
                                            MergeShared& shared, bool real) {
  int done;
#pragma unroll 1
  for (; left > 0; left -= done, at.round += done) {
    if (at.round == items.rounds) at = read_cursor(a, at.sequence + 1, 0);
    done = 1;
    const Pieces& pieces = at.pieces;
    if (pieces.count == 1) continue;  // its worker had all of it
    const int first = at.round * items.at_once;
    HeadRange heads = {.first = first + (kShared ? place.team >> items.party_bits : place.team),
                       .end = a.heads,
                       .step = 0};
    const bool pairs = !kShared && pieces.count == 2;
    if (pairs) {
      done = min(kMergeRounds, min(left, items.rounds - at.round));
      heads.end = min(a.heads, first + done * items.at_once);
      heads.step = items.at_once;
    }
    char* target = place.out + int64_t{at.sequence * a.heads + heads.first} * (kSize * 2);
    Merged merged;
    if (pieces.count == 0) {
      merged.sum = 1;
    } else {
      add_pieces<kSize, kShared>(a, items, place, pieces, heads, target, real, merged);
      if constexpr (kShared) {
        join_parties<kMergeTeam<kSize>>(items.parties, place.party, shared, merged);
      }
    }
    if (real && !pairs && heads.first < heads.end && place.party == 0) merged.store(target);
  }
}

// Merges pieces. CTAs have items next to each other, so that they look a sequence up once. Also
// zeroes rows without a sequence. Rehearsing: tables come early, and first all is done once without
// effect, while the kernel in front still writes what this reads: the instructions are in no cache.
// Which pieces there are the plan says, which is complete.
//
// kShared: several teams have a head's pieces; else one, and several heads of two pieces at once.
template <int kSize, bool kShared, bool kRehearses>
__global__ void __maxnreg__(merge_registers(kShared, kRehearses))
    merge_kernel(const MergeArgs a, const Items items) {
  __shared__ MergeShared shared;
  if (threadIdx.x >= kMergeThreads) return;
  if (a.early) {
    let_successor_start();
  } else {
    wait_for_predecessor();
  }
  const unsigned team = threadIdx.x / kMergeTeam<kSize>;
  const unsigned element = element_of_team<kSize>(threadIdx.x);
  Place place = {.team = static_cast<int>(team),
                 .party = kShared ? static_cast<int>(team) & (items.parties - 1) : 0,
                 .partial = reinterpret_cast<const char*>(a.partial) + element * 16,
                 .out = reinterpret_cast<char*>(a.out) + element * 8};
  asm("" : "+l"(place.partial));  // kept: else each load adds the element to the row anew
  const int cta = static_cast<int>(blockIdx.x);
  const int begin = cta * items.each + min(cta, items.rest);
  const int count = items.each + (cta < items.rest ? 1 : 0);
  const int sequence = items.by_rounds.of(begin), round = begin - sequence * items.rounds;
  Cursor at = read_cursor(a, sequence, round);
#pragma unroll 1
  for (int pass = kRehearses && items.rehearses ? 0 : 1; pass < 2; ++pass) {
    const bool real = pass == 1;
    if (real && a.early) wait_for_predecessor();
    if (real && kRehearses) {
      if (at.sequence != sequence) at = read_cursor(a, sequence, round);
      at.round = round;
    }
    merge_items<kSize, kShared>(a, items, place, count, at, shared, real);
  }
}

// How many teams share a head, log 2: as many as keep the items within kMergeCtasMax, and at least
// a warp.
template <int kSize>
int merge_party_bits(int sequences, int heads) {
  constexpr int kTeams = kMergeThreads / kMergeTeam<kSize>;
  constexpr int kAtLeast = kSize < 128 ? 128 / kSize : 1;
  int bits = kTeams == 4 ? 2 : kTeams == 8 ? 3 : 4;
  static_assert(kTeams == 4 || kTeams == 8 || kTeams == 16);
  while (1 << bits > kAtLeast && sequences * heads > kMergeCtasMax * (kTeams >> bits)) --bits;
  return bits;
}

// What few sequences of few heads run has neither of what others need. At 64 a head always has
// several teams; at 256, which is rare, one instance serves.
template <int kSize>
auto choose_merge(const Items& items) {
  if constexpr (kSize == 64 || kSize == 256) {
    return merge_kernel<kSize, true, true>;
  } else {
    if (items.parties == 1) return merge_kernel<kSize, false, true>;
    return items.rehearses ? merge_kernel<kSize, true, true> : merge_kernel<kSize, true, false>;
  }
}

template <int kSize>
Status launch_merge(const SplitArgs& split, CudaStream stream) {
  const MergeArgs a = merge_args(split);
  const int bits = merge_party_bits<kSize>(a.sequences, a.heads);
  const int at_once = kMergeThreads / kMergeTeam<kSize> >> bits;
  const int rounds = (a.heads + at_once - 1) / at_once, count = a.sequences * rounds;
  const int grid = std::min(kMergeCtasMax, count);
  if (grid == 0) return {};
  const int threads = fits_thrice(a.sequences) ? kMergeThreads : kMergeLaunched;
  const Items items = {.parties = 1 << bits,
                       .party_bits = bits,
                       .at_once = at_once,
                       .rounds = rounds,
                       .each = count / grid,
                       .rest = count % grid,
                       .by_rounds = divider(rounds),
                       .rehearses = a.early && a.sequences > kRehearsesBeyond};
  return launch("attention (merging)", stream,
                {dim3(static_cast<unsigned>(grid)), dim3(static_cast<unsigned>(threads))},
                choose_merge<kSize>(items), a, items);
}

}  // namespace

Status merge_pieces(const SplitArgs& args, std::int64_t size, CudaStream stream) {
  if (args.sequences > kManyBeyond) return merge_many(args, size, stream);
  if (size == 256) return launch_merge<256>(args, stream);
  if (size == 96) return launch_merge<96>(args, stream);
  return size == 64 ? launch_merge<64>(args, stream) : launch_merge<128>(args, stream);
}

}  // namespace causeway::kernels::attention::parts
