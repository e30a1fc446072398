// The weight-stationary way (Algorithm 1, AsymmetricKernel): a CTA holds a panel of W, 128 columns
// × 512 of K, in shared memory and walks M in steps of 64 rows, its two warpgroups in turns. The
// CTAs of a group hold the panels of all of K; a row tile's f32 sums go from each to the next
// through a slot of a small ring that stays in L2, in the registers' own order, and the last one
// rounds them and writes O. Every CTA adds to what it takes over, so the order of additions is
// fixed.
#pragma once

#include "kernels/hybrid_gemm/sm90_tile.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/copy.cuh"
#include "kernels/ptx/memory.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ring_cursor.cuh"

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
// Words behind the barriers, one a warpgroup: whether the next row tile has been handed on.
constexpr uint32_t kPanelVerdicts = 2 * kPanelStages + kPanelSteps + 1;
static_assert(kPanelVerdicts + kConsumerGroups <= kBarriersMax);

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
    int column;  // of O
    int index;   // along K
    bool there;  // false behind the end of K: nothing to hold in this pass
    int order;   // place in the turn to load
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
    panel.there = panel.index < panels;
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
  FixedRingCursor<kPanelStages> cursor;
  for (int round = 0; round < walk.rounds(args); ++round) {
    for (int pass = 0; pass < args.passes; ++pass) {
      const PanelWalk::Panel panel = walk.at(args, round, pass);
      if (!panel.there) continue;
      for (int t = 0; t < walk.m_tiles; ++t) {
        for (int s = 0; s < kPanelSteps; ++s, cursor.advance()) {
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
  uint32_t phase = 0;       // of the panel's steps, which all take part in every panel
  uint32_t free_phase = 1;  // nothing to wait for before the first panel
  for (int round = 0; round < walk.rounds(args); ++round) {
    for (int pass = 0; pass < args.passes; ++pass) {
      const PanelWalk::Panel panel = walk.at(args, round, pass);
      if (panel.there) {
        ptx::barrier_wait(panel_free_barrier(place), free_phase);
        free_phase ^= 1;
        const int before = max(0, panel.order - args.load_window + 1);
        ptx::flag_wait(turn_flag(args), static_cast<uint32_t>(before * args.group_ctas));
        for (int s = 0; s < kPanelSteps + kPanelInFlight; ++s) {
          const int landed = s - kPanelInFlight;
          if (landed >= 0) ptx::barrier_wait(panel_full_barrier(place, landed), phase);
          if (s >= kPanelSteps) continue;
          ptx::barrier_arrive_expect(panel_full_barrier(place, s), kWeightBytes);
          for (int part = 0; part < args.cluster; ++part) {  // the W map's box is a cluster part
            ptx::load_box(place.memory + s * kWeightBytes + part * part_rows * kStepK * 2, w_map,
                          (panel.index * kPanelSteps + s) * kStepK, panel.column + part * part_rows,
                          panel_full_barrier(place, s));
          }
        }
        phase ^= 1;
      }
      ptx::flag_add(turn_flag(args), 1);
    }
  }
}

// Where the sums of a row tile are handed on, and whose turn it is.
struct Handover {
  uint32_t* flag;
  uint32_t turn;  // value of the flag when the tile is this panel's
  float4* sums;   // [16][128 threads], this thread's column

  CAUSEWAY_DEVICE Handover(const KernelArgs& args, const PanelWalk& walk, int index, int round,
                           int t) {
    const int64_t sequence = static_cast<int64_t>(round) * walk.m_tiles + t;
    const int64_t slot = static_cast<int64_t>(walk.group) * args.slots + sequence % args.slots;
    flag = args.flags + slot;
    turn = static_cast<uint32_t>(sequence / args.slots) * walk.panels + index;
    sums = reinterpret_cast<float4*>(args.scratch) + slot * (16 * 128) + threadIdx.x % 128;
  }
};

// Whole warpgroup: once the panel before has handed the row tile on, asks for its sums and returns
// true; zeros for the first panel, which waits only for the slot. Returns false if that is not so
// yet, unless told to `wait`. Another call without `wait` must have a barrier in between.
CAUSEWAY_DEVICE bool panel_take_over(const Handover& from, bool first, bool wait,
                                     const Place& place, float4 (&next)[16]) {
  const uint32_t group = threadIdx.x / 128;
  const uint32_t verdict = place.barrier(kPanelVerdicts + group - 1);
  if (threadIdx.x % 128 == 0) {
    if (wait) {
      ptx::flag_wait(from.flag, from.turn);
    } else {
      ptx::store_word(verdict, ptx::flag_load(from.flag) >= from.turn);
    }
  }
  ptx::warpgroup_sync(group);
  if (!wait && ptx::load_word(verdict) == 0) return false;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    next[i] = first ? make_float4(0, 0, 0, 0) : __ldcg(from.sums + i * 128);
  }
  return true;
}

// sums += X[64 rows × panel] · panelᵀ: one row tile, from X stages `position` …
CAUSEWAY_DEVICE void panel_multiply(float (&sums)[64], const Place& place, uint32_t position) {
#pragma unroll
  for (int s = 0; s < kPanelSteps; ++s) {
    const uint32_t stage = (position + s) % kPanelStages;
    ptx::barrier_wait_covered(x_full_barrier(place, stage), ((position + s) / kPanelStages) & 1);
    const uint64_t x = ptx::tile_descriptor(place.memory + kPanelBytes + stage * kBoxBytes);
    const uint64_t w = ptx::tile_descriptor(place.memory + s * kWeightBytes);
    ptx::mma_fence();
#pragma unroll
    for (int k16 = 0; k16 < kStepK / 16; ++k16) {
      ptx::mma(sums, x + k16 * 2, w + k16 * 2);
    }
    ptx::mma_commit();
    ptx::mma_wait<1>();
    if (s > 0 && place.lane == 0) {
      ptx::barrier_arrive(x_empty_barrier(place, (position + s - 1) % kPanelStages));
    }
  }
  ptx::mma_wait<0>();
  ptx::hold(sums);
  if (place.lane == 0) {
    ptx::barrier_arrive(x_empty_barrier(place, (position + kPanelSteps - 1) % kPanelStages));
  }
}

// One of the two consumer warpgroups: every second row tile. While one is multiplied, the sums to
// which the next will be added are on their way.
CAUSEWAY_DEVICE void panel_consume(const KernelArgs& args, const Place& place) {
  const PanelWalk walk(args);
  const int group = place.warp / 4 - 1;
  uint32_t phase = 0;     // of the panel's steps
  uint32_t position = 0;  // X stages taken by both groups before this panel
  for (int round = 0; round < walk.rounds(args); ++round) {
    for (int pass = 0; pass < args.passes; ++pass) {
      const PanelWalk::Panel panel = walk.at(args, round, pass);
      if (!panel.there) continue;
      const bool first = panel.index == 0;
      const bool last = panel.index + 1 == walk.panels;
      for (int s = 0; s < kPanelSteps; ++s) {
        ptx::barrier_wait_covered(panel_full_barrier(place, s), phase);
      }
      phase ^= 1;
      float4 next[16];
      bool taken = false;  // `next` holds, or will hold, the sums of the next tile
      for (int t = group; t < walk.m_tiles; t += kConsumerGroups) {
        const Handover here(args, walk, panel.index, round, t);
        if (!taken) panel_take_over(here, first, true, place, next);
        float sums[64];
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          sums[i * 4] = next[i].x;
          sums[i * 4 + 1] = next[i].y;
          sums[i * 4 + 2] = next[i].z;
          sums[i * 4 + 3] = next[i].w;
        }
        ptx::hold(sums);
        const int t_next = t + kConsumerGroups;
        taken = t_next < walk.m_tiles &&
                panel_take_over(Handover(args, walk, panel.index, round, t_next), first, false,
                                place, next);
        panel_multiply(sums, place, position + t * kPanelSteps);
        if (last) {
          store_block(args, sums, t * kPanelRows, panel.column, args.n, place);
        } else {
#pragma unroll
          for (int i = 0; i < 16; ++i) {
            __stcg(here.sums + i * 128,
                   make_float4(sums[i * 4], sums[i * 4 + 1], sums[i * 4 + 2], sums[i * 4 + 3]));
          }
        }
        ptx::warpgroup_sync(1 + group);
        // Released by one thread for all: the barrier before makes the others' writes its own.
        if (threadIdx.x % 128 == 0) ptx::flag_store(here.flag, here.turn + 1);
      }
      position += walk.m_tiles * kPanelSteps;
      if (place.lane == 0) ptx::barrier_arrive(panel_free_barrier(place));
    }
  }
}

}  // namespace causeway::kernels::hybrid_gemm
