// Attention on a GPU, bf16: what attention.h defines, over the same block-first frames in HBM.
//
// A step's sequences are listed decode first: sequences [0, decode) have one query token each,
// which are rows [0, decode) of q; the others are prompt chunks. All that changes from step to
// step is read from device memory, so that a captured graph serves every later step of its shape:
//
//   frames       ┌ of s 0 ┬ of s 1 ─ … ┐   int32 frame numbers, one sequence after the other
//   frame_begin  0        ↑                [sequences + 1] where a sequence's frames begin; it may
//                                          have more than its tokens fill, which are not read
//   query_begin                            [sequences + 1] rows of q of a sequence
//   length                                 [sequences] tokens with KV, the query tokens included;
//                                          0: a place of the bucket without a sequence
//
// Functions only enqueue; errors are invalid arguments or a refused launch. Pointers are device
// memory, 16-byte aligned. Head sizes are multiples of 8.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/attention/attention.h"
#include "kernels/cuda_stream.h"

namespace causeway::kernels::attention {

// A step's token rows, before attention: heads of q and k are normalised (Qwen3) and rotated
// (rope.h), then k and v are written to their frames. One launch.
struct PrepareCuda {
  PagedKv kv{};  // BF16
  Heads heads{};
  std::int64_t first = 0;   // rows before are left as they are
  std::int64_t tokens = 0;  // rows, those without a sequence included
  std::int64_t sequences = 0;
  const std::int32_t* position = nullptr;  // [tokens]; negative: no token here
  const std::int32_t* sequence = nullptr;  // [tokens]
  const std::int32_t* frames = nullptr;
  const std::int32_t* frame_begin = nullptr;
  const float* rope_table = nullptr;  // [tokens][head size], rope.h's
  void* qkv = nullptr;                // bf16 [tokens][q heads, k heads, v heads][size]; q in place
  std::int64_t qkv_stride = 0;        // elements from token to token
  const void* q_norm = nullptr;       // bf16 [size], or null: not normalised
  const void* k_norm = nullptr;
  float epsilon = 1e-6f;
  float norm_offset = 0;  // norms multiply by norm_offset + weight; 0 with clusters
  // Not 0: a query at a position p ≥ logn_context is multiplied by log(p + 1) / log(logn_context),
  // behind norm and rotation. At least 2; 0 in ParamsCuda::fused_prepare.
  std::int64_t logn_context = 0;
};

Status prepare(const PrepareCuda& params, CudaStream stream);

enum class PrefillKernel { kBest, kReference, kTensor, kFlashInfer };
enum class DecodeKernel { kBest, kReference, kTensor, kSplit, kFlashInfer };

struct ParamsCuda {
  PagedKv kv{};
  Heads heads{};
  std::int64_t sequences = 0;  // slots, used or not
  std::int64_t decode = 0;     // of these, how many have one query token
  std::int64_t tokens = 0;     // rows of q that may be used; ≥ query_begin[sequences]
  const std::int32_t* frames = nullptr;
  const std::int32_t* frame_begin = nullptr;
  const std::int32_t* query_begin = nullptr;
  const std::int32_t* length = nullptr;
  float scale = 1;
  const void* q = nullptr;  // bf16, row stride q_stride elements
  std::int64_t q_stride = 0;
  void* out = nullptr;        // bf16 [tokens][query heads][size], contiguous; 0 for unused slots
  void* workspace = nullptr;  // workspace_bytes; need not be cleared
  // The int32 tables, the KV of decode sequences but for their query tokens and, with
  // `fused_prepare`, its RoPE table were complete before the previous kernel of the stream began
  // (written before the step): they are read while that still runs.
  bool tables_early = false;
  // plan() has been enqueued since the tables were written, by parameters that differ at most in
  // the layer; with tables_early, it is among what was complete. Else run() plans. Two plans stand
  // side by side, one within a window and one without.
  bool planned = false;
  // Not null: decode rows have not been through prepare(); the decode kernel does that for them on
  // its way, by `fused_prepare`, whose qkv is q. Only the split kernel and the one for
  // small batches can.
  const PrepareCuda* fused_prepare = nullptr;
  // In steps that only decode: whether the kernel in front is a library's (cuda_launch.cuh).
  bool behind_library = false;
  PrefillKernel prefill_kernel = PrefillKernel::kBest;
  DecodeKernel decode_kernel = DecodeKernel::kBest;
  // Not 0: decode sequences are served by the kernel for small batches, so many CTAs (a cluster: 2,
  // 4, 8 or 16) a sequence and KV head, instead of decode_kernel; small_batch_cluster() says how
  // many. They need no plan, and plan() makes none; the same in plan() and all run() that follow
  // it.
  int cluster = 0;
  int sm_count = 0;  // SMs that the stream's context owns; 0: all that the GPU has
  std::int64_t window = kNoWindow;  // attention.h's; not with clusters
  float cap = 0;                    // attention.h's; not with clusters
};

// The kernel for small batches is the faster one for at most so many decode sequences, none longer
// than small_batch_context_max(): its clusters cannot help each other, the split kernel shares all
// SMs. (Measured at one sequence up to the limit, at more with 1,025 tokens.)
constexpr std::int64_t kSmallBatchSequences = 4;
constexpr std::int64_t small_batch_context_max(std::int64_t sequences) {
  return sequences == 1 ? 4096 : 2048;
}
// The heads that it knows; pure.
bool small_batch_serves(const Heads& heads);
// ParamsCuda::cluster for so many; 0: the split kernel serves them. Asks the driver what the
// current context has room for, and believes no more than its SMs hold (`sm_count`; 0: all that the
// GPU has): keep the answer.
int small_batch_cluster(const Heads& heads, std::int64_t sequences, int sm_count = 0);

// For any step of at most so many sequences and tokens. One launch at a time uses a workspace.
Bytes workspace_bytes(const Heads& heads, std::int64_t sequences, std::int64_t tokens);

// Enqueues the finding of what all layers' run() of a step need to know: from the tables, into the
// workspace. What depends on a layer, and q and out, is not looked at.
Status plan(const ParamsCuda& params, CudaStream stream);

// KV of all tokens, the query tokens' own included, has been written (but for `fused_prepare`).
Status run(const ParamsCuda& params, CudaStream stream);

// Which kernel serves; pure. kBest is resolved, what the build or shape does not allow is refused.
bool has_flashinfer();
// Whether the decode kernel is to prepare decoding rows itself (ParamsCuda::fused_prepare): it can
// for the heads that the split kernel serves.
bool fuses_prepare(const Heads& heads, std::int64_t decode);
Result<PrefillKernel> choose_prefill(const Heads& heads, PrefillKernel wanted);
Result<DecodeKernel> choose_decode(const Heads& heads, DecodeKernel wanted);

}  // namespace causeway::kernels::attention
