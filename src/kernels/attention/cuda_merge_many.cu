// Merging where there are many sequences (cuda_merge.cu: from how many on): by a list of the shared
// ones instead of all, so that all teams have as much to do, and all that the loads need is found
// before the kernel in front has ended.
#include <algorithm>

#include "kernels/attention/cuda_merge.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr int kManyItems = 2;  // of a team
constexpr int kFewPieces = 6;  // up to which a team adds up its items at once, two pieces at a time
static_assert(kManyItems == 2);

// A query head of a shared sequence.
struct Item {
  int count = 0;  // pieces; 0: nothing to add up
  int row = 0;    // of `state` and `partial`; pieces follow each other a slot's rows apart
  int inner = 0;  // but the first lies so many rows further
  uint2* target = nullptr;
};

template <int kSize>
__device__ Item find_item(const SplitArgs& a, const SequencePlan* shared, int count, int number,
                          int element) {
  const int heads = a.kv_heads * a.group, entry = number / heads, head = number - entry * heads;
  if (entry >= count) return {};
  const int4 plan = *reinterpret_cast<const int4*>(shared + entry);
  if (plan.y < 2) return {};  // its worker had all of it
  // As piece_of() says: a KV head's rows are those of its group's first pieces, then of the others.
  const int kv_head = head / a.group;
  return {.count = plan.y,
          .row = 2 * plan.x * heads + kv_head * a.group + head,
          .inner = plan.z != 0 ? a.group : 0,
          .target =
              reinterpret_cast<uint2*>(a.out + (int64_t{plan.w} * heads + head) * kSize) + element};
}

// All lanes: the pieces of so many items, kPieces of each at a time, all loads together: where one
// has fewer, its last is read again and counts nothing.
template <int kSize, int kItems, int kPieces>
__device__ __forceinline__ void add_items(const SplitArgs& a, const Item* items, int most,
                                          int element, Merged* merged) {
  const int step = 2 * a.kv_heads * a.group;
#pragma unroll 1
  for (int at = 0; at < most; at += kPieces) {
    float2 state[kItems][kPieces];
    float4 part[kItems][kPieces];
#pragma unroll
    for (int t = 0; t < kItems; ++t) {
#pragma unroll
      for (int j = 0; j < kPieces; ++j) {
        const int piece = max(min(at + j, items[t].count - 1), 0);
        const int row = items[t].row + piece * step + (piece == 0 ? items[t].inner : 0);
        state[t][j] = __ldcg(a.state + row);
        part[t][j] =
            __ldcg(reinterpret_cast<const float4*>(a.partial + int64_t{row} * kSize) + element);
        if (at + j >= items[t].count) state[t][j].x = -INFINITY;
      }
    }
#pragma unroll
    for (int t = 0; t < kItems; ++t) merged[t].add(state[t], part[t]);
  }
}

// A team of kSize / 4 threads merges up to kManyItems query heads of the `count` entries of
// `shared`. Also zeroes rows without a sequence.
template <int kSize>
__global__ void __launch_bounds__(kMergeThreads)
    merge_many_kernel(const SplitArgs a, const SequencePlan* shared, int count) {
  constexpr int kTeam = kSize / 4, kTeams = kMergeThreads / kTeam;
  if (a.tables_early) {
    let_successor_start();
  } else {
    wait_for_predecessor();
  }
  const int element = static_cast<int>(threadIdx.x) % kTeam;
  const int team = static_cast<int>(blockIdx.x) * kTeams + static_cast<int>(threadIdx.x) / kTeam;
  const int teams = static_cast<int>(gridDim.x) * kTeams;
  Item items[kManyItems];
#pragma unroll
  for (int t = 0; t < kManyItems; ++t) {
    items[t] = find_item<kSize>(a, shared, count, team + t * teams, element);
  }
  const int most = __reduce_max_sync(0xFFFFFFFFu, max(items[0].count, items[1].count));
  const bool empty = team < a.sequences && a.sequence_plan[team].count == 0;
  if (a.tables_early) wait_for_predecessor();
  Merged merged[kManyItems];
  if (most <= kFewPieces) {
    add_items<kSize, kManyItems, 2>(a, items, most, element, merged);
  } else {
#pragma unroll
    for (int t = 0; t < kManyItems; ++t) {
      add_items<kSize, 1, kMergeUnroll>(a, items + t, most, element, merged + t);
    }
  }
#pragma unroll
  for (int t = 0; t < kManyItems; ++t) {
    if (items[t].count > 0) merged[t].store(items[t].target);
  }
  if (!empty) return;
  const int heads = a.kv_heads * a.group;
  auto* row = reinterpret_cast<uint2*>(a.out + int64_t{team} * heads * kSize) + element;
#pragma unroll 1
  for (int head = 0; head < heads; ++head) row[head * kTeam] = make_uint2(0, 0);
}

template <int kSize>
Status launch_many(const SplitArgs& a, CudaStream stream) {
  constexpr int kTeams = kMergeThreads / (kSize / 4);
  // Of fewer sequences than slots the plan of all is the shorter list.
  const bool by_sequence = a.sequences < a.slots;
  const int count = by_sequence ? a.sequences : a.slots - 1;
  const int of_one = (count * a.kv_heads * a.group + kTeams - 1) / kTeams;  // CTAs, an item a team
  const int ctas = std::max(std::min(of_one, kMergeCtasMax), (of_one + 1) / kManyItems);
  const int grid = std::max(ctas, (a.sequences + kTeams - 1) / kTeams);
  return launch("attention (merging)", stream,
                {dim3(static_cast<unsigned>(grid)), dim3(kMergeThreads)}, merge_many_kernel<kSize>,
                a, by_sequence ? a.sequence_plan : a.crossing, count);
}

}  // namespace

Status merge_many(const SplitArgs& args, std::int64_t size, CudaStream stream) {
  return size == 64 ? launch_many<64>(args, stream) : launch_many<128>(args, stream);
}

}  // namespace causeway::kernels::attention::parts
