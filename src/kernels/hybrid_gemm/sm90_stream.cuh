// The output-stationary way: a CTA owns a 256×128 tile of O in registers and streams K. The CTAs of
// a cluster own the tiles below each other and share each W tile: every CTA loads its part of the
// rows and multicasts it. W comes from its home (symmetric), or from a ring of W tiles in HBM that
// a few CTAs fill which do nothing else, each tile once, ahead of its use (asymmetric).
#pragma once

#include "kernels/hybrid_gemm/sm90_tile.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ring_cursor.cuh"

namespace causeway::kernels::hybrid_gemm {

// Barriers of these CTAs: full[kStages], empty[kStages]; of relaying CTAs: landed[warps].
CAUSEWAY_DEVICE uint32_t full_barrier(const Place& p, uint32_t stage) { return p.barrier(stage); }
CAUSEWAY_DEVICE uint32_t empty_barrier(const Place& p, uint32_t stage) {
  return p.barrier(kStages + stage);
}
CAUSEWAY_DEVICE uint32_t relay_barrier(const Place& p) { return p.barrier(p.warp); }

CAUSEWAY_DEVICE void stream_init(const KernelArgs& args, const Place& place) {
  for (uint32_t s = 0; s < kStages; ++s) {
    ptx::barrier_init(full_barrier(place, s), 1);
    // Every consumer warp of every CTA of the cluster: all of them read what this CTA multicasts.
    ptx::barrier_init(empty_barrier(place, s), 4 * kConsumerGroups * args.cluster);
  }
}

CAUSEWAY_DEVICE void relay_init(const Place& place) {
  for (uint32_t b = 0; b < kRelayWarps; ++b) ptx::barrier_init(place.barrier(b), 1);
}

// The tiles of one part of the columns and the order in which its clusters take them.
struct StreamWalk {
  int columns_begin, columns_end;  // of O
  int n_tiles, m_tiles;            // m_tiles: of a cluster's 256·cluster rows
  int tiles;
  int first, stride;  // this cluster's
  int group;          // n tiles walked together before the next row tile

  struct Tile {
    int n_index, column, row;  // row: of this CTA
    int blocks;                // 64-row blocks of it that lie inside M: 0 … 4
  };

  CAUSEWAY_DEVICE StreamWalk(const KernelArgs& args, bool ring) {
    columns_begin = ring ? args.n_symmetric : 0;
    columns_end = ring ? args.n : args.n_symmetric;
    n_tiles = ceil_div_int(columns_end - columns_begin, kTileN);
    m_tiles = ceil_div_int(args.m, kStreamRows * args.cluster);
    tiles = n_tiles * m_tiles;
    const int cta = static_cast<int>(blockIdx.x) - (ring ? args.symmetric_ctas : 0);
    first = cta / args.cluster;
    stride = (ring ? args.asymmetric_ctas : args.symmetric_ctas) / args.cluster;
    // Symmetric: all of N for one row tile, whose X then stays in L2. Ring: as many n tiles as the
    // ring lets in together.
    group = ring ? args.ring_group : n_tiles;
  }

  CAUSEWAY_DEVICE Tile at(int index, const KernelArgs& args, uint32_t rank) const {
    const int g = index / (group * m_tiles);
    const int width = min(group, n_tiles - g * group);
    const int rest = index - g * group * m_tiles;
    Tile tile;
    tile.n_index = g * group + rest % width;
    tile.column = columns_begin + tile.n_index * kTileN;
    tile.row = ((rest / width) * args.cluster + static_cast<int>(rank)) * kStreamRows;
    tile.blocks = max(0, min(4, ceil_div_int(args.m - tile.row, static_cast<int>(kBoxRows))));
    return tile;
  }
};

// Whole warp. Waits until step `step` of the W tile in `slot` has been relayed in round `lap`, and
// returns how many steps are known to be there.
CAUSEWAY_DEVICE int ring_wait(const KernelArgs& args, int slot, uint32_t lap, int step, int lane) {
  const uint32_t* ready = args.flags + static_cast<int64_t>(slot) * args.k_steps;
  const ptx::WaitBound<> bound;
  while (true) {
    const int mine = step + lane;
    const bool there = mine >= args.k_steps || ptx::flag_load(ready + mine) > lap;
    const uint32_t missing = ~__ballot_sync(0xFFFFFFFFu, there);
    const int run = missing == 0 ? 32 : __ffs(static_cast<int>(missing)) - 1;
    if (run > 0) {
      ptx::proxy_fence();
      return step + run;
    }
    __nanosleep(100);
    bound.check();
  }
}

// One warp: fills the stages, tile after tile.
CAUSEWAY_DEVICE void stream_produce(const KernelArgs& args, bool ring, const CUtensorMap* x_map,
                                    const CUtensorMap* w_map, const Place& place) {
  const StreamWalk walk(args, ring);
  const uint32_t part_rows = kTileN / args.cluster;
  const uint32_t part_bytes = part_rows * kStepK * 2;
  const uint32_t part_offset = place.rank * part_bytes;
  const uint16_t everyone = static_cast<uint16_t>((1u << args.cluster) - 1);
  FixedRingCursor<kStages> cursor;
  for (int index = walk.first; index < walk.tiles; index += walk.stride) {
    const StreamWalk::Tile tile = walk.at(index, args, place.rank);
    const int slot = ring ? tile.n_index % args.slots : 0;
    const uint32_t lap = ring ? tile.n_index / args.slots : 0;
    const uint32_t bytes = tile.blocks * kBoxBytes + kWeightBytes;
    int steps_ready = 0;
    for (int step = 0; step < args.k_steps; ++step, cursor.advance()) {
      if (ring && step >= steps_ready) {
        steps_ready = ring_wait(args, slot, lap, step, place.lane);
      }
      if (place.lane == 0) {
        const uint32_t full = full_barrier(place, cursor.stage);
        const uint32_t x_tile = place.memory + cursor.stage * kStageBytes;
        const uint32_t w_part = x_tile + kStreamRows * kStepK * 2 + part_offset;
        ptx::barrier_wait(empty_barrier(place, cursor.stage), cursor.phase ^ 1);
        ptx::barrier_arrive_expect(full, bytes);
        // W first: it has the longer way.
        if (ring) {
          const char* source = args.scratch +
                               (static_cast<int64_t>(slot) * args.k_steps + step) * kWeightBytes +
                               part_offset;
          if (args.cluster == 1) {
            ptx::load_bytes(w_part, source, part_bytes, full);
          } else {
            ptx::load_bytes_multicast(w_part, source, part_bytes, full, everyone);
          }
        } else {
          const int w_row = tile.column + static_cast<int>(place.rank * part_rows);
          if (args.cluster == 1) {
            ptx::load_box(w_part, w_map, step * kStepK, w_row, full);
          } else {
            ptx::load_box_multicast(w_part, w_map, step * kStepK, w_row, full, everyone);
          }
        }
        for (int b = 0; b < tile.blocks; ++b) {
          ptx::load_box(x_tile + b * kBoxBytes, x_map, step * kStepK,
                        tile.row + b * static_cast<int>(kBoxRows), full);
        }
      }
      __syncwarp();
    }
  }
}

// One thread of each feeding warp of a relaying CTA: brings its share of W over the link into the
// ring, in the order of use, a batch of K steps of one n tile at a time: all of it is asked for,
// then all written, then published at once. The waits of one warp are filled by the others.
// Relaying has SMs of its own because a load that waits for the link keeps every later load of its
// SM waiting; and few of them, because more requests than the link needs queue up on the way to it,
// and everyone's reads of HBM stand behind them.
CAUSEWAY_DEVICE void ring_relay(const KernelArgs& args, const CUtensorMap* w_map,
                                const Place& place) {
  const StreamWalk walk(args, true);
  const int batches = ceil_div_int(args.k_steps, kRelayBatch);  // of one n tile
  const int cta = static_cast<int>(blockIdx.x) - args.symmetric_ctas - args.asymmetric_ctas;
  const int64_t first = place.warp * args.relay_ctas + cta;
  const int64_t stride = static_cast<int64_t>(args.relay_ctas) * kRelayWarps;
  const int64_t count = static_cast<int64_t>(walk.n_tiles) * batches;
  const uint32_t readers = walk.m_tiles * args.cluster;  // arrivals a lap at done[slot]
  const uint32_t* done = args.flags + static_cast<int64_t>(args.slots) * args.k_steps;
  const int part_rows = kTileN / args.cluster;
  const uint32_t landed = relay_barrier(place);
  const uint32_t buffers = place.memory + place.warp * (kRelayBatch * kWeightBytes);
  uint32_t phase = 0;

  for (int64_t index = first; index < count; index += stride, phase ^= 1) {
    const int n_index = static_cast<int>(index / batches);
    const int step0 = static_cast<int>(index % batches) * kRelayBatch;
    const int steps = min(kRelayBatch, args.k_steps - step0);
    const int slot = n_index % args.slots;
    const uint32_t lap = n_index / args.slots;
    const int64_t tile = static_cast<int64_t>(slot) * args.k_steps + step0;

    // ---- over the link; the W map's box is a cluster part -------------------------------------
    ptx::barrier_arrive_expect(landed, steps * kWeightBytes);
    for (int s = 0; s < steps; ++s) {
      for (int part = 0; part < args.cluster; ++part) {
        ptx::load_box(buffers + s * kWeightBytes + part * part_rows * kStepK * 2, w_map,
                      (step0 + s) * kStepK,
                      walk.columns_begin + n_index * kTileN + part * part_rows, landed);
      }
    }
    // ---- into the ring, once its slot has been read by everyone -------------------------------
    ptx::flag_wait(done + slot, lap * readers);
    ptx::barrier_wait(landed, phase);
    ptx::proxy_fence();
    ptx::store_bytes(args.scratch + tile * kWeightBytes, buffers, steps * kWeightBytes);
    ptx::store_wait();
    // ---- known to all -------------------------------------------------------------------------
    ptx::proxy_fence();
    __threadfence();
    for (int s = 0; s < steps; ++s) ptx::flag_store_relaxed(args.flags + tile + s, lap + 1);
  }
}

// A warpgroup's share of one tile: kBlocks blocks of 64 rows, blocks `group` and `group + 2`.
template <int kBlocks>
CAUSEWAY_DEVICE void stream_multiply(const KernelArgs& args, float (&sums)[2][64],
                                     FixedRingCursor<kStages>& cursor, const Place& place,
                                     int group) {
  uint32_t previous = 0;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[b][i] = 0.0f;
    ptx::hold(sums[b]);
  }
  for (int step = 0; step < args.k_steps; ++step, cursor.advance()) {
    ptx::barrier_wait_covered(full_barrier(place, cursor.stage), cursor.phase);
    if constexpr (kBlocks > 0) {
      const uint32_t x_tile = place.memory + cursor.stage * kStageBytes + group * kBoxBytes;
      const uint64_t w = ptx::tile_descriptor(place.memory + cursor.stage * kStageBytes +
                                              kStreamRows * kStepK * 2);
      ptx::mma_fence();
#pragma unroll
      for (int k16 = 0; k16 < kStepK / 16; ++k16) {
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          const uint64_t x = ptx::tile_descriptor(x_tile + b * 2 * kBoxBytes);
          ptx::mma(sums[b], x + k16 * 2, w + k16 * 2);
        }
      }
      ptx::mma_commit();
      ptx::mma_wait<1>();
    }
    // The products of the step before have been read: its stage is free, in every CTA that shares
    // it.
    if (step > 0 && place.lane < args.cluster) {
      ptx::barrier_arrive_at(empty_barrier(place, previous), place.lane);
    }
    previous = cursor.stage;
  }
  if constexpr (kBlocks > 0) {
    ptx::mma_wait<0>();
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) ptx::hold(sums[b]);
  }
  if (place.lane < args.cluster) {
    ptx::barrier_arrive_at(empty_barrier(place, previous), place.lane);
  }
}

// One of the two consumer warpgroups.
CAUSEWAY_DEVICE void stream_consume(const KernelArgs& args, bool ring, const Place& place) {
  const StreamWalk walk(args, ring);
  const int group = place.warp / 4 - 1;
  FixedRingCursor<kStages> cursor;
  float sums[2][64];
  for (int index = walk.first; index < walk.tiles; index += walk.stride) {
    const StreamWalk::Tile tile = walk.at(index, args, place.rank);
    const int mine = tile.blocks > group ? (tile.blocks - group + 1) / 2 : 0;
    if (mine == 2) {
      stream_multiply<2>(args, sums, cursor, place, group);
    } else if (mine == 1) {
      stream_multiply<1>(args, sums, cursor, place, group);
    } else {
      stream_multiply<0>(args, sums, cursor, place, group);
    }
    if (ring && group == 0 && threadIdx.x % 128 == 0) {
      // Every load of this tile has landed here: one reader fewer of its slot.
      ptx::flag_add(
          args.flags + static_cast<int64_t>(args.slots) * args.k_steps + tile.n_index % args.slots,
          1);
    }
    if (args.bias != nullptr || args.residual != nullptr) {
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        if (b >= mine) break;
        add_block(args, sums[b], tile.row + (group + 2 * b) * static_cast<int>(kBoxRows),
                  tile.column, walk.columns_end, place);
      }
    }
    if (mine > 0) {
      store_block(args, sums[0], tile.row + group * static_cast<int>(kBoxRows), tile.column,
                  walk.columns_end, place);
    }
    if (mine > 1) {
      store_block(args, sums[1], tile.row + (group + 2) * static_cast<int>(kBoxRows), tile.column,
                  walk.columns_end, place);
    }
  }
}

}  // namespace causeway::kernels::hybrid_gemm
