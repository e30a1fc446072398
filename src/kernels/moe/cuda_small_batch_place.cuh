// What the parts of the kernel for small batches share: its arguments, and what lies where in a
// CTA's shared memory.
#pragma once

#include "kernels/moe/cuda_divider.h"
#include "kernels/moe/cuda_router_score.cuh"
#include "kernels/ptx/device.cuh"

namespace causeway::kernels::moe {

constexpr int kSmallBatchFeeders = 3;  // the upper eight rows of weights, the lower eight, tokens
constexpr int kSmallBatchThreads = 32 * (kWorkerWarps + kSmallBatchFeeders);
constexpr int kWeightRows = 16;  // of a stage
constexpr int kItemRows = 8;     // tokens of a product
constexpr int kGroup = 32;       // columns of a product's two steps: four lanes × 8
constexpr int kBlock = 64;       // columns that a warp takes at a time: the banks' width
constexpr int kRound = kBlock * kWorkerWarps;
constexpr int kAskers = 8;     // lanes of a feeding warp that ask for copies, a row each
constexpr int kRoundsMax = 3;  // of a stage
constexpr int kColumnsMax = kRound * kRoundsMax;

// Tokens of one chosen expert (rows, row_weight).
struct SmallBatchItem {
  const char* weight[3];  // gate, up, down
  int first, rows;
};

// A row's token and pair.
struct SmallBatchRow {
  uint16_t token, pair;
};

// Offsets into shared memory; the ring lies at 0. What is only there with a front is marked.
struct SmallBatchLayout {
  uint32_t partial;     // float4 [2][kWorkerWarps][32]
  uint32_t sums;        // float [tokens][kWeightRows]
  uint32_t items;       // SmallBatchItem [chunks_max, of kItems]
  uint32_t rows;        // SmallBatchRow [pairs]
  uint32_t row_weight;  // float [pairs]
  uint32_t keys;        // front: uint32_t [tokens][keys_pitch], order_key of the scores
  uint32_t choices;     // front: uint64_t [experts], a byte a token: which choice it is
  uint32_t pair_key;    // front: uint32_t [pairs]
  uint32_t x;           // front: bf16 [tokens], x_pitch bytes apart
  uint32_t words;       // int [1 + kWorkerWarps]: items; front: of a scan
  uint32_t barriers;    // full and empty [stages], and three that are used once
  uint32_t bytes;
  uint32_t tables;   // front: in the ring, const char* [3][experts]
  uint32_t pitch;    // bytes of a stage's row, a multiple of 128
  uint32_t x_pitch;  // likewise
  uint32_t stage_bytes;
  int stages;
  int gated_step, down_step;  // columns of a stage
};

struct SmallBatchArgs : ExpertsArgs {
  SmallBatchLayout layout;
  Groups groups;           // without a front
  const __nv_bfloat16* x;  // [tokens][hidden], without a front
  __nv_bfloat16* active;   // [pairs][intermediate]
  int tokens;
  Divider by_ctas, by_tiles, by_k;  // tiles: of an item
};

// This CTA's shared memory.
struct SmallBatchPlace : RingPlace<SmallBatchLayout> {
  CAUSEWAY_DEVICE int& items() const { return *of<int>(at.words); }
  CAUSEWAY_DEVICE const SmallBatchItem& item(int index) const {
    return of<SmallBatchItem>(at.items)[index];
  }
};

// A CTA's products, in their order, for the warps that feed as for those that multiply: its share
// of the line of tiles of gate and up, then its columns of down. One loop does both, so that its
// code is there once.
struct SmallBatchWalk {
  int items, tiles, groups;  // tiles: of an item; groups: of kWeightRows columns of out
  int left;                  // tiles of gate and up
  int item, at;              // at: the item's tile, or the group

  CAUSEWAY_DEVICE SmallBatchWalk(const SmallBatchArgs& args, int count)
      : items(count), tiles(args.intermediate / 8), groups(args.hidden / kWeightRows) {
    // all × cta ÷ ctas, in 32 bits.
    const int all = items * tiles, ctas = static_cast<int>(gridDim.x);
    const int cta = static_cast<int>(blockIdx.x);
    const int each = args.by_ctas.of(all), more = all - each * ctas;
    const int begin = each * cta + args.by_ctas.of(more * cta);
    left = each * (cta + 1) + args.by_ctas.of(more * (cta + 1)) - begin;
    item = args.by_tiles.of(begin);
    at = begin - item * tiles;
    if (left == 0) begin_down();
  }

  CAUSEWAY_DEVICE void begin_down() {
    item = 0;
    at = static_cast<int>(blockIdx.x);
  }
  CAUSEWAY_DEVICE bool gated() const { return left > 0; }
  CAUSEWAY_DEVICE bool done() const { return left == 0 && at >= groups; }
  // Gate and up: whether it is the CTA's last tile of the item. Down: the group's last item.
  CAUSEWAY_DEVICE bool last() const {
    return gated() ? left == 1 || at + 1 == tiles : item + 1 == items;
  }
  CAUSEWAY_DEVICE void advance() {
    if (gated()) {
      if (++at == tiles) {
        at = 0;
        ++item;
      }
      if (--left == 0) begin_down();
    } else if (++item == items) {
      item = 0;
      at += static_cast<int>(gridDim.x);
    }
  }
};

}  // namespace causeway::kernels::moe
