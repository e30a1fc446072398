// Prompt chunks by FlashInfer: lists the tiles on the device, so that no plan is made on the host
// and nothing waits. FlashInfer's own planner would also cut long contexts; prompts have enough
// tiles without.
#include "kernels/attention/cuda_parts.h"
#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr int kThreads = 256;

struct Args {
  PrefillTiles tiles;
  const int32_t* query_begin;  // [sequences + 1]
  const int32_t* length;       // [sequences]
  __nv_bfloat16* out;          // [tokens][row], of which those of places without tokens become 0
  int64_t row;
  int sequences, group, tile_rows;
};

// Sums over the threads up to this one.
__device__ int running_sum(int mine) {
  __shared__ int of_warp[kThreads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const int other = __shfl_up_sync(0xFFFFFFFFu, mine, lanes);
    if (lane >= lanes) mine += other;
  }
  __syncthreads();
  if (lane == 31) of_warp[warp] = mine;
  __syncthreads();
  for (int w = 0; w < warp; ++w) mine += of_warp[w];
  return mine;
}

// All lanes of a warp: the tiles of a sequence, from `begin` to `end`. Long contexts first: its
// last tile sees most tokens.
__device__ void list_sequence(const Args& a, int sequence, int begin, int end, int lane) {
  for (int i = lane; begin + i < end && begin + i < a.tiles.capacity; i += 32) {
    a.tiles.sequence[begin + i] = sequence;
    a.tiles.tile[begin + i] = end - begin - 1 - i;
    a.tiles.zero[begin + i] = 0;
    a.tiles.valid[begin + i] = true;
  }
  if (begin < end) return;
  const int64_t last = a.query_begin[sequence + 1] * a.row;
  for (int64_t i = a.query_begin[sequence] * a.row + lane; i < last; i += 32) {
    a.out[i] = __float2bfloat16(0.0f);
  }
}

// One CTA: a thread a sequence finds where its tiles begin, then a warp a sequence lists them.
__global__ void __launch_bounds__(kThreads) list_tiles(const Args a) {
  __shared__ int ends[kThreads + 1];
  wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) ends[0] = 0;
  for (int first = 0; first < a.sequences; first += kThreads) {
    const int s = first + thread;
    const int length = s < a.sequences ? a.length[s] : 0;
    const int rows = length == 0 ? 0 : (a.query_begin[s + 1] - a.query_begin[s]) * a.group;
    const int through = running_sum((rows + a.tile_rows - 1) / a.tile_rows);
    const int before = ends[0];
    __syncthreads();
    ends[thread + 1] = before + through;
    __syncthreads();
    for (int i = thread / 32; i < kThreads && first + i < a.sequences; i += kThreads / 32) {
      list_sequence(a, first + i, ends[i], ends[i + 1], thread % 32);
    }
    __syncthreads();
    if (thread == 0) ends[0] = ends[kThreads];
    __syncthreads();
  }
  for (int64_t at = ends[0] + thread; at < a.tiles.capacity; at += kThreads) {
    a.tiles.valid[at] = false;
  }
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

std::int64_t prefill_tiles(const Heads& heads, std::int64_t sequences, std::int64_t tokens) {
  return tokens * (heads.query / heads.kv) / prefill_tile_rows(heads.size) + sequences;
}

Bytes prefill_workspace(const Heads& heads, std::int64_t sequences, std::int64_t tokens) {
  const std::int64_t capacity = prefill_tiles(heads, sequences, tokens);
  return Bytes(3 * aligned(capacity * 4) + aligned(capacity));
}

Status run_flashinfer(const ParamsCuda& p, CudaStream stream) {
  const std::int64_t sequences = p.sequences - p.decode;
  PrefillTiles tiles;
  tiles.capacity = prefill_tiles(p.heads, sequences, p.tokens - p.decode);
  char* memory = static_cast<char*>(p.workspace) + split_workspace(p.heads, p.sequences).count;
  const auto take = [&memory](std::int64_t bytes) {
    char* taken = memory;
    memory += aligned(bytes);
    return taken;
  };
  tiles.sequence = reinterpret_cast<int32_t*>(take(tiles.capacity * 4));
  tiles.tile = reinterpret_cast<int32_t*>(take(tiles.capacity * 4));
  tiles.zero = reinterpret_cast<int32_t*>(take(tiles.capacity * 4));
  tiles.valid = reinterpret_cast<bool*>(take(tiles.capacity));
  Args a = {};
  a.tiles = tiles;
  a.query_begin = p.query_begin + p.decode;
  a.length = p.length + p.decode;
  a.sequences = static_cast<int>(sequences);
  a.group = static_cast<int>(p.heads.query / p.heads.kv);
  a.tile_rows = prefill_tile_rows(p.heads.size);
  a.out = static_cast<__nv_bfloat16*>(p.out);
  a.row = p.heads.query * p.heads.size;
  CAUSEWAY_TRY(launch("tiles of prompts", stream, {dim3(1), dim3(kThreads)}, list_tiles, a));
  if (p.heads.size == 256) return run_flashinfer_256(p, tiles, stream);
  if (p.window < kNoWindow || p.cap > 0) return run_flashinfer_bounded(p, tiles, stream);
  return p.heads.size == 64 ? run_flashinfer_64(p, tiles, stream)
                            : run_flashinfer_128(p, tiles, stream);
}

}  // namespace causeway::kernels::attention::parts
