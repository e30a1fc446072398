// Who chose what, in the kernel for few tokens: as kernels in front left it, or norm, router and
// choice in this one.
#pragma once

#include "kernels/cuda_mma.cuh"
#include "kernels/moe/cuda_few_place.cuh"

namespace causeway::kernels::moe {

// As the kernels in front left it.
CAUSEWAY_DEVICE void take_groups(const FewArgs& args, const FewPlace& place, int thread) {
  const int items = *args.groups.chunks, pairs = args.tokens * args.k;
  for (int i = thread; i < items; i += kWorkers) {
    const int4 chunk = args.groups.chunk[i];
    FewItem& item = place.of<FewItem>(place.at.items)[i];
    for (int w = 0; w < 3; ++w) {
      item.weight[w] = static_cast<const char*>(args.tables[w][chunk.x]);
    }
    item.first = chunk.y;
    item.rows = chunk.z;
  }
  for (int r = thread; r < pairs; r += kWorkers) {
    const int pair = args.groups.row_pair[r];
    place.of<FewRow>(place.at.rows)[r] = {static_cast<uint16_t>(pair / args.k),
                                          static_cast<uint16_t>(pair)};
    place.of<float>(place.at.row_weight)[r] = args.groups.weight[pair];
  }
  if (thread == 0) place.items() = items;
}

// All tokens' choices, by every CTA for itself.
struct FewFront {
  const FewArgs& args;
  const FewPlace& place;
  int warp, lane;
  uint32_t tag;  // of this launch

  CAUSEWAY_DEVICE int thread() const { return warp * 32 + lane; }

  // All CTAs' scores, as they come: a word says itself whether it is of this launch.
  CAUSEWAY_DEVICE void collect() const {
    constexpr int kEach = 8;
    const int words = args.tokens * args.experts;
    auto* keys = place.of<uint32_t>(place.at.keys);
    const int pitch = keys_pitch(args.experts);
    for (int begin = thread(); begin < words; begin += kEach * kWorkers) {
      uint32_t missing = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (begin + i * kWorkers < words) missing |= 1u << i;
      }
      hybrid_gemm::ptx::SpinGuard guard;
      while (missing != 0) {
        unsigned long long word[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          if ((missing >> i & 1) != 0) {
            word[i] = relaxed_load(args.sync->scores + begin + i * kWorkers);
          }
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          if ((missing >> i & 1) == 0 || tag_of(word[i]) != tag) continue;
          const int at = begin + i * kWorkers;
          keys[at / args.experts * pitch + at % args.experts] =
              order_key(__uint_as_float(static_cast<uint32_t>(word[i])));
          missing &= ~(1u << i);
        }
        guard.spin();
      }
    }
  }

  // An expert is the token's n-th choice when n others are better: all experts at once are sooner
  // counted than one choice after the other is found.
  CAUSEWAY_DEVICE int rank_of(const uint32_t* keys, int expert) const {
    const uint32_t key = keys[expert];
    const int own = expert & ~3;
    int better = 0;
#pragma unroll 8
    for (int e = 0; e < args.experts; e += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(keys + e);
      const uint32_t than = e < own ? key - 1 : key;  // the lower index among equals
      better = better_of(four, than, better);
    }
    for (int e = own; e < expert; ++e) better += keys[e] == key ? 1 : 0;
    return better;
  }

  CAUSEWAY_DEVICE void clear_padding() const {
    const int pitch = keys_pitch(args.experts), padding = pitch - args.experts;
    for (int i = thread(); i < args.tokens * padding; i += kWorkers) {
      place.of<uint32_t>(place.at.keys)[i / padding * pitch + args.experts + i % padding] = 0;
    }
  }

  CAUSEWAY_DEVICE void say_items(int items) const {
    place.items() = items;
    if (blockIdx.x == 0 && args.experts_read != nullptr) {
      *args.experts_read += static_cast<unsigned long long>(items);
    }
  }
  CAUSEWAY_DEVICE void make_item(int index, int expert, int first, int rows) const {
    FewItem& made = place.of<FewItem>(place.at.items)[index];
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
    auto* choices = place.of<uint8_t>(place.at.choices);
    int count = 0;  // items << 16 | rows
    for (int expert = first; expert < end; ++expert) {
      int rows = 0;
      for (int token = 0; token < args.tokens; ++token) {
        const uint32_t* keys = place.of<uint32_t>(place.at.keys) + token * keys_pitch(args.experts);
        const int choice = min(rank_of(keys, expert), kChosenMax);
        choices[token * args.experts + expert] = static_cast<uint8_t>(choice);
        if (choice >= args.k) continue;
        place.of<uint32_t>(place.at.pair_key)[token * args.k + choice] = keys[expert];
        ++rows;
      }
      count += rows > 0 ? rows | 1 << 16 : 0;
    }
    int before = count;
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int more = __shfl_up_sync(0xFFFFFFFFu, before, lanes);
      if (lane >= lanes) before += more;
    }
    int* of_warp = place.of<int>(place.at.words) + 1;
    if (lane == 31) of_warp[warp] = before;
    workers_sync();
    for (int w = 0; w < warp; ++w) before += of_warp[w];
    if (thread() == kWorkers - 1) say_items(before >> 16);
    before -= count;
    int item = before >> 16, row = before & 0xFFFF;
    for (int expert = first; expert < end; ++expert) {
      const int begin = row;
      for (int token = 0; token < args.tokens; ++token) {
        const int choice = choices[token * args.experts + expert];
        if (choice >= args.k) continue;
        place.of<FewRow>(place.at.rows)[row] = {static_cast<uint16_t>(token),
                                                static_cast<uint16_t>(token * args.k + choice)};
        ++row;
      }
      if (row > begin) make_item(item++, expert, begin, row - begin);
    }
  }

  // The pairs' weights, once the grouping is there: nobody needs them before down.
  CAUSEWAY_DEVICE void weigh() const {
    for (int r = thread(); r < args.tokens * args.k; r += kWorkers) {
      const FewRow& row = place.of<FewRow>(place.at.rows)[r];
      const ChosenKeys keys = {
          place.of<uint32_t>(place.at.pair_key) + row.token * args.k,
          place.of<uint32_t>(place.at.keys) + row.token * keys_pitch(args.experts)};
      place.of<float>(place.at.row_weight)[r] = weight_of(args, keys, row.pair % args.k);
    }
  }

  // One of the feeding warps: where the experts lie.
  static CAUSEWAY_DEVICE void take_table(const FewArgs& args, const FewPlace& place, int which,
                                         int lane) {
    const void** table = place.of<const void*>(place.at.tables) + which * args.experts;
    for (int e = lane; e < args.experts; e += 32) table[e] = args.tables[which][e];
  }

  CAUSEWAY_DEVICE void choose() const {
    clear_padding();
    collect();
    workers_sync();
    group();
  }
};

// Norm and scores of all tokens: a warp has one, or all warps the only one. Every lane copies what
// it will read, of all its tokens at once.
CAUSEWAY_DEVICE void score_all(const FewArgs& args, FewScore score, uint32_t tag) {
  FewScore::Token token = args.tokens == 1 ? score.of_all(0) : score.of_warp(score.warp);
#pragma unroll 1
  for (FewScore::Token t = token; t.number < args.tokens; t.number += kFewWarps) {
    const uint32_t target = mma::shared_address(score.x_of(t));
#pragma unroll 1
    for (int v = t.self; v < args.hidden / 8; v += t.team) {
      mma::copy_async(target + v * 16, score.residual_of(t) + v, true);
    }
  }
  mma::commit_copies();
  mma::wait_copies<0>();
#pragma unroll 1
  for (; token.number < args.tokens; token.number += kFewWarps) {
    score.run(token, score.x_of(token), tag);
  }
}

}  // namespace causeway::kernels::moe
