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
// What a worker begins with was found once in the step (cuda_plan.cu); its lanes hold the frames,
// lengths and so on of what follows, so that nothing but KV and rows of q, k and v is read behind.
//
// A worker keeps its tiles coming by cp.async into its own ring of shared memory: no barrier
// between warps. Whatever else a tile needs comes with it, because a load from the kernel's middle
// waits behind all KV on its way: the queries of a sequence that begins with the tile, and with
// `fresh` a token's own k and v where a sequence ends, as the product left them. Whoever has a
// sequence's last tile prepares its k in the tile, and puts k and v into their frame. Tokens of
// earlier steps are asked for before the kernel in front has ended.
//
// The query heads that share the KV head are the rows of a 16-row tensor-core tile.
// Of a sequence that several slots share, each leaves a partial result; a second kernel, on its way
// before the first ends, adds them up (cuda_merge.cu).
#include "kernels/attention/cuda_split.cuh"
#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_mma.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr unsigned kAll = 0xFFFFFFFFu;

// A tile of a sequence.
struct Cursor {
  int sequence, tile, length;

  __device__ bool last() const { return tile + 1 == tiles_of(length); }
};

// What lies where, as far as a worker needs it: a lane each of the next frames and sequences.
struct Tables {
  const SplitArgs& a;
  int lane;
  int frames_from, frames_end;  // index in `frames` of lane 0's; of what may be read
  int frames_now, frames_next;  // of frames_from + lane, and 32 behind
  int sequences_from;           // number of lane 0's
  int lengths, frame_begins;

  __device__ Tables(const SplitArgs& args, const SlotPlan& plan, int lane_)
      : a(args),
        lane(lane_),
        frames_from(plan.frame_at),
        frames_end(plan.frames_end),
        frames_now(plan.frames[lane_]),
        sequences_from(plan.sequence + 1),
        lengths(plan.lengths[lane_]),
        frame_begins(plan.frame_begins[lane_]) {}

  __device__ int read_frames(int from) const {
    return from + lane < frames_end ? a.frames[from + lane] : 0;
  }
  // All lanes: from now on, frame() is asked for `from` to `from` + 31, or what lies behind.
  __device__ void move_to(int from) {
    const int passed = from - frames_from;
    if (passed < 32) return;
    const bool far = passed >= 64;
    frames_from = far ? from : frames_from + 32;
    frames_now = far ? read_frames(from) : frames_next;
    frames_next = read_frames(frames_from + 32);
  }
  // All lanes; each may ask for another index.
  __device__ int frame(int index) const {
    const int at = index - frames_from;
    const int now = __shfl_sync(kAll, frames_now, at & 31);
    const int next = __shfl_sync(kAll, frames_next, at & 31);
    return at < 32 ? now : next;
  }
  // All lanes, of a sequence behind the worker's first.
  __device__ int length(int sequence) const {
    const int at = sequence - sequences_from;
    const int held = __shfl_sync(kAll, lengths, at & 31);
    return at < 32 ? held : a.length[sequence];
  }
  __device__ int frame_begin(int sequence) const {
    const int at = sequence - sequences_from;
    const int held = __shfl_sync(kAll, frame_begins, at & 31);
    return at < 32 ? held : a.frame_begin[sequence];
  }
  // To the next tile. True when that enters another sequence.
  __device__ bool advance(Cursor& at) const {
    if (!at.last()) {
      ++at.tile;
      return false;
    }
    at.tile = 0;
    do {
      if (++at.sequence >= a.sequences) return false;
      at.length = length(at.sequence);
    } while (at.length == 0);
    return true;
  }
};

// The tile to be loaded next, and where it lies: token `within` of frame number frame_at.
struct Loading : Cursor {
  int frame_at, within;

  __device__ bool advance(Tables& tables) {
    const bool enters = tables.advance(*this);
    if (enters) {
      frame_at = tables.frame_begin(sequence);
      within = 0;
    } else {
      within += kTile;
      for (; within >= tables.a.block_tokens; ++frame_at) within -= tables.a.block_tokens;
    }
    tables.move_to(frame_at);
    return enters;
  }
};

template <int kSize>
struct Worker {
  using Shared = Ring<kSize>;
  static constexpr int kTileBytes = Shared::kTileBytes, kSlots = Shared::kSlots;
  static constexpr int kChunks = kSize / 8;  // pieces of 16 bytes in a row
  static constexpr int kRowsAtOnce = 32 / kChunks;

  const SplitArgs& a;
  Tables& tables;
  char* memory;   // shared, of this warp: tiles of K and V, then slots, then turns
  uint32_t ring;  // its address
  int lane;
  int kv_head;
  uint64_t once;              // L2 policy of what is read once
  int own_frame;              // lane i: where the own token of the tile in stage i belongs
  uint32_t q[kSize / 16][4];  // as the left operand
  float out[kSize / 8][4];
  float largest[2], total[2];  // of rows lane / 4 and lane / 4 + 8

  __device__ bool fresh() const { return a.fresh.table != nullptr; }

  // How many of a tile's tokens have been written: its own is none of them when it is fresh.
  __device__ int written(const Cursor& at) const {
    return at.length - (fresh() ? 1 : 0) - at.tile * kTile;
  }

  // Rows of 16-byte pieces, swizzled: piece c of row r lies at place c ^ (r mod 8).
  static __device__ uint32_t place(int row, int chunk) {
    return static_cast<uint32_t>(row * kSize * 2 + ((chunk ^ (row & 7)) << 4));
  }
  __device__ uint32_t tile_of(int stage) const {
    return ring + static_cast<uint32_t>(stage * 2 * kTileBytes);
  }

  // ---- KV of earlier tokens ---------------------------------------------------------------------

  // Zeros for rows without a token, but the row of a token that is fresh is left to load_own().
  __device__ void load(const Loading& at, int stage) {
    const int chunk = lane % kChunks, count = written(at);
    const int own_row = fresh() ? count : kTile;
    const uint32_t target = tile_of(stage);
    const char* source = a.keys + kv_head * kSize * 2 + chunk * 16;
    const auto copy = [&](int row, int64_t offset) {
      if (row == own_row) return;
      const char* from = source + offset;
      const bool valid = row < count;
      mma::copy_async(target + place(row, chunk), from, valid, once);
      mma::copy_async(target + kTileBytes + place(row, chunk), from + a.value_offset, valid, once);
    };
    if (a.block_tokens < kTile) {
      const int token = at.within + lane % kTile, block = token / a.block_tokens;
      const int frame = tables.frame(at.frame_at + block);
      const int64_t mine =
          lane % kTile < count
              ? frame * a.frame_bytes + (token - block * a.block_tokens) * a.token_stride
              : 0;
#pragma unroll
      for (int i = 0; i < kTile / kRowsAtOnce; ++i) {
        const int row = i * kRowsAtOnce + lane / kChunks;
        copy(row, __shfl_sync(kAll, mine, row));
      }
      keep_own_frame(__shfl_sync(kAll, frame, own_row & (kTile - 1)), stage);
      return;
    }
    // Two frames at most: rows before the cut lie in the first.
    const int cut = a.block_tokens - at.within;
    const int first = tables.frame(at.frame_at), second = tables.frame(at.frame_at + 1);
    const int64_t low = first * a.frame_bytes + at.within * a.token_stride;
    const int64_t high = second * a.frame_bytes;
    const int stride = static_cast<int>(a.token_stride);
#pragma unroll
    for (int i = 0; i < kTile / kRowsAtOnce; ++i) {
      const int row = i * kRowsAtOnce + lane / kChunks;
      const bool behind = row >= cut && row < count;
      const int rows = row < count ? row - (behind ? cut : 0) : 0;
      copy(row, (behind ? high : low) + int64_t{rows} * stride);
    }
    keep_own_frame(own_row >= cut ? second : first, stage);
  }
  __device__ void keep_own_frame(int frame, int stage) {
    if (lane == stage) own_frame = frame;
  }

  __device__ const __nv_bfloat16* queries_of(const Cursor& at) const {
    return a.q + at.sequence * a.q_stride + static_cast<int64_t>(kv_head) * a.group * kSize;
  }
  __device__ const float* turn_of(const Cursor& at) const {
    return a.fresh.table + static_cast<int64_t>(at.sequence) * kSize;
  }

  // ---- what comes with a tile beside it ---------------------------------------------------------

  // A slot holds queries as a tile's rows are held.
  __device__ int slot_offset(int slot) const { return Shared::kBytes + slot * a.slot_bytes; }
  __device__ int turn_offset(int stage) const {
    return Shared::kBytes + kSlots * a.slot_bytes + stage * Shared::kTurnBytes;
  }

  // Of a sequence that begins with the tile. Without slots, into L2 at least.
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
  }
  __device__ void ask_for_turn(const Cursor& at, int stage) const {
    if (a.slot_bytes == 0 || lane * 4 >= kSize) return;
    mma::copy_async(ring + static_cast<uint32_t>(turn_offset(stage) + lane * 16),
                    turn_of(at) + lane * 4, true);
  }
  // k and v of the token as the product left them, into their rows of the sequence's last tile.
  __device__ void load_own(const Cursor& at, int stage) const {
    if (lane >= 2 * kChunks) return;
    const int chunk = lane % kChunks, part = lane / kChunks;
    const int head = a.kv_heads * (a.group + part) + kv_head;
    mma::copy_async(tile_of(stage) + part * kTileBytes + place((at.length - 1) % kTile, chunk),
                    a.q + at.sequence * a.q_stride + head * kSize + chunk * 8, true);
  }
  // All of that. `slot` is for the queries if the tile begins a sequence. True if there was any.
  __device__ bool load_beside(const Cursor& at, int stage, bool begins, int slot) const {
    if (begins) ask_for_queries(at, slot);
    const bool own = fresh() && at.last();
    if (own) load_own(at, stage);
    if (own || (begins && fresh())) ask_for_turn(at, stage);
    return own || (begins && a.slot_bytes != 0);
  }
  // Of the token of a sequence that begins or ends with the tile in the stage.
  __device__ const float* turn_in(int stage, const Cursor& at) const {
    if (a.slot_bytes == 0) return turn_of(at);
    return reinterpret_cast<const float*>(memory + turn_offset(stage));
  }

  // Rows behind the group's are copies of its last; what becomes of them is not written.
  __device__ void read_queries(const __nv_bfloat16* source) {
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int r = min(lane / 4 + (part & 1) * 8, a.group - 1);
        const int column = i * 16 + (part / 2) * 8 + lane % 4 * 2;
        q[i][part] = *reinterpret_cast<const uint32_t*>(source + r * kSize + column);
      }
    }
  }
  __device__ void read_slot(int slot) {
    const uint32_t source = ring + static_cast<uint32_t>(slot_offset(slot));
    const int row = min(lane % 16, a.group - 1);
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
      mma::load_matrices(q[i], source + place(row, i * 2 + lane / 16));
    }
  }

  // ---- a sequence -------------------------------------------------------------------------------

  // One that begins with the tile in the stage.
  __device__ void begin(const Cursor& at, int stage, int slot) {
    if (a.slot_bytes == 0) {
      read_queries(queries_of(at));
    } else {
      read_slot(slot);
    }
    if (fresh()) {
      QueryTurn<kSize> turn;
      turn.load(turn_in(stage, at), lane);
      prepare_queries<kSize>(a.fresh, turn, lane, q);
    }
    __syncwarp();  // the slot may be written again
#pragma unroll
    for (auto& four : out) four[0] = four[1] = four[2] = four[3] = 0;
    largest[0] = largest[1] = -INFINITY;
    total[0] = total[1] = 0;
  }

  // The sequence's own token, which lies in its row of the last tile: its k is prepared there, and
  // both go into its frame.
  __device__ void place_own(const Cursor& at, int stage) {
    using Key = FreshHead<kSize>;
    using Pack = typename Key::Pack;
    const int token = at.length - 1, row = token % kTile;
    const int64_t frame = __shfl_sync(kAll, own_frame, stage);
    char* in_tile = memory + stage * 2 * kTileBytes;
    char* in_frame = a.keys + frame * a.frame_bytes + token % a.block_tokens * a.token_stride +
                     kv_head * kSize * 2;
    Key key;
    Pack value[2];
    uint32_t offset[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int element = half * (kSize / 2) + lane * Key::kPairs;
      offset[half] = place(row, element / 8) + element % 8 * 2;
      key.half[half] = *reinterpret_cast<const Pack*>(in_tile + offset[half]);
      value[half] = *reinterpret_cast<const Pack*>(in_tile + kTileBytes + offset[half]);
    }
    HeadTurn<kSize> turn;
    turn.load(turn_in(stage, at), lane);
    Key gains = {};
    if (a.fresh.k_norm != nullptr) gains.load_gains(a.fresh.k_norm, lane);
    key.prepare(a.fresh.k_norm != nullptr, gains, a.fresh.epsilon, turn);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      char* target = in_frame + (half * (kSize / 2) + lane * Key::kPairs) * 2;
      *reinterpret_cast<Pack*>(in_tile + offset[half]) = key.half[half];
      *reinterpret_cast<Pack*>(target) = key.half[half];
      *reinterpret_cast<Pack*>(target + a.value_offset) = value[half];
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
    const uint32_t weight[4] = {pack(score[0][0], score[0][1]), pack(score[0][2], score[0][3]),
                                pack(score[1][0], score[1][1]), pack(score[1][2], score[1][3])};
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
      uint32_t v[4];
      mma::load_matrices_transposed(
          v, values + place((lane / 8 & 1) * 8 + of_eight, i * 2 + lane / 16));
      mma::multiply_add(out[2 * i], weight, v[0], v[1]);
      mma::multiply_add(out[2 * i + 1], weight, v[2], v[3]);
    }
  }

  // Writes the output when the worker had the `whole` sequence, else its piece of it. `within`: it
  // was not the worker's first sequence.
  __device__ void end_sequence(int sequence, bool whole, bool within, int64_t slot) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      total[half] += __shfl_xor_sync(kAll, total[half], 1);
      total[half] += __shfl_xor_sync(kAll, total[half], 2);
    }
    const int64_t piece = piece_of(a, kv_head, slot, within) * a.group;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = lane / 4 + 8 * half;
      if (r >= a.group) continue;
      if (whole) {
        __nv_bfloat16* target = row_of(sequence) + r * kSize + lane % 4 * 2;
        const float inverse = 1.0f / total[half];
#pragma unroll
        for (int i = 0; i < kSize / 8; ++i) {
          *reinterpret_cast<uint32_t*>(target + i * 8) =
              pack(out[i][2 * half] * inverse, out[i][2 * half + 1] * inverse);
        }
        continue;
      }
      float* target = a.partial + (piece + r) * kSize + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < kSize / 8; ++i) {
        __stcg(reinterpret_cast<float2*>(target + i * 8),
               make_float2(out[i][2 * half], out[i][2 * half + 1]));
      }
      if (lane % 4 == 0) __stcg(a.state + piece + r, make_float2(largest[half], total[half]));
    }
  }

  __device__ __nv_bfloat16* row_of(int sequence) const {
    return a.out + (static_cast<int64_t>(sequence) * a.kv_heads + kv_head) * a.group * kSize;
  }
};

// Grid: one CTA an SM. A warp is a worker; warps share nothing but the instruction cache.
//
// That cache decides how the loop is written: the code of each part is there once. Between two
// layers the weights drive the kernel's instructions out of all caches; while the first tiles had
// their own copy of the loads, and sequences to come another, the first warp there waited for its
// instructions behind the KV of all, up to 13 µs, and the others with it.
template <int kSize>
__global__ void __launch_bounds__(kWarpsMax * 32, 1) split_kernel(const SplitArgs a) {
  extern __shared__ __align__(128) char shared[];
  if (a.tables_early) {
    let_successor_start();
  } else {
    wait_for_predecessor();
  }
  using Shared = Ring<kSize>;
  constexpr int kStages = Shared::kStages;
  constexpr int kAhead = kStages - 1;  // tiles on their way while one is added
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int worker = static_cast<int>(blockIdx.x * blockDim.x / 32) + warp;
  const int64_t slot = worker / a.kv_heads;
  const SlotPlan& plan = a.slot_plan[slot < a.slots ? slot : 0];
  const int4 begin = *reinterpret_cast<const int4*>(&plan.sequence);
  const int count = slot < a.slots ? begin.z : 0;
  if (count == 0) {
    if (a.tables_early) wait_for_predecessor();
    return;
  }
  Tables tables(a, plan, lane);
  Loading loading;
  loading.sequence = begin.x;
  loading.tile = begin.y;
  loading.length = begin.w;
  loading.frame_at = plan.frame_at;
  loading.within = plan.within;
  Cursor compute = loading;
  Worker<kSize> w = {a, tables};
  w.memory = shared + warp * Shared::worker_bytes(a.slot_bytes);
  w.ring = mma::shared_address(w.memory);
  w.lane = lane;
  w.once = mma::policy_of_once();
  w.kv_head = worker % a.kv_heads;
  tables.frames_next = tables.read_frames(tables.frames_from + 32);

  // ---- before the kernel in front has ended ----------------------------------------------------
  // Tiles: of earlier steps' tokens only. Own tokens of prepared rows are of the kernel in front.
  int before = a.tables_early ? min(a.early_tiles, kAhead) : 0;
  if (!w.fresh()) before = min(before, tiles_of(compute.length) - 1 - compute.tile);
  before = min(before, count);
  bool waited = !a.tables_early;
  int loaded = 0, entered = 0, begun = 0;  // tiles; sequences
  bool begins = true;                      // `loading` is the first that the worker has of one
  bool joined = false;  // what belongs to early tiles may come behind the last of them
  const auto wait = [&] {
    wait_for_predecessor();
    waited = true;
    Cursor passed = compute;
    bool enters = true;
    for (int i = 0; i < loaded; ++i) {
      joined |= w.load_beside(passed, i, enters, entered % Shared::kSlots);
      if (enters) ++entered;
      enters = i + 1 < loaded && tables.advance(passed);
    }
    mma::commit_copies();
  };
  const auto load_next = [&] {
    if (loaded < count) {
      const int stage = loaded % kStages;
      w.load(loading, stage);
      if (waited) {
        w.load_beside(loading, stage, begins, entered % Shared::kSlots);
        if (begins) ++entered;
      }
      begins = ++loaded < count && loading.advance(tables);
    }
    mma::commit_copies();
  };

  const auto wait_for_tile = [&](int done) {
    if (joined && done + 1 < before) {
      mma::wait_copies<0>();
    } else {
      mma::wait_copies<kAhead - 1>();
    }
    __syncwarp();
  };

  // ---- tile by tile ----------------------------------------------------------------------------
  int first = compute.tile;
  bool enters = true;
  // Steps before 0 only ask for tiles.
#pragma unroll 1
  for (int done = -kAhead; done < count; ++done) {
    const bool adds = done >= 0, ends = compute.last();
    const int stage = done % kStages;
    if (!waited && loaded == before) wait();
    if (adds) {
      if (a.slot_bytes != 0) wait_for_tile(done);  // the queries come with it
      if (enters) w.begin(compute, stage, begun++ % Shared::kSlots);
      if (a.slot_bytes == 0) wait_for_tile(done);
      if (ends && w.fresh()) w.place_own(compute, stage);
    }
    load_next();
    if (!adds) continue;
    w.add_tile(compute, stage);
    if (ends || done + 1 == count) {
      w.end_sequence(compute.sequence, first == 0 && ends, begun > 1, slot);
    }
    if (ends) first = 0;
    enters = done + 1 < count && tables.advance(compute);
  }
}

template <int kSize>
Status launch_split(const SplitArgs& a, CudaStream stream) {
  const LaunchShape shape = {dim3(static_cast<unsigned>(a.ctas)),
                             dim3(static_cast<unsigned>(a.warps * 32)),
                             a.warps * Ring<kSize>::worker_bytes(a.slot_bytes), kSharedMax};
  CAUSEWAY_TRY(launch("attention (split)", stream, shape, split_kernel<kSize>, a));
  return merge_pieces(a, kSize, stream);
}

}  // namespace

Status run_split_plan(const ParamsCuda& params, CudaStream stream) {
  CAUSEWAY_ASSIGN(const SplitArgs args, split_args(params));
  return run_plan(args, stream);
}

Status run_split(const ParamsCuda& params, CudaStream stream) {
  CAUSEWAY_ASSIGN(const SplitArgs args, split_args(params));
  if (!params.planned) CAUSEWAY_TRY(run_plan(args, stream));
  return params.heads.size == 64 ? launch_split<64>(args, stream) : launch_split<128>(args, stream);
}

}  // namespace causeway::kernels::attention::parts
