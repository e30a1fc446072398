// The experts of each token, in the kernel for small batches: as kernels in front left it, or norm,
// router and choice in this one.
#pragma once

#include "kernels/moe/cuda_small_batch_place.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/memory.cuh"

namespace causeway::kernels::moe {

// As the kernels in front left it. What a thread reads of rows does not wait for what it read
// before.
CAUSEWAY_DEVICE void take_groups(const SmallBatchArgs& args, const SmallBatchPlace& place,
                                 int thread) {
  constexpr int kAhead = 4;
  const int items = *args.groups.chunks, pairs = args.tokens * args.k;
#pragma unroll 1
  for (int i = thread; i < items; i += kWorkers) {
    const int4 chunk = args.groups.chunk[i];
    SmallBatchItem& item = place.of<SmallBatchItem>(place.at.items)[i];
#pragma unroll
    for (int w = 0; w < 3; ++w) {
      item.weight[w] = static_cast<const char*>(args.tables[w][chunk.x]);
    }
    item.first = chunk.y;
    item.rows = chunk.z;
  }
#pragma unroll 1
  for (int begin = thread; begin < pairs; begin += kAhead * kWorkers) {
    int pair[kAhead];
    float weight[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      pair[i] = args.groups.row_pair[min(begin + i * kWorkers, pairs - 1)];
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) weight[i] = args.groups.weight[pair[i]];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int row = begin + i * kWorkers;
      if (row >= pairs) break;
      place.of<SmallBatchRow>(place.at.rows)[row] = {static_cast<uint16_t>(args.by_k.of(pair[i])),
                                                     static_cast<uint16_t>(pair[i])};
      place.of<float>(place.at.row_weight)[row] = weight[i];
    }
  }
  if (thread == 0) place.items() = items;
}

// All tokens' choices, by every CTA for itself.
struct SmallBatchFront {
  const SmallBatchArgs& args;
  const SmallBatchPlace& place;
  int warp, lane;
  uint32_t tag;  // of this launch

  CAUSEWAY_DEVICE int thread() const { return warp * 32 + lane; }

  // All CTAs' scores, as they come: a word says itself whether it is of this launch.
  CAUSEWAY_DEVICE void collect() const {
    constexpr int kEach = 8;
    const int words = args.tokens * keys_pitch(args.experts);
    auto* keys = place.of<uint32_t>(place.at.keys);
#pragma unroll 1
    for (int begin = thread(); begin < words; begin += kEach * kWorkers) {
      unsigned long long word[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        word[i] = tagged(begin + i * kWorkers < words ? tag - 1 : tag, 0);
      }
      const ptx::WaitBound<> bound;
      for (bool missing = true; missing; bound.check()) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          if (tag_of(word[i]) == tag) continue;
          word[i] = ptx::load_relaxed_long(args.sync->scores + begin + i * kWorkers);
        }
        missing = false;
#pragma unroll
        for (int i = 0; i < kEach; ++i) missing |= tag_of(word[i]) != tag;
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (begin + i * kWorkers >= words) break;
        keys[begin + i * kWorkers] = order_key(__uint_as_float(static_cast<uint32_t>(word[i])));
      }
    }
  }

  // An expert is the token's n-th choice when n others are better: all experts at once are sooner
  // counted than one choice after the other is found. Of 16 keys the next ones are asked for as
  // soon as they are counted; behind the last ones there is something too.
  CAUSEWAY_DEVICE int rank_of(const uint32_t* keys, int expert) const {
    const auto* fours = reinterpret_cast<const uint4*>(keys);
    const uint32_t key = keys[expert];
    const int own = expert / 4;
    uint4 four[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = fours[i];
    const uint4 equals = fours[own];  // the lower index goes first among them
    int better = 0;
#pragma unroll 1
    for (int n = 0; n < args.experts; n += 16) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        better = better_of(four[i], n / 4 + i < own ? key - 1 : key, better);
        four[i] = fours[n / 4 + 4 + i];
      }
    }
    better += expert % 4 > 0 && equals.x == key ? 1 : 0;
    better += expert % 4 > 1 && equals.y == key ? 1 : 0;
    better += expert % 4 > 2 && equals.z == key ? 1 : 0;
    return better;
  }

  CAUSEWAY_DEVICE void say_items(int items) const {
    place.items() = items;
    if (blockIdx.x == 0 && args.experts_read != nullptr) {
      *args.experts_read += static_cast<unsigned long long>(items);
    }
  }
  CAUSEWAY_DEVICE void make_item(int index, int expert, int first, int rows) const {
    SmallBatchItem& made = place.of<SmallBatchItem>(place.at.items)[index];
    for (int w = 0; w < 3; ++w) {
      made.weight[w] = place.of<const char*>(place.at.tables)[w * args.experts + expert];
    }
    made.first = first;
    made.rows = rows;
  }

  // Chooses, and sorts the pairs by expert, a counting sort; a thread has neighbouring experts.
  CAUSEWAY_DEVICE void group() const {
    const int each = (args.experts + kWorkers - 1) / (kWorkers);
    const int first = thread() * each, end = min(first + each, args.experts);
    auto* choices = place.of<uint64_t>(place.at.choices);
    int count = 0;  // items << 16 | rows
#pragma unroll 1
    for (int expert = first; expert < end; ++expert) {
      const int rows = choose_expert(expert, choices[expert]);
      count += rows > 0 ? rows | 1 << 16 : 0;
    }
    int before = count;
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int more = __shfl_up_sync(0xFFFFFFFFu, before, lanes);
      if (lane >= lanes) before += more;
    }
    int* of_warp = place.of<int>(place.at.words) + 1;
    if (lane == 31) of_warp[warp] = before;
    workers_sync();
#pragma unroll
    for (int w = 0; w < kWorkerWarps - 1; ++w) before += w < warp ? of_warp[w] : 0;
    if (thread() == kWorkers - 1) say_items(before >> 16);
    before -= count;
    int item = before >> 16, row = before & 0xFFFF;
#pragma unroll 1
    for (int expert = first; expert < end; ++expert) {
      const int begin = row;
      uint64_t left = choices[expert];
#pragma unroll 1
      for (int token = 0; token < args.tokens; ++token, left >>= 8) {
        const int choice = static_cast<int>(left & 0xFF);
        if (choice >= args.k) continue;
        place.of<SmallBatchRow>(place.at.rows)[row] = {
            static_cast<uint16_t>(token), static_cast<uint16_t>(token * args.k + choice)};
        ++row;
      }
      if (row == begin) continue;
      make_item(item++, expert, begin, row - begin);
      if (blockIdx.x == 0 && args.chosen != nullptr) {
        args.chosen[expert] += static_cast<uint32_t>(row - begin);
      }
    }
  }

  // All tokens' choices of an expert, and how many they are.
  CAUSEWAY_DEVICE int choose_expert(int expert, uint64_t& choices) const {
    static_assert(kFrontTokens == sizeof(choices) && kChosenMax < 256);
    const uint32_t* keys = place.of<uint32_t>(place.at.keys);
    uint64_t all = 0;
    int rows = 0;
#pragma unroll 1
    for (int token = 0; token < args.tokens; ++token, keys += keys_pitch(args.experts)) {
      const int choice = min(rank_of(keys, expert), kChosenMax);
      all |= uint64_t{static_cast<uint32_t>(choice)} << (8 * token);
      if (choice >= args.k) continue;
      place.of<uint32_t>(place.at.pair_key)[token * args.k + choice] = keys[expert];
      ++rows;
    }
    choices = all;
    return rows;
  }

  // Computes the pairs' weights, once the grouping is there. Down is the first to need them.
  CAUSEWAY_DEVICE void weigh() const {
#pragma unroll 1
    for (int r = thread(); r < args.tokens * args.k; r += kWorkers) {
      const SmallBatchRow& row = place.of<SmallBatchRow>(place.at.rows)[r];
      const ChosenKeys keys = {
          place.of<uint32_t>(place.at.pair_key) + row.token * args.k,
          place.of<uint32_t>(place.at.keys) + row.token * keys_pitch(args.experts)};
      place.of<float>(place.at.row_weight)[r] =
          weight_of(args, keys, row.pair - row.token * args.k);
    }
  }

  // One of the feeding warps: where the experts lie.
  static CAUSEWAY_DEVICE void take_table(const SmallBatchArgs& args, const SmallBatchPlace& place,
                                         int which, int lane) {
    const void** table = place.of<const void*>(place.at.tables) + which * args.experts;
    const uint32_t target = ptx::shared_address(table);
#pragma unroll 1
    for (int e = lane; e < args.experts; e += 32) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(target + e * 8),
                   "l"(args.tables[which] + e)
                   : "memory");
    }
    ptx::commit_copies();
    ptx::wait_copies<0>();
  }

  CAUSEWAY_DEVICE void choose() const {
    collect();
    workers_sync();
    group();
  }
};

// Norm and scores of all tokens: a warp has one, or all warps the only one. Every lane copies what
// it will read, of all its tokens at once.
CAUSEWAY_DEVICE void score_all(const SmallBatchArgs& args, RouterScore score, uint32_t tag) {
  RouterScore::Token token = args.tokens == 1 ? score.of_all(0) : score.of_warp(score.warp);
#pragma unroll 1
  for (RouterScore::Token t = token; t.number < args.tokens; t.number += kWorkerWarps) {
    const uint32_t target = ptx::shared_address(score.x_of(t));
#pragma unroll 1
    for (int v = t.self; v < args.hidden / 8; v += t.team) {
      ptx::copy_async(target + v * 16, score.residual_of(t) + v, true);
    }
  }
  ptx::commit_copies();
  ptx::wait_copies<0>();
#pragma unroll 1
  for (; token.number < args.tokens; token.number += kWorkerWarps) {
    score.run(token, score.x_of(token), tag);
  }
}

}  // namespace causeway::kernels::moe
