// Copies between global and shared memory: by a thread's asynchronous loads, and by the copy engine
// (TMA), as bytes or as boxes of a tensor.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/ptx/device.cuh"

namespace causeway::kernels::ptx {

// ---- policies of L2 ---------------------------------------------------------------------------

// Cache policy for bytes that are read once: they leave L2 first.
CAUSEWAY_DEVICE uint64_t policy_stream() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Cache policy as without one.
CAUSEWAY_DEVICE uint64_t policy_normal() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

CAUSEWAY_DEVICE void prefetch(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// ---- a thread's copies ------------------------------------------------------------------------

// 16 bytes to shared memory, past L1; zeros when not `valid`: then nothing is read, and the source
// may lie anywhere.
CAUSEWAY_DEVICE void copy_async(uint32_t target, const void* source, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
               "r"(valid ? 16 : 0)
               : "memory");
}
CAUSEWAY_DEVICE void copy_async(uint32_t target, const void* source, bool valid, uint64_t policy) {
  asm volatile(
      "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(target),
      "l"(source), "r"(valid ? 16 : 0), "l"(policy)
      : "memory");
}

// The same where `copies`: in one instruction, while a branch around it would take everything that
// makes the addresses with it, instruction by instruction.
CAUSEWAY_DEVICE void copy_async_if(bool copies, uint32_t target, const void* source, bool valid,
                                   uint64_t policy) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %4, 0;\n"
      "@p cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;\n}" ::"r"(
          target),
      "l"(source), "r"(valid ? 16 : 0), "l"(policy), "r"(copies ? 1 : 0)
      : "memory");
}

CAUSEWAY_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most `kOpen` of this thread's groups are still coming.
template <int kOpen>
CAUSEWAY_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

// ---- the copy engine's: bytes -----------------------------------------------------------------

// `bytes` contiguous bytes (a multiple of 16) of global memory → shared memory. One thread.
CAUSEWAY_DEVICE void load_bytes(uint32_t target, const void* source, uint32_t bytes,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

// The same by a policy.
CAUSEWAY_DEVICE void load_bytes(uint32_t target, const void* source, uint32_t bytes,
                                uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4;" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

// The same into every CTA of `mask`, at the same offsets there, and counted at the barriers there.
CAUSEWAY_DEVICE void load_bytes_multicast(uint32_t target, const void* source, uint32_t bytes,
                                          uint32_t barrier, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1], %2, [%3], %4;" ::"r"(target),
      "l"(source), "r"(bytes), "r"(barrier), "h"(mask)
      : "memory");
}

// Shared → global, in a bulk group of the calling thread. One thread.
CAUSEWAY_DEVICE void store_bytes(void* target, uint32_t source, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(target),
               "r"(source), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// ---- the copy engine's: boxes -----------------------------------------------------------------

CAUSEWAY_DEVICE void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Box at (column, row) of a 2-D tensor → shared memory; bytes are counted at `barrier`. One thread.
CAUSEWAY_DEVICE void load_box(uint32_t target, const CUtensorMap* map, int column, int row,
                              uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(target),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

CAUSEWAY_DEVICE void load_box_streamed(uint32_t target, const CUtensorMap* map, int column, int row,
                                       uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(target),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "l"(policy)
      : "memory");
}

// The same into every CTA of `mask`, at the same offsets there, and counted at the barriers there.
CAUSEWAY_DEVICE void load_box_multicast(uint32_t target, const CUtensorMap* map, int column,
                                        int row, uint32_t barrier, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(target),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(mask)
      : "memory");
}

// The box of a tensor of slabs [slab][row][64] at (row, slab).
CAUSEWAY_DEVICE void load_slabs(uint32_t target, const CUtensorMap* map, int row, int slab,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(target),
      "l"(map), "r"(0), "r"(row), "r"(slab), "r"(barrier)
      : "memory");
}
CAUSEWAY_DEVICE void load_slabs_streamed(uint32_t target, const CUtensorMap* map, int row, int slab,
                                         uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(map), "r"(0), "r"(row), "r"(slab), "r"(barrier), "l"(policy)
      : "memory");
}

// The box of a 4-D tensor at (column, 0, 0, group).
CAUSEWAY_DEVICE void load_pair_streamed(uint32_t target, const CUtensorMap* map, int column,
                                        int group, uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(map), "r"(column), "r"(0), "r"(group), "r"(barrier), "l"(policy)
      : "memory");
}

// The box of a 5-D tensor [slab][group][2][8][64] at (group, slab).
CAUSEWAY_DEVICE void load_pair_slabs(uint32_t target, const CUtensorMap* map, int group, int slab,
                                     uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %2, %2, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(map), "r"(0), "r"(group), "r"(slab), "r"(barrier), "l"(policy)
      : "memory");
}

// Shared memory → the box of a 3-D tensor at (column, row, plane), in a bulk group of the calling
// thread.
CAUSEWAY_DEVICE void store_box(const CUtensorMap* map, int column, int row, int plane,
                               uint32_t source) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
          map),
      "r"(column), "r"(row), "r"(plane), "r"(source)
      : "memory");
}

// ---- order ------------------------------------------------------------------------------------

CAUSEWAY_DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// What the calling thread's stores read of shared memory may be overwritten.
CAUSEWAY_DEVICE void store_read_wait() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// The calling thread's stores are complete (visible to it), not only read out of shared memory.
CAUSEWAY_DEVICE void store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Orders what this thread has seen through ordinary accesses before what it asks of the copy
// engine.
CAUSEWAY_DEVICE void proxy_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Orders this thread's writes to shared memory before what the copy engine reads of it.
CAUSEWAY_DEVICE void shared_proxy_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace causeway::kernels::ptx
