#include "bench/kv_layers.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"

namespace causeway::bench {
namespace {

// More say nothing new about a loop of copies, and their list takes memory.
constexpr std::int64_t kSegmentsMax = 1 << 20;

device::MemoryAddress plus(device::MemoryAddress address, Bytes bytes) {
  address.offset += bytes;
  return address;
}

// Some of it is left to others.
Bytes most_of(Bytes bytes) { return bytes / 10 * 9; }

}  // namespace

std::vector<NamedKvShape> usual_kv_shapes() {
  return {{"Llama-3-8B", {.layers = 32, .kv_heads = 8, .head_dim = 128}},
          {"Qwen3-32B", {.layers = 64, .kv_heads = 8, .head_dim = 128}},
          {"Llama-3-70B", {.layers = 80, .kv_heads = 8, .head_dim = 128}}};
}

Result<LayeredLayout> plan_layers(const kv::KvShape& shape, Bytes memory) {
  // The strides of a token are the same in both layouts.
  CAUSEWAY_ASSIGN(const kv::BlockLayout tokens, kv::plan_block(shape, memory));
  LayeredLayout layout{.segment = tokens.token_stride * kLayeredTokens, .parts = 2 * shape.layers};
  if (layout.block_bytes() > memory) {
    return invalid_argument("a block of " + std::to_string(kLayeredTokens) + " tokens takes " +
                            std::to_string(layout.block_bytes().count) +
                            " bytes in a layout by layers, and " + std::to_string(memory.count) +
                            " move each way: raise --bytes");
  }
  layout.blocks = std::min(memory / layout.block_bytes(),
                           std::max<std::int64_t>(1, kSegmentsMax / layout.parts));
  return layout;
}

std::vector<device::Copy> layered_copies(const LayeredLayout& layout, const LayeredBases& bases,
                                         transfer::Direction direction,
                                         std::span<const std::int64_t> in_device) {
  CAUSEWAY_CHECK(std::ssize(in_device) == layout.blocks, "each block has a place on the device");
  std::vector<device::Copy> copies;
  copies.reserve(static_cast<std::size_t>(layout.parts * layout.blocks));
  for (std::int64_t part = 0; part < layout.parts; ++part) {
    for (std::int64_t block = 0; block < layout.blocks; ++block) {
      const auto host = plus(bases.host, layout.offset_of(block, part));
      const auto there = in_device[static_cast<std::size_t>(block)];
      const auto device = plus(bases.device, layout.offset_of(there, part));
      const bool in = direction == transfer::Direction::kIn;
      copies.push_back({in ? device : host, in ? host : device, layout.segment});
    }
  }
  return copies;
}

std::vector<std::int64_t> shuffled(std::int64_t count, Random& random) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), std::int64_t{0});
  for (std::size_t i = places.size(); i > 1; --i) {
    const auto other = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)));
    std::swap(places[i - 1], places[other]);
  }
  return places;
}

Result<std::int64_t> blocks_each_way(Bytes asked, Bytes block, const KvRoom& room) {
  CAUSEWAY_CHECK(block > Bytes(0), "blocks have a size");
  if (asked < block * 2) {
    return invalid_argument("--bytes must be at least " + std::to_string((block * 2).count) +
                            ": a block of " + std::to_string(block.count) + " bytes each way");
  }
  // In a device of the host's memory the frames are a third copy.
  Bytes most = std::min(asked, most_of(room.host) / (room.device ? 2 : 3));
  if (room.device) most = std::min(most, most_of(*room.device));
  const std::int64_t blocks = most / (block * 2);
  if (blocks > 0) return blocks;
  return exhausted("no room for a block of " + std::to_string(block.count) +
                   " bytes each way: host memory has " + std::to_string(room.host.count) +
                   " bytes left" +
                   (room.device ? ", the GPU " + std::to_string(room.device->count) : ""));
}

}  // namespace causeway::bench
