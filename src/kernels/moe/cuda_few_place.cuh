// What the parts of the kernel for few tokens share: its arguments, and what lies where in a CTA's
// shared memory.
#pragma once

#include "kernels/moe/cuda_few_score.cuh"

namespace causeway::kernels::moe {

constexpr int kFewFeeders = 3;  // the upper eight rows of weights, the lower eight, tokens
constexpr int kFewThreads = 32 * (kFewWarps + kFewFeeders);
constexpr int kWeightRows = 16;  // of a stage
constexpr int kItemRows = 8;     // tokens of a product
constexpr int kGroup = 32;       // columns of a product's two steps: four lanes × 8
constexpr int kBlock = 64;       // columns that a warp takes at a time: the banks' width
constexpr int kRound = kBlock * kFewWarps;
constexpr int kAskers = 8;     // lanes of a feeding warp that ask for copies, a row each
constexpr int kRoundsMax = 3;  // of a stage
constexpr int kColumnsMax = kRound * kRoundsMax;

// Tokens of one chosen expert (rows, row_weight).
struct FewItem {
  const char* weight[3];  // gate, up, down
  int first, rows;
};

// A row's token and pair.
struct FewRow {
  uint16_t token, pair;
};

// Offsets into shared memory; the ring lies at 0. What is only there with a front is marked.
struct FewLayout {
  uint32_t partial;     // float4 [2][kFewWarps][32]
  uint32_t sums;        // float [tokens][kWeightRows]
  uint32_t items;       // FewItem [chunks_max, of kItems]
  uint32_t rows;        // FewRow [pairs]
  uint32_t row_weight;  // float [pairs]
  uint32_t keys;        // front: uint32_t [tokens][keys_pitch], order_key of the scores
  uint32_t choices;     // front: uint8_t [tokens][experts], which choice it is
  uint32_t pair_key;    // front: uint32_t [pairs]
  uint32_t x;           // front: bf16 [tokens], x_pitch bytes apart
  uint32_t words;       // int [1 + kFewWarps]: items; front: of a scan
  uint32_t barriers;    // full and empty [stages], and three that are used once
  uint32_t bytes;
  uint32_t tables;   // front: in the ring, const char* [3][experts]
  uint32_t pitch;    // bytes of a stage's row, a multiple of 128
  uint32_t x_pitch;  // likewise
  uint32_t stage_bytes;
  int stages;
  int gated_step, down_step;  // columns of a stage
};

__host__ __device__ constexpr int keys_pitch(int64_t experts) {
  return static_cast<int>((experts + 3) / 4 * 4);
}

struct FewArgs : ExpertsArgs {
  FewLayout layout;
  Groups groups;           // without a front
  const __nv_bfloat16* x;  // [tokens][hidden], without a front
  __nv_bfloat16* active;   // [pairs][intermediate]
  int tokens;
};

// This CTA's shared memory.
struct FewPlace : RingPlace<FewLayout> {
  CAUSEWAY_DEVICE int& items() const { return *of<int>(at.words); }
  CAUSEWAY_DEVICE const FewItem& item(int index) const { return of<FewItem>(at.items)[index]; }
};

// The tiles of gate and up that this CTA does: a range of the line.
struct GatedShare {
  int tiles;  // of an item
  int begin, end;

  CAUSEWAY_DEVICE GatedShare(const FewArgs& args, int items) : tiles(args.intermediate / 8) {
    // all × cta ÷ ctas, in 32 bits.
    const uint32_t all = static_cast<uint32_t>(items * tiles), ctas = gridDim.x;
    const uint32_t cta = blockIdx.x, each = all / ctas, left = all - each * ctas;
    begin = static_cast<int>(each * cta + left * cta / ctas);
    end = static_cast<int>(each * (cta + 1) + left * (cta + 1) / ctas);
  }
};

}  // namespace causeway::kernels::moe
