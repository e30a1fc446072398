// The product for few rows of x: sumsᵀ [rows of w × rows of x] = w · xᵀ, w streamed once from HBM,
// every CTA owning whole rows of w, so that no sum crosses a CTA.
//
// A CTA's tiles of 16·kBlocks rows are read one after the other in steps of kHalves · 128 columns:
// 128 of a tile of 16 rows are so few bytes that a step takes longer than the memory needs. One
// warp feeds w and one x into a ring of stages [w kRows×step | x kBatch×step] by TMA; four warps
// multiply, each 32 of 128 columns, and at the end of a tile their sums are added through shared
// memory in the order of warps. So the order of adding depends on k alone.
//
// With kNorm x is normalised on the way (RMSNorm): fragments of x are multiplied by the gains where
// they are read, their squares are added up along the first tile, and 1 / rms is a factor of the
// finished sums. So no kernel stands between the product that wrote x and this one.
//
// The ring takes a share of an SM's shared memory (CudaShare): the next kernel's CTAs fit beside,
// fill their rings with weights, and multiply when this one has ended.
#pragma once

#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/sm90_common.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/launch.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ring_cursor.cuh"

namespace causeway::kernels::gemm {

constexpr int kRowsWarps = 4;  // that multiply
constexpr int kRowsThreads = 32 * (kRowsWarps + 2);

template <int kBatch, int kBlocks, bool kNorm, int kHalves>
struct RowsRing {
  static constexpr int kRows = 16 * kBlocks;
  static constexpr uint32_t kStepK = kHalves * kRowsStepK;
  static constexpr uint32_t kSlabs = kStepK / 64;  // 128 bytes wide each, swizzled
  static constexpr uint32_t kWeightBytes = kRows * kStepK * 2;
  static constexpr uint32_t kInputBytes = kBatch * kStepK * 2;
  static constexpr uint32_t kStageBytes = kWeightBytes + kInputBytes;
  // Sums of a tile for 8 rows of x [warps][8][kPitch]; the pitch spreads a warp's stores over the
  // banks.
  static constexpr int kPitch = kRows + 4;
  static constexpr uint32_t kSumBytes = kRowsWarps * 8 * kPitch * 4;
  static constexpr uint32_t kGainBytes = kNorm ? kStepK * 2 : 0;  // of a stage
  static constexpr uint32_t kSquareBytes = kNorm ? kRowsWarps * kBatch * 4 : 0;
  // Behind the stages: gains of each, two barriers of each, sums, squares [warps][kBatch].
  static constexpr uint32_t kPerStage = kStageBytes + kGainBytes + 16;
  static constexpr uint32_t kFixed = kSumBytes + kSquareBytes + 1024;
  static constexpr uint32_t stages(CudaShare share) {
    return (shared_max(share) - kFixed) / kPerStage;
  }
  // The whole share, also where stages leave some of it over.
  static constexpr uint32_t shared_bytes(CudaShare share) { return shared_max(share); }
  static_assert(stages(CudaShare::kLess) >= 2);
};

struct RowsArgs {
  OutputArgs output;
  EvenShares tiles;
  int k_steps;
  uint32_t stages;
  const __nv_bfloat16* gains;  // kNorm: [k]
  float epsilon;
};

template <int kBatch, int kBlocks, bool kNorm, int kHalves>
struct RowsPlace {
  using Ring = RowsRing<kBatch, kBlocks, kNorm, kHalves>;
  uint32_t memory;  // 1,024-byte aligned
  uint32_t stages;

  CAUSEWAY_DEVICE uint32_t weights(uint32_t stage) const {
    return memory + stage * Ring::kStageBytes;
  }
  CAUSEWAY_DEVICE uint32_t inputs(uint32_t stage) const {
    return weights(stage) + Ring::kWeightBytes;
  }
  CAUSEWAY_DEVICE uint32_t gains(uint32_t stage) const {
    return memory + stages * Ring::kStageBytes + stage * Ring::kGainBytes;
  }
  CAUSEWAY_DEVICE uint32_t sums() const { return gains(stages); }
  CAUSEWAY_DEVICE uint32_t squares() const { return sums() + Ring::kSumBytes; }
  CAUSEWAY_DEVICE uint32_t full(uint32_t stage) const {
    return squares() + Ring::kSquareBytes + stage * 8;
  }
  CAUSEWAY_DEVICE uint32_t empty(uint32_t stage) const { return full(stage) + stages * 8; }
};

// ---- feeding -----------------------------------------------------------------------------------

// One thread feeds w, another one x.
template <int kBatch, int kBlocks, bool kNorm, int kHalves, Finish kFinish>
struct RowsFeeder {
  using Ring = RowsRing<kBatch, kBlocks, kNorm, kHalves>;
  const RowsArgs& args;
  const CUtensorMap* map;
  RowsPlace<kBatch, kBlocks, kNorm, kHalves> place;
  FeedStep at;
  int count;  // steps left
  RingCursor cursor = {place.stages};

  CAUSEWAY_DEVICE void load_weights(uint64_t policy) {
    const uint32_t full = place.full(cursor.stage), target = place.weights(cursor.stage);
    const int slab = at.step * static_cast<int>(Ring::kSlabs);
    ptx::barrier_arrive_expect(full, Ring::kWeightBytes);
    if (gates<kFinish>(args.output)) {
      ptx::load_pair_slabs(target, map, at.tile * kBlocks, slab, full, policy);
    } else {
      ptx::load_slabs_streamed(target, map, at.tile * Ring::kRows, slab, full, policy);
    }
    at.advance(args.k_steps);
    cursor.advance();
  }

  // Weights do not depend on the kernel in front, so nothing here waits for it. The kernel behind
  // may come when the ring is full.
  CAUSEWAY_DEVICE void feed_weights() {
    const uint64_t policy = ptx::policy_stream();
    int room = min(count, static_cast<int>(place.stages));
    if (room == 0) ptx::dependents_launch();
#pragma unroll 1
    for (; count > 0; --count) {
      ptx::barrier_wait_covered(place.empty(cursor.stage), cursor.phase ^ 1);
      load_weights(policy);
      if (--room == 0) ptx::dependents_launch();
    }
  }

  CAUSEWAY_DEVICE void feed_inputs() {
#pragma unroll 1
    for (; count > 0; --count) {
      ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
      const uint32_t full = place.full(cursor.stage);
      ptx::barrier_arrive_expect(full, Ring::kInputBytes + Ring::kGainBytes);
      ptx::load_slabs(place.inputs(cursor.stage), map, 0, at.step * static_cast<int>(Ring::kSlabs),
                      full);
      if constexpr (kNorm) {
        ptx::load_bytes(place.gains(cursor.stage), args.gains + at.step * Ring::kStepK,
                        Ring::kGainBytes, full);
      }
      at.advance(args.k_steps);
      cursor.advance();
    }
  }
};

// ---- results -----------------------------------------------------------------------------------

template <Finish kFinish>
CAUSEWAY_DEVICE void store_plain(const OutputArgs& args, int m, int column, float2 value,
                                 uint32_t residual) {
  value.x += bias_at<kFinish>(args, column, column < args.n);
  value.y += bias_at<kFinish>(args, column + 1, column + 1 < args.n);
  store_sum<kFinish>(args, m, column, value, residual);
}

template <Finish kFinish>
CAUSEWAY_DEVICE void store_silu_mul(const OutputArgs& args, int m, int column, float2 gate,
                                    float2 up) {
  const bool inside[2] = {column < args.n, column + 1 < args.n};
  gate.x += bias_at<kFinish>(args, column, inside[0]);
  gate.y += bias_at<kFinish>(args, column + 1, inside[1]);
  up.x += bias_at<kFinish>(args, args.n + column, inside[0]);
  up.y += bias_at<kFinish>(args, args.n + column + 1, inside[1]);
  store_bf16<kFinish>(args, m, column, make_float2(silu(gate.x) * up.x, silu(gate.y) * up.y), 0);
}

// ---- multiplying -------------------------------------------------------------------------------

// One of the four warps.
template <int kBatch, int kBlocks, bool kNorm, int kHalves, Finish kFinish>
struct RowsWorker {
  using Ring = RowsRing<kBatch, kBlocks, kNorm, kHalves>;
  static constexpr int kColumns = kBatch / 8;  // blocks of 8 rows of x
  // Pairs of columns that a thread stores of 8 rows of out.
  static constexpr int kItems = (8 * Ring::kRows / 2 + 32 * kRowsWarps - 1) / (32 * kRowsWarps);
  static_assert(kItems <= 2);
  const RowsArgs& args;
  RowsPlace<kBatch, kBlocks, kNorm, kHalves> place;
  float* shared_sums;
  float* shared_squares;
  int warp, lane;
  RingCursor cursor = {place.stages};
  float sums[kBlocks][kColumns][4] = {};
  float squares[kColumns] = {};              // kNorm: of rows 8j + lane / 4, this lane's columns
  uint32_t residual[kItems][kColumns] = {};  // of the pairs that this thread stores

  // Where lane l of a warp points ldmatrix: row `row` of a slab, 16-byte chunk `chunk`, swizzled.
  static CAUSEWAY_DEVICE uint32_t chunk_at(int row, int chunk) {
    return static_cast<uint32_t>(row * 128 + ((chunk ^ (row & 7)) << 4));
  }

  // What a warp multiplies of 128 columns: 32, half a slab.
  struct Fragments {
    uint32_t b[kColumns][4], a[2][kBlocks][4];
  };

  // Multiplies fragments of x by the gains of their columns; their squares as they were count.
  CAUSEWAY_DEVICE void normalise(uint32_t (&b)[kColumns][4], int half, bool count) {
    const uint32_t gains =
        place.gains(cursor.stage) + half * (kRowsStepK * 2) + warp * 64 + lane % 4 * 4;
#pragma unroll
    for (int chunk = 0; chunk < 4; ++chunk) {
      const uint32_t gain = ptx::load_word(gains + chunk * 16);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        if (count) {
          const float low = to_float(b[j][chunk], 0), high = to_float(b[j][chunk], 1);
          squares[j] += low * low + high * high;
        }
        b[j][chunk] = ptx::multiply_pair(b[j][chunk], gain);
      }
    }
  }

  // `w`, `x`: this warp's slab of the first 128 columns of a stage.
  CAUSEWAY_DEVICE void load(Fragments& f, uint32_t w, uint32_t x, int half, bool count) {
    const int chunk = warp % 2 * 4;
    w += half * 2 * Ring::kRows * 128;
    x += half * 2 * kBatch * 128;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      ptx::load_matrices(f.b[j], x + chunk_at(j * 8 + lane % 8, chunk + lane / 8));
    }
#pragma unroll
    for (int k16 = 0; k16 < 2; ++k16) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        ptx::load_matrices(f.a[k16][i],
                           w + chunk_at(i * 16 + lane % 16, chunk + k16 * 2 + lane / 16));
      }
    }
    if constexpr (kNorm) normalise(f.b, half, count);
  }
  CAUSEWAY_DEVICE void multiply(const Fragments& f) {
#pragma unroll
    for (int k16 = 0; k16 < 2; ++k16) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          ptx::mma_16x8x16(sums[i][j], f.a[k16][i], f.b[j][k16 * 2], f.b[j][k16 * 2 + 1]);
        }
      }
    }
  }

  // The stage that this warp has read. With a norm every lane for itself: gains come by a copy that
  // only the barrier orders behind the lanes' reads.
  CAUSEWAY_DEVICE void give_back() const {
    if constexpr (!kNorm) {
      __syncwarp();
      if (lane != 0) return;
    }
    ptx::barrier_arrive(place.empty(cursor.stage));
  }

  CAUSEWAY_DEVICE void multiply_step(bool count) {
    // In front of the wait: there is time.
    const uint32_t w = place.weights(cursor.stage) + warp / 2 * Ring::kRows * 128;
    const uint32_t x = place.inputs(cursor.stage) + warp / 2 * kBatch * 128;
    ptx::barrier_wait_covered(place.full(cursor.stage), cursor.phase);
    Fragments fragments[kHalves];
#pragma unroll
    for (int half = 0; half < kHalves; ++half) load(fragments[half], w, x, half, count);
    give_back();
    cursor.advance();
#pragma unroll
    for (int half = 0; half < kHalves; ++half) multiply(fragments[half]);
  }

  // The sums of the first eight rows of x.
  CAUSEWAY_DEVICE void hand_over() {
    float* mine = shared_sums + warp * 8 * Ring::kPitch;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = i * 16 + lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        mine[column * Ring::kPitch + row] = sums[i][0][e];
      }
    }
  }

  // After the first tile, in which every column of x was seen once.
  CAUSEWAY_DEVICE void hand_over_squares() {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      float sum = squares[j];
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
      if (lane % 4 == 0) shared_squares[warp * kBatch + j * 8 + lane / 4] = sum;
    }
  }

  // 1 / rms of row m of x.
  CAUSEWAY_DEVICE float factor(int m) const {
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kRowsWarps; ++w) sum += shared_squares[w * kBatch + m];
    return rsqrtf(__fdividef(sum, static_cast<float>(args.k_steps * Ring::kStepK)) + args.epsilon);
  }

  // The warps' sums of rows (row, row + 1) of the tile for row m of the eight handed over.
  CAUSEWAY_DEVICE float2 total(int m, int row, float scale) const {
    float2 sum = {0.0f, 0.0f};
#pragma unroll
    for (int w = 0; w < kRowsWarps; ++w) {
      const float2 part =
          *reinterpret_cast<const float2*>(shared_sums + (w * 8 + m) * Ring::kPitch + row);
      sum.x += part.x;
      sum.y += part.y;
    }
    if constexpr (kNorm) {
      sum.x *= scale;
      sum.y *= scale;
    }
    return sum;
  }

  // Eight rows of out × a tile's columns are dealt out to the threads in pairs of columns.
  struct Pair {
    int m, c;  // of these eight rows, of the tile's columns
  };
  CAUSEWAY_DEVICE Pair pair_of(int item) const {
    // Twice as many without silu_mul; one division by a constant for both.
    constexpr int kPairs = Ring::kRows / 4;
    const int twice = gates<kFinish>(args.output) ? 0 : 1;
    const int i = warp * 32 + lane + item * 32 * kRowsWarps;
    const int m = (i / kPairs) >> twice;
    return {m, (i - m * (kPairs << twice)) * 2};
  }

  CAUSEWAY_DEVICE void ask(int tile) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      const Pair at = pair_of(item);
      if (at.m >= 8) continue;
      ask_residual<kFinish>(residual[item], args.output, at.m, tile * Ring::kRows + at.c);
    }
  }
  CAUSEWAY_DEVICE void store(int tile, int j) {
    const OutputArgs& output = args.output;
#pragma unroll 1
    for (int item = 0; item < kItems; ++item) {
      const Pair at = pair_of(item);
      const uint32_t add = item == 0 ? residual[0][0] : residual[kItems - 1][0];
      const int m = j * 8 + at.m;
      if (at.m >= 8 || m >= output.m) continue;
      const float scale = kNorm ? factor(m) : 1.0f;
      if (gates<kFinish>(output)) {
        // Rows of gate and up lie in turns of 8.
        const int row = at.c / 8 * 16 + at.c % 8;
        store_silu_mul<kFinish>(output, m, tile * (Ring::kRows / 2) + at.c, total(at.m, row, scale),
                                total(at.m, row + 8, scale));
      } else {
        store_plain<kFinish>(output, m, tile * Ring::kRows + at.c, total(at.m, at.c, scale), add);
      }
    }
  }

  // The next eight rows of x become the first.
  CAUSEWAY_DEVICE void pass() {
#pragma unroll
    for (int j = 1; j < kColumns; ++j) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j - 1][e] = sums[i][j][e];
      }
#pragma unroll
      for (int item = 0; item < kItems; ++item) residual[item][j - 1] = residual[item][j];
    }
  }

  // The sums go out eight rows of x at a time by one copy of the code: another copy would be
  // fetched behind all the weights on their way (0.8 µs).
  CAUSEWAY_DEVICE void finish(int tile) {
#pragma unroll 1
    for (int j = 0; j < kColumns && j * 8 < args.output.m; ++j) {
      ptx::warpgroup_sync(1);  // what was handed over before has been stored
      hand_over();
      ptx::warpgroup_sync(1);
      store(tile, j);
      pass();
    }
  }

  CAUSEWAY_DEVICE void clear() {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
      }
    }
  }

  CAUSEWAY_DEVICE void work(int first_tile, int end_tile) {
#pragma unroll 1
    for (int tile = first_tile; tile < end_tile; ++tile) {
      const bool first = tile == first_tile;
      clear();
      ask(tile);
#pragma unroll 1
      for (int step = 0; step < args.k_steps; ++step) multiply_step(first);
      if (kNorm && first) hand_over_squares();
      finish(tile);
    }
  }
};

template <int kBatch, int kBlocks, bool kNorm, int kHalves, Finish kFinish>
__global__ void __launch_bounds__(kRowsThreads, 2)
    rows_kernel(const __grid_constant__ CUtensorMap x_map,
                const __grid_constant__ CUtensorMap w_map, const __grid_constant__ RowsArgs args) {
  using Ring = RowsRing<kBatch, kBlocks, kNorm, kHalves>;
  extern __shared__ char shared[];
  const uint32_t base = ptx::shared_address(shared);
  const RowsPlace<kBatch, kBlocks, kNorm, kHalves> place = {(base + 1023) & ~1023u, args.stages};
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_tile = args.tiles.begin(blockIdx.x), end_tile = args.tiles.begin(blockIdx.x + 1);

  const bool feeds_weights = warp == kRowsWarps, chosen = ptx::elect_one();
  RowsFeeder<kBatch, kBlocks, kNorm, kHalves, kFinish> feeder{
      args,
      feeds_weights ? &w_map : &x_map,
      place,
      {first_tile, 0},
      (end_tile - first_tile) * args.k_steps};

  if (feeds_weights && chosen) {
#pragma unroll 1
    for (uint32_t stage = 0; stage < args.stages; ++stage) {
      ptx::barrier_init(place.full(stage), 2);
      ptx::barrier_init(place.empty(stage), kRowsWarps * (kNorm ? 32 : 1));
    }
    ptx::barrier_init_fence();
  }
  __syncthreads();

  // ---- roles -----------------------------------------------------------------------------------
  if (feeds_weights) {
    if (chosen) feeder.feed_weights();
    return;
  }
  ptx::dependency_wait();
  if (warp == kRowsWarps + 1) {
    if (chosen) feeder.feed_inputs();
  } else if (warp < kRowsWarps) {
    float* sums = reinterpret_cast<float*>(shared + (place.sums() - base));
    float* squares = reinterpret_cast<float*>(shared + (place.squares() - base));
    RowsWorker<kBatch, kBlocks, kNorm, kHalves, kFinish>{args, place, sums, squares, warp, lane}
        .work(first_tile, end_tile);
  }
}

}  // namespace causeway::kernels::gemm
