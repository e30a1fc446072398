// What the parts of the experts' GPU code share: the scratch memory of a run, and how each part is
// enqueued. For .cu files of this folder.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/moe/cuda_limits.h"

namespace causeway::kernels::moe {

// At the beginning of a workspace, zero before the first run. Kernels for few tokens and for one of
// a workspace have the same number of CTAs, and each CTA counts its launches: all know the launch's
// number, which says what of the rest belongs to it.
struct Sync {
  uint32_t launches[kCtasMax];
  uint32_t tiles_done[2][kItemsMax];  // by the launch's parity; the other one is cleared
  // (launch's number + 1) << 32 | bits of the score
  unsigned long long scores[kFrontTokens * kExpertsMax];
  // (launch's number + 1) << 32 | two neighbours of active, of one token
  unsigned long long active[kChosenMax * kOneTokenIntermediateMax / 2];
};

// What routing and grouping leave for the experts' kernels. A pair is (token, choice), numbered
// token × k + choice; a row is a pair's place when sorted by expert.
struct Groups {
  int32_t* chosen;    // [pairs] expert
  float* weight;      // [pairs]
  int32_t* row_pair;  // [pairs] which pair is row r
  int32_t* pair_row;  // [pairs]
  int4* chunk;        // [chunks] expert, first row, rows, unused; experts rise
  int32_t* chunks;    // [1]
};

struct Scratch {
  Sync* sync;
  Groups groups;
  void* maps;             // of run_tiles: tensor maps [gate, up, down][experts], 128 bytes each
  __nv_bfloat16* active;  // [pairs][intermediate]
  __nv_bfloat16* down;    // of run_tiles: [pairs][hidden]
};

// How an expert's rows are cut into chunks: each has at most `most` rows, and an expert's chunks
// differ by at most `unit` of them.
struct Chunking {
  int most, unit;
};

constexpr Chunking kItems = {8, 8};  // of run_small_batch

std::int64_t chunks_max(const ShapeCuda& shape, std::int64_t tokens, Chunking chunking);

Status enqueue_groups(const ParamsCuda& params, const Scratch& scratch, Chunking chunking,
                      CudaStream stream);

// Up to kSmallBatchTokens, after enqueue_groups of kItems. With a front, where it fits, nothing
// goes before.
bool small_batch_front_fits(const ShapeCuda& shape, std::int64_t tokens, int ctas);
Status run_small_batch(const ParamsCuda& params, const FrontCuda* front, const Scratch& scratch,
                       CudaStream stream);

// One token of a shape that one_token_fits (cuda_one_token_layout.h).
Status run_one_token(const ParamsCuda& params, const FrontCuda& front, const Scratch& scratch,
                     CudaStream stream);

// Any number of tokens; groups them itself.
bool tiles_fit(const ShapeCuda& shape);
std::int64_t tiles_chunks_max(const ShapeCuda& shape, std::int64_t tokens);
Status run_tiles(const ParamsCuda& params, const Scratch& scratch, CudaStream stream);

}  // namespace causeway::kernels::moe
