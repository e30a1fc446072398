// One token's choice, every multiplying thread being one expert.
#pragma once

#include "kernels/moe/cuda_one_token_place.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/memory.cuh"

namespace causeway::kernels::moe {

// An expert is first ranked among the 32 of its warp, which needs no other warp, and then among the
// best k of each other warp: 32 + 3k comparisons instead of all experts'. Its rank is the place of
// its item, so a thread need not know which other experts were chosen. The order in which sums are
// added is found later.
struct OneTokenChoice {
  const OneTokenArgs& args;
  const OneTokenPlace& place;
  int warp, lane;
  const char* weight[3] = {};  // where this thread's expert lies

  CAUSEWAY_DEVICE int expert() const { return warp * 32 + lane; }

  // Before the wait for the kernel in front.
  CAUSEWAY_DEVICE void take_table() {
    if (expert() >= args.experts) return;
#pragma unroll
    for (int w = 0; w < 3; ++w) weight[w] = static_cast<const char*>(args.tables[w][expert()]);
  }

  // This expert's score, as it comes; 0 of a thread that is none.
  CAUSEWAY_DEVICE uint32_t wait_for_key(uint32_t tag) const {
    if (expert() >= args.experts) return 0;
    const ptx::WaitBound<> bound;
    unsigned long long word = ptx::load_relaxed_long(args.sync->scores + expert());
    while (tag_of(word) != tag) {
      bound.check();
      word = ptx::load_relaxed_long(args.sync->scores + expert());
    }
    return order_key(__uint_as_float(static_cast<uint32_t>(word)));
  }

  // The lower index goes first among equals.
  CAUSEWAY_DEVICE int rank_in_warp(uint32_t own) const {
    auto* keys = place.of<uint32_t>(place.at.keys);
    keys[expert()] = own;
    __syncwarp();
    int rank = __popc(__match_any_sync(0xFFFFFFFFu, own) & ((1u << lane) - 1));
#pragma unroll 4
    for (int i = 0; i < 32; i += 4) {
      rank = better_of(*reinterpret_cast<const uint4*>(keys + warp * 32 + i), own, rank);
    }
    return rank;
  }

  // How many of the other warps' best are better.
  CAUSEWAY_DEVICE int better_elsewhere(uint32_t own) const {
    const auto* sorted = place.of<uint32_t>(place.at.sorted);
    int better = 0;
#pragma unroll 1
    for (int begin = 0; begin < args.k; begin += 4) {
#pragma unroll
      for (int w = 0; w < kWorkerWarps; ++w) {
        const uint4 four = *reinterpret_cast<const uint4*>(sorted + w * 32 + begin);
        if (w != warp) better = better_of(four, w < warp ? own - 1 : own, better);
      }
    }
    return better;
  }

  CAUSEWAY_DEVICE void choose(uint32_t tag) const {
    const uint32_t own = wait_for_key(tag);
    int rank = rank_in_warp(own);
    place.of<uint32_t>(place.at.sorted)[warp * 32 + rank] = own;
    workers_sync();
    if (rank >= args.k) rank = kChosenMax;
    rank += better_elsewhere(own);
    if (rank < args.k && expert() < args.experts) {
      OneTokenItem& item = place.of<OneTokenItem>(place.at.items)[rank];
#pragma unroll
      for (int w = 0; w < 3; ++w) item.weight[w] = weight[w];
      place.of<uint32_t>(place.at.chosen_keys)[rank] = own;
      place.of<int>(place.at.chosen_experts)[rank] = expert();
    }
    ptx::barrier_arrive(place.chosen());
  }
};

// The choices' weights, by rising expert: by a warp that has nothing else to do, a lane a choice.
CAUSEWAY_DEVICE void weigh_choices(const OneTokenArgs& args, const OneTokenPlace& place, int lane) {
  if (lane >= args.k) return;
  if (lane == 0 && blockIdx.x == 0 && args.experts_read != nullptr) {
    *args.experts_read += static_cast<unsigned long long>(args.k);
  }
  const int* const chosen = place.of<int>(place.at.chosen_experts);
  if (blockIdx.x == 0 && args.chosen != nullptr) args.chosen[chosen[lane]] += 1;
  int before = 0;
#pragma unroll 1
  for (int i = 0; i < args.k; ++i) before += chosen[i] < chosen[lane] ? 1 : 0;
  const ChosenKeys keys = {place.of<uint32_t>(place.at.chosen_keys),
                           place.of<uint32_t>(place.at.keys)};
  place.of<OneTokenAddend>(place.at.addends)[before] = {weight_of(args, keys, lane), lane};
}

}  // namespace causeway::kernels::moe
