// Attention by the tensor cores for heads of any size up to 128, prompts and decode: what
// FlashInfer and the split kernel have no instances for, such as Phi-3's heads of 96.
//
// As in FlashAttention-2: a CTA has 64 rows, which are query tokens × the query heads that share a
// KV head, and passes over the keys that they see in tiles of 64, of which one is on its way while
// another is used. Elements up to the next size that has an instance are zeros in shared memory.
//
//   prompts     a warp has 16 of the rows and all keys of a tile
//   ≤ 16 rows   a warp has all rows and 16 of the keys; at the end the warps' sums are added up
//
// A sequence is served by one CTA a KV head while it decodes, so one long context uses few SMs.
#include "kernels/attention/cuda_decode.cuh"
#include "kernels/attention/cuda_paged.cuh"
#include "kernels/cuda_bf16.cuh"
#include "kernels/cuda_launch.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"

namespace causeway::kernels::attention::parts {
namespace {

constexpr unsigned kWholeWarp = 0xFFFFFFFFu;
constexpr int kTensorWarps = 4;
constexpr int kTensorRows = 64;  // of a CTA
constexpr int kTensorKeys = 64;  // of a tile
// Tiles on their way and in use. With four, decode of 32 sequences was 5 % slower (fewer CTAs on an
// SM), and one sequence no faster.
constexpr int kStages = 2;
constexpr int kRowsOfWarp = 16;  // of a product
constexpr int kKeysOfWarp = kTensorKeys / kTensorWarps;

template <int kSize>
struct TensorTiles {
  static constexpr int kChunks = kSize / 8;               // pieces of 16 bytes in a row
  static constexpr int kRowBytes = kSize * 2 + 16;        // eight rows begin in different banks
  static constexpr int kBytes = kTensorKeys * kRowBytes;  // of K, and of V
  static constexpr int kAll = kStages * 2 * kBytes;
  // The sums of all warps take the place of the tiles.
  static constexpr int kSumsOfWarp = kRowsOfWarp * kSize;
  static_assert(kTensorWarps * (kSumsOfWarp + 2 * kRowsOfWarp) * 4 <= kAll);
};

// The rows of a CTA: of which sequence, and from which on.
struct RowTile {
  int sequence, first_row, rows;  // rows: token × query heads of the KV head
  int queries, length;

  // A sequence's tiles begin at ⌊rows in front / 64⌋ + sequences in front: that leaves room for
  // all of them, so that the sequence is found by bisection, without a list.
  __device__ RowTile(const PagedArgs& a, int tile) {
    const int begin = a.query_begin[a.first];
    const auto tiles_before = [&](int s) {
      return (a.query_begin[s] - begin) * a.group / kTensorRows + s - a.first;
    };
    sequence = a.first;
    for (int high = a.last; high - sequence > 1;) {
      const int middle = (sequence + high) / 2;
      (tiles_before(middle) <= tile ? sequence : high) = middle;
    }
    queries = a.query_begin[sequence + 1] - a.query_begin[sequence];
    length = a.length[sequence];
    first_row = (tile - tiles_before(sequence)) * kTensorRows;
    rows = min(kTensorRows, queries * a.group - first_row);
  }
  // Tokens that a row sees, its own the last of them; 0: there is no such row.
  __device__ int visible(const PagedArgs& a, int row) const {
    return row < rows ? length - queries + (first_row + row) / a.group + 1 : 0;
  }
};

template <int kSize>
struct TensorWarp {
  using Tiles = TensorTiles<kSize>;

  const PagedArgs& a;
  const RowTile& tile;
  int kv_head, warp, lane;
  uint32_t shared;  // address of the tiles: K, V, K, V …
  int64_t offset;   // of K of the lane's token of the next tile: lane % 16 of the warp's 16
  bool valid;       // there is one
  uint32_t q[kSize / 16][4];
  float out[kSize / 8][4];
  float largest[2], total[2];  // of rows lane / 4 and 8 below
  int visible[2];

  // ---- keys and values --------------------------------------------------------------------------

  // Finds where the lane's token of the tile that begins with `first` lies. Tokens outside
  // [from, end) are seen by no row; what their frames hold may be no number.
  __device__ void find(int first, int from, int end) {
    const int token = first + warp * kKeysOfWarp + lane % kKeysOfWarp;
    valid = token >= from && token < end;
    offset = 0;
    if (!valid) return;
    const int64_t frame = a.frames[a.frame_begin[tile.sequence] + token / a.block_tokens];
    offset = frame * a.frame_bytes + token % a.block_tokens * a.token_stride +
             int64_t{kv_head} * a.size * 2;
  }
  // Asks for the warp's 16 tokens of a tile. Zeros where there is no token, or no element.
  __device__ void load(int stage) const {
    const uint32_t target = shared + stage * 2 * Tiles::kBytes;
#pragma unroll
    for (int i = lane; i < kKeysOfWarp * Tiles::kChunks; i += 32) {
      const int row = i / Tiles::kChunks, chunk = i % Tiles::kChunks;
      const int64_t at = __shfl_sync(kWholeWarp, offset, row);
      const bool exists =
          __shfl_sync(kWholeWarp, static_cast<int>(valid), row) != 0 && chunk * 8 < a.size;
      const char* source = exists ? a.keys + at + chunk * 16 : a.keys;
      const uint32_t to = target + (warp * kKeysOfWarp + row) * Tiles::kRowBytes + chunk * 16;
      ptx::copy_async(to, source, exists);
      ptx::copy_async(to + Tiles::kBytes, exists ? source + a.value_offset : source, exists);
    }
  }

  // ---- rows -------------------------------------------------------------------------------------

  // The lane's pair of q's elements of a row, as the left operand of the product has them.
  __device__ uint32_t pair_of(int row, int element) const {
    if (row >= tile.rows || element >= a.size) return 0;
    const int index = tile.first_row + row;
    const int64_t token = a.query_begin[tile.sequence] + index / a.group;
    const int head = kv_head * a.group + index % a.group;
    return *reinterpret_cast<const uint32_t*>(a.q + token * a.q_stride + int64_t{head} * a.size +
                                              element);
  }
  // `first`: of the warp's 16 rows.
  __device__ void begin(int first) {
    const int row = first + lane / 4, element = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
      q[i][0] = pair_of(row, i * 16 + element);
      q[i][1] = pair_of(row + 8, i * 16 + element);
      q[i][2] = pair_of(row, i * 16 + element + 8);
      q[i][3] = pair_of(row + 8, i * 16 + element + 8);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      largest[half] = -INFINITY;
      total[half] = 0;
      visible[half] = tile.visible(a, row + half * 8);
    }
#pragma unroll
    for (auto& four : out) {
#pragma unroll
      for (float& sum : four) sum = 0;
    }
  }

  // ---- a tile -----------------------------------------------------------------------------------

  // Adds `kEights` × 8 keys of the tile in `stage`, from its row `row` on, which is token `token`.
  template <int kEights>
  __device__ void add(int stage, int row, int token) {
    float scores[kEights][4] = {};
    const uint32_t keys = shared + stage * 2 * Tiles::kBytes;
    const uint32_t key =
        keys + (row + lane / 16 * 8 + lane % 8) * Tiles::kRowBytes + lane / 8 % 2 * 16;
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
#pragma unroll
      for (int n = 0; n < kEights; n += 2) {
        uint32_t k[4];
        ptx::load_matrices(k, key + n * 8 * Tiles::kRowBytes + i * 32);
        ptx::mma_16x8x16(scores[n], q[i], k[0], k[1]);
        ptx::mma_16x8x16(scores[n + 1], q[i], k[2], k[3]);
      }
    }
    weigh<kEights>(scores, token);
    const uint32_t value = keys + Tiles::kBytes +
                           (row + lane / 8 % 2 * 8 + lane % 8) * Tiles::kRowBytes + lane / 16 * 16;
#pragma unroll
    for (int n = 0; n < kEights; n += 2) {
      const uint32_t weights[4] = {
          pack(scores[n][0], scores[n][1]), pack(scores[n][2], scores[n][3]),
          pack(scores[n + 1][0], scores[n + 1][1]), pack(scores[n + 1][2], scores[n + 1][3])};
#pragma unroll
      for (int d = 0; d < kSize / 8; d += 2) {
        uint32_t v[4];
        ptx::load_matrices_transposed(v, value + n * 8 * Tiles::kRowBytes + d * 16);
        ptx::mma_16x8x16(out[d], weights, v[0], v[1]);
        ptx::mma_16x8x16(out[d + 1], weights, v[2], v[3]);
      }
    }
  }
  // Makes weights of products, and what is so far one of the largest score.
  template <int kEights>
  __device__ void weigh(float (&scores)[kEights][4], int token) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int hidden = visible[half] - min(a.window, visible[half]);
      float above = largest[half];
#pragma unroll
      for (int n = 0; n < kEights; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int at = token + n * 8 + lane % 4 * 2 + c;
          float& score = scores[n][half * 2 + c];
          score = at < visible[half] && at >= hidden ? a.score_of(score) : -INFINITY;
          above = fmaxf(above, score);
        }
      }
      above = fmaxf(above, __shfl_xor_sync(kWholeWarp, above, 1));
      above = fmaxf(above, __shfl_xor_sync(kWholeWarp, above, 2));
      const float base = above == -INFINITY ? 0.0f : above;  // a row that has seen nothing yet
      const float shrink = exp2_flushed(largest[half] - base);
      largest[half] = above;
      total[half] *= shrink;
#pragma unroll
      for (int n = 0; n < kEights; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& score = scores[n][half * 2 + c];
          score = exp2_flushed(score - base);
          total[half] += score;
        }
      }
#pragma unroll
      for (auto& four : out) {
        four[half * 2] *= shrink;
        four[half * 2 + 1] *= shrink;
      }
    }
  }

  // ---- the end ----------------------------------------------------------------------------------

  __device__ void sum_lanes() {
#pragma unroll
    for (float& sum : total) {
      sum += __shfl_xor_sync(kWholeWarp, sum, 1);
      sum += __shfl_xor_sync(kWholeWarp, sum, 2);
    }
  }
  __device__ __nv_bfloat16* out_of(int row) const {
    const int index = tile.first_row + row;
    const int64_t token = a.query_begin[tile.sequence] + index / a.group;
    return a.out + (token * a.query_heads + kv_head * a.group + index % a.group) * a.size;
  }
  // Writes the warp's 16 rows from `first` on.
  __device__ void write(int first) {
    sum_lanes();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + lane / 4 + half * 8;
      if (row >= tile.rows) continue;
      const float factor = total[half] > 0 ? 1.0f / total[half] : 0.0f;
      __nv_bfloat16* target = out_of(row) + lane % 4 * 2;
#pragma unroll
      for (int d = 0; d < kSize / 8; ++d) {
        if (d * 8 >= a.size) continue;
        *reinterpret_cast<uint32_t*>(target + d * 8) =
            pack(out[d][half * 2] * factor, out[d][half * 2 + 1] * factor);
      }
    }
  }
  // All warps: each leaves its sums for the same rows in `memory`, and all write what they add up
  // to.
  __device__ void write_together(float* memory) {
    sum_lanes();
    float* state = memory + kTensorWarps * Tiles::kSumsOfWarp;  // [warps][rows][largest, total]
    __syncthreads();                                            // the tiles are not needed any more
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + half * 8;
      float* sums = memory + warp * Tiles::kSumsOfWarp + row * kSize + lane % 4 * 2;
#pragma unroll
      for (int d = 0; d < kSize / 8; ++d) {
        sums[d * 8] = out[d][half * 2];
        sums[d * 8 + 1] = out[d][half * 2 + 1];
      }
      if (lane % 4 == 0) {
        state[(warp * kRowsOfWarp + row) * 2] = largest[half];
        state[(warp * kRowsOfWarp + row) * 2 + 1] = total[half];
      }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < tile.rows * a.size; i += kTensorWarps * 32) {
      const int row = i / a.size, element = i % a.size;
      float above = -INFINITY;
      for (int w = 0; w < kTensorWarps; ++w) {
        above = fmaxf(above, state[(w * kRowsOfWarp + row) * 2]);
      }
      float sum = 0, weight = 0;
      for (int w = 0; w < kTensorWarps && above != -INFINITY; ++w) {
        const float* its = state + (w * kRowsOfWarp + row) * 2;
        const float shrink = exp2_flushed(its[0] - above);
        sum += shrink * memory[w * Tiles::kSumsOfWarp + row * kSize + element];
        weight += shrink * its[1];
      }
      out_of(row)[element] = __float2bfloat16(weight > 0 ? sum / weight : 0.0f);
    }
  }
};

// Grid: (tiles of rows at most, KV heads).
template <int kSize>
__global__ void __launch_bounds__(kTensorWarps * 32) tensor_kernel(const PagedArgs a) {
  extern __shared__ __align__(128) char memory[];
  wait_for_predecessor();
  const RowTile tile(a, static_cast<int>(blockIdx.x));
  if (tile.rows <= 0) return;
  const int warp = __shfl_sync(kWholeWarp, static_cast<int>(threadIdx.x / 32), 0);
  TensorWarp<kSize> w{a,
                      tile,
                      static_cast<int>(blockIdx.y),
                      warp,
                      static_cast<int>(threadIdx.x % 32),
                      ptx::shared_address(memory)};
  const bool together = tile.rows <= kRowsOfWarp;  // the same in all warps
  const int first = together ? 0 : warp * kRowsOfWarp;
  w.begin(first);

  // Tokens that any row sees: those of the first row begin first, those of the last end last. In a
  // place without a sequence nothing is seen.
  const int end = tile.length == 0 ? 0 : tile.visible(a, tile.rows - 1);
  const int from = max(0, tile.visible(a, 0) - min(a.window, tile.visible(a, 0)));
  const int start = from / kTensorKeys * kTensorKeys;
  // What the warp's own rows see.
  const int own_end = together ? end
                      : tile.length == 0 || first >= tile.rows
                          ? 0
                          : tile.visible(a, min(first + kRowsOfWarp, tile.rows) - 1);
  int asked = start;  // first token of the tile that is asked for next
  w.find(asked, from, end);
  const auto ask = [&](int stage) {
    if (asked < end) w.load(stage);
    ptx::commit_copies();
    asked += kTensorKeys;
    w.find(asked, from, end);
  };
#pragma unroll 1
  for (int stage = 0; stage + 1 < kStages; ++stage) ask(stage);
  int stage = 0;
#pragma unroll 1
  for (int token = start; token < end; token += kTensorKeys) {
    ask(stage == 0 ? kStages - 1 : stage - 1);
    ptx::wait_copies<kStages - 1>();
    __syncthreads();  // the tile is there, by all warps
    if (together) {
      w.template add<kKeysOfWarp / 8>(stage, warp * kKeysOfWarp, token + warp * kKeysOfWarp);
    } else if (token < own_end) {
      w.template add<kTensorKeys / 8>(stage, 0, token);
    }
    __syncthreads();  // no warp reads it any more
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  if (together) {
    w.write_together(reinterpret_cast<float*>(memory));
  } else {
    w.write(first);
  }
}

template <int kSize>
Status launch_tensor(const PagedArgs& a, std::int64_t rows, CudaStream stream) {
  const std::int64_t tiles = rows * a.group / kTensorRows + a.last - a.first;
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(a.query_heads / a.group));
  return launch(
      "attention (tensor cores)", stream,
      {.grid = grid, .block = dim3(kTensorWarps * 32), .shared_bytes = TensorTiles<kSize>::kAll},
      tensor_kernel<kSize>, a);
}

}  // namespace

Status run_tensor(const ParamsCuda& p, std::int64_t first, std::int64_t last, CudaStream stream) {
  const PagedArgs a = paged_args(p, first, last);
  const std::int64_t rows = rows_at_most(p, first, last);
  return a.size <= 96 ? launch_tensor<96>(a, rows, stream) : launch_tensor<128>(a, rows, stream);
}

}  // namespace causeway::kernels::attention::parts
