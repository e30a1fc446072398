// Arguments of the kernel for small batches (cuda_small_batch.cu), and where things lie in its
// shared memory.
#pragma once

#include "kernels/attention/cuda_decode.cuh"

namespace causeway::kernels::attention::parts {

constexpr int kSmallBatchWarps = 8;
constexpr int kSmallBatchThreads = kSmallBatchWarps * 32;
// With so many bytes of shared memory a CTA would be alone on its SM.
constexpr int kSmallBatchSharedAlone = 116 * 1024;

struct SmallBatchArgs : DecodeArgs {
  int kv_heads, group, block_tokens;
  unsigned of_block;         // (2^32 - 1) / block_tokens (block_of)
  bool early;                // all but q's rows may be read before the kernel in front has ended
  FusedPrepareArgs prepare;  // as SplitArgs has them
  float scale_log2;
};

// Shared memory of a CTA, in bytes. kEights: query heads of a KV head in eights, rounded up.
template <int kSize, int kEights>
struct SmallBatchPlace {
  static constexpr int kTileBytes = kTile * kSize * 2;  // of K, and of V
  // Tiles of a round: as many as leave the CTA below 98 KiB with what is behind them. Not more than
  // two a warp (SmallBatchRows).
  static constexpr int kTiles = kSize == 64 ? 16 : kEights == 1 ? 10 : 9;
  static constexpr int kHeads = 8 * kEights;
  static constexpr int kWeightBytes = kTile * 8 * 2;  // of a tile and eight heads: [token][head]

  static constexpr int kKeys = 0;
  static constexpr int kValues = kKeys + kTiles * kTileBytes;
  static constexpr int kQueries = kValues + kTiles * kTileBytes;  // as a tile's rows
  static constexpr int kOwn = kQueries + kHeads * kSize * 2;      // [k, v][size]
  static constexpr int kWeights = kOwn + 2 * kSize * 2;           // [tile][eight] of bf16
  static constexpr int kLargest = kWeights + kTiles * kEights * kWeightBytes;  // f32 [tile][head]
  // What CTAs of the cluster send, 16 bytes each: [eight][CTA][pair of heads] and [eight][CTA][of
  // this CTA's share].
  static constexpr int kStates = kLargest + kTiles * kHeads * 4;
  static constexpr int kPieces = kStates + kEights * kSmallBatchClusterMax * 4 * 16;
  static constexpr int kBarrier = kPieces + kEights * 2 * kSize * 16;
  static constexpr int kBytes = kBarrier + 16;
  static_assert(kTiles <= 2 * kSmallBatchWarps && kBytes <= 98 * 1024);
};

}  // namespace causeway::kernels::attention::parts
