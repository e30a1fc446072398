// Decode: one query token a sequence, the KV read once, at the rate of the HBM.
//
// Work is cut into tiles of 16 tokens of one sequence, numbered through all sequences. A worker is
// one warp: it serves one KV head, and a contiguous range of tiles, so that all warps carry the
// same, whatever the lengths. Workers next to each other take neighbouring heads of the same
// tokens, which lie next to each other in a frame.
//
//   tiles      │ s 0 ······ │ s 1 ··· │ s 2 ·········· │
//   slot       └─ 0 ──┴─ 1 ──┴─ 2 ──┴─ 3 ──┴─ 4 ───────┘   × KV heads = workers
//
// A worker keeps its tiles coming by cp.async into its own ring of shared memory: no barrier
// between warps. The queries of a sequence that begins within its range come with that sequence's
// first tile: a load from the kernel's middle waits behind all KV on its way, and a worker that
// waited for one was 12 µs later than the others. Tokens of earlier steps are asked for before the
// kernel in front has ended. With `fresh`, a token's own q, k and v come as the product left them:
// whoever has a sequence's last tile prepares k and v, puts them into it, and into their frame.
//
// The query heads that share the KV head are the rows of a 16-row tensor-core tile.
// Of a sequence that several slots share, each leaves a partial result; a second kernel, on its way
// before the first ends, adds them up (cuda_merge.cu).
#include <algorithm>

#include "kernels/attention/cuda_parts.h"
#include "kernels/attention/cuda_split.cuh"
#include "kernels/cuda_launch.cuh"
#include "kernels/cuda_mma.cuh"

namespace causeway::kernels::attention::parts {
namespace {

// Workers of a CTA; one CTA an SM. Few leave room beside them for a CTA of the products in front
// and behind, which fills its ring with weights meanwhile (kernels/gemm, CudaShare); with many
// sequences the KV is worth more bytes on their way.
constexpr int kWarpsFew = 4, kWarpsMax = 8;
constexpr int kFewSequences = 4;
constexpr int kCtasMax = 160;  // SMs that are used at most
constexpr int kSharedMax = 227 * 1024;

// Which frame a token lies in, and which of its tokens it is.
struct Spot {
  int frame, within;
};

// A tile, and what of its sequence is needed to find its tokens.
struct Cursor {
  int sequence, tile, length, frame_begin;
  int64_t start;  // number of the sequence's first tile

  __device__ void enter(const SplitArgs& a, int index) {
    sequence = index;
    length = a.length[index];
    frame_begin = a.frame_begin[index];
  }
  // True when that enters another sequence.
  __device__ bool advance(const SplitArgs& a) {
    if (++tile < tiles_of(length)) return false;
    start += tile;
    tile = 0;
    do {
      if (sequence + 1 >= a.sequences) return false;
      enter(a, sequence + 1);
    } while (length == 0);
    return true;
  }
};

// All lanes: the cursor of tile `wanted`, which exists.
__device__ Cursor find_tile(const SplitArgs& a, int lane, int64_t wanted) {
  Cursor found = {};
  int64_t before = 0;
  for (int first = 0; first < a.sequences; first += 32) {
    const int index = first + lane;
    const int mine = index < a.sequences ? tiles_of(a.length[index]) : 0;
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
    found.enter(a, first + holder);
    found.start = before + __shfl_sync(0xFFFFFFFFu, through - mine, holder);
    found.tile = static_cast<int>(wanted - found.start);
    break;
  }
  return found;
}

template <int kSize>
struct Worker {
  static constexpr int kTileBytes = kTile * kSize * 2;  // of K, and of V
  static constexpr int kStages = kSize == 128 ? 3 : 5;
  static constexpr int kRingBytes = kStages * 2 * kTileBytes;
  // Sequences that may begin in tiles on their way: the one that is computed has its queries in
  // registers.
  static constexpr int kSlots = kStages - 1;
  static constexpr int kChunks = kSize / 8;  // pieces of 16 bytes in a row
  static constexpr int kRowsAtOnce = 32 / kChunks;

  const SplitArgs& a;
  char* memory;   // shared, of this warp: kStages × (K tile, V tile), then the slots
  uint32_t ring;  // its address
  int lane;
  int kv_head;
  uint64_t once;              // L2 policy of what is read once
  uint32_t q[kSize / 16][4];  // as the left operand
  float out[kSize / 8][4];
  float largest[2], total[2];  // of rows lane / 4 and lane / 4 + 8
  FreshToken<kSize> own;       // where this worker has the sequence's last tile

  __device__ bool fresh() const { return a.fresh.table != nullptr; }

  // How many of a tile's tokens have been written: its own is none of them when it is fresh.
  __device__ int written(const Cursor& at) const {
    return at.length - (fresh() ? 1 : 0) - at.tile * kTile;
  }

  // Where the lane's token (of the first 16 lanes) lies.
  __device__ Spot spot_of(const Cursor& at) const {
    Spot spot = {0, 0};
    if (lane >= min(kTile, written(at))) return spot;
    const int token = at.tile * kTile + lane;
    const int block = token / a.block_tokens;
    spot.within = token - block * a.block_tokens;
    spot.frame = a.frames[at.frame_begin + block];
    return spot;
  }

  // Rows of 16-byte pieces, swizzled: piece c of row r lies at place c ^ (r mod 8).
  static __device__ uint32_t place(int row, int chunk) {
    return static_cast<uint32_t>(row * kSize * 2 + ((chunk ^ (row & 7)) << 4));
  }

  __device__ void load(const Cursor& at, const Spot& spot, int stage) const {
    const int64_t mine = spot.frame * a.frame_bytes + spot.within * a.token_stride;
    const uint32_t target = ring + static_cast<uint32_t>(stage * 2 * kTileBytes);
    const int chunk = lane % kChunks, count = written(at);
    const char* source = a.keys + kv_head * kSize * 2 + chunk * 16;
    const auto copy = [&](int row, int64_t offset) {
      const char* from = source + offset;
      const bool valid = row < count;
      mma::copy_async(target + place(row, chunk), from, valid, once);
      mma::copy_async(target + kTileBytes + place(row, chunk), from + a.value_offset, valid, once);
    };
    if (a.block_tokens < kTile) {
#pragma unroll
      for (int i = 0; i < kTile / kRowsAtOnce; ++i) {
        const int row = i * kRowsAtOnce + lane / kChunks;
        copy(row, __shfl_sync(0xFFFFFFFFu, mine, row));
      }
      return;
    }
    // Two frames at most: rows before the cut lie in the first.
    const int cut = a.block_tokens - __shfl_sync(0xFFFFFFFFu, spot.within, 0);
    const int64_t low = __shfl_sync(0xFFFFFFFFu, mine, 0);
    const int64_t high = __shfl_sync(0xFFFFFFFFu, mine, min(cut, kTile - 1));
    const int stride = static_cast<int>(a.token_stride);
#pragma unroll
    for (int i = 0; i < kTile / kRowsAtOnce; ++i) {
      const int row = i * kRowsAtOnce + lane / kChunks;
      const bool behind = row >= cut;
      const int rows = row < count ? row - (behind ? cut : 0) : 0;
      copy(row, (behind && row < count ? high : low) + int64_t{rows} * stride);
    }
  }

  __device__ const __nv_bfloat16* queries_of(const Cursor& at) const {
    return a.q + at.sequence * a.q_stride + static_cast<int64_t>(kv_head) * a.group * kSize;
  }
  __device__ const float* turn_of(const Cursor& at) const {
    return a.fresh.table + static_cast<int64_t>(at.sequence) * kSize;
  }

  // ---- queries of a sequence to come ------------------------------------------------------------
  // A slot holds them as a tile's rows are held, and with `fresh` cosines and sines behind them.

  __device__ int slot_offset(int slot) const { return kRingBytes + slot * a.slot_bytes; }
  __device__ int turn_offset() const { return a.group * kSize * 2; }

  // Without slots: into L2 at least. Behind the KV on its way, they would take several
  // microseconds.
  __device__ void ask_for_queries(const Cursor& at, int slot) const {
    const __nv_bfloat16* source = queries_of(at);
    if (a.slot_bytes == 0) {
      if (lane * 64 < a.group * kSize) mma::prefetch(source + lane * 64);
      return;
    }
    const uint32_t target = ring + static_cast<uint32_t>(slot_offset(slot));
    for (int i = lane; i < a.group * kChunks; i += 32) {
      mma::copy_async(target + place(i / kChunks, i % kChunks), source + i * 8, true);
    }
    if (!fresh() || lane * 4 >= kSize) return;
    mma::copy_async(target + static_cast<uint32_t>(turn_offset() + lane * 16),
                    turn_of(at) + lane * 4, true);
  }

  __device__ void read_queries(const __nv_bfloat16* source) {
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int r = lane / 4 + (part & 1) * 8;
        const int column = i * 16 + (part / 2) * 8 + lane % 4 * 2;
        q[i][part] =
            r < a.group ? *reinterpret_cast<const uint32_t*>(source + r * kSize + column) : 0u;
      }
    }
  }
  __device__ void read_slot(int slot) {
    const uint32_t source = ring + static_cast<uint32_t>(slot_offset(slot));
    const int row = min(lane % 16, a.group - 1);
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
      mma::load_matrices(q[i], source + place(row, i * 2 + lane / 16));
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        if (lane / 4 + (part & 1) * 8 >= a.group) q[i][part] = 0;
      }
    }
  }

  // ---- a sequence -------------------------------------------------------------------------------

  // The first of this worker: its queries come straight from memory. `to_end`: this worker has the
  // sequence's last tile. `turn`: of the sequence's token, when it is fresh.
  __device__ void begin_first(const Cursor& at, const QueryTurn<kSize>& turn, bool to_end) {
    if (fresh() && to_end) load_own(at);
    read_queries(queries_of(at));
    begin(turn);
  }
  __device__ void begin_next(const Cursor& at, int slot, bool to_end) {
    if (fresh() && to_end) load_own(at);
    QueryTurn<kSize> turn = {};
    if (a.slot_bytes == 0) {
      if (fresh()) turn.load(turn_of(at), lane);
      read_queries(queries_of(at));
    } else {
      if (fresh()) {
        turn.load(reinterpret_cast<const float*>(memory + slot_offset(slot) + turn_offset()), lane);
      }
      read_slot(slot);
      __syncwarp();  // the slot may be written again
    }
    begin(turn);
  }
  __device__ void load_own(const Cursor& at) {
    const int64_t heads = static_cast<int64_t>(a.kv_heads) * a.group;
    const __nv_bfloat16* keys = a.q + at.sequence * a.q_stride + (heads + kv_head) * kSize;
    own.load(a.fresh, at.sequence, keys, keys + static_cast<int64_t>(a.kv_heads) * kSize, lane);
  }
  __device__ void begin(const QueryTurn<kSize>& turn) {
    if (fresh()) prepare_queries<kSize>(a.fresh, turn, lane, q);
#pragma unroll
    for (auto& four : out) four[0] = four[1] = four[2] = four[3] = 0;
    largest[0] = largest[1] = -INFINITY;
    total[0] = total[1] = 0;
  }

  // The sequence's own token: into its row of the last tile, and into its frame.
  __device__ void place_own(const Cursor& at, int stage) {
    own.prepare(a.fresh, lane);
    const int token = at.length - 1;
    const int64_t frame = a.frames[at.frame_begin + token / a.block_tokens];
    char* target = a.keys + frame * a.frame_bytes + token % a.block_tokens * a.token_stride +
                   kv_head * kSize * 2;
    const uint32_t tile = ring + static_cast<uint32_t>(stage * 2 * kTileBytes);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < own.kPairs; ++i) {
        const int at_element = own.element(half, i, lane);
        const uint32_t offset = place(token % kTile, at_element / 8) + at_element % 8 * 2;
        mma::store_shared(tile + offset, own.k[half][i]);
        mma::store_shared(tile + kTileBytes + offset, own.v[half][i]);
        auto* in_frame = reinterpret_cast<__nv_bfloat16*>(target) + at_element;
        *in_frame = own.k[half][i];
        *(in_frame + a.value_offset / 2) = own.v[half][i];
      }
    }
    __syncwarp();
  }

  __device__ void add_tile(const Cursor& at, int stage) {
    const uint32_t keys = ring + static_cast<uint32_t>(stage * 2 * kTileBytes);
    const uint32_t values = keys + kTileBytes;
    const int of_eight = lane % 8;

    // ---- scores: 16 rows × 16 tokens ----------------------------------------------------------
    // Two sums each, or the products would wait for one another.
    float score[2][4] = {}, other[2][4] = {};
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
      uint32_t k[4];
      mma::load_matrices(k, keys + place(lane / 16 * 8 + of_eight, i * 2 + (lane / 8 & 1)));
      mma::multiply_add(i % 2 == 0 ? score[0] : other[0], q[i], k[0], k[1]);
      mma::multiply_add(i % 2 == 0 ? score[1] : other[1], q[i], k[2], k[3]);
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      score[0][c] += other[0][c];
      score[1][c] += other[1][c];
    }
    const int left = at.length - at.tile * kTile - lane % 4 * 2;  // tokens from this lane's on
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        score[j][c] = j * 8 + (c & 1) < left ? score[j][c] * a.scale_log2 : -INFINITY;
      }
    }

    // ---- softmax so far -----------------------------------------------------------------------
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float above = fmaxf(fmaxf(score[0][2 * half], score[0][2 * half + 1]),
                          fmaxf(score[1][2 * half], score[1][2 * half + 1]));
      above = fmaxf(above, __shfl_xor_sync(0xFFFFFFFFu, above, 1));
      above = fmaxf(above, __shfl_xor_sync(0xFFFFFFFFu, above, 2));
      above = fmaxf(above, largest[half]);
      const float shrink = exp2f(largest[half] - above);
      const bool same = __all_sync(0xFFFFFFFFu, above == largest[half]);
      largest[half] = above;
      total[half] *= shrink;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int c = 2 * half; c < 2 * half + 2; ++c) {
          score[j][c] = exp2f(score[j][c] - above);
          total[half] += score[j][c];
        }
      }
      if (same) continue;
#pragma unroll
      for (auto& four : out) {
        four[2 * half] *= shrink;
        four[2 * half + 1] *= shrink;
      }
    }

    // ---- values -------------------------------------------------------------------------------
    const uint32_t weight[4] = {
        mma::pack(score[0][0], score[0][1]), mma::pack(score[0][2], score[0][3]),
        mma::pack(score[1][0], score[1][1]), mma::pack(score[1][2], score[1][3])};
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
      uint32_t v[4];
      mma::load_matrices_transposed(
          v, values + place((lane / 8 & 1) * 8 + of_eight, i * 2 + lane / 16));
      mma::multiply_add(out[2 * i], weight, v[0], v[1]);
      mma::multiply_add(out[2 * i + 1], weight, v[2], v[3]);
    }
  }

  // Writes the output when the worker had the whole sequence, else its piece of it. `first`: the
  // first tile that it had.
  __device__ void end_sequence(const Cursor& at, int first, const Share& share, int64_t slot) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      total[half] += __shfl_xor_sync(0xFFFFFFFFu, total[half], 1);
      total[half] += __shfl_xor_sync(0xFFFFFFFFu, total[half], 2);
    }
    const int count = tiles_of(at.length);
    if (first == 0 && at.tile + 1 == count) {
      __nv_bfloat16* target = row_of(at.sequence);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = lane / 4 + 8 * half;
        if (r >= a.group) continue;
        const float inverse = 1.0f / total[half];
#pragma unroll
        for (int i = 0; i < kSize / 8; ++i) {
          *reinterpret_cast<uint32_t*>(target + r * kSize + i * 8 + lane % 4 * 2) =
              mma::pack(out[i][2 * half] * inverse, out[i][2 * half + 1] * inverse);
        }
      }
      return;
    }
    const int64_t piece = piece_of(a, kv_head, slot, at.start > share.begin(slot));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = lane / 4 + 8 * half;
      if (r >= a.group) continue;
      float* target = a.partial + (piece * a.group + r) * kSize + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kSize / 8; ++i) {
        __stcg(reinterpret_cast<float2*>(target + i * 8),
               make_float2(out[i][2 * half], out[i][2 * half + 1]));
      }
      if (lane % 4 == 0) {
        __stcg(a.state + piece * a.group + r, make_float2(largest[half], total[half]));
      }
    }
  }

  __device__ __nv_bfloat16* row_of(int sequence) const {
    return a.out + (static_cast<int64_t>(sequence) * a.kv_heads + kv_head) * a.group * kSize;
  }
};

// Shared memory of a worker.
template <int kSize>
__host__ __device__ constexpr int shared_bytes(int slot_bytes) {
  return Worker<kSize>::kRingBytes + Worker<kSize>::kSlots * slot_bytes;
}

// Grid: one CTA an SM. A warp is a worker; warps share nothing.
template <int kSize>
__global__ void __launch_bounds__(kWarpsMax * 32, 1) split_kernel(const SplitArgs a) {
  extern __shared__ __align__(128) char shared[];
  if (!a.tables_early) wait_for_predecessor();
  if (a.tables_early) let_successor_start();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int worker = static_cast<int>(blockIdx.x) * warps + warp;
  const int64_t slot = worker / a.kv_heads;
  const int64_t slots = static_cast<int64_t>(gridDim.x) * warps / a.kv_heads;
  if (slot >= slots) {
    wait_for_predecessor();
    return;
  }
  Worker<kSize> w = {a};
  w.memory = shared + warp * shared_bytes<kSize>(a.slot_bytes);
  w.ring = mma::shared_address(w.memory);
  w.lane = lane;
  w.once = mma::policy_of_once();
  w.kv_head = worker % a.kv_heads;

  // ---- this worker's tiles ----------------------------------------------------------------------
  const int64_t tiles = count_tiles(a, lane, a.sequences);
  const Share share = {tiles, min(slots, tiles)};
  const int count =
      slot < share.slots ? static_cast<int>(share.begin(slot + 1) - share.begin(slot)) : 0;
  Cursor compute = {}, loading = {};
  bool begins = false;  // `loading` is the first tile of a sequence behind the first
  Spot spot = {};
  QueryTurn<kSize> turn = {};
  if (count > 0) {
    loading = compute = find_tile(a, lane, share.begin(slot));
    spot = w.spot_of(loading);
    if (w.fresh()) turn.load(w.turn_of(compute), lane);
  }
  // A prepared token's k and v were written by the kernel in front.
  const bool early = a.tables_early && w.fresh();
  if (a.tables_early && !early) wait_for_predecessor();
  if (count == 0) {
    if (early) wait_for_predecessor();
    return;
  }

  // ---- loads ahead, then tile by tile ---------------------------------------------------------
  int loaded = 0, entered = 0, begun = 0;  // tiles; sequences behind the first
  bool waited = !early;
  const auto load_next = [&] {
    if (loaded < count) {
      w.load(loading, spot, loaded % w.kStages);
      if (begins && waited) w.ask_for_queries(loading, entered++ % w.kSlots);
      if (++loaded < count) {
        begins = loading.advance(a);
        spot = w.spot_of(loading);  // asked for now, needed for the next load
      }
    }
    mma::commit_copies();
  };
  const auto to_end = [&](int done) {
    return tiles_of(compute.length) - compute.tile <= count - done;
  };
  if (!early) w.begin_first(compute, turn, to_end(0));
#pragma unroll
  for (int i = 0; i + 1 < w.kStages; ++i) load_next();
  if (early) {
    wait_for_predecessor();
    waited = true;
    // What has been passed over: a group of its own, which is there when the second tile is.
    Cursor passed = compute;
    for (int i = 1; i < loaded; ++i) {
      if (passed.advance(a)) w.ask_for_queries(passed, entered++ % w.kSlots);
    }
    mma::commit_copies();
    w.begin_first(compute, turn, to_end(0));
  }
  int first = compute.tile;
  bool enters = false;
  for (int done = 0; done < count;) {
    mma::wait_copies<Worker<kSize>::kStages - 2>();
    __syncwarp();
    if (enters) w.begin_next(compute, begun++ % w.kSlots, to_end(done));
    const bool ends = compute.tile + 1 == tiles_of(compute.length);
    if (ends && w.fresh()) w.place_own(compute, done % w.kStages);
    load_next();
    w.add_tile(compute, done % w.kStages);
    ++done;
    enters = false;
    if (!ends && done < count) {
      ++compute.tile;
      continue;
    }
    w.end_sequence(compute, first, share, slot);
    if (done == count) break;
    enters = compute.advance(a);
    first = 0;
  }
}

template <int kSize>
Status launch_split(SplitArgs a, int ctas, CudaStream stream) {
  const bool few = a.sequences <= kFewSequences;
  if (!few) a.slot_bytes = a.group * kSize * 2 + (a.fresh.table != nullptr ? kSize * 4 : 0);
  const int of_worker = shared_bytes<kSize>(a.slot_bytes);
  const int warps = few ? kWarpsFew : std::min(kWarpsMax, kSharedMax / of_worker);
  const LaunchShape shape = {dim3(static_cast<unsigned>(ctas)),
                             dim3(static_cast<unsigned>(warps * 32)), warps * of_worker,
                             kSharedMax};
  CAUSEWAY_TRY(launch("attention (split)", stream, shape, split_kernel<kSize>, a));
  return merge_pieces(a, kSize, ctas * warps / a.kv_heads, stream);
}

std::int64_t pieces(const Heads& heads) {
  return kCtasMax * kWarpsMax / heads.kv * heads.kv * 2 * (heads.query / heads.kv);
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Bytes split_workspace(const Heads& heads) {
  if (!split_serves(heads)) return Bytes(0);
  return Bytes(aligned(pieces(heads) * 8) + aligned(pieces(heads) * heads.size * 4));
}

Status run_split(const ParamsCuda& p, CudaStream stream) {
  int device = 0, sms = 0;
  CAUSEWAY_TRY(launch_status(cudaGetDevice(&device), "attention (split)"));
  CAUSEWAY_TRY(launch_status(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device),
                             "attention (split)"));
  SplitArgs a = {};
  a.q = static_cast<const __nv_bfloat16*>(p.q);
  a.q_stride = p.q_stride;
  a.out = static_cast<__nv_bfloat16*>(p.out);
  a.keys = reinterpret_cast<char*>(p.kv.base) + p.kv.key_offset.count;
  a.value_offset = p.kv.value_offset.count;
  a.frame_bytes = p.kv.frame_bytes.count;
  a.token_stride = p.kv.token_stride.count;
  a.frames = p.frames;
  a.frame_begin = p.frame_begin;
  a.length = p.length;
  a.sequences = static_cast<int>(p.decode);
  a.kv_heads = static_cast<int>(p.heads.kv);
  a.group = static_cast<int>(p.heads.query / p.heads.kv);
  a.block_tokens = static_cast<int>(p.kv.block_tokens);
  a.tables_early = p.tables_early;
  if (p.fresh != nullptr) {
    a.fresh = {p.fresh->rope_table, static_cast<const __nv_bfloat16*>(p.fresh->q_norm),
               static_cast<const __nv_bfloat16*>(p.fresh->k_norm), p.fresh->epsilon};
  }
  a.scale_log2 = p.scale * 1.4426950408889634f;
  char* memory = static_cast<char*>(p.workspace);
  a.state = reinterpret_cast<float2*>(memory);
  memory += aligned(pieces(p.heads) * 8);
  a.partial = reinterpret_cast<float*>(memory);
  const int ctas = std::min(sms, kCtasMax);
  return p.heads.size == 64 ? launch_split<64>(a, ctas, stream)
                            : launch_split<128>(a, ctas, stream);
}

}  // namespace causeway::kernels::attention::parts
