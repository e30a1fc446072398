// The warps that multiply one token's experts.
//
// A warp has a stage to itself, so that no warp waits for another. The tensor core's product of
// 16 × 8 is used as eight scalar products, of four lanes' columns each: lane l has the same eight
// columns of a row and of x; row l / 4 of the product is four lanes' piece of x, column l / 4 the
// same lanes' piece of the row. So the diagonal is what is wanted, and any columns will do that a
// lane likes to load.
#pragma once

#include "kernels/moe/cuda_one_token_place.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"

namespace causeway::kernels::moe {

// Adds up value i of all lanes: in lanes from i × 32 / kCount on.
template <int kCount>
CAUSEWAY_DEVICE float warp_sums(float (&value)[kCount], int lane) {
  int width = 16;
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2, width /= 2) {
    const bool upper = (lane & width) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float mine = upper ? value[i + half] : value[i];
      const float other = upper ? value[i] : value[i + half];
      value[i] = mine + __shfl_xor_sync(0xFFFFFFFFu, other, width);
    }
  }
#pragma unroll
  for (; width > 0; width /= 2) value[0] += __shfl_xor_sync(0xFFFFFFFFu, value[0], width);
  return value[0];
}

// A warp computes the scalar products of so many rows with x, eight columns a lane at a time. The
// lower eight rows of the tensor core's first operand belong to another row than the upper eight,
// or are not used.
template <int kRows>
struct RowProducts {
  // Sums that take turns: a chain of products is long.
  static constexpr int kSums = 8 / kRows;
  float sum[kRows][kSums][4] = {};

  // One sum a row: `low` and `high` have x's columns 0 to 3, 4 to 7 in words 0 and 2, anything in
  // 1 and 3.
  CAUSEWAY_DEVICE void add(const uint32_t (&low)[4], const uint32_t (&high)[4], const char* rows,
                           int pitch) {
    static_assert(kSums == 1);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint4 weights = *reinterpret_cast<const uint4*>(rows + r * pitch);
      ptx::mma_16x8x16(sum[r][0], low, weights.x, weights.y);
      ptx::mma_16x8x16(sum[r][0], high, weights.z, weights.w);
    }
  }

  // Two sums a row: of columns 0 to 3 in the upper half of the first one, of 4 to 7 in the lower
  // half of the second one.
  CAUSEWAY_DEVICE void add(const uint4& x, const char* rows, int pitch) {
    static_assert(kSums == 2);
    const uint32_t both[4] = {x.x, x.z, x.y, x.w};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const uint4 weights = *reinterpret_cast<const uint4*>(rows + r * pitch);
      ptx::mma_16x8x16(sum[r][0], both, weights.x, weights.y);
      ptx::mma_16x8x16(sum[r][1], both, weights.z, weights.w);
    }
  }

  // The lanes from i × 32 / kRows on get row i's. The diagonal's entry for token and row l / 4 is
  // in lane l if it has that row's column.
  CAUSEWAY_DEVICE float total(int lane) const {
    const bool own = lane % 4 == lane / 8, odd = lane / 4 % 2 != 0;
    float value[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      value[r] = odd ? sum[r][0][1] : sum[r][0][0];
      if (kSums == 2) value[r] += odd ? sum[r][kSums - 1][3] : sum[r][kSums - 1][2];
      if (!own) value[r] = 0.0f;
    }
    return warp_sums(value, lane);
  }
};

struct OneTokenWorker {
  const OneTokenArgs& args;
  const OneTokenPlace& place;
  int warp, lane;
  uint32_t tag;  // of this launch

  CAUSEWAY_DEVICE int thread() const { return warp * 32 + lane; }

  // Until a stage has come. A place's stage before this one was another warp's, which may be slow
  // or whose bytes may come later than those of stages behind it: until that warp has read it, the
  // parity of `full` says nothing. That of `empty` does, because the stage before that one has been
  // read: this warp's last stage, four before, was asked for later than that, given four places.
  CAUSEWAY_DEVICE void wait_for(const RingCursor& slot) const {
    ptx::barrier_wait_covered(place.empty(slot.stage), slot.phase ^ 1);
    ptx::barrier_wait_covered(place.full(slot.stage), slot.phase);
  }
  CAUSEWAY_DEVICE const char* rows_of(const RingCursor& slot) const {
    return place.memory + place.offset_of(slot.stage);
  }

  // ---- gate and up -----------------------------------------------------------------------------

  // Products of two features' rows with x, which lies in shared memory.
  CAUSEWAY_DEVICE float gate_products(const char* rows) const {
    const int vectors = args.hidden / 8;
    const char* x = place.memory + place.at.x;
    RowProducts<4> products;
#pragma unroll 1
    for (int begin = 0; begin < vectors; begin += 32) {
      const int at = min(begin + lane, vectors - 1) * 16;
      uint4 columns = *reinterpret_cast<const uint4*>(x + at);
      if (begin + lane >= vectors) columns = make_uint4(0, 0, 0, 0);
      products.add(columns, rows + at, args.hidden * 2);
    }
    return products.total(lane);
  }

  // To all CTAs as one word. From lane 0, 8, 16, 24 on there are gate, the next feature's, up, the
  // next one's.
  CAUSEWAY_DEVICE void hand_over(float value, int word) const {
    const float up = __shfl_down_sync(0xFFFFFFFFu, value, 16);
    const float mine = silu(value) * up;
    const float next = __shfl_down_sync(0xFFFFFFFFu, mine, 8);
    if (lane != 0) return;
    ptx::store_relaxed_long(args.sync->active + word, tagged(tag, pack(mine, next)));
  }

  CAUSEWAY_DEVICE void gate_stage(const OneTokenStream& at, const RingCursor& slot) const {
    wait_for(slot);
    const float value = gate_products(rows_of(slot));
    ptx::barrier_arrive(place.empty(slot.stage));  // each lane, for what it has read
    hand_over(value, at.pair);
  }

  // ---- down ------------------------------------------------------------------------------------

  struct Active {
    ulonglong2 two[2 * kOneTokenVectors];  // words of this lane's columns
  };

  CAUSEWAY_DEVICE bool is_of_launch(const ulonglong2& two) const {
    return tag_of(two.x) == tag && tag_of(two.y) == tag;
  }
  // Loads what is not there yet.
  CAUSEWAY_DEVICE void load_missing(Active& active, int expert) const {
    const int vectors = args.intermediate / 8;
    const unsigned long long* words = args.sync->active + expert * (args.intermediate / 2);
#pragma unroll
    for (int i = 0; i < 2 * kOneTokenVectors; ++i) {
      const int vector = min(lane + i / 2 * 32, vectors - 1);
      if (!is_of_launch(active.two[i])) {
        active.two[i] = ptx::load_relaxed_longs(words + vector * 4 + i % 2 * 2);
      }
    }
  }
  CAUSEWAY_DEVICE bool complete(const Active& active) const {
    bool all = true;
#pragma unroll
    for (int i = 0; i < 2 * kOneTokenVectors; ++i) all &= is_of_launch(active.two[i]);
    return __all_sync(0xFFFFFFFFu, all);
  }

  // Until a stage and its expert's active have come, which is asked for first.
  CAUSEWAY_DEVICE Active wait_for_active(int expert, const RingCursor& slot) const {
    Active active;
#pragma unroll
    for (ulonglong2& old : active.two) old = make_ulonglong2(tagged(tag - 1, 0), 0);
    const ptx::WaitBound<> bound;
    for (bool first = true;; first = false) {
      load_missing(active, expert);
      if (first) wait_for(slot);
      if (complete(active)) return active;
      bound.check();
    }
  }

  // Products of eight neighbouring rows with active; every fourth lane has a row's.
  CAUSEWAY_DEVICE float down_products(const char* rows, const Active& active) const {
    const int vectors = args.intermediate / 8;
    RowProducts<kDownRows> products;
#pragma unroll
    for (int j = 0; j < kOneTokenVectors; ++j) {
      const ulonglong2 a = active.two[2 * j], b = active.two[2 * j + 1];
      const bool there = lane + j * 32 < vectors;
      products.add({there ? value_of(a.x) : 0, tag_of(a.x), there ? value_of(a.y) : 0, tag_of(a.y)},
                   {there ? value_of(b.x) : 0, tag_of(b.x), there ? value_of(b.y) : 0, tag_of(b.y)},
                   rows + min(lane + j * 32, vectors - 1) * 16, args.intermediate * 2);
    }
    return products.total(lane);
  }

  CAUSEWAY_DEVICE void down_stage(const OneTokenStream& at, const RingCursor& slot) const {
    const Active active = wait_for_active(at.expert, slot);
    const float value = down_products(rows_of(slot), active);
    ptx::barrier_arrive(place.empty(slot.stage));
    if (lane % 4 != 0) return;
    const int row = (at.expert * at.groups + at.group) * kDownRows + lane / 4;
    place.of<float>(place.at.down_sums)[row] = value;
  }

  // ---- out -------------------------------------------------------------------------------------

  // Two columns.
  CAUSEWAY_DEVICE int column_of(int i) const {
    const int ctas = static_cast<int>(gridDim.x);
    const int group = static_cast<int>(blockIdx.x) + i / (kDownRows / 2) * ctas;
    return group * kDownRows + i % (kDownRows / 2) * 2;
  }
  CAUSEWAY_DEVICE float2 residual_of(int i) const {
    return __bfloat1622float2(
        *reinterpret_cast<const __nv_bfloat162*>(args.residual + column_of(i)));
  }

  // The weighted sum by rising expert, two columns a thread; `residual`: of the first two.
  CAUSEWAY_DEVICE void store(int pairs, float2 residual) const {
    const auto* sums = place.of<float2>(place.at.down_sums);
    const auto* addends = place.of<OneTokenAddend>(place.at.addends);
#pragma unroll 1
    for (int i = thread(); i < pairs; i += kWorkers) {
      if (i != thread()) residual = residual_of(i);
      float2 total = make_float2(0.0f, 0.0f);
#pragma unroll 4
      for (int n = 0; n < args.k; ++n) {
        const OneTokenAddend next = addends[n];
        const float2 two = sums[next.item * pairs + i];
        total.x += next.weight * two.x;
        total.y += next.weight * two.y;
      }
      *reinterpret_cast<uint32_t*>(args.out + column_of(i)) =
          pack(total.x + residual.x, total.y + residual.y);
    }
  }

  CAUSEWAY_DEVICE void run() const {
    OneTokenStream at = one_token_stream(args);
    RingCursor slot{place.at.stages};
    slot.advance(warp);
    const int pairs = at.groups * (kDownRows / 2);
    float2 residual = make_float2(0.0f, 0.0f);
    if (thread() < pairs) residual = residual_of(thread());  // early: it takes a while
#pragma unroll 1
    for (int stage = 0; stage < warp; ++stage) at.advance();
#pragma unroll 1
    while (!at.done()) {
      if (at.is_down()) {
        down_stage(at, slot);
      } else {
        gate_stage(at, slot);
      }
      slot.advance(kWorkerWarps);
#pragma unroll 1
      for (int stage = 0; stage < kWorkerWarps; ++stage) at.advance();
    }
    workers_sync();
    ptx::barrier_wait_covered(place.weighed(), 0);
    store(pairs, residual);
  }
};

}  // namespace causeway::kernels::moe
