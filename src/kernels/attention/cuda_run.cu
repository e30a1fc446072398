// The door of attention_cuda.h: checks, and the order of launches.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "kernels/attention/cuda_parts.h"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::attention {
namespace {

Status check(const ParamsCuda& p) {
  if (p.kv.dtype != DType::kBF16) return unsupported("attention: KV on a GPU is held as BF16");
  if (p.kv.block_tokens < 1 || p.kv.block_tokens > (std::int64_t{1} << 24) ||
      p.kv.token_stride.count % 16 != 0 || p.kv.key_offset.count % 16 != 0 ||
      p.kv.value_offset.count % 16 != 0 || p.kv.frame_bytes.count % 16 != 0 ||
      p.q_stride % 8 != 0 ||
      (p.fused_prepare != nullptr && p.fused_prepare->rope_table == nullptr)) {
    return invalid_argument(
        "attention: frames, their parts and the rows of q must be aligned to 16 bytes");
  }
  if (p.cluster < 0 || p.cluster == 1 || p.cluster > parts::kSmallBatchClusterMax ||
      (p.cluster & (p.cluster - 1)) != 0 || (p.cluster > 0 && !small_batch_serves(p.heads))) {
    return invalid_argument("attention: no clusters of " + std::to_string(p.cluster) +
                            " CTAs serve " + std::to_string(p.heads.query) + "/" +
                            std::to_string(p.heads.kv) + " heads of " +
                            std::to_string(p.heads.size));
  }
  if (p.window < 1 || (p.window < kNoWindow && p.cluster > 0)) {
    return invalid_argument("attention: no window of " + std::to_string(p.window) +
                            " tokens in clusters, or of none");
  }
  if (!(p.cap >= 0) || (p.cap > 0 && p.cluster > 0)) {
    return invalid_argument("attention: a soft cap is above 0, and clusters know none");
  }
  if (p.cluster > 0 && p.fused_prepare != nullptr && p.fused_prepare->q_norm != nullptr &&
      p.fused_prepare->norm_offset != 0) {
    return invalid_argument("attention: clusters know no norms with an offset");
  }
  if (p.fused_prepare != nullptr && p.fused_prepare->logn_context != 0) {
    return invalid_argument("attention: queries are scaled by prepare()");
  }
  const std::int64_t limit = std::int64_t{1} << 30;
  if (p.decode < 0 || p.decode > p.sequences || p.tokens < p.decode || p.sequences > limit ||
      p.tokens > limit) {
    return invalid_argument("attention: " + std::to_string(p.sequences) + " sequences of which " +
                            std::to_string(p.decode) + " decode, in " + std::to_string(p.tokens) +
                            " rows");
  }
  return {};
}

Status run_decode(const ParamsCuda& p, CudaStream stream) {
  if (p.cluster > 0) return parts::run_small_batch(p, stream);
  CAUSEWAY_ASSIGN(const DecodeKernel decode, choose_decode(p.heads, p.decode_kernel));
  if (decode == DecodeKernel::kSplit) return parts::run_split(p, stream);
  if (p.fused_prepare != nullptr) {
    return invalid_argument("attention: only the split kernel prepares rows itself");
  }
  if (decode == DecodeKernel::kReference) return parts::run_reference(p, 0, p.decode, stream);
  if (decode == DecodeKernel::kTensor) return parts::run_tensor(p, 0, p.decode, stream);
  ParamsCuda alone = p;
  alone.sequences = alone.tokens = p.decode;
  alone.decode = 0;
  return parts::run_flashinfer(alone, stream);
}

// Whether FlashInfer serves decoding sequences too: then they are prompts of one token.
Result<bool> all_by_flashinfer(const ParamsCuda& p, PrefillKernel prefill) {
  CAUSEWAY_ASSIGN(const DecodeKernel decode, choose_decode(p.heads, p.decode_kernel));
  return p.decode > 0 && p.cluster == 0 && p.fused_prepare == nullptr &&
         decode == DecodeKernel::kFlashInfer && prefill == PrefillKernel::kFlashInfer;
}

}  // namespace

Bytes workspace_bytes(const Heads& heads, std::int64_t sequences, std::int64_t tokens) {
  return parts::split_workspace(heads, sequences) +
         parts::prefill_workspace(heads, sequences, tokens);
}

int small_batch_cluster(const Heads& heads, std::int64_t sequences, int sm_count) {
  if (sequences > kSmallBatchSequences || !small_batch_serves(heads)) return 0;
  const auto room = [&](int cluster) {
    const std::int64_t fit = parts::small_batch_room(heads, cluster);
    return sm_count > 0 ? std::min<std::int64_t>(fit, sm_count / cluster) : fit;
  };
  return parts::choose_small_batch_cluster(heads, sequences, room(4), room(8));
}

Status plan(const ParamsCuda& params, CudaStream stream) {
  CAUSEWAY_TRY(check(params));
  CAUSEWAY_ASSIGN(const DecodeKernel decode, choose_decode(params.heads, params.decode_kernel));
  if (params.decode == 0 || params.cluster > 0 || decode != DecodeKernel::kSplit) return {};
  return parts::run_split_plan(params, stream);
}

Status run(const ParamsCuda& params, CudaStream stream) {
  CAUSEWAY_TRY(check(params));
  CAUSEWAY_ASSIGN(const PrefillKernel prefill, choose_prefill(params.heads, params.prefill_kernel));
  CAUSEWAY_ASSIGN(const bool all, all_by_flashinfer(params, prefill));
  if (all) {
    ParamsCuda prompts = params;
    prompts.decode = 0;
    return parts::run_flashinfer(prompts, stream);
  }
  if (params.decode > 0) CAUSEWAY_TRY(run_decode(params, stream));
  if (params.decode == params.sequences) return {};
  if (prefill == PrefillKernel::kFlashInfer) return parts::run_flashinfer(params, stream);
  return (prefill == PrefillKernel::kTensor ? parts::run_tensor : parts::run_reference)(
      params, params.decode, params.sequences, stream);
}

}  // namespace causeway::kernels::attention
