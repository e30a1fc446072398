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
// `fused_prepare` a token's own k and v where a sequence ends, as the product left them. The worker
// that has a sequence's last tile prepares its k in the tile, and puts k and v into their frame.
// Tokens of earlier steps are asked for before the kernel in front has ended.
//
// The query heads that share the KV head are the eight columns of the tensor cores' product, or two
// of eight: scores are [tokens × heads] = K · qᵀ, sums [elements × heads] = Vᵀ · weights.
// When several slots share a sequence, each leaves a partial result; a second kernel, on its way
// before the first ends, adds them up (cuda_merge.cu).
#include "kernels/attention/cuda_split.cuh"
#include "kernels/cuda_bf16.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr unsigned kAll = 0xFFFFFFFFu;

// What an instance of the kernel serves. Code costs time even where it is not run, so the kinds of
// most launches have instances without any other.
enum class Serves {
  kAny,
  // Tokens that are not prepared yet, a plan that may be read early, frames of at least a tile, up
  // to eight query heads, places for queries; no window, no soft cap, no offset of norms.
  kCommon,
  kCommonWithNorms,  // of q and of k
  kUnbounded,        // no window, no soft cap, no offset of norms
};

// A tile of a sequence.
struct Tile {
  int sequence;
  int rest;     // tokens of the sequence from the tile's first on
  bool begins;  // it is the first of its sequence that the worker has

  __device__ bool last() const { return rest <= kTile; }
};

// The tile to be loaded next, and where it lies: token `within` of frame number frame_at.
struct Loading : Tile {
  int frame_at, within;
};

// What lies where, as far as a worker needs it: a lane each of the next frames and sequences.
struct Tables {
  const SplitArgs& a;
  int lane;
  int frames_from, frames_end;  // index in `frames` of lane 0's; of what may be read
  int frames_now, frames_next;  // of frames_from + lane, and 32 behind
  int sequences_from;           // number of lane 0's
  int lengths, frame_begins;

  __device__ int read_frames(int from) const {
    return from + lane < frames_end ? a.frames[from + lane] : 0;
  }
  // All lanes: from now on, frames() is asked for `from` on.
  __device__ void move_to(int from) {
    const int passed = from - frames_from;
    if (passed < 32) return;
    const bool far = passed >= 64;
    frames_from = far ? from : frames_from + 32;
    frames_now = far ? read_frames(from) : frames_next;
    frames_next = read_frames(frames_from + 32);
  }
  // All lanes: what frame() is asked of. A lane has one of the 32 frames from `from` on.
  __device__ int frames(int from) const {
    return lane >= from - frames_from ? frames_now : frames_next;
  }
  // All lanes; each may ask for another index.
  __device__ int frame(int held, int index) const {
    return __shfl_sync(kAll, held, (index - frames_from) & 31);
  }
  // All lanes, of a sequence behind the worker's first.
  __device__ int of_sequence(int held, const int32_t* all, int sequence) const {
    const int at = sequence - sequences_from;
    const int near = __shfl_sync(kAll, held, at & 31);
    return at < 32 ? near : all[sequence];
  }
  // All lanes: to the next tile, which there is.
  template <bool kWindows>
  __device__ void advance(Loading& at) {
    at.rest -= kTile;
    at.within += kTile;
    at.begins = at.rest <= 0;
    if (at.begins) {
      do at.rest = of_sequence(lengths, a.length, ++at.sequence);
      while (at.rest == 0);
      at.frame_at = of_sequence(frame_begins, a.frame_begin, at.sequence);
      at.within = 0;
      if (kWindows && at.rest > a.window) {
        at.within = at.rest - a.window;  // the first token that is seen
        at.frame_at += at.within / a.block_tokens;
        at.within %= a.block_tokens;
        at.rest = a.window;
      }
    }
    for (; at.within >= a.block_tokens; ++at.frame_at) at.within -= a.block_tokens;
    move_to(at.frame_at);
  }
};

template <int kSize, Serves kServes>
struct Worker {
  using Shared = Ring<kSize>;
  using Rows = PreparedRows<kSize>;
  static constexpr bool kBounded = kServes == Serves::kAny;
  static constexpr bool kCommon = !kBounded && kServes != Serves::kUnbounded;
  static constexpr int kGroupMax = kCommon ? 8 : static_cast<int>(split_group_max(kSize));
  static constexpr int kEights = kGroupMax / 8;
  static constexpr int kTileBytes = Shared::kTileBytes, kSlots = Shared::kSlots;
  static constexpr int kChunks = kSize / 8;  // pieces of 16 bytes in a row
  // Lanes that copy a row, and pieces of each: of 96 elements three, or lanes would be idle.
  static constexpr int kRowLanes = kSize == 96 ? 4 : kChunks;
  static constexpr int kLanePieces = kChunks / kRowLanes;
  static constexpr int kRowsAtOnce = 32 / kRowLanes;
  static_assert(kLanePieces == 1 || kRowLanes == kSwizzled<kSize>);
  static constexpr int kRowsUnrolled = kSize < 256 ? 1 : 4;  // of frames smaller than a tile

  const SplitArgs& a;
  Tables& tables;
  char* memory;   // shared, of this warp: tiles of K and V, then slots, then rows of RoPE
  uint32_t ring;  // its address
  int lane;
  int worker, kv_head;
  uint64_t once;  // L2 policy of what is read once
  typename Rows::Gains q_gains, k_gains;
  // Lane i, of the tile in stage i: its sequence × 2, + 1 if it begins; where its own token
  // belongs.
  int held_sequence, held_rest, own_frame, own_position;
  uint32_t q[kEights][kSize / 16][2];  // as the right operand
  // Rows are elements, columns query heads: a lane has heads lane % 4 × 2 and the next.
  float out[kEights][kSize / 16][4];
  float largest[kEights][2], total[kEights][2];

  // Leaves the rest as it is: zeros for registers that are not read would be instructions.
  __device__ Worker(const SplitArgs& args, Tables& its_tables) : a(args), tables(its_tables) {}

  static __device__ bool early(const SplitArgs& a) { return kCommon || a.tables_early; }
  __device__ bool fused_prepare() const { return kCommon || a.prepare.table != nullptr; }
  __device__ bool has_slots() const { return kCommon || a.slot_bytes != 0; }
  __device__ bool norm(const __nv_bfloat16* gains) const {
    return kCommon ? kServes == Serves::kCommonWithNorms : gains != nullptr;
  }

  __device__ int stage_offset(int stage) const { return stage * 2 * kTileBytes; }
  __device__ uint32_t tile_of(int stage) const {
    return ring + static_cast<uint32_t>(stage_offset(stage));
  }

  // ---- KV of earlier tokens ---------------------------------------------------------------------

  // Zeros for rows without a token, but the row of a token that is not prepared yet is left to
  // load_own().
  __device__ void load(const Loading& at, int stage) {
    const int count = at.rest - (fused_prepare() ? 1 : 0),
              own_row = fused_prepare() ? count : kTile;
    const int held = tables.frames(at.frame_at);
    if (lane == stage) {
      held_sequence = at.sequence * 2 + (at.begins ? 1 : 0);
      held_rest = at.rest;
    }
    if (!kCommon && a.block_tokens < kTile) {
      load_rows(at, held, stage, count, own_row);
      return;
    }
    // Two frames at most: rows before the cut lie in the first.
    const int cut = a.block_tokens - at.within, stride = static_cast<int>(a.token_stride);
    const int first = tables.frame(held, at.frame_at), second = tables.frame(held, at.frame_at + 1);
    if (lane == stage) {
      own_frame = own_row < cut ? first : second;
      own_position = own_row < cut ? at.within + own_row : own_row - cut;
    }
    int row = lane / kRowLanes;
    const char* from = a.keys + (kv_head * kSize * 2 + lane % kRowLanes * 16) +
                       first * a.frame_bytes + int64_t{at.within + row} * stride;
    const int64_t jump = (second - first) * a.frame_bytes - int64_t{a.block_tokens} * stride;
    const uint32_t target = tile_of(stage);
#pragma unroll 2
    for (int i = 0; i < kTile / kRowsAtOnce; ++i) {
      // A row behind the last token is not read, wherever it would be.
      const char* mine = row < cut ? from : from + jump;
      copy_row(target, row, mine, row < count, row != own_row);
      row += kRowsAtOnce;
      from += kRowsAtOnce * stride;
    }
  }
  // The lane's pieces of K and V, if it `copies` any.
  __device__ void copy_row(uint32_t target, int row, const char* from, bool valid,
                           bool copies) const {
    const uint32_t to = target + place<kSize>(row, lane % kRowLanes);
#pragma unroll
    for (int i = 0; i < kLanePieces; ++i) {
      constexpr int kBytes = kRowLanes * 16;  // to the lane's next piece, here and there
      ptx::copy_async_if(copies, to + i * kBytes, from + i * kBytes, valid, once);
      ptx::copy_async_if(copies, to + kTileBytes + i * kBytes, from + a.value_offset + i * kBytes,
                         valid, once);
    }
  }
  // Loads from frames that are smaller than a tile.
  __device__ void load_rows(const Loading& at, int held, int stage, int count, int own_row) {
    const int token = at.within + lane % kTile, block = token / a.block_tokens;
    const int frame = tables.frame(held, at.frame_at + block);
    const int position = token - block * a.block_tokens;
    const int64_t mine =
        lane % kTile < count ? frame * a.frame_bytes + position * a.token_stride : 0;
    const int frame_of_own = __shfl_sync(kAll, frame, own_row & (kTile - 1));
    const int position_of_own = __shfl_sync(kAll, position, own_row & (kTile - 1));
    if (lane == stage) {
      own_frame = frame_of_own;
      own_position = position_of_own;
    }
    const char* source = a.keys + (kv_head * kSize * 2 + lane % kRowLanes * 16);
#pragma unroll kRowsUnrolled
    for (int row = lane / kRowLanes; row < kTile; row += kRowsAtOnce) {
      const int64_t offset = __shfl_sync(kAll, mine, row);
      copy_row(tile_of(stage), row, source + offset, row < count, row != own_row);
    }
  }

  // All lanes.
  __device__ Tile tile_in(int stage) const {
    const int sequence = __shfl_sync(kAll, held_sequence, stage);
    return {sequence >> 1, __shfl_sync(kAll, held_rest, stage), (sequence & 1) != 0};
  }

  // ---- what comes with a tile beside it ---------------------------------------------------------

  // A slot holds queries as a tile's rows are held.
  __device__ int slot_offset(int slot) const { return Shared::kBytes + slot * a.slot_bytes; }
  __device__ int rope_offset(int stage) const {
    return Shared::kBytes + kSlots * a.slot_bytes + stage * Shared::kRopeRowBytes;
  }
  __device__ const __nv_bfloat16* row_of(int sequence) const { return a.q + sequence * a.q_stride; }
  __device__ const __nv_bfloat16* queries_of(int sequence) const {
    return row_of(sequence) + kv_head * a.group * kSize;
  }
  __device__ const float* rope_row_of(int sequence) const {
    return a.prepare.table + static_cast<int64_t>(sequence) * kSize;
  }

  // Asks for the queries of a sequence that begins with the tile. Without slots, into L2 at least.
  __device__ void ask_for_queries(const Tile& at, int slot) const {
    const __nv_bfloat16* source = queries_of(at.sequence);
    if (!has_slots()) {
      if (lane * 64 < a.group * kSize) ptx::prefetch(source + lane * 64);
      return;
    }
    const uint32_t target = ring + static_cast<uint32_t>(slot_offset(slot));
    source += kLanePieces == 1 ? lane * 8 : lane / kRowLanes * kSize + lane % kRowLanes * 8;
#pragma unroll 1
    for (int row = lane / kRowLanes; row < a.group; row += kRowsAtOnce) {
      const uint32_t to = target + place<kSize>(row, lane % kRowLanes);
#pragma unroll
      for (int i = 0; i < kLanePieces; ++i) {
        ptx::copy_async(to + i * kRowLanes * 16, source + i * kRowLanes * 8, true);
      }
      source += kRowsAtOnce * kSize;
    }
  }
  __device__ void ask_for_rope(const Tile& at, int stage) const {
    if (!has_slots() || lane * 4 >= kSize) return;
#pragma unroll
    for (int first = 0; first < kSize / 4; first += 32) {
      const int four = first + lane;
      ptx::copy_async(ring + static_cast<uint32_t>(rope_offset(stage) + four * 16),
                      rope_row_of(at.sequence) + four * 4, true);
    }
  }
  // k and v of the token as the product left them, into their rows of the sequence's last tile.
  __device__ void load_own(const Tile& at, int stage) const {
    if (lane >= 2 * kChunks) return;
#pragma unroll
    for (int first = 0; first < 2 * kChunks; first += 32) {
      const int piece = first + lane, chunk = piece % kChunks, part = piece / kChunks;
      const int head = a.kv_heads * (a.group + part) + kv_head;
      ptx::copy_async(tile_of(stage) + part * kTileBytes + place<kSize>(at.rest - 1, chunk),
                      row_of(at.sequence) + head * kSize + chunk * 8, true);
    }
  }
  // All of that. `slot` is for the queries if the tile begins a sequence. True if there was any.
  __device__ bool load_beside(const Tile& at, int stage, int slot) const {
    if (at.begins) ask_for_queries(at, slot);
    const bool own = fused_prepare() && at.last();
    if (own) load_own(at, stage);
    if (own || (at.begins && fused_prepare())) ask_for_rope(at, stage);
    return own || (at.begins && has_slots());
  }

  // Without slots: queries and RoPE row into a stage that nothing is in, as its K and its V.
  __device__ void fetch_beside(const Tile& at, int stage) const {
    constexpr int kPieces = kGroupMax * kChunks / 32;
    __syncwarp();
#pragma unroll
    for (int first = 0; first < kSize / 4; first += 32) {
      const int four = first + lane;
      if (!fused_prepare() || four >= kSize / 4) continue;
      *reinterpret_cast<float4*>(memory + stage_offset(stage) + kTileBytes + four * 16) =
          *reinterpret_cast<const float4*>(rope_row_of(at.sequence) + four * 4);
    }
    if (at.begins) {
      const uint4* source = reinterpret_cast<const uint4*>(queries_of(at.sequence));
      uint4 piece[kPieces];
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        if (lane + i * 32 < a.group * kChunks) piece[i] = source[lane + i * 32];
      }
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const int at_piece = lane + i * 32;
        char* target =
            memory + stage_offset(stage) + place<kSize>(at_piece / kChunks, at_piece % kChunks);
        if (at_piece < a.group * kChunks) *reinterpret_cast<uint4*>(target) = piece[i];
      }
    }
    __syncwarp();
  }

  // ---- a sequence -------------------------------------------------------------------------------

  // Once tile `at` of the stage is there, or for queries what comes beside it, in this order: the
  // queries of a sequence that begins, from `queries` on, as an operand; and k of one that ends,
  // whose own token then goes into its frame. One piece of code prepares both.
  __device__ void prepare(bool of_queries, int queries, const char* angles, const Tile& at,
                          int stage) {
    if (fused_prepare()) {
      typename Rows::Gains gains = k_gains;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (of_queries) gains.half[i] = q_gains.half[i];
      }
      Rows::template prepare<kBounded>(
          memory + (of_queries ? queries : stage_offset(stage)), of_queries ? 0 : at.rest - 1,
          of_queries ? a.group : 1, reinterpret_cast<const float*>(angles),
          norm(of_queries ? a.prepare.q_norm : a.prepare.k_norm), gains, a.prepare, lane);
      __syncwarp();
    }
    if (of_queries) {
      begin(queries);
    } else {
      store_own(at, stage);
    }
  }
  // Heads behind the group's are copies of its last; what becomes of them is not written.
  __device__ void begin(int queries) {
    const uint32_t source = ring + static_cast<uint32_t>(queries);
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
      read_operand<kSize>(q[n], source, min(n * 8 + lane % 8, a.group - 1), lane);
#pragma unroll
      for (auto& four : out[n]) four[0] = four[1] = four[2] = four[3] = 0;
      largest[n][0] = largest[n][1] = -INFINITY;
      total[n][0] = total[n][1] = 0;
    }
    __syncwarp();  // the queries' place may be written again
  }
  __device__ void store_own(const Tile& at, int stage) const {
    const int64_t frame = __shfl_sync(kAll, own_frame, stage);
    const int64_t position = __shfl_sync(kAll, own_position, stage);
    char* in_frame = a.keys + frame * a.frame_bytes + position * a.token_stride +
                     (kv_head * kSize * 2 + lane % kChunks * 16);
    if (lane >= 2 * kChunks) return;
#pragma unroll
    for (int first = 0; first < 2 * kChunks; first += 32) {
      const int piece = first + lane, chunk = piece % kChunks, part = piece / kChunks;
      *reinterpret_cast<uint4*>(in_frame + (part == 0 ? 0 : a.value_offset)) =
          *reinterpret_cast<const uint4*>(memory + stage_offset(stage) + part * kTileBytes +
                                          place<kSize>(at.rest - 1, chunk));
    }
  }
  // By an exponential: the GPU's own tanh is off by 2^-11, with a cap of 50 by 0.02.
  __device__ float capped(float exponent) const {
    return a.cap_log2 * (1.0f - __fdividef(2.0f, 1.0f + exp2_flushed(exponent)));
  }

  __device__ void add_tile(int rest, int stage) {
    const uint32_t keys = tile_of(stage) + place<kSize>(lane % 16, lane / 16);
    const uint32_t values =
        tile_of(stage) + kTileBytes + place<kSize>(lane / 16 * 8 + lane % 8, lane / 8 % 2);

    // ---- scores: 16 tokens × 8 heads ----------------------------------------------------------
    // Two sums each, or the products would wait for one another.
    float sums[kEights][2][4] = {};
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
      uint32_t k[4];
      ptx::load_matrices(k, further<kSize>(keys, i * 2));
#pragma unroll
      for (int n = 0; n < kEights; ++n) {
        ptx::mma_16x8x16(sums[n][i % 2], k, q[n][i][0], q[n][i][1]);
      }
    }
    const int left = rest - lane / 4;  // tokens from this lane's on
    uint32_t weight[kEights][2];
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
      float score[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float sum = __fmul_rn(sums[n][0][c] + sums[n][1][c], a.scale_log2);
        if (kBounded && a.cap_log2 > 0) sum = capped(sum);
        score[c] = left > c / 2 * 8 ? sum : -INFINITY;
      }
      add_weights(n, score);
      weight[n][0] = ptx::transpose(pack(score[0], score[1]));
      weight[n][1] = ptx::transpose(pack(score[2], score[3]));
    }

    // ---- values: elements × 8 heads -----------------------------------------------------------
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
      uint32_t v[4];
      ptx::load_matrices_transposed(v, further<kSize>(values, i * 2));
#pragma unroll
      for (int n = 0; n < kEights; ++n) {
        ptx::mma_16x8x16(out[n][i], v, weight[n][0], weight[n][1]);
      }
    }
  }
  // Makes weights of the scores, and what is so far one of their largest score.
  __device__ __forceinline__ void add_weights(int n, float (&score)[4]) {
    float above[2], shrink[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      above[c] = fmaxf(score[c], score[c + 2]);
#pragma unroll
      for (int lanes = 4; lanes < 32; lanes *= 2) {
        above[c] = fmaxf(above[c], __shfl_xor_sync(kAll, above[c], lanes));
      }
      above[c] = fmaxf(above[c], largest[n][c]);
    }
    const bool same = __all_sync(kAll, above[0] == largest[n][0] && above[1] == largest[n][1]);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      shrink[c] = exp2_flushed(largest[n][c] - above[c]);
      largest[n][c] = above[c];
      score[c] = exp2_flushed(score[c] - above[c]);
      score[c + 2] = exp2_flushed(score[c + 2] - above[c]);
      total[n][c] = __fmaf_rn(total[n][c], shrink[c], score[c] + score[c + 2]);
    }
    if (same) return;
#pragma unroll
    for (auto& four : out[n]) {
#pragma unroll
      for (int c = 0; c < 4; ++c) four[c] *= shrink[c % 2];
    }
  }

  // ---- the end of a sequence --------------------------------------------------------------------

  // Where eight elements of a head's sums lie in memory that a tile was in: swizzled, so that the
  // lanes of spread_out() meet no bank twice.
  static __device__ int sum_place(int head, int eight) {
    return head * kSize * 4 + ((eight ^ (head / 2 % 4)) << 5);
  }
  __device__ void spread_out(char* sums) const {
    char* first[4];
#pragma unroll
    for (int eight = 0; eight < 4; ++eight) {
      first[eight] = sums + sum_place(lane % 4 * 2, eight) + lane / 4 * 4;
    }
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
#pragma unroll
      for (int i = 0; i < kSize / 16; ++i) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int eight = i * 2 + c / 2, head = n * 8 + c % 2;  // beside those of `first`
          char* target = first[eight % 4] + eight / 4 * 128 + head * kSize * 4;
          *reinterpret_cast<float*>(target) = out[n][i][c];
        }
      }
    }
  }
  // Writes the output when the worker had the `whole` sequence, else its piece of it. `within`: it
  // was not the worker's first sequence. The sums pass through the stage of the last tile: then
  // rows of heads are rows in either place, and there is one loop.
  __device__ void end_sequence(int sequence, bool whole, bool within, int stage) {
    const int64_t piece = (worker * 2 + (within ? 1 : 0)) * a.group;
    float inverse[kEights][2];
    __syncwarp();
    spread_out(memory + stage_offset(stage));
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) {
          total[n][c] += __shfl_xor_sync(kAll, total[n][c], lanes);
        }
        inverse[n][c] = inverse_of_sum(total[n][c]);
        const int head = n * 8 + lane * 2 + c;
        if (!whole && lane < 4 && head < a.group) {
          __stcg(a.state + piece + head, make_float2(largest[n][c], total[n][c]));
        }
      }
    }
    __syncwarp();
    constexpr int kFours = kSize / 4;
    const int64_t row = static_cast<int64_t>(sequence * a.kv_heads + kv_head) * a.group;
    char* target = whole ? reinterpret_cast<char*>(a.out + row * kSize) + lane * 8
                         : reinterpret_cast<char*>(a.partial + piece * kSize) + lane * 16;
    constexpr int kHeadsAtOnce = kFours < 32 ? 32 / kFours : 1;
    constexpr int kLanes = kFours < 32 ? kHeadsAtOnce * kFours : 32;  // the others have no element
    const int four = lane % kFours;
#pragma unroll 1
    for (int first = 0; first < a.group; first += kHeadsAtOnce) {
      const int head = first + lane / kFours;
      const int n = first / 8;
      const float even = __shfl_sync(kAll, inverse[n == 0 ? 0 : kEights - 1][0], head % 8 / 2);
      const float odd = __shfl_sync(kAll, inverse[n == 0 ? 0 : kEights - 1][1], head % 8 / 2);
      const float factor = head % 2 == 0 ? even : odd;
#pragma unroll
      for (int part = 0; part < kFours; part += 32) {
        const float4 x =
            *reinterpret_cast<const float4*>(memory + stage_offset(stage) +
                                             sum_place(head, (part + four) / 2) + four % 2 * 16);
        if (head >= a.group || (kLanes < 32 && lane >= kLanes)) continue;
        if (whole) {
          *reinterpret_cast<uint2*>(target) =
              make_uint2(pack(x.x * factor, x.y * factor), pack(x.z * factor, x.w * factor));
        } else {
          __stcg(reinterpret_cast<float4*>(target), x);
        }
        target += whole ? kLanes * 8 : kLanes * 16;
      }
    }
  }
};

// A division by the KV heads, as a product: workers are so few that it is exact.
constexpr int kOfWorkerBits = 20;
constexpr unsigned of_worker_by(unsigned kv_heads) {
  return ((1u << kOfWorkerBits) + kv_heads - 1) / kv_heads;
}
static_assert(kCtasMax * kWarpsMax * kSplitKvMax <= 1 << kOfWorkerBits);

// Grid: one CTA an SM. A warp is a worker; warps share nothing but the instruction cache.
//
// That cache decides how the loop is written: the code of each part is there once. Between two
// layers the weights drive the kernel's instructions out of all caches; while the first tiles had
// their own copy of the loads, and sequences to come another, the first warp there waited for its
// instructions behind the KV of all, up to 13 µs, and the others with it.
template <int kSize, Serves kServes>
__global__ void __launch_bounds__(kWarpsMax * 32, 1)
    split_kernel(const SplitArgs a, const unsigned of_worker) {
  extern __shared__ __align__(128) char shared[];
  using W = Worker<kSize, kServes>;
  if (W::early(a)) {
    let_successor_start();
  } else {
    wait_for_predecessor();
  }
  using Shared = Ring<kSize>;
  constexpr int kStages = Shared::kStages;
  constexpr int kAhead = kStages - 1;  // tiles on their way while one is added
  const int lane = static_cast<int>(threadIdx.x % 32);
  // Said so that the compiler sees that it is the same in all lanes: else each shuffle would be
  // there twice, for lanes that have parted.
  const int warp = __shfl_sync(kAll, static_cast<int>(threadIdx.x / 32), 0);
  const int worker = static_cast<int>(blockIdx.x * blockDim.x / 32) + warp;
  const int slot = static_cast<int>(static_cast<unsigned>(worker) * of_worker >> kOfWorkerBits);
  const SlotPlan& plan = a.slot_plan[slot < a.slots ? slot : 0];
  const int4 begin = *reinterpret_cast<const int4*>(&plan.sequence);
  const int4 where = *reinterpret_cast<const int4*>(&plan.frame_at);
  const int count = slot < a.slots ? begin.z : 0;
  if (count == 0) {
    if (W::early(a)) wait_for_predecessor();
    return;
  }
  Tables tables = {a, lane};
  tables.frames_from = where.x;
  tables.frames_end = where.z;
  tables.frames_now = plan.frames[lane];
  tables.sequences_from = begin.x + 1;
  tables.lengths = plan.lengths[lane];
  tables.frame_begins = plan.frame_begins[lane];
  Loading loading;
  loading.sequence = begin.x;
  loading.rest = begin.w - begin.y * kTile;
  loading.begins = true;
  loading.frame_at = where.x;
  loading.within = where.y;
  W w(a, tables);
  w.memory = shared + warp * Shared::worker_bytes(a.slot_bytes);
  w.ring = ptx::shared_address(w.memory);
  w.lane = lane;
  w.once = ptx::policy_stream();
  w.worker = worker;
  w.kv_head = worker - slot * a.kv_heads;
  if (w.norm(a.prepare.q_norm)) w.q_gains.load(a.prepare.q_norm, lane);
  if (w.norm(a.prepare.k_norm)) w.k_gains.load(a.prepare.k_norm, lane);
  tables.frames_next = tables.read_frames(tables.frames_from + 32);

  // ---- before the kernel in front has ended ----------------------------------------------------
  // Tiles: of earlier steps' tokens only. Own tokens of prepared rows are of the kernel in front.
  int before = 1;
  if (!W::kCommon) {
    before = W::early(a) ? min(a.early_tiles, kAhead) : 0;
    if (!w.fused_prepare()) before = min(before, tiles_of(loading.rest) - 1);
    before = min(before, count);
  }
  int loaded = 0, asked = 0;        // tiles; those whose queries and so on have been asked for
  unsigned entered = 0, begun = 0;  // sequences
  bool joined = false;              // what belongs to early tiles may come behind the last of them
  int stage = 1;                    // of the tile to be added; step -kAhead loads the first stage
  if (before == 0 && W::early(a)) wait_for_predecessor();
  const auto load_beside = [&](int at) {
    const Tile tile = w.tile_in(at);
    const bool any = w.load_beside(tile, at, static_cast<int>(entered % Shared::kSlots));
    if (tile.begins) ++entered;
    return any;
  };
  const auto load_next = [&](int target) {
    if (loaded < count) {
      w.load(loading, target);
      if (++loaded < count) tables.advance<W::kBounded>(loading);
      if (loaded == before && W::early(a)) wait_for_predecessor();
      if (W::kCommon) {
        load_beside(target);
      } else {
        // With the last early tile comes what belongs to those in front, in the first stages.
        for (; loaded >= before && asked < loaded; ++asked) {
          const bool in_front = asked + 1 < before;
          joined |= load_beside(in_front ? asked : target) && in_front;
        }
      }
    }
    ptx::commit_copies();
  };
  const auto wait_for_tile = [&](int done) {
    if (!W::kCommon && joined && done + 1 < before) {
      ptx::wait_copies<0>();
    } else {
      ptx::wait_copies<kAhead - 1>();
    }
    __syncwarp();
  };

  // ---- tile by tile ----------------------------------------------------------------------------
  bool from_start = begin.y == 0;
  // Steps before 0 only ask for tiles.
#pragma unroll 1
  for (int done = -kAhead; done < count; ++done) {
    const int target = stage == 0 ? kStages - 1 : stage - 1;  // nothing is in it
    const Tile tile = w.tile_in(stage);
    if (done >= 0) {
      int queries = w.slot_offset(static_cast<int>(begun % Shared::kSlots));
      int angles = w.rope_offset(stage);
      if (!w.has_slots()) {
        queries = w.stage_offset(target);
        angles = queries + W::kTileBytes;
        if (tile.begins || tile.last()) w.fetch_beside(tile, target);
      }
      if (tile.begins) ++begun;

        // In slots the queries come with the tile; otherwise they are there before it.
#pragma unroll 1
      for (int part = 0; part < 2; ++part) {
        if ((part == 0) == w.has_slots()) wait_for_tile(done);
        if (part == 0 ? tile.begins : tile.last() && w.fused_prepare()) {
          w.prepare(part == 0, queries, w.memory + angles, tile, stage);
        }
      }
    }
    load_next(target);
    if (done >= 0) {
      w.add_tile(tile.rest, stage);
      const bool ends = tile.last();
      if (ends || done + 1 == count) {
        w.end_sequence(tile.sequence, from_start && ends, begun > 1, stage);
      }
      if (ends) from_start = true;
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
}

template <int kSize>
Status launch_split(const SplitArgs& a, bool behind_library, CudaStream stream) {
  const bool norms = a.prepare.q_norm != nullptr;
  [[maybe_unused]] const bool common =
      a.prepare.table != nullptr && a.tables_early && a.block_tokens >= kTile &&
                      a.group <= 8 && a.slot_bytes != 0 && a.early_tiles == 1 &&
                      norms == (a.prepare.k_norm != nullptr);
  [[maybe_unused]] const bool bounded =
      a.window != kNoDeviceWindow || a.cap_log2 != 0 || a.prepare.norm_offset != 0;
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(a.ctas)),
                             .block = dim3(static_cast<unsigned>(a.warps * 32)),
                             .shared_bytes = a.warps * Ring<kSize>::worker_bytes(a.slot_bytes),
                             .shared_bytes_max = kSharedMax,
                             .behind_library = behind_library};
  auto* kernel = split_kernel<kSize, Serves::kAny>;
  // With heads of 256, and of 96 that share no KV head, a model's frames are smaller than a tile.
  if constexpr (kSize == 96) {
    if (!bounded) kernel = split_kernel<kSize, Serves::kUnbounded>;
  } else if constexpr (kSize < 256) {
    if (!bounded) {
      kernel = !common ? split_kernel<kSize, Serves::kUnbounded>
               : norms ? split_kernel<kSize, Serves::kCommonWithNorms>
                       : split_kernel<kSize, Serves::kCommon>;
    }
  }
  CAUSEWAY_TRY(launch("attention (split)", stream, shape, kernel, a,
                      of_worker_by(static_cast<unsigned>(a.kv_heads))));
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
  const bool behind_library = params.behind_library;
  if (params.heads.size == 256) return launch_split<256>(args, behind_library, stream);
  if (params.heads.size == 96) return launch_split<96>(args, behind_library, stream);
  return params.heads.size == 64 ? launch_split<64>(args, behind_library, stream)
                                 : launch_split<128>(args, behind_library, stream);
}

}  // namespace causeway::kernels::attention::parts
