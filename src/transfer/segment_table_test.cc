#include "transfer/segment_table.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace causeway::transfer::segment_table_test {
namespace {

using device::DeviceId;
using device::MemoryAddress;

Segment segment(std::int64_t host, std::int64_t device, std::int64_t bytes) {
  return {MemoryAddress::in_host({RegionId(0), Bytes(host)}),
          MemoryAddress::in_arena(DeviceId(0), Bytes(device)), Bytes(bytes)};
}

TEST(SegmentTable, NeighboursBecomeOneAndEmptyOnesGo) {
  const auto table =
      SegmentTable::make({segment(0, 100, 10), segment(10, 110, 0), segment(10, 110, 5),
                          segment(15, 120, 7), segment(30, 127, 1)})
          .value();
  EXPECT_EQ(table.size(), 3);
  EXPECT_EQ(table.total(), Bytes(23));
}

TEST(SegmentTable, SizesThatNothingHasAreRefused) {
  EXPECT_FALSE(SegmentTable::make({segment(0, 0, -1)}).ok());
  const std::int64_t huge = std::int64_t{1} << 62;
  EXPECT_FALSE(SegmentTable::make({segment(0, 0, huge), segment(5, 9, huge)}).ok());
  EXPECT_EQ(SegmentTable::make({}).value().total(), Bytes(0));
}

// However chunks are cut, their parts are the segments' bytes, each once and in order.
TEST(SegmentTable, ChunksCoverEveryByteOnce) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<Segment> segments;
    std::vector<std::pair<std::int64_t, std::int64_t>> bytes;  // host, device place of each
    std::int64_t host = 0, device = 0;
    for (std::int64_t s = random.between(1, 20); s > 0; --s) {
      host += random.below(3);
      device += random.below(3);
      const std::int64_t size = random.below(12);
      segments.push_back(segment(host, device, size));
      for (std::int64_t i = 0; i < size; ++i) bytes.emplace_back(host++, device++);
    }
    const auto table = SegmentTable::make(segments).value();
    ASSERT_EQ(table.total().count, std::ssize(bytes));
    std::size_t seen = 0;
    for (Bytes at; at < table.total();) {
      const std::int64_t most = random.between(1, 4);
      const Bytes wanted(random.between(1, 15));
      const Bytes end = table.cut(at, wanted, most);
      ASSERT_GT(end, at);
      ASSERT_LE(end - at, wanted);
      const auto parts = table.parts({at, end});
      ASSERT_LE(std::ssize(parts), most);
      Bytes within;
      for (const auto& part : parts) {
        ASSERT_EQ(part.at, within);
        for (std::int64_t i = 0; i < part.bytes.count; ++i, ++seen) {
          ASSERT_EQ(part.host.offset.count + i, bytes[seen].first);
          ASSERT_EQ(part.device.offset.count + i, bytes[seen].second);
        }
        within += part.bytes;
      }
      ASSERT_EQ(within, end - at);
      at = end;
    }
    ASSERT_EQ(seen, bytes.size());
  }
}

}  // namespace
}  // namespace causeway::transfer::segment_table_test
