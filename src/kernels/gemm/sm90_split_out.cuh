// How the sums of kSplit's tiles go out: by the copy engine, or by the threads for what it cannot
// address and what is added to sums.
//
// A warpgroup has 64 rows of w, which are columns of out, for all rows of x; a thread has two of
// these columns for pairs of rows of out, and its sums come as pairs of them, four in eight rows of
// out: {0, 1} of column 16·warp + lane/4, {2, 3} of the one 8 on.
#pragma once

#include "kernels/gemm/sm90_common.cuh"
#include "kernels/gemm/sm90_split_ring.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"

namespace causeway::kernels::gemm {

// A thread's place: its warpgroup, its number in that, and its lane.
struct SplitThread {
  int group;
  int thread;  // 0 … 127
  int lane;

  CAUSEWAY_DEVICE int warp() const { return thread / 32; }
};

// The other CTA of a pair that shares x: each loads a half of x for both. Without pairs: none.
template <CudaPairs kPairs>
struct SplitOther {
  uint32_t rank = 0;
  int left = 0;  // steps whose stages are used again

  static CAUSEWAY_DEVICE SplitOther of(const SplitShare& share, uint32_t stages) {
    if constexpr (kPairs != CudaPairs::kInputs) return {};
    return {(blockIdx.x % 2) ^ 1, share.end - share.begin - static_cast<int>(stages)};
  }
  // Tells the other CTA that a stage, of so many steps ago, is empty. Does nothing for stages that
  // are not used again: no wait needs that, and the other CTA may be gone.
  CAUSEWAY_DEVICE void tell(uint32_t ready, uint32_t arrivals, int ago = 0) const {
    if constexpr (kPairs == CudaPairs::kInputs) {
      if (left + ago > 0) ptx::barrier_arrive_cluster(ptx::cluster_address(ready, rank), arrivals);
    }
  }
  CAUSEWAY_DEVICE void pass() { --left; }
};

// The first sums go, those behind them take their place: one copy of the code that uses sums serves
// all, and cold code takes long to fetch.
template <int kGone, int kCount>
CAUSEWAY_DEVICE void move_up(float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i + kGone < kCount; ++i) sums[i] = sums[i + kGone];
}

// ---- by the copy engine ------------------------------------------------------------------------

// Sums are laid over this warpgroup's half of the weights of the stages that were read last, as
// boxes of up to 64 rows of out (SiLU: of all). These stages are given back a step into the next
// tile, when they have been read.
template <int kBatch, Finish kFinish, int kOut = kBatch>
struct SplitBoxes {
  static constexpr int kWidth = kFinish == Finish::kF32 ? 4 : 2;
  static constexpr int kColumns =
      kSplitRows / kSplitGroups / (kFinish == Finish::kGated ? 2 : 1);  // of a warpgroup
  static constexpr int kBoxColumns = kFinish == Finish::kPlain ? 64 : 32;
  static constexpr int kBoxRows = kFinish == Finish::kGated ? kOut : kOut % 64 == 0 ? 64 : 32;
  static constexpr int kBoxBytes = kBoxRows * kBoxColumns * kWidth;
  static constexpr int kAcross = kColumns / kBoxColumns;
  static constexpr int kBoxes = kAcross * (kOut / kBoxRows);
  static constexpr int kStageBytes = SplitRing<kBatch>::kWeightBytes / kSplitGroups;
  static constexpr int kStages = (kBoxes * kBoxBytes + kStageBytes - 1) / kStageBytes;
  static constexpr int kRows = 32;  // of out, that are laid at once

  const SplitArgs& args;
  SplitPlace<kBatch> place;
  SplitThread who;
  int first = -1;  // of the stages that are kept; -1: none

  CAUSEWAY_DEVICE uint32_t stage(int i) const {
    const uint32_t stage = static_cast<uint32_t>(first + i);
    return stage < place.stages ? stage : stage - place.stages;
  }
  CAUSEWAY_DEVICE uint32_t at(int bytes) const {
    return place.weights(stage(bytes / kStageBytes)) + who.group * kStageBytes +
           bytes % kStageBytes;
  }

  CAUSEWAY_DEVICE void lay(const float (&sums)[kOut / 2], int part) const {
    const int lane = who.lane, warp = who.warp();
    if constexpr (kFinish == Finish::kPlain) {
      const int row = lane % 8 + lane / 16 * 8, chunk = warp * 2 + lane / 8 % 2;
      const uint32_t to = at(part * kRows * 128) + row * 128 + ((chunk ^ row % 8) << 4);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* quads = sums + i * 8;
        ptx::store_transposed(to + i * 2048, pack(quads[0], quads[1]), pack(quads[2], quads[3]),
                              pack(quads[4], quads[5]), pack(quads[6], quads[7]));
      }
    } else if constexpr (kFinish == Finish::kGated) {
      uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* quad = sums + i * 4;
        pairs[i] = pack(silu(quad[0]) * quad[2], silu(quad[1]) * quad[3]);
      }
      const uint32_t to = at(part * kRows * 64) + lane * 64 + ((warp ^ lane / 2 % 4) << 4);
      ptx::store_transposed(to, pairs[0], pairs[1], pairs[2], pairs[3]);
    } else {
      const int box = part * kRows / kBoxRows * kAcross + warp / 2;
      const uint32_t to = at(box * kBoxBytes + part * kRows % kBoxRows * 128);
      const int row = lane % 4 * 2, chunk = warp % 2 * 4 + lane / 16;
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int m = row + i % 2, c = chunk + i / 2 % 2 * 2;
        ptx::store_float(to + (i / 4 * 8 + m) * 128 + ((c ^ m) << 4) + lane / 4 % 4 * 4, sums[i]);
      }
    }
  }

  CAUSEWAY_DEVICE void send(int tile, int part, int row) const {
    const int column = (tile * kSplitGroups + who.group) * kColumns;
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      ptx::store_box(&args.out_map, column + i % kAcross * kBoxColumns,
                     row + i / kAcross * kBoxRows, part, at(i * kBoxBytes));
    }
    ptx::store_commit();
  }

  // `next`: the stage behind those that were read last. What is laid lies over all warps' weights,
  // so all of the warpgroup must have multiplied.
  CAUSEWAY_DEVICE void put(float (&sums)[kOut / 2], int tile, int part, uint32_t next,
                           int row = 0) {
    first = static_cast<int>(next) - kStages;
    if (first < 0) first += static_cast<int>(place.stages);
    ptx::warpgroup_sync(1 + who.group);
#pragma unroll 1
    for (int i = 0; i < kOut / kRows; ++i) {
      lay(sums, i);
      move_up<kRows / 2>(sums);
    }
    ptx::shared_proxy_fence();
    ptx::warpgroup_sync(1 + who.group);
    if (who.thread == 0) send(tile, part, row);
  }

  template <CudaPairs kPairs>
  CAUSEWAY_DEVICE void give_back(const SplitOther<kPairs>& other) {
    if (first >= 0 && who.thread == 0) {
      ptx::store_read_wait();
#pragma unroll 1
      for (int i = 0; i < kStages; ++i) {
        ptx::barrier_arrive(place.empty(stage(i)), 4);
        other.tell(place.ready(stage(i)), 4, kStages + 1 - i);
      }
    }
    first = -1;
  }

  // Shared memory outlives its readers.
  CAUSEWAY_DEVICE void end() const {
    if (who.thread == 0) ptx::store_read_wait();
  }
};

// ---- by the threads ----------------------------------------------------------------------------

// Lanes l and l ^ 4 hold neighbouring columns of out for the same two rows; now each holds both
// columns of one row: the lane of the even column of the first.
CAUSEWAY_DEVICE float2 neighbours(float first, float second, int lane) {
  const bool odd = lane / 4 % 2 != 0;
  const float other = __shfl_xor_sync(0xFFFFFFFFu, odd ? first : second, 4);
  return odd ? make_float2(other, second) : make_float2(first, other);
}

template <int kBatch>
struct SplitStores {
  static constexpr Finish kFinish = Finish::kAny;
  static constexpr int kStages = 0;

  const SplitArgs& args;
  SplitPlace<kBatch> place;
  SplitThread who;

  // Where this lane stores: a pair of columns of rows m, m + 8 … of out, and for a plain product
  // one 8 columns on.
  struct Target {
    int m, column;
    float bias[2];  // of the column that this lane's sums are of; silu_mul: of gate and of up
  };
  CAUSEWAY_DEVICE Target target(int tile) const {
    const OutputArgs& output = args.output;
    const int lane = who.lane;
    const int blocks = (tile * kSplitGroups + who.group) * 4 + who.warp();  // of 16 rows of w
    const int own = blocks * (output.silu_mul ? 8 : 16) + lane / 4, second = own + 8;
    Target at = {lane % 4 * 2 + lane / 4 % 2, own - lane / 4 % 2, {}};
    at.bias[0] = bias_at<kFinish>(output, own, own < output.n);
    at.bias[1] = output.silu_mul ? bias_at<kFinish>(output, output.n + own, own < output.n)
                                 : bias_at<kFinish>(output, second, second < output.n);
    return at;
  }

  // Row m of out; `out`: its part.
  CAUSEWAY_DEVICE void store(const OutputArgs& out, const float* quad, int m,
                             const Target& at) const {
    const int lane = who.lane;
    if (out.silu_mul) {
      const float2 value = neighbours(silu(quad[0] + at.bias[0]) * (quad[2] + at.bias[1]),
                                      silu(quad[1] + at.bias[0]) * (quad[3] + at.bias[1]), lane);
      if (m < out.m) store_bf16<kFinish>(out, m, at.column, value, 0);
      return;
    }
    const float2 first = neighbours(quad[0] + at.bias[0], quad[1] + at.bias[0], lane);
    const float2 on = neighbours(quad[2] + at.bias[1], quad[3] + at.bias[1], lane);
    if (m >= out.m) return;
    uint32_t residual[1] = {}, residual_on[1] = {};
    ask_residual<kFinish>(residual, out, m, at.column);
    ask_residual<kFinish>(residual_on, out, m, at.column + 8);
    store_sum<kFinish>(out, m, at.column, first, residual[0]);
    store_sum<kFinish>(out, m, at.column + 8, on, residual_on[0]);
  }

  CAUSEWAY_DEVICE void put(float (&sums)[kBatch / 2], int tile, int part, uint32_t) const {
    const Target at = target(tile);
    OutputArgs out = args.output;
    // Parts are f32.
    out.out = static_cast<float*>(out.out) + part * (out.m * out.out_stride);
#pragma unroll 1
    for (int m = at.m; m < at.m + kBatch; m += 8) {
      store(out, sums, m, at);
      move_up<4>(sums);
    }
  }

  CAUSEWAY_DEVICE void give_back(const SplitOther<CudaPairs::kNone>&) const {}
  CAUSEWAY_DEVICE void end() const {}
};

template <int kBatch, Finish kFinish>
struct SplitEnd {
  using Type = SplitBoxes<kBatch, kFinish>;
};
template <int kBatch>
struct SplitEnd<kBatch, Finish::kAny> {
  using Type = SplitStores<kBatch>;
};

}  // namespace causeway::kernels::gemm
