// Decode of few sequences: one launch, and from the queries to the output as few steps as there
// are that wait for one another.
//
// A cluster of CTAs serves one KV head of one sequence. Each CTA takes a range of its tiles of 16
// tokens, in rounds of as many as its shared memory holds:
//
//   tiles of the sequence  │ CTA 0 ······ │ CTA 1 ····· │ … │ CTA n-1 ··· own token │
//   of a CTA               └ round 0 ┴ round 1 ┴ …
//
// In a round a warp makes the scores of a tile or two, [tokens × query heads] = K · qᵀ, and leaves
// weights by the tile's own largest score; behind a barrier it adds up 16 elements of the heads
// over all of the round's tiles, [elements × query heads] = Vᵀ · weights. So the query heads are
// the eight columns of a tensor-core tile, and no sum of values crosses a warp. At the end each CTA
// sends to each of its cluster what that is to finish, in 16-byte words that an mbarrier counts. A
// CTA that has received all writes its part. Nothing waits for a CTA of another cluster.
//
// K and V of earlier tokens are asked for before the kernel in front has ended, all that a round
// holds. The own token's q, k and v come from the product as they are: a warp prepares a head.
#include "kernels/attention/cuda_cluster.cuh"
#include "kernels/attention/cuda_small_batch.cuh"
#include "kernels/cuda_bf16.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr unsigned kAll = 0xFFFFFFFFu;

// A CTA's place in its cluster, of a power of two of CTAs: a division would be a hundred
// instructions.
struct SmallBatchRank {
  int rank, log_ctas;

  __device__ int ctas() const { return 1 << log_ctas; }
};

// The part of a sequence's tiles that a CTA has. The last with any has the own token.
struct SmallBatchRange {
  int length, begin, end;  // tokens; tiles
  bool owns;

  __device__ SmallBatchRange(int length_, const SmallBatchRank& at) : length(length_) {
    const auto tiles = static_cast<unsigned>(tiles_of(length));
    const unsigned rank = static_cast<unsigned>(at.rank), more = (1u << at.log_ctas) - 1;
    begin = static_cast<int>((tiles * rank + more) >> at.log_ctas);
    end = static_cast<int>((tiles * (rank + 1) + more) >> at.log_ctas);
    owns = begin < end && end == static_cast<int>(tiles);
  }
};

// A token's frame: the quotient by the tokens of a frame, of which the product is at most one
// short.
__device__ __forceinline__ int block_of(const SmallBatchArgs& a, int token) {
  const int block = static_cast<int>(__umulhi(static_cast<unsigned>(token), a.of_block));
  return token - block * a.block_tokens < a.block_tokens ? block : block + 1;
}

// A warp's own tiles of a round, numbers warp and warp + kSmallBatchWarps: where their rows lie, a
// lane each, and copies of them on their way.
template <int kSize, int kEights>
struct SmallBatchRows {
  using Place = SmallBatchPlace<kSize, kEights>;
  static constexpr int kChunks = kSize / 8;  // pieces of 16 bytes in a row
  static constexpr int kRowsAtOnce = 32 / kChunks;

  const SmallBatchArgs& a;
  const SmallBatchRange& range;
  const int32_t* frames;  // of the sequence
  uint32_t memory;
  int kv_head, warp, lane;
  uint64_t once;
  int frame, within;  // of the next round: read before it is needed
  int64_t offset;     // of this round, bytes

  // How many of a tile's tokens have been written.
  __device__ int written(int tile) const {
    return range.length - (a.prepare.table != nullptr ? 1 : 0) - tile * kTile;
  }
  __device__ void look_up(int round) {
    const int tile = range.begin + round * Place::kTiles + warp + lane / kTile * kSmallBatchWarps;
    const int row = lane % kTile, token = tile * kTile + row;
    const bool valid = tile < range.end && row < written(tile);
    const int block = valid ? block_of(a, token) : 0;
    within = valid ? token - block * a.block_tokens : 0;
    frame = valid ? frames[block] : 0;
  }
  // All lanes. Half-rounds: K, then V. Zeros for rows without a written token.
  __device__ void load(int half_round) {
    const int round = half_round >> 1, part = half_round & 1;
    const int first = range.begin + round * Place::kTiles;
    const int tiles = min(Place::kTiles, range.end - first);
    if (part == 0) offset = frame * a.frame_bytes + within * a.token_stride;
    const char* source = a.keys + part * a.value_offset + kv_head * kSize * 2 + lane % kChunks * 16;
    uint32_t target = memory + (part == 0 ? Place::kKeys : Place::kValues);
    target += static_cast<uint32_t>(warp * Place::kTileBytes);
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      const int index = warp + half * kSmallBatchWarps;
      if (index >= tiles) break;
      const int count = written(first + index);
#pragma unroll 4
      for (int i = 0; i < kTile / kRowsAtOnce; ++i) {
        const int row = i * kRowsAtOnce + lane / kChunks;
        const int64_t at = __shfl_sync(kAll, offset, half * kTile + row);
        ptx::copy_async(target + place<kSize>(row, lane % kChunks), source + at, row < count, once);
      }
      target += kSmallBatchWarps * Place::kTileBytes;
    }
    if (part == 1) look_up(round + 1);
  }
};

// The own token's rows: queries, and in the CTA that has its tile k and v. A warp prepares a row.
template <int kSize, int kEights>
struct SmallBatchOwn {
  using Place = SmallBatchPlace<kSize, kEights>;
  using Head = PreparedHead<kSize>;
  using Pack = typename Head::Pack;
  static constexpr int kRowsMax = kEights + 1;  // rows of a warp at most

  RopeAngles<kSize> angles;
  Head q_gains, k_gains;
  char* in_frame;  // K of the token

  // What does not depend on the kernel in front.
  __device__ void load_early(const SmallBatchArgs& a, const SmallBatchRange& range,
                             const int32_t* frames, int sequence, int kv_head, int lane) {
    in_frame = nullptr;
    if (a.prepare.table == nullptr) return;
    angles.load(a.prepare.table + static_cast<int64_t>(sequence) * kSize, lane);
    if (a.prepare.q_norm != nullptr) q_gains.load_gains(a.prepare.q_norm, lane);
    if (a.prepare.k_norm != nullptr) k_gains.load_gains(a.prepare.k_norm, lane);
    if (!range.owns) return;
    const int token = range.length - 1, block = block_of(a, token);
    in_frame = a.keys + frames[block] * a.frame_bytes +
               (token - block * a.block_tokens) * a.token_stride + kv_head * kSize * 2;
  }

  // All threads of the CTA; a barrier must follow.
  __device__ void place_rows(const SmallBatchArgs& a, char* shared, int sequence, int kv_head,
                             int warp, int lane) const {
    const bool fused_prepare = a.prepare.table != nullptr;
    const int rows = a.group + (in_frame != nullptr ? 2 : 0);
    Head head[kRowsMax] = {};
#pragma unroll
    for (int i = 0; i < kRowsMax; ++i) {
      const int row = warp + i * kSmallBatchWarps, part = row - a.group;
      const int number =
          part < 0 ? kv_head * a.group + row : a.kv_heads * (a.group + part) + kv_head;
      const __nv_bfloat16* source =
          a.q + sequence * a.q_stride + number * kSize + lane * Head::kPairs;
      if (row >= rows) continue;
      head[i].half[0] = *reinterpret_cast<const Pack*>(source);
      head[i].half[1] = *reinterpret_cast<const Pack*>(source + kSize / 2);
    }
#pragma unroll 1
    for (int row = warp; row < rows; row += kSmallBatchWarps) {
      const int part = row - a.group;  // 0: k, 1: v
      Head mine = head[0];
#pragma unroll
      for (int i = 0; i + 1 < kRowsMax; ++i) head[i] = head[i + 1];
      if (fused_prepare && part < 1) {
        Head gains = q_gains;  // by value: a choice of two places would put both into memory
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (part == 0) gains.half[half] = k_gains.half[half];
        }
        const bool norm = part == 0 ? a.prepare.k_norm != nullptr : a.prepare.q_norm != nullptr;
        mine.prepare(norm, gains, a.prepare.epsilon, angles);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int element = half * (kSize / 2) + lane * Head::kPairs;
        const auto at = part < 0
                            ? Place::kQueries + place<kSize>(row, element / 8) + element % 8 * 2
                            : Place::kOwn + (part * kSize + element) * 2;
        *reinterpret_cast<Pack*>(shared + at) = mine.half[half];
        if (part >= 0) {
          *reinterpret_cast<Pack*>(in_frame + part * a.value_offset + element * 2) =
              mine.half[half];
        }
      }
    }
  }
};

template <int kSize, int kEights>
struct SmallBatchWorker {
  using Place = SmallBatchPlace<kSize, kEights>;
  static constexpr int kChunks = kSize / 8;
  static constexpr int kAtOnce = 4;  // tiles, and CTAs, that are added up at once

  const SmallBatchArgs& a;
  const SmallBatchRange& range;
  char* shared;
  uint32_t memory;  // its address
  int warp, lane;
  uint32_t q[kEights][kSize / 16][2];  // as the right operand
  // Sums of 16 elements from warp × 16 on: rows are elements, columns query heads.
  float out[kEights][4];
  float above[kEights][2], total[kEights][2];  // of heads lane % 4 × 2 and the next

  // Leaves the rest as it is: zeros that are not read would be instructions.
  __device__ SmallBatchWorker(const SmallBatchArgs& args, const SmallBatchRange& its_range,
                              char* its_shared, uint32_t its_memory, int its_warp, int its_lane)
      : a(args),
        range(its_range),
        shared(its_shared),
        memory(its_memory),
        warp(its_warp),
        lane(its_lane) {}

  __device__ bool adds() const { return warp < kSize / 16; }

  __device__ void clear() {
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
#pragma unroll
      for (float& x : out[n]) x = 0;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        above[n][c] = -INFINITY;
        total[n][c] = 0;
      }
    }
  }
  // Heads behind the group's are copies of its last; what becomes of them is not written.
  __device__ void read_queries() {
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
      read_operand<kSize>(q[n], memory + Place::kQueries, min(n * 8 + lane % 8, a.group - 1), lane);
    }
  }

  // k (part 0) or v of the own token into its row of tile number `index` of the round.
  __device__ void place_own(int part, int index) const {
    if (lane < kChunks) {
      char* tile = shared + (part == 0 ? Place::kKeys : Place::kValues) + index * Place::kTileBytes;
      const char* own = shared + Place::kOwn + part * kSize * 2 + lane * 16;
      *reinterpret_cast<uint4*>(tile + place<kSize>((range.length - 1) & (kTile - 1), lane)) =
          *reinterpret_cast<const uint4*>(own);
    }
    __syncwarp();
  }

  // Scores of tile number `index` of the round: its weights, and the largest score of each head.
  __device__ void score(int tile, int index) const {
    const uint32_t keys = memory + Place::kKeys + static_cast<uint32_t>(index * Place::kTileBytes) +
                          place<kSize>(lane % 16, lane / 16);
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
    const int left = range.length - tile * kTile - lane / 4;  // tokens from this lane's on
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
      float s[4], largest[2];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float sum = (sums[n][0][c] + sums[n][1][c]) * a.scale_log2;
        s[c] = left > c / 2 * 8 ? sum : -INFINITY;
      }
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        largest[c] = fmaxf(s[c], s[c + 2]);
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) {
          largest[c] = fmaxf(largest[c], __shfl_xor_sync(kAll, largest[c], lanes));
        }
      }
      char* weights = shared + Place::kWeights + (index * kEights + n) * Place::kWeightBytes;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<uint32_t*>(weights + half * 128 + lane * 4) = pack(
            exp2_flushed(s[2 * half] - largest[0]), exp2_flushed(s[2 * half + 1] - largest[1]));
      }
      if (lane < 4) {
        float* target = reinterpret_cast<float*>(shared + Place::kLargest) + index * Place::kHeads;
        *reinterpret_cast<float2*>(target + n * 8 + lane * 2) = make_float2(largest[0], largest[1]);
      }
    }
  }

  // Adds the values of a round's tiles, kAtOnce together: places behind the last are the last
  // again, with no weight.
  __device__ void add_values(int tiles) {
#pragma unroll 1
    for (int from = 0; from < tiles; from += kAtOnce) {
      uint32_t v[kAtOnce][4];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int index = min(from + j, tiles - 1);
        const uint32_t tile = memory + Place::kValues + index * Place::kTileBytes;
        ptx::load_matrices_transposed(
            v[j], tile + place<kSize>(lane / 16 * 8 + lane % 8, warp * 2 + lane / 8 % 2));
      }
#pragma unroll
      for (int n = 0; n < kEights; ++n) add_weighted(v, from, tiles, n);
    }
  }
  __device__ __forceinline__ void add_weighted(const uint32_t (&v)[kAtOnce][4], int from, int tiles,
                                               int n) {
    constexpr uint32_t kOnes[4] = {0x3F803F80u, 0x3F803F80u, 0x3F803F80u, 0x3F803F80u};
    uint32_t weight[kAtOnce][2];
    float2 largest[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; j += 2) {
      const int index = min(from + j + lane / 16, tiles - 1);
      uint32_t four[4];
      ptx::load_matrices_transposed(
          four,
          memory + Place::kWeights + (index * kEights + n) * Place::kWeightBytes + lane % 16 * 16);
      weight[j][0] = four[0];
      weight[j][1] = four[1];
      weight[j + 1][0] = four[2];
      weight[j + 1][1] = four[3];
    }
    float next[2] = {above[n][0], above[n][1]};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int index = min(from + j, tiles - 1);
      largest[j] = *reinterpret_cast<const float2*>(
          shared + Place::kLargest + (index * Place::kHeads + n * 8) * 4 + lane % 4 * 8);
      next[0] = fmaxf(next[0], largest[j].x);
      next[1] = fmaxf(next[1], largest[j].y);
    }
    rescale(n, next);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      float sums[4] = {}, totals[4] = {};
      ptx::mma_16x8x16(sums, v[j], weight[j][0], weight[j][1]);
      ptx::mma_16x8x16(totals, kOnes, weight[j][0], weight[j][1]);
      const bool there = from + j < tiles;
      const float factor[2] = {there ? exp2_flushed(largest[j].x - next[0]) : 0,
                               there ? exp2_flushed(largest[j].y - next[1]) : 0};
#pragma unroll
      for (int c = 0; c < 4; ++c) out[n][c] += sums[c] * factor[c % 2];
#pragma unroll
      for (int c = 0; c < 2; ++c) total[n][c] += totals[c] * factor[c];
    }
  }
  // To a largest score that is at least the one so far, and finite.
  __device__ void rescale(int n, const float (&next)[2]) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const float shrink = exp2_flushed(above[n][c] - next[c]);
      above[n][c] = next[c];
      total[n][c] *= shrink;
      out[n][c] *= shrink;
      out[n][c + 2] *= shrink;
    }
  }

  // ---- between CTAs -----------------------------------------------------------------------------

  // Sends to each CTA its share of the warps' and lanes' sums, kSize × 2 / CTAs of 16 bytes each.
  __device__ void send(const SmallBatchRank& rank) const {
    const int log_share = log_share_of(rank), number = warp * 32 + lane;
    if (!adds()) return;
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
      const int to = number >> log_share, in_share = number & ((1 << log_share) - 1);
      const int row = n * rank.ctas() + rank.rank;
      const uint32_t barrier = ptx::cluster_address(memory + Place::kBarrier, to);
      const uint32_t target =
          ptx::cluster_address(memory + Place::kPieces + ((row << log_share) + in_share) * 16, to);
      cluster::send(target, barrier, make_float4(out[n][0], out[n][1], out[n][2], out[n][3]));
      if (warp != n) continue;
#pragma unroll 1
      for (int other = lane / 4; other < rank.ctas(); other += 8) {
        const uint32_t state =
            ptx::cluster_address(memory + Place::kStates + (row * 4 + lane % 4) * 16, other);
        const uint32_t counts = ptx::cluster_address(memory + Place::kBarrier, other);
        cluster::send(state, counts,
                      make_float4(above[n][0], total[n][0], above[n][1], total[n][1]));
      }
    }
  }
  static __device__ uint32_t bytes_of(const SmallBatchRank& rank) {
    return static_cast<uint32_t>(kEights * (2 * kSize + rank.ctas() * 4) * 16);
  }
  static __device__ int log_share_of(const SmallBatchRank& rank) {
    return (kSize == 64 ? 7 : 8) - rank.log_ctas;
  }

  // Adds up what this CTA has been sent, in the order of CTAs, and writes it. `target`: of the
  // group's first head.
  __device__ void finish(const SmallBatchRank& rank, __nv_bfloat16* target) {
    const int log_share = log_share_of(rank), count = kEights << log_share;
#pragma unroll 1
    for (int from = warp * 32; from < count; from += kSmallBatchThreads) {
      cluster::wait_for_bytes(memory + Place::kBarrier);
      const int at = min(from + lane, count - 1), n = at >> log_share;
      const int in_share = at - (n << log_share);
      const int number = (rank.rank << log_share) + in_share;
      add_sent(n, in_share, log_share, rank.ctas());
      // A pair of elements lies in two lanes: each keeps one of its two heads.
      const int odd = number >> 2 & 1;
      const int head = n * 8 + (number & 3) * 2 + odd;
      const int element = (number >> 5) * 16 + (number >> 2 & 7) - odd;
      const float inverse[2] = {inverse_of_sum(total[0][0]), inverse_of_sum(total[0][1])};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float first = out[0][2 * half] * inverse[0];
        const float second = out[0][2 * half + 1] * inverse[1];
        const float other = __shfl_xor_sync(kAll, odd != 0 ? first : second, 4);
        const uint32_t pair = odd != 0 ? pack(other, second) : pack(first, other);
        if (from + lane >= count || head >= a.group) continue;
        *reinterpret_cast<uint32_t*>(target + head * kSize + element + half * 8) = pair;
      }
    }
  }
  // Into out[0], total[0].
  __device__ void add_sent(int n, int in_share, int log_share, int ctas) {
    const auto* states = reinterpret_cast<const float4*>(shared + Place::kStates) + n * ctas * 4;
    const auto* pieces = reinterpret_cast<const float4*>(shared + Place::kPieces) +
                         (n * ctas << log_share) + in_share;
    clear();
#pragma unroll 1
    for (int from = 0; from < ctas; from += kAtOnce) {
      float4 state[kAtOnce], piece[kAtOnce];
      float next[2] = {above[0][0], above[0][1]};
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int index = min(from + j, ctas - 1);
        state[j] = states[index * 4 + lane % 4];
        piece[j] = pieces[index << log_share];
        next[0] = fmaxf(next[0], state[j].x);
        next[1] = fmaxf(next[1], state[j].z);
      }
      rescale(0, next);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const bool there = from + j < ctas;
        const float factor[2] = {there ? exp2_flushed(state[j].x - next[0]) : 0,
                                 there ? exp2_flushed(state[j].z - next[1]) : 0};
        total[0][0] += state[j].y * factor[0];
        total[0][1] += state[j].w * factor[1];
        out[0][0] += piece[j].x * factor[0];
        out[0][1] += piece[j].y * factor[1];
        out[0][2] += piece[j].z * factor[0];
        out[0][3] += piece[j].w * factor[1];
      }
    }
  }
};

// A place without a sequence. All threads of the cluster.
__device__ void zero_rows(uint4* rows, int count, const SmallBatchRank& rank) {
#pragma unroll 1
  for (int i = rank.rank * kSmallBatchThreads + static_cast<int>(threadIdx.x); i < count;
       i += kSmallBatchThreads << rank.log_ctas) {
    rows[i] = make_uint4(0, 0, 0, 0);
  }
}

// Grid: CTAs of a cluster × KV heads × sequences. As in the split kernel the code of each part is
// there once: instructions come from HBM, launch by launch.
template <int kSize, int kEights>
__global__ void __launch_bounds__(kSmallBatchThreads, kEights)
    small_batch_kernel(const SmallBatchArgs a) {
  extern __shared__ __align__(128) char shared[];
  if (a.early) {
    let_successor_start();
  } else {
    wait_for_predecessor();
  }
  using Place = SmallBatchPlace<kSize, kEights>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  // As in the split kernel: so that the compiler sees that it is the same in all lanes.
  const int warp = __shfl_sync(kAll, static_cast<int>(threadIdx.x / 32), 0);
  const SmallBatchRank rank = {static_cast<int>(blockIdx.x),
                               31 - __clz(static_cast<int>(gridDim.x))};
  const int kv_head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const uint32_t memory = ptx::shared_address(shared);
  using Worker = SmallBatchWorker<kSize, kEights>;
  if (threadIdx.x == 0) cluster::expect(memory + Place::kBarrier, Worker::bytes_of(rank));
  cluster::arrive();
  const SmallBatchRange range(a.length[sequence], rank);
  const int32_t* frames = a.frames + a.frame_begin[sequence];
  __nv_bfloat16* target =
      a.out + (static_cast<int64_t>(sequence) * a.kv_heads + kv_head) * a.group * kSize;
  if (range.length == 0) {
    if (a.early) wait_for_predecessor();
    zero_rows(reinterpret_cast<uint4*>(target), a.group * kSize / 8, rank);
    cluster::wait();
    return;
  }

  SmallBatchRows<kSize, kEights> rows = {a, range, frames, memory, kv_head, warp, lane};
  rows.once = ptx::policy_stream();
  rows.look_up(0);
  SmallBatchOwn<kSize, kEights> own;
  own.load_early(a, range, frames, sequence, kv_head, lane);
  Worker w(a, range, shared, memory, warp, lane);

  // Two half-rounds a round: K and scores, V and sums. The two before the first only ask.
  const int count = range.end - range.begin;
  const int half_rounds = (count + Place::kTiles - 1) / Place::kTiles * 2;
  const int end = max(1, half_rounds);
#pragma unroll 1
  for (int half_round = -2; half_round < end; ++half_round) {
    // ---- the own token, when the kernel in front has ended --------------------------------------
    if (half_round == 0) {
      cluster::wait();  // all its CTAs are there
      if (a.early) wait_for_predecessor();
      own.place_rows(a, shared, sequence, kv_head, warp, lane);
      __syncthreads();
      w.clear();
      if (count > 0) w.read_queries();
    }
    const int first = range.begin + (half_round >> 1) * Place::kTiles;
    const int tiles = min(Place::kTiles, range.end - first);
    const int own_index = own.in_frame != nullptr ? range.end - 1 - first : -1;
    const bool places =
        own_index < tiles && own_index >= 0 && (own_index & (kSmallBatchWarps - 1)) == warp;
    if (half_round >= 0) ptx::wait_copies<1>();
    __syncwarp();
    if (half_round >= 0 && half_round < half_rounds && places) {
      w.place_own(half_round & 1, own_index);
    }
    // ---- scores ---------------------------------------------------------------------------------
    if (half_round >= 0 && (half_round & 1) == 0) {
#pragma unroll 1
      for (int index = warp; index < tiles; index += kSmallBatchWarps) {
        w.score(first + index, index);
      }
      __syncwarp();  // their K may be overwritten
    }
    // ---- values ---------------------------------------------------------------------------------
    if (half_round >= 0 && (half_round & 1) == 1) {
      __syncthreads();
      if (w.adds()) w.add_values(tiles);
      if (half_round + 1 < half_rounds) __syncthreads();
    }
    if (half_round + 2 < half_rounds) rows.load(half_round + 2);
    ptx::commit_copies();
  }
  w.send(rank);
  w.finish(rank, target);
}

SmallBatchArgs small_batch_args(const ParamsCuda& p) {
  SmallBatchArgs a = {};
  static_cast<DecodeArgs&>(a) = decode_args(p);
  a.kv_heads = static_cast<int>(p.heads.kv);
  a.group = static_cast<int>(p.heads.query / p.heads.kv);
  a.block_tokens = static_cast<int>(p.kv.block_tokens);
  a.of_block = 0xFFFFFFFFu / static_cast<unsigned>(a.block_tokens);
  a.early = p.tables_early && p.fused_prepare != nullptr;
  a.prepare = fused_prepare_args(p);
  a.scale_log2 = scale_log2_of(p);
  return a;
}

struct SmallBatchKernel {
  void (*kernel)(SmallBatchArgs);
  int shared_bytes;
};

SmallBatchKernel small_batch_kernel_of(const Heads& heads) {
  const bool one = heads.query / heads.kv <= 8;
  if (heads.size == 64) {
    return one ? SmallBatchKernel{small_batch_kernel<64, 1>, SmallBatchPlace<64, 1>::kBytes}
               : SmallBatchKernel{small_batch_kernel<64, 2>, SmallBatchPlace<64, 2>::kBytes};
  }
  return one ? SmallBatchKernel{small_batch_kernel<128, 1>, SmallBatchPlace<128, 1>::kBytes}
             : SmallBatchKernel{small_batch_kernel<128, 2>, SmallBatchPlace<128, 2>::kBytes};
}

// More than eight CTAs are not portable: a kernel must say that it can live with that.
Status allow(const SmallBatchKernel& kernel, int cluster) {
  constexpr const char* kWhat = "attention (small batch)";
  CAUSEWAY_TRY(
      launch_status(cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         kSmallBatchSharedAlone),
                    kWhat));
  if (cluster <= 8) return {};
  return launch_status(
      cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
      kWhat);
}

}  // namespace

std::int64_t small_batch_room(const Heads& heads, int cluster) {
  const SmallBatchKernel kernel = small_batch_kernel_of(heads);
  const device::CudaFirstLaunch loading(kernel.kernel, nullptr);
  if (!allow(kernel, cluster).ok()) return 0;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(kSmallBatchThreads);
  config.dynamicSmemBytes = kSmallBatchSharedAlone;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  if (cudaOccupancyMaxActiveClusters(&clusters, kernel.kernel, &config) == cudaSuccess) {
    return clusters;
  }
  (void)cudaGetLastError();  // so that a later check does not report it
  return 0;
}

Status run_small_batch(const ParamsCuda& params, CudaStream stream) {
  const SmallBatchKernel kernel = small_batch_kernel_of(params.heads);
  const device::CudaFirstLaunch loading(kernel.kernel, stream);
  CAUSEWAY_TRY(allow(kernel, params.cluster));
  const LaunchShape shape = {
      dim3(static_cast<unsigned>(params.cluster), static_cast<unsigned>(params.heads.kv),
           static_cast<unsigned>(params.decode)),
      dim3(kSmallBatchThreads), kernel.shared_bytes, kSmallBatchSharedAlone, params.cluster};
  return launch("attention (small batch)", stream, shape, kernel.kernel, small_batch_args(params));
}

}  // namespace causeway::kernels::attention::parts
