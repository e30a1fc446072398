// The weight-stationary way (Algorithm 1, AsymmetricKernel): a CTA holds a panel of W, 128 columns ×
// 512 of K, in shared memory and walks M in steps of 64 rows, its two warpgroups in turns. The CTAs
// of a group hold the panels of all of K; a row tile's f32 sums go from each to the next through a
// slot of a small ring that stays in L2, in the registers' own order, and the last one rounds them
// and writes O. Every CTA adds to what it takes over, so the order of additions is fixed.
#pragma once

#include "kernels/hybrid_gemm/sm90_tile.cuh"

namespace causeway::kernels::hybrid_gemm {

// Barriers of these CTAs: X full and empty [kPanelStages], panel steps full [kPanelSteps], and one
// for the whole panel being free again.
CAUSEWAY_DEVICE uint32_t x_full_barrier(const Place& p, uint32_t stage) { return p.barrier(stage); }
CAUSEWAY_DEVICE uint32_t x_empty_barrier(const Place& p, uint32_t stage) {
  return p.barrier(kPanelStages + stage);
}
CAUSEWAY_DEVICE uint32_t panel_full_barrier(const Place& p, uint32_t step) {
  return p.barrier(2 * kPanelStages + step);
}
CAUSEWAY_DEVICE uint32_t panel_free_barrier(const Place& p) {
  return p.barrier(2 * kPanelStages + kPanelSteps);
}
static_assert(2 * kPanelStages + kPanelSteps + 1 <= kBarriersMax);

constexpr int kPanelInFlight = 2;  // W tiles that a CTA asks for at a time

CAUSEWAY_DEVICE void panel_init(const Place& place) {
  for (uint32_t s = 0; s < kPanelStages; ++s) {
    ptx::barrier_init(x_full_barrier(place, s), 1);
    ptx::barrier_init(x_empty_barrier(place, s), 4);  // the warps of the group that took the step
  }
  for (uint32_t s = 0; s < kPanelSteps; ++s) ptx::barrier_init(panel_full_barrier(place, s), 1);
  ptx::barrier_init(panel_free_barrier(place), 4 * kConsumerGroups);
}

// The panels that this CTA holds one after the other.
struct PanelWalk {
  int group, member;  // of this CTA; group ≥ groups: it has no work
  int n_tiles, m_tiles, panels;

  struct Panel {
    int column;     // of O
    int index;      // along K
    int steps;      // 64-deep W tiles in it: 0 … kPanelSteps
    int order;      // place in the turn to load
  };

  CAUSEWAY_DEVICE explicit PanelWalk(const KernelArgs& args) {
    const int cta = static_cast<int>(blockIdx.x) - args.symmetric_ctas;
    group = cta / args.group_ctas;
    member = cta % args.group_ctas;
    n_tiles = ceil_div_int(args.n - args.n_symmetric, kTileN);
    m_tiles = ceil_div_int(args.m, kPanelRows);
    panels = ceil_div_int(args.k_steps, kPanelSteps);
  }

  CAUSEWAY_DEVICE bool idle(const KernelArgs& args) const { return group >= args.groups; }

  CAUSEWAY_DEVICE Panel at(const KernelArgs& args, int round, int pass) const {
    Panel panel;
    panel.column = args.n_symmetric + (round * args.groups + group) * kTileN;
    panel.index = pass * args.group_ctas + member;
    panel.steps = max(0, min(kPanelSteps, args.k_steps - panel.index * kPanelSteps));
    const int in_round = min(args.groups, n_tiles - round * args.groups);
    panel.order = round * args.passes * args.groups + pass * in_round + group;
    return panel;
  }

  CAUSEWAY_DEVICE int rounds(const KernelArgs& args) const {
    return ceil_div_int(n_tiles - group, args.groups);
  }
};

// Counts the panels that have landed, of all groups: whose turn it is to load.
CAUSEWAY_DEVICE uint32_t* turn_flag(const KernelArgs& args) {
  return args.flags + static_cast<int64_t>(args.groups) * args.slots;
}

// One thread: streams the X of every walk.
CAUSEWAY_DEVICE void panel_produce(const KernelArgs& args, const CUtensorMap* x_map,
                                   const Place& place) {
  const PanelWalk walk(args);
  Cursor<kPanelStages> cursor;
  for (int round = 0; round < walk.rounds(args); ++round) {
    for (int pass = 0; pass < args.passes; ++pass) {
      const PanelWalk::Panel panel = walk.at(args, round, pass);
      for (int t = 0; t < walk.m_tiles; ++t) {
        for (int s = 0; s < panel.steps; ++s, cursor.advance()) {
          const uint32_t full = x_full_barrier(place, cursor.stage);
          ptx::barrier_wait(x_empty_barrier(place, cursor.stage), cursor.phase ^ 1);
          ptx::barrier_arrive_expect(full, kBoxBytes);
          ptx::load_box(place.memory + kPanelBytes + cursor.stage * kBoxBytes, x_map,
                        (panel.index * kPanelSteps + s) * kStepK, t * kPanelRows, full);
        }
      }
    }
  }
}

// One thread: loads each panel when it is free and it is this group's turn on the link, and hands
// the turn on. Few tiles are asked for at a time: what waits for the link stands in the way of
// everyone's reads of HBM.
CAUSEWAY_DEVICE void panel_load(const KernelArgs& args, const CUtensorMap* w_map,
                                const Place& place) {
  const PanelWalk walk(args);
  const int part_rows = kTileN / args.cluster;
  uint32_t phases = 0;      // bit s: phase of panel step s
  uint32_t free_phase = 1;  // nothing to wait for before the first panel
  for (int round = 0; round < walk.rounds(args); ++round) {
    for (int pass = 0; pass < args.passes; ++pass) {
      const PanelWalk::Panel panel = walk.at(args, round, pass);
      if (panel.steps > 0) {
        ptx::barrier_wait(panel_free_barrier(place), free_phase);
        free_phase ^= 1;
        const int before = max(0, panel.order - args.load_window + 1);
        ptx::flag_wait(turn_flag(args), static_cast<uint32_t>(before * args.group_ctas));
      }
      for (int s = 0; s < panel.steps + kPanelInFlight; ++s) {
        const int landed = s - kPanelInFlight;
        if (landed >= 0 && landed < panel.steps) {
          ptx::barrier_wait(panel_full_barrier(place, landed), (phases >> landed) & 1);
        }
        if (s >= panel.steps) continue;
        ptx::barrier_arrive_expect(panel_full_barrier(place, s), kWeightBytes);
        for (int part = 0; part < args.cluster; ++part) {  // the W map's box is a cluster part
          ptx::load_box(place.memory + s * kWeightBytes + part * part_rows * kStepK * 2, w_map,
                        (panel.index * kPanelSteps + s) * kStepK,
                        panel.column + part * part_rows, panel_full_barrier(place, s));
        }
      }
      phases ^= (1u << panel.steps) - 1;
      ptx::flag_add(turn_flag(args), 1);
    }
  }
}

// sums += X[64 rows × panel] · panelᵀ: one row tile, from X stages `position` …
CAUSEWAY_DEVICE void panel_multiply(float (&sums)[64], const Place& place, uint32_t position,
                                    int steps) {
  uint32_t previous = 0;
  for (int s = 0; s < steps; ++s, ++position) {
    const uint32_t stage = position % kPanelStages;
    ptx::barrier_wait(x_full_barrier(place, stage), (position / kPanelStages) & 1);
    const uint64_t x =
        ptx::tile_descriptor(place.memory + kPanelBytes + stage * kBoxBytes);
    const uint64_t w = ptx::tile_descriptor(place.memory + s * kWeightBytes);
    ptx::mma_fence();
#pragma unroll
    for (int k16 = 0; k16 < kStepK / 16; ++k16) {
      ptx::mma_64x128x16(sums, x + k16 * 2, w + k16 * 2, true);
    }
    ptx::mma_commit();
    ptx::mma_wait<1>();
    if (s > 0 && place.lane == 0) ptx::barrier_arrive(x_empty_barrier(place, previous));
    previous = stage;
  }
  ptx::mma_wait<0>();
  ptx::mma_hold(sums);
  if (place.lane == 0) ptx::barrier_arrive(x_empty_barrier(place, previous));
}

// Takes a row tile's sums over from the panel before (unless this is the first), adds this panel's
// and passes them on, or writes O when this is the last.
CAUSEWAY_DEVICE void panel_row_tile(const KernelArgs& args, const PanelWalk& walk,
                                    const PanelWalk::Panel& panel, int round, int t,
                                    uint32_t position, const Place& place) {
  const int group = place.warp / 4 - 1;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int64_t sequence = static_cast<int64_t>(round) * walk.m_tiles + t;
  const int slot = static_cast<int>(sequence % args.slots);
  const uint32_t lap = static_cast<uint32_t>(sequence / args.slots);
  const int64_t place_in_ring = static_cast<int64_t>(walk.group) * args.slots + slot;
  uint32_t* flag = args.flags + place_in_ring;
  float4* held = reinterpret_cast<float4*>(args.scratch) + place_in_ring * (16 * 128) + thread;
  const uint32_t turn = lap * walk.panels + panel.index;

  if (thread == 0) ptx::flag_wait(flag, turn);
  ptx::warpgroup_sync(1 + group);
  float sums[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) sums[i] = 0.0f;
  if (panel.index > 0) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float4 four = __ldcg(held + i * 128);
      sums[i * 4] = four.x;
      sums[i * 4 + 1] = four.y;
      sums[i * 4 + 2] = four.z;
      sums[i * 4 + 3] = four.w;
    }
  }
  ptx::mma_hold(sums);
  panel_multiply(sums, place, position, panel.steps);
  if (panel.index + 1 < walk.panels) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      __stcg(held + i * 128, make_float4(sums[i * 4], sums[i * 4 + 1], sums[i * 4 + 2],
                                         sums[i * 4 + 3]));
    }
  } else {
    store_block(args, sums, t * kPanelRows, panel.column, args.n, place);
  }
  ptx::warpgroup_sync(1 + group);
  if (thread == 0) {
    __threadfence();
    ptx::flag_store(flag, turn + 1);
  }
}

// One of the two consumer warpgroups: every second row tile.
CAUSEWAY_DEVICE void panel_consume(const KernelArgs& args, const Place& place) {
  const PanelWalk walk(args);
  const int group = place.warp / 4 - 1;
  uint32_t phases = 0;    // bit s: phase of panel step s
  uint32_t position = 0;  // X stages taken by both groups before this panel
  for (int round = 0; round < walk.rounds(args); ++round) {
    for (int pass = 0; pass < args.passes; ++pass) {
      const PanelWalk::Panel panel = walk.at(args, round, pass);
      if (panel.steps == 0) continue;
      for (int s = 0; s < panel.steps; ++s) {
        ptx::barrier_wait(panel_full_barrier(place, s), (phases >> s) & 1);
      }
      phases ^= (1u << panel.steps) - 1;
      for (int t = group; t < walk.m_tiles; t += kConsumerGroups) {
        panel_row_tile(args, walk, panel, round, t, position + t * panel.steps, place);
      }
      position += walk.m_tiles * panel.steps;
      if (place.lane == 0) ptx::barrier_arrive(panel_free_barrier(place));
    }
  }
}

}  // namespace causeway::kernels::hybrid_gemm
