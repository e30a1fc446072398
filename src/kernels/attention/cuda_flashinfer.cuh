// FlashInfer's paged prefill for one head size, over block-first frames: the page stride is the
// whole frame. It counts elements of a page in 32 bits and multiplies by the page in 64, so frames
// are below 8 GiB and the pool may be of any size.
#pragma once

#ifdef CAUSEWAY_FLASHINFER
#include <type_traits>

#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/variants.cuh>
#endif

#include "kernels/attention/cuda_parts.h"
#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::attention::parts {

#ifdef CAUSEWAY_FLASHINFER

// Causal attention within a window and with a soft cap of scores, both by parameters, so that one
// instance serves all four.
struct BoundedAttention : flashinfer::AttentionVariantBase {
  static constexpr bool use_softmax = true;

  uint32_t qo_len, kv_len;
  uint32_t window_left;
  float sm_scale_log2;
  float before_tanh;  // 0: no cap

  template <typename Params>
  __device__ __host__ BoundedAttention(const Params& params, uint32_t batch_idx, uint8_t*) {
    const bool capped = params.logits_soft_cap > 0;
    qo_len = params.get_qo_len(batch_idx);
    kv_len = params.get_kv_len(batch_idx);
    before_tanh = capped ? params.sm_scale / params.logits_soft_cap : 0;
    sm_scale_log2 = flashinfer::math::log2e * (capped ? params.logits_soft_cap : params.sm_scale);
    window_left = params.window_left >= 0 ? params.window_left : kv_len;
  }

  // tanh by an exponential: the GPU's own instruction is off by 2^-11, with a cap of 50 by 0.02.
  REGISTER_LOGITS_TRANSFORM(params, logits, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx, {
    if (before_tanh > 0) {
      return T(1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * before_tanh * float(logits))));
    }
    return logits;
  })

  REGISTER_LOGITS_MASK(params, batch_idx, qo_idx, kv_idx, qo_head_idx, kv_head_idx,
                       { return kv_idx + qo_len + window_left >= kv_len + qo_idx; })
};

// FlashInfer takes a sequence's length from the number of its frames. Ours may have more than its
// tokens fill, so the length is the step's own.
struct PagedParams
    : flashinfer::BatchPrefillPagedParams<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, int32_t> {
  const int32_t* length = nullptr;  // [sequences]

  __device__ __host__ uint32_t get_kv_len(uint32_t sequence) const {
    return static_cast<uint32_t>(length[sequence]);
  }
};

// The one instance of a head size that its own choice comes to on an SM with 228 KiB of shared
// memory: that choice is made at run time, among instances of which the others are never launched.
template <int kSize, bool kBounded>
struct PagedKernel {
  using Element = __nv_bfloat16;
  using Variant = std::conditional_t<kBounded, BoundedAttention,
                                     flashinfer::DefaultAttention<false, false, false, false>>;
  static constexpr uint32_t kTileRows = prefill_tile_rows(kSize);
  static constexpr uint32_t kWarps = flashinfer::get_num_warps_q(kTileRows);
  using Traits = flashinfer::KernelTraits<
      flashinfer::MaskMode::kCausal, kTileRows, flashinfer::get_num_mma_q(kTileRows), 4, kSize / 16,
      kSize / 16, kWarps, flashinfer::get_num_warps_kv(kTileRows),
      flashinfer::PosEncodingMode::kNone, Element, Element, Element, float, int32_t, Variant>;
  static constexpr size_t kShared = sizeof(typename Traits::SharedStorage);
  static_assert(!Traits::IsInvalid());
  static_assert(2 * (kShared + 1024) <= 228 << 10, "two CTAs share an SM");
};

template <int kSize, bool kBounded>
PagedParams paged_params(const ParamsCuda& p, const PrefillTiles& tiles) {
  using Element = __nv_bfloat16;
  const int64_t strides[3] = {p.kv.frame_bytes.count / 2, p.kv.token_stride.count / 2, kSize};
  auto* keys = reinterpret_cast<Element*>(p.kv.base + p.kv.key_offset.count);
  auto* values =
      reinterpret_cast<Element*>(p.kv.base + p.kv.key_offset.count + p.kv.value_offset.count);
  PagedParams params;
  params.length = p.length + p.decode;
  params.paged_kv = flashinfer::paged_kv_t<Element, int32_t>(
      static_cast<uint32_t>(p.heads.kv), static_cast<uint32_t>(p.kv.block_tokens), kSize,
      static_cast<uint32_t>(p.sequences - p.decode), flashinfer::QKVLayout::kNHD, keys, values,
      strides, const_cast<int32_t*>(p.frames), const_cast<int32_t*>(p.frame_begin + p.decode),
      nullptr);
  params.q = static_cast<Element*>(const_cast<void*>(p.q));
  params.o = static_cast<Element*>(p.out);
  params.q_indptr = const_cast<int32_t*>(p.query_begin + p.decode);
  params.o_indptr = params.q_indptr;
  params.group_size = flashinfer::uint_fastdiv(static_cast<uint32_t>(p.heads.query / p.heads.kv));
  params.num_qo_heads = static_cast<uint32_t>(p.heads.query);
  params.q_stride_n = static_cast<int32_t>(p.q_stride);
  params.q_stride_h = kSize;
  const bool windowed = kBounded && p.window < kNoWindow;
  params.window_left = windowed ? device_window(p) - 1 : -1;  // itself not counted
  params.logits_soft_cap = kBounded ? p.cap : 0;
  params.sm_scale = p.scale;
  params.rope_rcp_scale = 1;
  params.rope_rcp_theta = 1;
  params.request_indices = tiles.sequence;
  params.qo_tile_indices = tiles.tile;
  params.kv_tile_indices = tiles.zero;
  params.block_valid_mask = tiles.valid;
  params.kv_chunk_size_ptr = tiles.zero;
  params.padded_batch_size = static_cast<uint32_t>(tiles.capacity);
  params.partition_kv = false;
  return params;
}

template <int kSize, bool kBounded>
Status run_flashinfer_sized(const ParamsCuda& p, const PrefillTiles& tiles, CudaStream stream) {
  using Kernel = PagedKernel<kSize, kBounded>;
  const char* what = "attention (FlashInfer)";
  if (tiles.capacity == 0) return {};
  PagedParams params = paged_params<kSize, kBounded>(p, tiles);
  // Not by programmatic launch: the kernel reads the tiles before it waits for its predecessor.
  auto* kernel =
      flashinfer::BatchPrefillWithPagedKVCacheKernel<typename Kernel::Traits, PagedParams>;
  const device::CudaFirstLaunch loading(kernel, stream);
  CAUSEWAY_TRY(
      launch_status(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(Kernel::kShared)),
                    what));
  const dim3 grid(params.padded_batch_size, 1, static_cast<unsigned>(p.heads.kv));
  const dim3 block(32, Kernel::kWarps, flashinfer::get_num_warps_kv(Kernel::kTileRows));
  void* arguments[] = {&params};
  return launch_status(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block,
                                        arguments, Kernel::kShared, stream),
                       what);
}

#else

template <int kSize, bool kBounded>
Status run_flashinfer_sized(const ParamsCuda&, const PrefillTiles&, CudaStream) {
  return unsupported("attention: this build is without FlashInfer");
}

#endif

}  // namespace causeway::kernels::attention::parts
