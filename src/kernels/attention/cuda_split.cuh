// What both kernels of decode know: the one that reads KV (cuda_split.cu), and the one that merges
// the pieces of sequences that several workers share (cuda_merge.cu).
#pragma once

#include "kernels/attention/cuda_fresh.cuh"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::attention::parts {

constexpr int kTile = 16;  // tokens

struct SplitArgs {
  const __nv_bfloat16* q;  // [sequences][kv heads][group][size], rows q_stride apart
  int64_t q_stride;
  __nv_bfloat16* out;    // [sequences][kv heads][group][size]
  char* keys;            // K of the layer in frame 0
  int64_t value_offset;  // bytes
  int64_t frame_bytes;
  int64_t token_stride;   // bytes
  const int32_t* frames;  // as ParamsCuda has them
  const int32_t* frame_begin;
  const int32_t* length;
  int sequences, kv_heads, group, block_tokens;
  int slot_bytes;  // of shared memory for the queries of a sequence to come; 0: no such slots
  bool tables_early;
  FreshArgs fresh;  // q, then the other KV heads' q, then all k, then all v are then in q's rows
  float scale_log2;
  float* partial;  // [slots][kv heads][2][group][size]
  float2* state;   // [slots][kv heads][2][group]: largest score (log 2), Σ 2^(score - largest)
};

// How tiles are shared out; the same in every worker.
struct Share {
  int64_t tiles, slots;
  __device__ int64_t begin(int64_t slot) const { return tiles * slot / slots; }
  __device__ int64_t slot_of(int64_t tile) const { return ((tile + 1) * slots - 1) / tiles; }
};

__device__ inline int tiles_of(int length) { return (length + kTile - 1) / kTile; }

// All lanes: the number of tiles of sequences [0, end).
__device__ inline int64_t count_tiles(const SplitArgs& a, int lane, int end) {
  int mine = 0;
  for (int index = lane; index < end; index += 32) mine += tiles_of(a.length[index]);
  return __reduce_add_sync(0xFFFFFFFFu, mine);
}

// Where a worker leaves its partial result. A slot has at most two shared sequences: one that
// reaches into it or begins with it, and one that begins within it.
__device__ inline int64_t piece_of(const SplitArgs& a, int kv_head, int64_t slot, bool within) {
  return (slot * a.kv_heads + kv_head) * 2 + (within ? 1 : 0);
}

// Enqueues the merging of what `slots` slots have left, for heads of `size` elements.
Status merge_pieces(const SplitArgs& args, std::int64_t size, int slots, CudaStream stream);

}  // namespace causeway::kernels::attention::parts
