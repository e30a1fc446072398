// Prompt chunks by FlashInfer: lists the tiles on the device, so that no plan is made on the host
// and nothing waits. FlashInfer's own planner would also cut long contexts; prompts have enough
// tiles without.
#include "kernels/attention/cuda_parts.h"
#include "kernels/cuda_launch.cuh"

namespace causeway::kernels::attention::parts {
namespace {

struct Args {
  PrefillTiles tiles;
  const int32_t* query_begin;  // [sequences + 1] of the prefill sequences
  const int32_t* length;       // [sequences]
  int sequences, group, block_tokens;
};

// One CTA. Long contexts first within a sequence: its last tile sees most tokens.
__global__ void __launch_bounds__(256) list_tiles(const Args a) {
  wait_for_predecessor();
  int begin = 0;
  for (int s = 0; s < a.sequences; ++s) {
    const int length = a.length[s];
    const int rows = length == 0 ? 0 : (a.query_begin[s + 1] - a.query_begin[s]) * a.group;
    const int count = (rows + kPrefillTileRows - 1) / kPrefillTileRows;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += blockDim.x) {
      const int64_t at = begin + i;
      if (at >= a.tiles.capacity) break;
      a.tiles.sequence[at] = s;
      a.tiles.tile[at] = count - 1 - i;
      a.tiles.zero[at] = 0;
      a.tiles.valid[at] = true;
    }
    if (threadIdx.x == 0)
      a.tiles.last_page[s] = length == 0 ? 0 : (length - 1) % a.block_tokens + 1;
    begin += count;
  }
  for (int64_t at = begin + threadIdx.x; at < a.tiles.capacity; at += blockDim.x) {
    a.tiles.valid[at] = false;
  }
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

std::int64_t prefill_tiles(const Heads& heads, std::int64_t sequences, std::int64_t tokens) {
  return tokens * (heads.query / heads.kv) / kPrefillTileRows + sequences;
}

Bytes prefill_workspace(const Heads& heads, std::int64_t sequences, std::int64_t tokens) {
  const std::int64_t capacity = prefill_tiles(heads, sequences, tokens);
  return Bytes(3 * aligned(capacity * 4) + aligned(capacity) + aligned(sequences * 4));
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
  tiles.last_page = reinterpret_cast<int32_t*>(take(sequences * 4));
  Args a = {};
  a.tiles = tiles;
  a.query_begin = p.query_begin + p.decode;
  a.length = p.length + p.decode;
  a.sequences = static_cast<int>(sequences);
  a.group = static_cast<int>(p.heads.query / p.heads.kv);
  a.block_tokens = static_cast<int>(p.kv.block_tokens);
  CAUSEWAY_TRY(launch("tiles of prompts", stream, {dim3(1), dim3(256)}, list_tiles, a));
  if (p.window < kNoWindow) return run_flashinfer_window(p, tiles, stream);
  return p.heads.size == 64 ? run_flashinfer_64(p, tiles, stream)
                            : run_flashinfer_128(p, tiles, stream);
}

}  // namespace causeway::kernels::attention::parts
