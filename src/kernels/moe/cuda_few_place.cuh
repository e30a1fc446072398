// What the parts of the kernel for few tokens share: its arguments, what lies where in a CTA's
// shared memory, words that say which launch they are of, and the ring's cursor.
#pragma once

#include "kernels/cuda_mma.cuh"
#include "kernels/gemm/sm90_ptx.cuh"
#include "kernels/moe/cuda_route.cuh"

namespace causeway::kernels::moe {

namespace ptx = gemm::ptx;

constexpr int kFewWarps = 4;    // that multiply
constexpr int kFewFeeders = 3;  // the upper eight rows of weights, the lower eight, tokens
constexpr int kFewThreads = 32 * (kFewWarps + kFewFeeders);
constexpr int kWeightRows = 16;  // of a stage
constexpr int kItemRows = 8;     // tokens of a product
constexpr int kGroup = 32;       // columns of a product's two steps: four lanes × 8
constexpr int kBlock = 64;       // columns that a warp takes at a time: the banks' width
constexpr int kRound = kBlock * kFewWarps;
constexpr int kAskers = 8;  // lanes of a feeding warp that ask for copies, a row each
constexpr int kFrontHiddenMax = 4096;
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
  uint32_t items;       // FewItem [few_items_max]
  uint32_t rows;        // FewRow [pairs]
  uint32_t row_weight;  // float [pairs]
  uint32_t keys;        // front: uint32_t [tokens][keys_pitch], order_key of the scores
  uint32_t choices;     // front: uint8_t [tokens][experts], which choice it is; one token: if it is
  uint32_t pair_key;    // front: uint32_t [pairs]
  uint32_t x;           // front: bf16 [tokens], x_pitch bytes apart
  uint32_t active;      // direct: bf16 [pairs][intermediate]
  uint32_t down_parts;  // direct: float [pairs][kFewWarps][kWeightRows]
  uint32_t words;       // int [4 + kExpertsMax / 32]: items; front: of a scan, masks of experts
  uint32_t barriers;    // full and empty [stages], and three that are used once
  uint32_t bytes;
  uint32_t tables;   // front: in the ring, const char* [3][experts]
  uint32_t pitch;    // bytes of a stage's row, a multiple of 128
  uint32_t x_pitch;  // likewise
  uint32_t stage_bytes;
  int stages;
  int gated_step, down_step;  // columns of a stage
  bool direct;  // one token: CTAs hand active to each other in words that say their launch
};

// The layout that a launch of so many CTAs is given; too few stages where none fits.
FewLayout few_layout(const ShapeCuda& shape, std::int64_t tokens, bool front, int ctas);

__host__ __device__ constexpr int keys_pitch(int64_t experts) {
  return static_cast<int>((experts + 3) / 4 * 4);
}

struct FewArgs {
  FewLayout layout;
  FrontCuda front;
  Sync* sync;
  Groups groups;                  // without a front
  const void* const* tables[3];   // gate, up, down
  const __nv_bfloat16* x;         // [tokens][hidden], without a front
  const __nv_bfloat16* residual;  // [tokens][hidden]
  __nv_bfloat16* active;          // [pairs][intermediate]
  __nv_bfloat16* out;             // [tokens][hidden]
  unsigned long long* experts_read;
  int tokens, hidden, intermediate, experts, k;
  bool normalise;
};

// This CTA's shared memory, with types.
struct FewPlace {
  const FewLayout& at;
  char* memory;
  uint32_t address;

  template <typename T>
  CAUSEWAY_DEVICE T* of(uint32_t offset) const {
    return reinterpret_cast<T*>(memory + offset);
  }
  CAUSEWAY_DEVICE uint32_t full(int stage) const { return address + at.barriers + stage * 8; }
  CAUSEWAY_DEVICE uint32_t empty(int stage) const { return full(at.stages + stage); }
  CAUSEWAY_DEVICE uint32_t front_full() const { return full(2 * at.stages); }
  CAUSEWAY_DEVICE uint32_t launch_read() const { return full(2 * at.stages + 1); }
  CAUSEWAY_DEVICE uint32_t chosen() const { return full(2 * at.stages + 2); }
  CAUSEWAY_DEVICE int& items() const { return *of<int>(at.words); }
  CAUSEWAY_DEVICE const FewItem& item(int index) const { return of<FewItem>(at.items)[index]; }
};

// ---- words that CTAs hand to each other --------------------------------------------------------

// The upper half says the launch that the lower half is of, so that no fence is needed and nothing
// has to be cleared.
CAUSEWAY_DEVICE unsigned long long relaxed_load(const unsigned long long* word) {
  unsigned long long value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
// Each word by itself, in no order.
CAUSEWAY_DEVICE ulonglong2 relaxed_load_two(const unsigned long long* words) {
  ulonglong2 two;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(two.x), "=l"(two.y)
               : "l"(words)
               : "memory");
  return two;
}
CAUSEWAY_DEVICE void relaxed_store(unsigned long long* word, unsigned long long value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

// The multiplying warps.
CAUSEWAY_DEVICE void workers_sync() {
  __syncwarp();
  asm volatile("bar.sync 1, %0;" ::"n"(32 * kFewWarps) : "memory");
}

// Place in a ring of so many stages.
struct FewCursor {
  int stages, stage = 0;
  uint32_t phase = 0;

  CAUSEWAY_DEVICE void advance() {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
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
