// What a layout with a tensor a layer, as vLLM's, moves for a block: K and V of its tokens lie
// apart in every layer, in HBM as in host memory, so that a block is 2 × layers copies.
//
//   memory │ layer 0: K of block 0 │ K of block 1 │ … │ V of block 0 │ … │ layer 1: K of block 0 …
//
// Beside it stands the block of a frame, which is one copy (kv/block_layout.h). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"
#include "kv/block_layout.h"
#include "transfer/transfer.h"

namespace causeway::bench {

struct NamedKvShape {
  std::string name;
  kv::KvShape shape;
};
// Of the models with which SuperInfer was evaluated, as published, in BF16.
std::vector<NamedKvShape> usual_kv_shapes();

inline constexpr std::int64_t kLayeredTokens = 16;  // of a block, as vLLM's

struct LayeredLayout {
  Bytes segment;            // K, or V, of one layer of one block
  std::int64_t parts = 0;   // segments of a block: K and V of each layer
  std::int64_t blocks = 0;  // in the memory

  Bytes block_bytes() const { return segment * parts; }
  Bytes bytes() const { return block_bytes() * blocks; }
  Bytes offset_of(std::int64_t block, std::int64_t part) const {
    return segment * (part * blocks + block);
  }
};

// As many blocks as the memory holds, though no more than a million segments. kInvalidArgument when
// a dimension is not positive or the memory does not hold one block.
Result<LayeredLayout> plan_layers(const kv::KvShape& shape, Bytes memory);

// The first bytes of memory with such a layout on both sides.
struct LayeredBases {
  device::MemoryAddress host;
  device::MemoryAddress device;
};
// One copy a segment, in vLLM's order: layer by layer, in it block by block. Block b in host memory
// is block in_device[b] on the device.
std::vector<device::Copy> layered_copies(const LayeredLayout& layout, const LayeredBases& bases,
                                         transfer::Direction direction,
                                         std::span<const std::int64_t> in_device);

// 0 … count − 1 in random order.
std::vector<std::int64_t> shuffled(std::int64_t count, Random& random);

// What memory there is; none of the device's: its memory is the host's.
struct KvRoom {
  Bytes host;
  std::optional<Bytes> device;
};
// How many blocks move each way, so that both ways together move `asked`, or what there is room
// for: the device holds the blocks once, the host twice, for rotation and for plain copies. At
// least one. kInvalidArgument, kResourceExhausted.
Result<std::int64_t> blocks_each_way(Bytes asked, Bytes block, const KvRoom& room);

}  // namespace causeway::bench
