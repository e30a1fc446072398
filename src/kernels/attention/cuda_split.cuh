// What the kernels of the split way of decode know: the one that plans a step (cuda_plan.cu), the
// one that reads KV (cuda_split.cu), and the one that merges the pieces of sequences that several
// workers share (cuda_merge.cu).
#pragma once

#include "kernels/attention/cuda_decode.cuh"
#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::attention::parts {

constexpr int kCtasMax = 160;  // SMs that are used at most
// Workers of a CTA; one CTA an SM. Few leave room beside them for a CTA of the products in front
// and behind, which fills its ring with weights meanwhile (kernels/gemm, CudaShare); with many
// sequences the KV is worth more bytes on their way.
constexpr int kWarpsMax = 8;
constexpr int split_warps_small_batch(std::int64_t size) { return size < 256 ? 4 : 2; }
constexpr int kSplitSmallBatch = 4;
constexpr int kSharedMax = 227 * 1024;  // of a CTA

// What the workers of a slot begin with. One a slot, the same for all layers of a step.
struct alignas(16) SlotPlan {
  int sequence, tile, count, length;      // the first tile; how many in all; tokens that are seen
  int frame_at, within, frames_end, pad;  // where the first tile begins: index in `frames`, token
  int frames[32];                         // from frame_at on
  // Lengths and first frames of the sequences after the first.
  int lengths[32];
  int frame_begins[32];
};

// The pieces of a sequence, for the merging kernel.
struct alignas(16) SequencePlan {
  int first;     // the slot that has its beginning
  int count;     // of slots; 0: no tokens
  int within;    // it begins within the first
  int sequence;  // whose they are
};

struct SplitArgs : DecodeArgs {
  int sequences, kv_heads, group, block_tokens;
  int window;       // kNoDeviceWindow: none
  int ctas, warps;  // of the decode kernel
  int slots;        // workers of a KV head
  int slot_bytes;   // of shared memory for the queries of a sequence to come; 0: no such places
  int early_tiles;  // of a worker, asked for before the kernel in front has ended
  bool tables_early;
  // With a table: q's rows hold q, then the other KV heads' q, then all k, then all v.
  FusedPrepareArgs prepare;
  // Scores are products × scale_log2; or with a soft cap, cap_log2 × tanh(products × scale_log2 /
  // (2 log2(e))): then scale_log2 makes exponents of the products.
  float scale_log2;
  float cap_log2;  // 0: none
  // Where a worker leaves its partial results. A slot has at most two shared sequences: one that
  // reaches into it or begins with it, and one that begins within it.
  float* partial;  // [slots][kv heads][2][group][size]
  float2* state;   // [slots][kv heads][2][group]: largest score (log 2), Σ 2^(score - largest)
  SlotPlan* slot_plan;          // [slots]
  SequencePlan* sequence_plan;  // [sequences]
  // [slots - 1] the sequence that began in slot i and goes on in slot i + 1; count 0: there is
  // none. Every shared sequence is in it once.
  SequencePlan* crossing;
};

// How many tokens of a sequence, its last, are in the window. Tiles are of
// these alone, the first of them beginning with the first token that is seen.
__device__ inline int seen_of(const SplitArgs& a, int length) { return min(length, a.window); }

// Bytes of shared memory that a worker takes beside its queries to come: a ring of tiles.
template <int kSize>
struct Ring {
  static constexpr int kTileBytes = kTile * kSize * 2;  // of K, and of V
  static constexpr int kStages = kSize == 64 ? 5 : kSize == 96 ? 4 : 3;
  static constexpr int kBytes = kStages * 2 * kTileBytes;
  static constexpr int kRopeRowBytes = kSize * 4;  // a row of the RoPE table
  // Sequences that may begin in tiles on their way: the one that is computed has its queries in
  // registers.
  static constexpr int kSlots = kStages - 1;
  // The bytes of a worker that has places for queries of `slot_bytes`, or none.
  static constexpr __host__ __device__ int worker_bytes(int slot_bytes) {
    return kBytes + (slot_bytes == 0 ? 0 : kSlots * slot_bytes + kStages * kRopeRowBytes);
  }
};

// The arguments of a step's kernels.
Result<SplitArgs> split_args(const ParamsCuda& params);

// Enqueues the planning of a step.
Status run_plan(const SplitArgs& args, CudaStream stream);

// Enqueues the merging of what the workers have left, for heads of `size` elements.
Status merge_pieces(const SplitArgs& args, std::int64_t size, CudaStream stream);

}  // namespace causeway::kernels::attention::parts
