// The warps that multiply, in the kernel for small batches, and how active goes from CTA to CTA.
#pragma once

#include "kernels/cuda_bf16.cuh"
#include "kernels/moe/cuda_small_batch_place.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/mma.cuh"

namespace causeway::kernels::moe {

template <bool kFront>
struct SmallBatchWorker {
  const SmallBatchArgs& args;
  const SmallBatchPlace& place;
  int warp, lane;
  uint32_t launch;
  RingCursor cursor;
  uint32_t turn = 0;     // of adding up
  float sum[4][4] = {};  // four that take turns: a chain of products is long

  CAUSEWAY_DEVICE int thread() const { return warp * 32 + lane; }
  CAUSEWAY_DEVICE const SmallBatchRow& row_of(const SmallBatchItem& item, int in_item) const {
    return place.of<SmallBatchRow>(place.at.rows)[item.first + in_item];
  }

  // A block of eight rows, from this lane's piece of its row on.
  struct Halves {
    uint4 half[2];
  };
  CAUSEWAY_DEVICE Halves load_block(const char* piece) const {
    const bool odd = lane / 4 % 2 != 0;
    const uint4 a = *reinterpret_cast<const uint4*>(piece + (odd ? 64 : 0));
    const uint4 b = *reinterpret_cast<const uint4*>(piece + (odd ? 0 : 64));
    return {{odd ? b : a, odd ? a : b}};
  }
  CAUSEWAY_DEVICE void multiply_half(const Halves& top, const Halves& bottom, const Halves& token,
                                     int h) {
    const uint4 t = top.half[h], b = bottom.half[h], x = token.half[h];
    const uint32_t low[4] = {t.x, b.x, t.y, b.y}, high[4] = {t.z, b.z, t.w, b.w};
    ptx::mma_16x8x16(sum[2 * h], low, x.x, x.y);
    ptx::mma_16x8x16(sum[2 * h + 1], high, x.z, x.w);
  }

  // This warp's blocks of so many rounds. Pointers: to the lane's piece of the stage's first
  // column. All loads are on their way together: with 32 tokens one round after the other takes a
  // sixth longer.
  template <int kRounds>
  CAUSEWAY_DEVICE void multiply_rounds(const char* weights, const char* tokens) {
    Halves top[kRounds], bottom[kRounds], token[kRounds];
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int at = (warp * kBlock + kRound * i) * 2;
      top[i] = load_block(weights + at);
      bottom[i] = load_block(weights + 8 * place.at.pitch + at);
      token[i] = load_block(tokens + at);
    }
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      multiply_half(top[i], bottom[i], token[i], 0);
      multiply_half(top[i], bottom[i], token[i], 1);
    }
  }
  // One round, and what is no multiple of one.
  CAUSEWAY_DEVICE void multiply_some(const char* weights, const char* tokens, int columns) {
#pragma unroll 1
    for (int column = warp * kBlock; column < columns; column += kRound) {
      const Halves top = load_block(weights + column * 2);
      const Halves bottom = load_block(weights + 8 * place.at.pitch + column * 2);
      const Halves token = load_block(tokens + column * 2);
      multiply_half(top, bottom, token, 0);
      if (column + kGroup < columns) multiply_half(top, bottom, token, 1);
    }
  }

  // The next stage. `row`: this lane's token in the stage, any where there is none: its sums are
  // not read. `x`: the token at the stage's first column if the stage does not bring it.
  CAUSEWAY_DEVICE void multiply(int row, const char* x, int columns) {
    const char* stage = place.memory + cursor.stage * place.at.stage_bytes;
    const int piece = lane % 4 * 16;
    const char* weights = stage + lane / 4 * place.at.pitch + piece;
    const char* tokens = (x != nullptr ? x : stage + (kWeightRows + row) * place.at.pitch) + piece;
    ptx::barrier_wait_covered(place.full(cursor.stage), cursor.phase);
    static_assert(kRoundsMax == 3);
    switch (columns) {
      case 3 * kRound: multiply_rounds<3>(weights, tokens); break;
      case 2 * kRound: multiply_rounds<2>(weights, tokens); break;
      default: multiply_some(weights, tokens, columns); break;
    }
    ptx::barrier_arrive(place.empty(cursor.stage));  // each lane, for what it has read
    cursor.advance();
  }

  // The sums, added in the order of warps; they begin anew. Thread t has component t % 4 of what
  // lane t / 4 of a warp holds: row t / 16 (components 0, 1) or 8 further (2, 3), token t / 4 % 4 ×
  // 2 and the next.
  CAUSEWAY_DEVICE float add_up() {
    auto* partial = place.of<float4>(place.at.partial) + turn++ % 2 * (kWorkerWarps * 32);
    float mine[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      mine[i] = (sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]);
      sum[0][i] = sum[1][i] = sum[2][i] = sum[3][i] = 0.0f;
    }
    partial[warp * 32 + lane] = make_float4(mine[0], mine[1], mine[2], mine[3]);
    workers_sync();  // also: what was added up two turns ago has been read
    const float* parts = reinterpret_cast<const float*>(partial) + thread();
    float total = parts[0];
#pragma unroll
    for (int w = 1; w < kWorkerWarps; ++w) total += parts[w * 128];
    return total;
  }
  CAUSEWAY_DEVICE int total_row() const { return thread() / 16 + thread() % 4 / 2 * 8; }
  CAUSEWAY_DEVICE int total_token() const { return thread() / 4 % 4 * 2 + thread() % 2; }

  CAUSEWAY_DEVICE void store_active(const SmallBatchItem& item, int tile, float total) {
    const float up = __shfl_down_sync(0xFFFFFFFFu, total, 2);  // eight rows further
    if (total_row() >= 8 || total_token() >= item.rows) return;
    const int64_t pair = row_of(item, total_token()).pair;
    args.active[pair * args.intermediate + tile * 8 + total_row()] =
        __float2bfloat16(silu(total) * up);
  }

  CAUSEWAY_DEVICE void add_weighted(const SmallBatchItem& item, float total) {
    if (total_token() >= item.rows) return;
    const float weight = place.of<float>(place.at.row_weight)[item.first + total_token()];
    float* sums = place.of<float>(place.at.sums);
    sums[row_of(item, total_token()).token * kWeightRows + total_row()] += weight * total;
  }

  CAUSEWAY_DEVICE void multiply_all(const SmallBatchWalk& walk, const SmallBatchItem& item) {
    const bool gated = walk.gated();
    const int depth = gated ? args.hidden : args.intermediate;
    const int step = gated ? place.at.gated_step : place.at.down_step;
    const int row = min(lane / 4, item.rows - 1);
    const char* x = nullptr;
    if (kFront && gated) x = place.memory + place.at.x + row_of(item, row).token * place.at.x_pitch;
#pragma unroll 1
    for (int column = 0; column < depth; column += step) {
      multiply(row, x, min(step, depth - column));
      if (kFront && gated) x += step * 2;
    }
  }

  CAUSEWAY_DEVICE void clear_sums() {
    float* sums = place.of<float>(place.at.sums);
#pragma unroll 1
    for (int i = thread(); i < args.tokens * kWeightRows; i += kWorkers) sums[i] = 0.0f;
  }

  CAUSEWAY_DEVICE void say_done(int item, int tiles) {
    workers_sync();
    if (thread() != 0) return;
    ptx::flag_add(args.sync->tiles_done[launch % 2] + item, static_cast<uint32_t>(tiles));
  }

  CAUSEWAY_DEVICE void run() {
    int tiles = 0;  // of the item, since it was said how many are done
    float2 residual = make_float2(0, 0);
    SmallBatchWalk walk(args, place.items());
#pragma unroll 1
    for (; !walk.done(); walk.advance()) {
      const SmallBatchItem& item = place.item(walk.item);
      const int column = walk.at * kWeightRows;  // of down
      if (!walk.gated() && walk.item == 0) {
        clear_sums();
        residual = residual_at(column, thread());  // early: it takes a while
      }
      multiply_all(walk, item);
      const float total = add_up();
      if (walk.gated()) {
        store_active(item, walk.at, total);
        ++tiles;
        if (!walk.last()) continue;
        say_done(walk.item, tiles);
        tiles = 0;
      } else {
        add_weighted(item, total);
        if (!walk.last()) continue;
        workers_sync();
        store(column, residual);
        workers_sync();
      }
    }
  }

  // Where the pair `i` of sums goes: in the 16 columns of out from `begin` on.
  CAUSEWAY_DEVICE int place_of(int begin, int i) const {
    return i / (kWeightRows / 2) * args.hidden + begin + i % (kWeightRows / 2) * 2;
  }
  CAUSEWAY_DEVICE float2 residual_at(int begin, int i) const {
    if (args.residual == nullptr || i >= args.tokens * kWeightRows / 2) return make_float2(0, 0);
    const __nv_bfloat16* from = args.residual + place_of(begin, i);
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(from));
  }
  CAUSEWAY_DEVICE void store(int begin, float2 residual) {
    const auto* sums = place.of<float2>(place.at.sums);
#pragma unroll 1
    for (int i = thread(); i < args.tokens * kWeightRows / 2; i += kWorkers) {
      if (i != thread()) residual = residual_at(begin, i);
      const float2 two = sums[i];
      *reinterpret_cast<uint32_t*>(args.out + place_of(begin, i)) =
          pack(two.x + residual.x, two.y + residual.y);
    }
  }
};

}  // namespace causeway::kernels::moe
