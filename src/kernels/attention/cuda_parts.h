// The kernels behind attention_cuda.h, one launch function each. Arguments have been checked.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/attention/attention_cuda.h"

namespace causeway::kernels::attention::parts {

// ParamsCuda::window as kernels take it: lengths are int32.
constexpr int kNoDeviceWindow = std::numeric_limits<int>::max();
inline int device_window(const ParamsCuda& params) {
  return static_cast<int>(std::min<std::int64_t>(params.window, kNoDeviceWindow));
}

// Sequences [first, sequences), whatever their number of query tokens.
Status run_reference(const ParamsCuda& params, std::int64_t first, std::int64_t last,
                     CudaStream stream);

// The same by the tensor cores, for heads that tensor_serves().
Status run_tensor(const ParamsCuda& params, std::int64_t first, std::int64_t last,
                  CudaStream stream);
constexpr bool tensor_serves(const Heads& heads) { return heads.size <= 128; }

// Sequences [0, decode).
Status run_split(const ParamsCuda& params, CudaStream stream);
Status run_split_plan(const ParamsCuda& params, CudaStream stream);
Bytes split_workspace(const Heads& heads, std::int64_t sequences);
// Query heads of a KV head that the split kernel serves at most, KV heads, and head sizes. At 256 a
// warp has registers for the sums of eight heads; at 96 no model is known that shares more.
constexpr std::int64_t kSplitGroupMax = 16;
constexpr std::int64_t kSplitKvMax = 512;
constexpr std::int64_t split_group_max(std::int64_t size) {
  return size == 64 || size == 128 ? kSplitGroupMax : 8;
}
constexpr std::int64_t split_kv_max(std::int64_t size) { return size < 256 ? kSplitKvMax : 256; }
constexpr bool split_serves(const Heads& heads) {
  return (heads.size == 64 || heads.size == 96 || heads.size == 128 || heads.size == 256) &&
         heads.kv >= 1 && heads.kv <= split_kv_max(heads.size) &&
         heads.query / heads.kv <= split_group_max(heads.size);
}

// Sequences [0, decode) by clusters of CTAs, one launch and no plan: for heads that
// small_batch_serves(), at most 65,535 sequences, and fast for few.
constexpr int kSmallBatchClusterMax = 16;  // CTAs
// How many clusters of so many CTAs the current context has room for at once, each CTA on an SM of
// its own: those of a cluster lie together. 0: the driver does not say.
std::int64_t small_batch_room(const Heads& heads, int cluster);
// CTAs of a cluster, where there is room for so many clusters of 4 and of 8; 0: the split kernel
// serves. Pure.
int choose_small_batch_cluster(const Heads& heads, std::int64_t sequences, std::int64_t room_of_4,
                               std::int64_t room_of_8);
Status run_small_batch(const ParamsCuda& params, CudaStream stream);

// Sequences [decode, sequences), which may be any. `tiles` is what list_tiles wrote.
// Query tokens × query heads a KV head, of a tile: what FlashInfer's kernel has room for.
constexpr int prefill_tile_rows(std::int64_t head_size) { return head_size < 256 ? 128 : 64; }
struct PrefillTiles {
  std::int32_t* sequence = nullptr;  // [capacity] within the prefill sequences
  std::int32_t* tile = nullptr;      // [capacity]
  std::int32_t* zero = nullptr;      // [capacity]
  bool* valid = nullptr;             // [capacity]
  std::int64_t capacity = 0;
};
std::int64_t prefill_tiles(const Heads& heads, std::int64_t sequences, std::int64_t tokens);
Bytes prefill_workspace(const Heads& heads, std::int64_t sequences, std::int64_t tokens);
Status run_flashinfer_64(const ParamsCuda& params, const PrefillTiles& tiles, CudaStream stream);
Status run_flashinfer_128(const ParamsCuda& params, const PrefillTiles& tiles, CudaStream stream);
// The same with a window or a soft cap of scores, of either size.
Status run_flashinfer_bounded(const ParamsCuda& params, const PrefillTiles& tiles,
                              CudaStream stream);
// With a window and a soft cap, or without.
Status run_flashinfer_256(const ParamsCuda& params, const PrefillTiles& tiles, CudaStream stream);
// Lists the tiles, then runs the FlashInfer kernel of the head size.
Status run_flashinfer(const ParamsCuda& params, CudaStream stream);

}  // namespace causeway::kernels::attention::parts
