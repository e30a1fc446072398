// The warps that feed the ring of the kernel for small batches.
#pragma once

#include "kernels/moe/cuda_small_batch_place.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"

namespace causeway::kernels::moe {

// One of the three warps; each has its part of every stage.
template <bool kFront>
struct SmallBatchFeeder {
  const SmallBatchArgs& args;
  const SmallBatchPlace& place;
  int part, lane;   // part: 0, 1: eight rows of weights each; 2: tokens
  uint32_t parity;  // of the launch
  RingCursor cursor;

  // Waits until the stage may be written. Each asking lane says for itself how many bytes it will
  // bring, if none too.
  CAUSEWAY_DEVICE void enter(uint32_t bytes) {
    ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
    if (lane < kAskers) ptx::barrier_arrive_expect(place.full(cursor.stage), bytes);
  }

  // So many rows, at most eight, from this lane's `source` on; a stage for each step.
  CAUSEWAY_DEVICE void feed(const char* source, int rows, int depth, int step, uint64_t policy) {
    if (part < 2 && step == depth && step * 2 == static_cast<int>(place.at.pitch)) {
      depth = step = depth * rows;  // the rows are neighbours: one copy
      rows = 1;
    }
    const bool asks = lane < rows;
#pragma unroll 1
    for (int column = 0; column < depth; column += step) {
      const uint32_t bytes = static_cast<uint32_t>(min(step, depth - column)) * 2;
      enter(asks ? bytes : 0);
      if (asks) {
        const uint32_t target = place.address + cursor.stage * place.at.stage_bytes +
                                (part * kAskers + lane) * place.at.pitch;
        ptx::load_bytes(target, source + column * 2, bytes, place.full(cursor.stage), policy);
      }
      cursor.advance();
    }
  }

  // Until all that gate and up leave is there, and the copy engine sees it.
  CAUSEWAY_DEVICE void wait_for_active() {
    const uint32_t tiles = static_cast<uint32_t>(args.intermediate / 8);
#pragma unroll 1
    for (int i = lane; i < place.items(); i += 32) {
      const ptx::WaitBound<> bound;
      while (ptx::flag_load(args.sync->tiles_done[parity] + i) < tiles) bound.check();
    }
    __syncwarp();
    ptx::proxy_fence();
  }

  // Where this lane's row of the walk's next product begins: of weights, or of tokens.
  CAUSEWAY_DEVICE const char* source_of(const SmallBatchWalk& walk, const SmallBatchItem& item,
                                        int depth) const {
    const bool gated = walk.gated();
    if (part < 2) {
      const int row = (gated ? walk.at : walk.at * 2 + part) * kAskers + lane % kAskers;
      return item.weight[gated ? part : 2] + int64_t{row} * depth * 2;
    }
    const SmallBatchRow row =
        place.of<SmallBatchRow>(place.at.rows)[item.first + min(lane, item.rows - 1)];
    const __nv_bfloat16* from = gated ? args.x : args.active;
    return reinterpret_cast<const char*>(from + int64_t{gated ? row.token : row.pair} * depth);
  }

  CAUSEWAY_DEVICE void run() {
    const uint64_t policy = part < 2 ? ptx::policy_stream() : ptx::policy_normal();
    ptx::proxy_fence();  // the front wrote to the ring
    bool waited = part < 2;
    SmallBatchWalk walk(args, place.items());
#pragma unroll 1
    for (; !walk.done(); walk.advance()) {
      if (!waited && !walk.gated()) {
        wait_for_active();
        waited = true;
      }
      const SmallBatchItem& item = place.item(walk.item);
      const bool gated = walk.gated();
      const int depth = gated ? args.hidden : args.intermediate;
      const int step = gated ? place.at.gated_step : place.at.down_step;
      int rows = part < 2 ? kAskers : item.rows;
      if (kFront && part == 2 && gated) rows = 0;  // lie in shared memory already
      feed(source_of(walk, item, depth), rows, depth, step, policy);
    }
  }
};

}  // namespace causeway::kernels::moe
