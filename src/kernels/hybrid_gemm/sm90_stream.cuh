// The output-stationary way: a CTA owns a 256×128 tile of O in registers and streams K. The CTAs of a
// cluster own the tiles below each other and share each W tile: every CTA loads its part of the rows
// and multicasts it. W comes from its home (symmetric), or from a ring of W tiles in HBM that the
// relay warps of the same CTAs fill, each tile once, ahead of its use (kRing).
#pragma once

#include "kernels/hybrid_gemm/sm90_tile.cuh"

namespace causeway::kernels::hybrid_gemm {

// Barriers of these CTAs: full[kStages], empty[kStages], relay[kRelayBuffers].
CAUSEWAY_DEVICE uint32_t full_barrier(const Place& p, uint32_t stage) { return p.barrier(stage); }
CAUSEWAY_DEVICE uint32_t empty_barrier(const Place& p, uint32_t stage) {
  return p.barrier(kStages + stage);
}
CAUSEWAY_DEVICE uint32_t relay_barrier(const Place& p, uint32_t buffer) {
  return p.barrier(2 * kStages + buffer);
}

CAUSEWAY_DEVICE void stream_init(const KernelArgs& args, const Place& place) {
  for (uint32_t s = 0; s < kStages; ++s) {
    ptx::barrier_init(full_barrier(place, s), 1);
    // Every consumer warp of every CTA of the cluster: all of them read what this CTA multicasts.
    ptx::barrier_init(empty_barrier(place, s), 4 * kConsumerGroups * args.cluster);
  }
  for (uint32_t b = 0; b < kRelayBuffers; ++b) ptx::barrier_init(relay_barrier(place, b), 1);
}

// The tiles of one part of the columns and the order in which its clusters take them.
struct StreamWalk {
  int columns_begin, columns_end;  // of O
  int n_tiles, m_tiles;            // m_tiles: of a cluster's 256·cluster rows
  int tiles;
  int first, stride;               // this cluster's
  int group;                       // n tiles walked together before the next row tile

  struct Tile {
    int n_index, column, row;      // row: of this CTA
    int blocks;                    // 64-row blocks of it that lie inside M: 0 … 4
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
  ptx::SpinGuard guard;
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
    guard.spin();
  }
}

// One warp: fills the stages, tile after tile.
template <bool kRing>
CAUSEWAY_DEVICE void stream_produce(const KernelArgs& args, const CUtensorMap* x_map,
                                    const CUtensorMap* w_map, const Place& place) {
  const StreamWalk walk(args, kRing);
  const uint32_t part_rows = kTileN / args.cluster;
  const uint32_t part_bytes = part_rows * kStepK * 2;
  const uint32_t part_offset = place.rank * part_bytes;
  const uint16_t everyone = static_cast<uint16_t>((1u << args.cluster) - 1);
  Cursor<kStages> cursor;
  for (int index = walk.first; index < walk.tiles; index += walk.stride) {
    const StreamWalk::Tile tile = walk.at(index, args, place.rank);
    const int slot = kRing ? tile.n_index % args.slots : 0;
    const uint32_t lap = kRing ? tile.n_index / args.slots : 0;
    const uint32_t bytes = tile.blocks * kBoxBytes + kWeightBytes;
    int steps_ready = 0;
    for (int step = 0; step < args.k_steps; ++step, cursor.advance()) {
      if (kRing && step >= steps_ready) {
        steps_ready = ring_wait(args, slot, lap, step, place.lane);
      }
      if (place.lane == 0) {
        const uint32_t full = full_barrier(place, cursor.stage);
        const uint32_t x_tile = place.memory + cursor.stage * kStageBytes;
        const uint32_t w_part = x_tile + kStreamRows * kStepK * 2 + part_offset;
        ptx::barrier_wait(empty_barrier(place, cursor.stage), cursor.phase ^ 1);
        ptx::barrier_arrive_expect(full, bytes);
        // W first: it has the longer way.
        if (kRing) {
          const char* source =
              args.scratch +
              (static_cast<int64_t>(slot) * args.k_steps + step) * kWeightBytes + part_offset;
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

// One thread of every CTA; those that relay bring their share of W over the link into the ring, in
// the order of use. Two buffers: one tile arrives while the other is written to the ring.
CAUSEWAY_DEVICE void ring_relay(const KernelArgs& args, const CUtensorMap* w_map,
                                const Place& place) {
  const StreamWalk walk(args, true);
  const int64_t units = static_cast<int64_t>(walk.n_tiles) * args.k_steps;
  // The relaying CTAs lie evenly among all.
  const int cta = static_cast<int>(blockIdx.x) - args.symmetric_ctas;
  const int spacing = args.asymmetric_ctas / args.relay_ctas;
  const int64_t first = cta / spacing;
  if (cta % spacing != 0 || first >= args.relay_ctas) return;
  const uint32_t readers = walk.m_tiles * args.cluster;  // arrivals a round at done[slot]
  uint32_t* done = args.flags + static_cast<int64_t>(args.slots) * args.k_steps;
  const int part_rows = kTileN / args.cluster;

  const auto load = [&](int64_t unit, uint32_t buffer) {
    const uint32_t target = place.memory + kRelayOffset + buffer * kWeightBytes;
    const int n_index = static_cast<int>(unit / args.k_steps);
    const int step = static_cast<int>(unit % args.k_steps);
    ptx::barrier_arrive_expect(relay_barrier(place, buffer), kWeightBytes);
    for (int part = 0; part < args.cluster; ++part) {  // the W map's box is a cluster part
      ptx::load_box(target + part * part_rows * kStepK * 2, w_map, step * kStepK,
                    walk.columns_begin + n_index * kTileN + part * part_rows,
                    relay_barrier(place, buffer));
    }
  };

  if (first < units) load(first, 0);
  Cursor<kRelayBuffers> cursor;
  for (int64_t unit = first; unit < units; unit += args.relay_ctas, cursor.advance()) {
    const int64_t next = unit + args.relay_ctas;
    if (next < units) load(next, cursor.stage ^ 1);
    const int n_index = static_cast<int>(unit / args.k_steps);
    const int64_t slot = n_index % args.slots;
    const uint32_t lap = n_index / args.slots;
    const int64_t tile = slot * args.k_steps + unit % args.k_steps;
    ptx::barrier_wait(relay_barrier(place, cursor.stage), cursor.phase);
    ptx::flag_wait(done + slot, lap * readers);
    ptx::proxy_fence();
    ptx::store_bytes(args.scratch + tile * kWeightBytes,
                     place.memory + kRelayOffset + cursor.stage * kWeightBytes, kWeightBytes);
    ptx::store_wait();
    ptx::proxy_fence();
    ptx::flag_store(args.flags + tile, lap + 1);
  }
}

// A warpgroup's share of one tile: kBlocks blocks of 64 rows, blocks `group` and `group + 2`.
template <int kBlocks>
CAUSEWAY_DEVICE void stream_multiply(const KernelArgs& args, float (&sums)[2][64],
                                     Cursor<kStages>& cursor, const Place& place, int group) {
  uint32_t previous = 0;
  for (int step = 0; step < args.k_steps; ++step, cursor.advance()) {
    ptx::barrier_wait(full_barrier(place, cursor.stage), cursor.phase);
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
          ptx::mma_64x128x16(sums[b], x + k16 * 2, w + k16 * 2, step > 0 || k16 > 0);
        }
      }
      ptx::mma_commit();
      ptx::mma_wait<1>();
    }
    // The products of the step before have been read: its stage is free, in every CTA that shares it.
    if (step > 0 && place.lane < args.cluster) {
      ptx::barrier_arrive_at(empty_barrier(place, previous), place.lane);
    }
    previous = cursor.stage;
  }
  if constexpr (kBlocks > 0) {
    ptx::mma_wait<0>();
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) ptx::mma_hold(sums[b]);
  }
  if (place.lane < args.cluster) {
    ptx::barrier_arrive_at(empty_barrier(place, previous), place.lane);
  }
}

// One of the two consumer warpgroups.
template <bool kRing>
CAUSEWAY_DEVICE void stream_consume(const KernelArgs& args, const Place& place) {
  const StreamWalk walk(args, kRing);
  const int group = place.warp / 4 - 1;
  Cursor<kStages> cursor;
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
    if (kRing && group == 0 && threadIdx.x % 128 == 0) {
      // Every load of this tile has landed here: one reader fewer of its slot.
      ptx::flag_add(args.flags + static_cast<int64_t>(args.slots) * args.k_steps +
                        tile.n_index % args.slots, 1);
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
