// Merging where there are many sequences (cuda_merge.cu: from how many on): by a list of the shared
// ones instead of all, so that all teams have as much to do, and all that the loads need is found
// before the kernel in front has ended.
#include <algorithm>

#include "kernels/attention/cuda_merge.cuh"
#include "kernels/cuda_discard.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr int kManyItems = 2;  // of a team
// Pieces of each at once. Most have two; four would take registers of the products' CTAs.
constexpr int kPieces = 3;
static_assert(kManyItems == 2);

// A query head of a shared sequence.
struct Item {
  int count = 0;   // pieces; 0: nothing to add up
  int row = 0;     // of `state` and `partial`; pieces follow each other a slot's rows apart
  int inner = 0;   // but the first lies so many rows further
  int target = 0;  // a row of `out`
};

__device__ __forceinline__ Item find_item(const MergeArgs& a, const Divider& by_heads,
                                          const SequencePlan* shared, int count, int number) {
  const int entry = by_heads.of(number), head = number - entry * a.heads;
  if (entry >= count) return {};
  const int4 plan = *reinterpret_cast<const int4*>(shared + entry);
  if (plan.y < 2) return {};  // its worker had all of it
  return {.count = plan.y,
          .row = 2 * plan.x * a.heads + row_of(a, head),
          .inner = plan.z != 0 ? a.group : 0,
          .target = plan.w * a.heads + head};
}

// An item's pieces, which its team alone reads, are discarded: `base` is that of `partial`, in
// lines.
template <int kSize>
__device__ __forceinline__ void drop_pieces(const char* base, const Item& item, int step,
                                            unsigned thread) {
  constexpr unsigned kLines = kSize * 4 / kDiscardLineBytes, kTeam = kMergeTeam<kSize>;
  const auto lines = static_cast<unsigned>(item.count) * kLines;
#pragma unroll 1
  for (unsigned i = thread; i < lines; i += kTeam) {
    const int piece = static_cast<int>(i / kLines);
    const int row = item.row + piece * step + (piece == 0 ? item.inner : 0);
    discard_line(base + (static_cast<unsigned>(row) * kLines + i % kLines) * kDiscardLineBytes);
  }
}

// A team of threads merges up to kManyItems query heads of the `count` entries of
// `shared`, kPieces of each at a time. Also zeroes rows without a sequence.
template <int kSize>
__global__ void __launch_bounds__(kMergeThreads)
    merge_many_kernel(const MergeArgs a, const Divider by_heads, const SequencePlan* shared,
                      int count) {
  constexpr int kTeam = kMergeTeam<kSize>, kTeams = kMergeThreads / kTeam;
  if (a.early) {
    let_successor_start();
  } else {
    wait_for_predecessor();
  }
  const unsigned element = element_of_team<kSize>(threadIdx.x);
  const int team = static_cast<int>(blockIdx.x * kTeams + threadIdx.x / kTeam);
  const int teams = static_cast<int>(gridDim.x) * kTeams;
  Item items[kManyItems];
#pragma unroll
  for (int t = 0; t < kManyItems; ++t) {
    items[t] = find_item(a, by_heads, shared, count, team + t * teams);
  }
  const bool empty = team < a.sequences && a.plan[team].count == 0;
  const char* partial = reinterpret_cast<const char*>(a.partial) + element * 16;
  asm("" : "+l"(partial));  // kept: else each load adds the element to the row anew
  char* out = reinterpret_cast<char*>(a.out) + element * 8;
  if (a.early) wait_for_predecessor();
  Merged merged[kManyItems];
  const int most = max(items[0].count, items[1].count), step = 2 * a.heads;
#pragma unroll 1
  for (int at = 0; at < most; at += kPieces) {
    float2 states[kManyItems][kPieces];
    float4 values[kManyItems][kPieces];
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      const int piece = at + j;
      int rows[kManyItems];
#pragma unroll
      for (int t = 0; t < kManyItems; ++t) {
        rows[t] = items[t].row + piece * step + (piece == 0 ? items[t].inner : 0);
        values[t][j] = read_value<kSize>(partial, rows[t], piece < items[t].count);
      }
#pragma unroll
      for (int t = 0; t < kManyItems; ++t) {
        states[t][j] = read_state(a, rows[t], piece < items[t].count);
      }
    }
#pragma unroll
    for (int t = 0; t < kManyItems; ++t) {
      float above = merged[t].above;
#pragma unroll
      for (int j = 0; j < kPieces; ++j) above = fmaxf(above, states[t][j].x);
      merged[t].rescale(above);
#pragma unroll
      for (int j = 0; j < kPieces; ++j) merged[t].add(states[t][j], values[t][j]);
    }
  }
#pragma unroll
  for (int t = 0; t < kManyItems; ++t) {
    if (items[t].count > 0) merged[t].store(out + int64_t{items[t].target} * (kSize * 2));
  }
  // All of the team have read.
  if constexpr (kTeam > 32) {
    __syncthreads();
  } else {
    __syncwarp();
  }
#pragma unroll
  for (int t = 0; t < kManyItems; ++t) {
    drop_pieces<kSize>(reinterpret_cast<const char*>(a.partial), items[t], step,
                       threadIdx.x % kTeam);
  }
  if (!empty) return;
  out += int64_t{team} * a.heads * (kSize * 2);
#pragma unroll 1
  for (int head = 0; head < a.heads; ++head, out += kSize * 2) {
    *reinterpret_cast<uint2*>(out) = make_uint2(0, 0);
  }
}

template <int kSize>
Status launch_many(const SplitArgs& split, CudaStream stream) {
  constexpr int kTeams = kMergeThreads / kMergeTeam<kSize>;
  const MergeArgs a = merge_args(split);
  // With fewer sequences than slots the plan of all sequences is the shorter list.
  const bool by_sequence = a.sequences < split.slots;
  const int count = by_sequence ? a.sequences : split.slots - 1;
  const int of_one = (count * a.heads + kTeams - 1) / kTeams;  // CTAs, an item a team
  const int ctas = std::max(std::min(of_one, kMergeCtasMax), (of_one + 1) / kManyItems);
  const int grid = std::max(ctas, (a.sequences + kTeams - 1) / kTeams);
  return launch("attention (merging)", stream,
                {dim3(static_cast<unsigned>(grid)), dim3(kMergeThreads)}, merge_many_kernel<kSize>,
                a, divider(a.heads), by_sequence ? a.plan : split.crossing, count);
}

}  // namespace

Status merge_many(const SplitArgs& args, std::int64_t size, CudaStream stream) {
  if (size == 256) return launch_many<256>(args, stream);
  if (size == 96) return launch_many<96>(args, stream);
  return size == 64 ? launch_many<64>(args, stream) : launch_many<128>(args, stream);
}

}  // namespace causeway::kernels::attention::parts
