// The warps that feed the ring of the kernel for few tokens.
#pragma once

#include "kernels/moe/cuda_few_place.cuh"

namespace causeway::kernels::moe {

// One of the three warps; each has its part of every stage.
template <bool kFront>
struct FewFeeder {
  const FewArgs& args;
  const FewPlace& place;
  int part, lane;   // part: 0, 1: eight rows of weights each; 2: tokens
  uint32_t parity;  // of the launch
  FewCursor cursor;

  // Waits until the stage may be written. Each asking lane says for itself how many bytes it will
  // bring, if none too.
  CAUSEWAY_DEVICE void enter(uint32_t bytes) {
    ptx::barrier_wait(place.empty(cursor.stage), cursor.phase ^ 1);
    if (lane < kAskers) ptx::barrier_arrive_expect(place.full(cursor.stage), bytes);
  }
  CAUSEWAY_DEVICE uint32_t target(int row) const {
    return place.address + cursor.stage * place.at.stage_bytes + row * place.at.pitch;
  }

  // Eight rows from `rows` on, `depth` wide, a stage for each step.
  CAUSEWAY_DEVICE void feed_weights(const char* rows, int depth, int step, uint64_t policy) {
    const char* source = rows + int64_t{lane % kAskers} * depth * 2;
    for (int column = 0; column < depth; column += step) {
      const uint32_t bytes = static_cast<uint32_t>(min(step, depth - column)) * 2;
      const uint32_t full = place.full(cursor.stage);
      if (step == depth && bytes == place.at.pitch) {  // the rows are neighbours: one copy
        enter(lane == 0 ? kAskers * bytes : 0);
        if (lane == 0) bulk_load(target(part * kAskers), rows, kAskers * bytes, full, policy);
      } else {
        enter(bytes);
        if (lane < kAskers) {
          bulk_load(target(part * kAskers + lane), source + column * 2, bytes, full, policy);
        }
      }
      cursor.advance();
    }
  }

  // Up to eight rows; this lane's `source`.
  CAUSEWAY_DEVICE void feed_tokens(const __nv_bfloat16* source, int rows, int depth, int step) {
    for (int column = 0; column < depth; column += step) {
      const uint32_t bytes = static_cast<uint32_t>(min(step, depth - column)) * 2;
      enter(lane < rows ? bytes : 0);
      if (lane < rows) {
        hybrid_gemm::ptx::load_bytes(target(kWeightRows + lane), source + column, bytes,
                                     place.full(cursor.stage));
      }
      cursor.advance();
    }
  }
  // Stages whose tokens lie in shared memory already.
  CAUSEWAY_DEVICE void feed_no_tokens(int depth, int step) { feed_tokens(nullptr, 0, depth, step); }

  CAUSEWAY_DEVICE FewRow row_of(const FewItem& item) const {
    return place.of<FewRow>(place.at.rows)[item.first + min(lane, item.rows - 1)];
  }

  CAUSEWAY_DEVICE void gated(uint64_t policy) {
    const GatedShare share(args, place.items());
    const int step = place.at.gated_step;
    for (int tile = share.begin; tile < share.end; ++tile) {
      const FewItem& item = place.item(tile / share.tiles);
      if (part < 2) {
        const int64_t row = int64_t{tile % share.tiles} * 8 * args.hidden * 2;
        feed_weights(item.weight[part] + row, args.hidden, step, policy);
      } else if (kFront) {
        feed_no_tokens(args.hidden, step);
      } else {
        feed_tokens(args.x + int64_t{row_of(item).token} * args.hidden, item.rows, args.hidden,
                    step);
      }
    }
  }

  // Until all that gate and up leave is there, and the copy engine sees it.
  CAUSEWAY_DEVICE void wait_for_active() {
    const uint32_t tiles = static_cast<uint32_t>(args.intermediate / 8);
    for (int i = lane; i < place.items(); i += 32) {
      hybrid_gemm::ptx::SpinGuard guard;
      while (hybrid_gemm::ptx::flag_load(args.sync->tiles_done[parity] + i) < tiles) guard.spin();
    }
    __syncwarp();
    hybrid_gemm::ptx::proxy_fence();
  }

  CAUSEWAY_DEVICE void down(uint64_t policy) {
    const int64_t row_bytes = int64_t{args.intermediate} * 2;
    const int items = place.items(), step = place.at.down_step;
    for (int64_t row = int64_t{blockIdx.x} * kWeightRows; row < args.hidden;
         row += int64_t{gridDim.x} * kWeightRows) {
      for (int i = 0; i < items; ++i) {
        const FewItem& item = place.item(i);
        if (part < 2) {
          feed_weights(item.weight[2] + (row + part * 8) * row_bytes, args.intermediate, step,
                       policy);
        } else {
          feed_tokens(args.active + int64_t{row_of(item).pair} * args.intermediate, item.rows,
                      args.intermediate, step);
        }
      }
    }
  }

  CAUSEWAY_DEVICE void run() {
    const uint64_t policy = ptx::policy_stream();
    hybrid_gemm::ptx::proxy_fence();  // the front wrote to the ring
    gated(policy);
    if (int64_t{blockIdx.x} * kWeightRows >= args.hidden) return;
    if (part == 2) wait_for_active();
    down(policy);
  }
};

}  // namespace causeway::kernels::moe
