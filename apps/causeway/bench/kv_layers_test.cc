#include "bench/kv_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/testing/must.h"

namespace causeway::bench::kv_layers_test {
namespace {

using device::MemoryAddress;
using ::testing::HasSubstr;
using transfer::Direction;

constexpr kv::KvShape kSmall{.layers = 3, .kv_heads = 2, .head_dim = 8};  // 32 bytes of K a token
constexpr Bytes kBlock = Bytes(32 * kLayeredTokens * 2 * 3);

TEST(LayeredLayout, HasKAndVOfEachLayerApart) {
  const LayeredLayout layout = must(plan_layers(kSmall, kBlock * 5 + Bytes(100)));
  EXPECT_EQ(layout.segment, Bytes(32 * kLayeredTokens));
  EXPECT_EQ(layout.parts, 6);
  EXPECT_EQ(layout.blocks, 5);
  EXPECT_EQ(layout.bytes(), kBlock * 5);
  EXPECT_EQ(layout.offset_of(0, 0), Bytes(0));
  EXPECT_EQ(layout.offset_of(1, 0), layout.segment);
  EXPECT_EQ(layout.offset_of(0, 1), layout.segment * 5);
  EXPECT_EQ(layout.offset_of(4, 5) + layout.segment, layout.bytes());
}

TEST(LayeredLayout, OfTheUsualModelsHasSegmentsOf32Kib) {
  std::vector<std::int64_t> parts;
  for (const NamedKvShape& named : usual_kv_shapes()) {
    const LayeredLayout layout = must(plan_layers(named.shape, gib(1)), named.name.c_str());
    EXPECT_EQ(layout.segment, kib(32)) << named.name;
    parts.push_back(layout.parts);
  }
  EXPECT_EQ(parts, (std::vector<std::int64_t>{64, 128, 160}));
}

TEST(LayeredLayout, NeedsRoomForABlock) {
  EXPECT_EQ(must(plan_layers(kSmall, kBlock)).blocks, 1);
  const auto less = plan_layers(kSmall, kBlock - Bytes(1));
  ASSERT_FALSE(less.ok());
  EXPECT_THAT(less.error().message, HasSubstr("--bytes"));
  EXPECT_FALSE(plan_layers({.layers = 0, .kv_heads = 1, .head_dim = 1}, gib(1)).ok());
  EXPECT_LE(must(plan_layers(kSmall, gib(16))).blocks, (1 << 20) / 6);
}

TEST(LayeredLayout, CopiesReachEverySegmentOnce) {
  const LayeredLayout layout = must(plan_layers(kSmall, kBlock * 3));
  const LayeredBases bases{.host = MemoryAddress::in_host({RegionId(1), Bytes(1000)}),
                           .device = MemoryAddress::in_arena(device::DeviceId(0), Bytes(5000))};
  const std::vector<std::int64_t> in_device = {2, 0, 1};
  const auto in = layered_copies(layout, bases, Direction::kIn, in_device);
  ASSERT_EQ(std::ssize(in), layout.parts * layout.blocks);
  std::set<Bytes> sources, targets;
  for (const device::Copy& copy : in) {
    EXPECT_EQ(copy.bytes, layout.segment);
    EXPECT_FALSE(copy.source.device.valid());
    EXPECT_EQ(copy.target.device, device::DeviceId(0));
    sources.insert(copy.source.offset - Bytes(1000));
    targets.insert(copy.target.offset - Bytes(5000));
  }
  EXPECT_EQ(std::ssize(sources), std::ssize(in));
  EXPECT_EQ(sources, targets);
  EXPECT_EQ(*sources.rbegin() + layout.segment, layout.bytes());
  // K of layer 0 of host blocks 0, 1, 2 first; the same part of the block elsewhere.
  EXPECT_EQ(in[1].source.offset, Bytes(1000) + layout.offset_of(1, 0));
  EXPECT_EQ(in[0].target.offset, Bytes(5000) + layout.offset_of(2, 0));
  const auto out = layered_copies(layout, bases, Direction::kOut, in_device);
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(out[i].source.offset, in[i].target.offset);
    EXPECT_EQ(out[i].target.offset, in[i].source.offset);
  }
}

TEST(Shuffled, HasEachPlaceOnce) {
  Random random(3);
  const auto places = shuffled(100, random);
  EXPECT_EQ(std::set<std::int64_t>(places.begin(), places.end()).size(), 100u);
  EXPECT_EQ(*std::max_element(places.begin(), places.end()), 99);
  EXPECT_FALSE(std::is_sorted(places.begin(), places.end()));
  EXPECT_TRUE(shuffled(0, random).empty());
}

TEST(BlocksEachWay, AreHalfOfWhatIsAskedUnlessMemoryLacks) {
  const KvRoom large{.host = gib(100), .device = gib(80)};
  EXPECT_EQ(must(blocks_each_way(gib(16), mib(4), large)), 2048);
  EXPECT_EQ(must(blocks_each_way(mib(8), mib(4), large)), 1);
  // Of 10 GiB a tenth is left to others.
  EXPECT_EQ(must(blocks_each_way(gib(16), gib(1), {.host = gib(100), .device = gib(10)})), 4);
  EXPECT_EQ(must(blocks_each_way(gib(16), gib(1), {.host = gib(20), .device = gib(80)})), 4);
  EXPECT_EQ(must(blocks_each_way(gib(16), gib(1), {.host = gib(20), .device = {}})), 3);
  const auto few = blocks_each_way(mib(7), mib(4), large);
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(few.error().message, HasSubstr("8388608"));
  const auto full = blocks_each_way(gib(1), mib(4), {.host = gib(100), .device = mib(8)});
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace causeway::bench::kv_layers_test
