// What every layer of a step has in common, found once: which tiles each worker of the decode
// kernel has, where they begin, and how many pieces each sequence is left in.
//
// A kernel of the layers would otherwise begin with four reads that wait for one another (lengths,
// sequence, block table, frame), 0.6 to 1 µs each, and longer behind KV on its way.
#include <algorithm>

#include "kernels/attention/cuda_split.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr int kThreads = 128;

// How tiles are shared out.
struct Share {
  int64_t tiles, slots;
  __device__ int64_t begin(int64_t slot) const { return tiles * slot / slots; }
  __device__ int64_t slot_of(int64_t tile) const { return ((tile + 1) * slots - 1) / tiles; }
};

// All lanes: the number of tiles of sequences [0, end).
__device__ int64_t count_tiles(const SplitArgs& a, int lane, int end) {
  int mine = 0;
#pragma unroll 4
  for (int index = lane; index < end; index += 32) mine += tiles_of(seen_of(a, a.length[index]));
  return __reduce_add_sync(0xFFFFFFFFu, mine);
}

// A tile's sequence, and the number of its first tile.
struct Found {
  int sequence = 0;
  int64_t start = 0;
};

// All lanes: where tile `wanted` is, which exists.
__device__ Found find_tile(const SplitArgs& a, int lane, int64_t wanted) {
  int64_t before = 0;
  for (int first = 0; first < a.sequences; first += 32) {
    const int index = first + lane;
    const int mine = index < a.sequences ? tiles_of(seen_of(a, a.length[index])) : 0;
    const int all = __reduce_add_sync(0xFFFFFFFFu, mine);
    if (before + all <= wanted) {
      before += all;
      continue;
    }
    int through = mine;
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      const int other = __shfl_up_sync(0xFFFFFFFFu, through, lanes);
      if (lane >= lanes) through += other;
    }
    const unsigned holders = __ballot_sync(0xFFFFFFFFu, before + through > wanted);
    const int holder = __ffs(static_cast<int>(holders)) - 1;
    return {first + holder, before + __shfl_sync(0xFFFFFFFFu, through - mine, holder)};
  }
  return {};
}

// The plan of a sequence of `count` > 0 tiles from `start` on.
__device__ SequencePlan pieces_of(const Share& share, int sequence, int64_t start, int count) {
  const int64_t first = share.slot_of(start);
  SequencePlan plan = {};
  plan.first = static_cast<int>(first);
  plan.count = static_cast<int>(share.slot_of(start + count - 1) - first) + 1;
  plan.within = start > share.begin(first) ? 1 : 0;
  plan.sequence = sequence;
  return plan;
}

// What crosses into a slot, of which `found` has the first tile, from the slot in front.
__device__ void plan_crossing(const SplitArgs& a, const Share& share, int slot,
                              const Found& found) {
  if (slot == 0) return;
  const bool crosses = slot < share.slots && found.start < share.begin(slot) &&
                       share.slot_of(found.start) == slot - 1;
  const int seen = seen_of(a, a.length[found.sequence]);
  a.crossing[slot - 1] =
      crosses ? pieces_of(share, found.sequence, found.start, tiles_of(seen)) : SequencePlan{};
}

__device__ void plan_slot(const SplitArgs& a, const Share& share, int slot, int lane) {
  SlotPlan& plan = a.slot_plan[slot];
  const int64_t begin = slot < share.slots ? share.begin(slot) : 0;
  const int64_t end = slot < share.slots ? share.begin(slot + 1) : 0;
  if (begin == end) {
    if (lane == 0) plan.count = 0;
    if (lane == 0) plan_crossing(a, share, slot, {});
    return;
  }
  const Found found = find_tile(a, lane, begin);
  if (lane == 0) plan_crossing(a, share, slot, found);
  const int tile = static_cast<int>(begin - found.start);
  const int length = a.length[found.sequence], seen = seen_of(a, length);
  const int token = length - seen + tile * kTile;
  const int block = token / a.block_tokens;
  const int frames_end = a.frame_begin[a.sequences];
  const int frame_at = a.frame_begin[found.sequence] + block;
  if (lane == 0) {
    plan.sequence = found.sequence;
    plan.tile = tile;
    plan.count = static_cast<int>(end - begin);
    plan.length = seen;
    plan.frame_at = frame_at;
    plan.within = token - block * a.block_tokens;
    plan.frames_end = frames_end;
    plan.pad = 0;
  }
  const int next = found.sequence + 1 + lane;
  plan.frames[lane] = frame_at + lane < frames_end ? a.frames[frame_at + lane] : 0;
  plan.lengths[lane] = next < a.sequences ? a.length[next] : 0;
  plan.frame_begins[lane] = next < a.sequences ? a.frame_begin[next] : 0;
}

__device__ void plan_sequence(const SplitArgs& a, const Share& share, int sequence, int lane) {
  const int count = tiles_of(seen_of(a, a.length[sequence]));
  const int64_t start = count_tiles(a, lane, sequence);
  if (lane != 0) return;
  a.sequence_plan[sequence] = count > 0 ? pieces_of(share, sequence, start, count) : SequencePlan{};
}

// A warp a slot, then a warp a sequence.
__global__ void __launch_bounds__(kThreads) plan_kernel(const SplitArgs a) {
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int index = static_cast<int>(blockIdx.x * (kThreads / 32) + threadIdx.x / 32);
  if (index >= a.slots + a.sequences) return;
  const int64_t tiles = count_tiles(a, lane, a.sequences);
  const Share share = {tiles, min(int64_t{a.slots}, tiles)};
  if (index < a.slots) {
    plan_slot(a, share, index, lane);
  } else {
    plan_sequence(a, share, index - a.slots, lane);
  }
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Shared memory of a worker.
int worker_bytes(std::int64_t size, int slot_bytes) {
  return size == 64    ? Ring<64>::worker_bytes(slot_bytes)
         : size == 96  ? Ring<96>::worker_bytes(slot_bytes)
         : size == 128 ? Ring<128>::worker_bytes(slot_bytes)
                       : Ring<256>::worker_bytes(slot_bytes);
}

int warps_max(std::int64_t size, int slot_bytes) {
  return std::min(kWarpsMax, kSharedMax / worker_bytes(size, slot_bytes));
}

std::int64_t slots_max(const Heads& heads) {
  return kCtasMax * warps_max(heads.size, 0) / heads.kv;
}

// Rows of the query heads that share a KV head, of all pieces.
std::int64_t piece_rows(const Heads& heads) {
  return slots_max(heads) * heads.kv * 2 * (heads.query / heads.kv);
}

// How the work is cut: by the heads, and how many sequences there are. The same for the plan and
// for the kernels that follow it. On few SMs there are still as many CTAs as a slot's workers need.
void cut(const Heads& heads, int sms, SplitArgs& a) {
  const bool few = a.sequences <= kSplitSmallBatch;
  a.early_tiles = few ? 8 : 1;
  a.slot_bytes = few ? 0 : a.group * static_cast<int>(heads.size) * 2;
  a.warps = few ? split_warps_small_batch(heads.size) : warps_max(heads.size, a.slot_bytes);
  a.ctas = std::min(std::max(sms, (a.kv_heads + a.warps - 1) / a.warps), kCtasMax);
  a.slots = a.ctas * a.warps / a.kv_heads;
}

// Bytes of slot_plan, of crossing, and of all that is planned.
std::int64_t slot_plan_bytes(const Heads& heads) {
  return aligned(slots_max(heads) * static_cast<std::int64_t>(sizeof(SlotPlan)));
}
std::int64_t crossing_bytes(const Heads& heads) {
  return aligned(slots_max(heads) * static_cast<std::int64_t>(sizeof(SequencePlan)));
}
std::int64_t plan_bytes(const Heads& heads, std::int64_t sequences) {
  return slot_plan_bytes(heads) + crossing_bytes(heads) +
         aligned(sequences * static_cast<std::int64_t>(sizeof(SequencePlan)));
}

}  // namespace

Bytes split_workspace(const Heads& heads, std::int64_t sequences) {
  if (!split_serves(heads)) return Bytes(0);
  return Bytes(aligned(piece_rows(heads) * 8) + aligned(piece_rows(heads) * heads.size * 4) +
               2 * plan_bytes(heads, sequences));  // within a window, and without
}

Result<SplitArgs> split_args(const ParamsCuda& p) {
  int device = 0, sms = p.sm_count;
  if (sms <= 0) {
    CAUSEWAY_TRY(launch_status(cudaGetDevice(&device), "attention (split)"));
    CAUSEWAY_TRY(launch_status(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device),
                               "attention (split)"));
  }
  SplitArgs a = {};
  static_cast<DecodeArgs&>(a) = decode_args(p);
  a.sequences = static_cast<int>(p.decode);
  a.kv_heads = static_cast<int>(p.heads.kv);
  a.group = static_cast<int>(p.heads.query / p.heads.kv);
  a.block_tokens = static_cast<int>(p.kv.block_tokens);
  a.window = device_window(p);
  cut(p.heads, sms, a);
  a.tables_early = p.tables_early && p.planned;
  a.prepare = fused_prepare_args(p);
  a.scale_log2 = p.cap > 0 ? 2 * kLog2E * p.scale / p.cap : scale_log2_of(p);
  a.cap_log2 = p.cap * kLog2E;
  char* memory = static_cast<char*>(p.workspace);
  a.state = reinterpret_cast<float2*>(memory);
  memory += aligned(piece_rows(p.heads) * 8);
  a.partial = reinterpret_cast<float*>(memory);
  memory += aligned(piece_rows(p.heads) * p.heads.size * 4);
  if (a.window != kNoDeviceWindow) memory += plan_bytes(p.heads, p.sequences);
  a.slot_plan = reinterpret_cast<SlotPlan*>(memory);
  memory += slot_plan_bytes(p.heads);
  a.crossing = reinterpret_cast<SequencePlan*>(memory);
  memory += crossing_bytes(p.heads);
  a.sequence_plan = reinterpret_cast<SequencePlan*>(memory);
  return a;
}

Status run_plan(const SplitArgs& a, CudaStream stream) {
  constexpr int kAtOnce = kThreads / 32;
  const int rows = a.slots + a.sequences;
  return launch("attention (plan)", stream,
                {dim3(static_cast<unsigned>((rows + kAtOnce - 1) / kAtOnce)), dim3(kThreads)},
                plan_kernel, a);
}

}  // namespace causeway::kernels::attention::parts
