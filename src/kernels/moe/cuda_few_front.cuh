// Who chose what, in the kernel for few tokens: as kernels in front left it, or norm, router and
// choice in this one.
#pragma once

#include "kernels/cuda_bf16.cuh"
#include "kernels/moe/cuda_few_place.cuh"

namespace causeway::kernels::moe {

// As the kernels in front left it.
CAUSEWAY_DEVICE void take_groups(const FewArgs& args, const FewPlace& place, int thread) {
  const int items = *args.groups.chunks, pairs = args.tokens * args.k;
  for (int i = thread; i < items; i += 32 * kFewWarps) {
    const int4 chunk = args.groups.chunk[i];
    FewItem& item = place.of<FewItem>(place.at.items)[i];
    for (int w = 0; w < 3; ++w) {
      item.weight[w] = static_cast<const char*>(args.tables[w][chunk.x]);
    }
    item.first = chunk.y;
    item.rows = chunk.z;
  }
  for (int r = thread; r < pairs; r += 32 * kFewWarps) {
    const int pair = args.groups.row_pair[r];
    place.of<FewRow>(place.at.rows)[r] = {static_cast<uint16_t>(pair / args.k),
                                          static_cast<uint16_t>(pair)};
    place.of<float>(place.at.row_weight)[r] = args.groups.weight[pair];
  }
  if (thread == 0) place.items() = items;
}

// Norm, router, choice. Every CTA computes all tokens' norms and keeps them, the scores of its own
// experts (every gridDim.x-th), which it hands to all others, and every CTA chooses for itself.
// The norm's weight and the CTA's rows of the router, which do not depend on the kernel in front,
// lie in the ring, which has nothing else to do yet. kOne: of one token.
template <bool kOne>
struct FewFront {
  static constexpr int kWorkers = 32 * kFewWarps, kVectors = kFrontHiddenMax / 8;
  const FewArgs& args;
  const FewPlace& place;
  int warp, lane;
  uint32_t tag = 0;  // of this launch
  int turn = 0;

  static CAUSEWAY_DEVICE int router_rows(const FewArgs& args) {
    const int cta = static_cast<int>(blockIdx.x), ctas = static_cast<int>(gridDim.x);
    return cta < args.experts ? (args.experts - 1 - cta) / ctas + 1 : 0;
  }
  CAUSEWAY_DEVICE int thread() const { return warp * 32 + lane; }
  CAUSEWAY_DEVICE int tokens() const { return kOne ? 1 : args.tokens; }

  // One thread, before it waits for the kernel in front.
  static CAUSEWAY_DEVICE void ask(const FewArgs& args, const FewPlace& place) {
    const uint32_t bytes = static_cast<uint32_t>(args.hidden) * 2, full = place.front_full();
    const int rows = router_rows(args);
    ptx::barrier_arrive_expect(full, static_cast<uint32_t>(rows + 1) * bytes);
    hybrid_gemm::ptx::load_bytes(place.address, args.front.norm_weight, bytes, full);
    for (int r = 0; r < rows; ++r) {
      const int64_t expert = blockIdx.x + int64_t{r} * gridDim.x;
      hybrid_gemm::ptx::load_bytes(place.address + static_cast<uint32_t>(r + 1) * bytes,
                                   static_cast<const char*>(args.front.router) + expert * bytes,
                                   bytes, full);
    }
  }

  // Of a warp, or of all four in their order.
  template <int kTeam>
  CAUSEWAY_DEVICE float team_sum(float value) {
    value = warp_sum(value);
    if (kTeam == 32) return value;
    float* parts = place.of<float>(place.at.partial) + turn++ % 2 * kFewWarps;
    if (lane == 0) parts[warp] = value;
    workers_sync();
    value = parts[0];
#pragma unroll
    for (int w = 1; w < kFewWarps; ++w) value += parts[w];
    return value;
  }

  // A token's x stays in registers, kEach vectors of eight a lane. Not real: without effect.
  template <int kTeam, int kEach>
  CAUSEWAY_DEVICE void score_token(int token, bool real) {
    const int self = kTeam == 32 ? lane : thread(), vectors = args.hidden / 8;
    const auto* source = reinterpret_cast<const Bf16x8*>(args.residual) + int64_t{token} * vectors;
    const auto* weight = place.of<const Bf16x8>(0);
    auto* normed = place.of<Bf16x8>(place.at.x + token * place.at.x_pitch);
    Bf16x8 kept[kEach];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      kept[i] = {};
      if (real && self + i * kTeam < vectors) kept[i] = source[self + i * kTeam];
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (self + i * kTeam >= vectors) continue;
      float x[8];
      widen(kept[i], x);
#pragma unroll
      for (int j = 0; j < 8; ++j) squares += x[j] * x[j];
    }
    const float mean = team_sum<kTeam>(squares) / static_cast<float>(args.hidden);
    const float factor = rsqrtf(mean + args.front.epsilon);
    ptx::barrier_wait(place.front_full(), 0);  // not before: residual and weights come together
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int v = self + i * kTeam;
      if (v >= vectors) continue;
      float x[8], w[8];
      widen(kept[i], x);
      widen(weight[v], w);
#pragma unroll
      for (int j = 0; j < 8; ++j) x[j] *= factor * w[j];
      kept[i] = narrow(x);
      normed[v] = kept[i];
    }
    const int rows = router_rows(args);
    for (int r = 0; r < rows; ++r) {
      const auto* router = weight + int64_t{r + 1} * vectors;
      float score = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int v = self + i * kTeam;
        if (v >= vectors) continue;
        float x[8], w[8];
        widen(kept[i], x);
        widen(router[v], w);
#pragma unroll
        for (int j = 0; j < 8; ++j) score += x[j] * w[j];
      }
      score = team_sum<kTeam>(score);
      const int64_t expert = blockIdx.x + int64_t{r} * gridDim.x;
      if (real && self == 0) {
        relaxed_store(args.sync->scores + token * int64_t{args.experts} + expert,
                      static_cast<unsigned long long>(tag) << 32 | __float_as_uint(score));
      }
    }
  }

  // All CTAs' scores, as they come: a word says itself whether it is of this launch.
  CAUSEWAY_DEVICE void collect() {
    constexpr int kEach = 8;
    const int words = tokens() * args.experts;
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
          if ((missing >> i & 1) == 0 || static_cast<uint32_t>(word[i] >> 32) != tag) continue;
          const int at = begin + i * kWorkers;
          keys[kOne ? at : at / args.experts * pitch + at % args.experts] =
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
      better += four.x > than ? 1 : 0;
      better += four.y > than ? 1 : 0;
      better += four.z > than ? 1 : 0;
      better += four.w > than ? 1 : 0;
    }
    for (int e = own; e < expert; ++e) better += keys[e] == key ? 1 : 0;
    return better;
  }

  CAUSEWAY_DEVICE void clear_padding() {
    const int pitch = keys_pitch(args.experts), padding = pitch - args.experts;
    for (int i = thread(); i < tokens() * padding; i += 32 * kFewWarps) {
      place.of<uint32_t>(place.at.keys)[i / padding * pitch + args.experts + i % padding] = 0;
    }
  }

  // A pair's weight: softmax over the token's choices, or over all experts.
  CAUSEWAY_DEVICE float weight_of(int token, int choice) const {
    const uint32_t* chosen = place.of<uint32_t>(place.at.pair_key) + token * args.k;
    const uint32_t* keys = place.of<uint32_t>(place.at.keys) + token * keys_pitch(args.experts);
    const uint32_t* all = args.normalise ? chosen : keys;
    const float top = score_of(chosen[0]);
    float total = 0;
    const int count = args.normalise ? args.k : args.experts;
    for (int i = 0; i < count; ++i) total += expf(score_of(all[i]) - top);
    return expf(score_of(chosen[choice]) - top) / total;
  }

  CAUSEWAY_DEVICE void say_items(int items) {
    place.items() = items;
    if (blockIdx.x == 0 && args.experts_read != nullptr) {
      *args.experts_read += static_cast<unsigned long long>(items);
    }
  }
  CAUSEWAY_DEVICE void make_item(int index, int expert, int first, int rows) {
    FewItem& made = place.of<FewItem>(place.at.items)[index];
    for (int w = 0; w < 3; ++w) {
      made.weight[w] = place.of<const char*>(place.at.tables)[w * args.experts + expert];
    }
    made.first = first;
    made.rows = rows;
  }

  // Chooses one token's experts; the items rise by expert, one row each.
  CAUSEWAY_DEVICE void choose_one() {
    const auto* keys = place.of<const uint32_t>(place.at.keys);
    auto* ranks = place.of<uint8_t>(place.at.choices);
    auto* masks = place.of<uint32_t>(place.at.words) + 4;  // which of 32 experts are chosen
#pragma unroll 1
    for (int begin = 0; begin < args.experts; begin += kWorkers) {
      const int expert = begin + thread();
      const int rank = expert < args.experts ? rank_of(keys, expert) : kChosenMax;
      if (rank < args.k) {
        ranks[expert] = static_cast<uint8_t>(rank);
        place.of<uint32_t>(place.at.pair_key)[rank] = keys[expert];
      }
      const uint32_t mask = __ballot_sync(0xFFFFFFFFu, rank < args.k);
      if (lane == 0) masks[begin / 32 + warp] = mask;
    }
    workers_sync();
    ptx::barrier_wait(place.launch_read(), 0);
    if (thread() == 0) say_items(args.k);
    int before = 0;
#pragma unroll 1
    for (int group = 0; group * 32 < args.experts; ++group) {
      const uint32_t mask = masks[group];
      if (group % kFewWarps == warp && (mask >> lane & 1) != 0) {
        const int expert = group * 32 + lane, item = before + __popc(mask & ((1u << lane) - 1));
        place.of<FewRow>(place.at.rows)[item] = {0, ranks[expert]};
        make_item(item, expert, item, 1);
      }
      before += __popc(mask);
    }
  }

  // Chooses, and sorts the pairs by expert, a counting sort; a thread has neighbouring experts.
  CAUSEWAY_DEVICE void group() {
    const int each = (args.experts + 32 * kFewWarps - 1) / (32 * kFewWarps);
    const int first = thread() * each, end = min(first + each, args.experts);
    auto* choices = place.of<uint8_t>(place.at.choices);
    int count = 0;  // items << 16 | rows
    for (int expert = first; expert < end; ++expert) {
      int rows = 0;
      for (int token = 0; token < tokens(); ++token) {
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
    int* of_warp = place.of<int>(place.at.words) + 4;
    if (lane == 31) of_warp[warp] = before;
    workers_sync();
    ptx::barrier_wait(place.launch_read(), 0);
    for (int w = 0; w < warp; ++w) before += of_warp[w];
    if (thread() == 32 * kFewWarps - 1) say_items(before >> 16);
    before -= count;
    int item = before >> 16, row = before & 0xFFFF;
    for (int expert = first; expert < end; ++expert) {
      const int begin = row;
      for (int token = 0; token < tokens(); ++token) {
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
    for (int r = thread(); r < tokens() * args.k; r += 32 * kFewWarps) {
      const FewRow& row = place.of<FewRow>(place.at.rows)[r];
      place.of<float>(place.at.row_weight)[r] = weight_of(row.token, row.pair % args.k);
    }
  }

  // One of the feeding warps: where the experts lie.
  static CAUSEWAY_DEVICE void take_table(const FewArgs& args, const FewPlace& place, int which,
                                         int lane) {
    const void** table = place.of<const void*>(place.at.tables) + which * args.experts;
    for (int e = lane; e < args.experts; e += 32) table[e] = args.tables[which][e];
  }

  // One token's score, which is so short that fetching its instructions takes as long as it does:
  // the weights on their way have driven them out of all caches. So it goes once without effect
  // while the kernel in front still runs.
  CAUSEWAY_DEVICE void score_one(bool real) {
    score_token<kWorkers, kVectors / kWorkers>(0, real);
  }
  CAUSEWAY_DEVICE void score_all() {
    if (tokens() == 1) {
      score_one(true);
    } else {
      for (int token = warp; token < tokens(); token += kFewWarps) {
        score_token<32, kVectors / 32>(token, true);
      }
    }
  }
  CAUSEWAY_DEVICE void choose() {
    clear_padding();
    collect();
    workers_sync();
    if constexpr (kOne) {
      choose_one();
    } else {
      group();
    }
  }
};

}  // namespace causeway::kernels::moe
