#include "device/pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "device/host/host_arena_memory.h"

namespace causeway::device::pieces_test {
namespace {

constexpr Bytes kExtent = kib(64);
constexpr std::int64_t kExtents = 8;

struct PiecesTest : ::testing::Test {
  Arena arena{reserve_host_arena(kExtent * kExtents, kExtent).value(), kExtents, kExtent};
  std::optional<Pieces> pieces{std::in_place, arena};
};

TEST_F(PiecesTest, SmallOnesShareAnExtent) {
  EXPECT_EQ(pieces->bytes(), Bytes(0));
  const Piece a = pieces->take(Bytes(1)).value();
  const Piece b = pieces->take(Bytes(1000)).value();
  EXPECT_EQ(a.bytes(), Pieces::kAlignment);
  EXPECT_EQ(b.bytes(), Bytes(1024));
  EXPECT_EQ(b.data() - a.data(), 256);
  EXPECT_EQ(pieces->bytes(), kExtent);
  EXPECT_EQ(arena.free_extents(), kExtents - 1);
  EXPECT_EQ(pieces->take(Bytes(0)).value().data(), nullptr);
}

TEST_F(PiecesTest, LargeOnesTakeNeighbouringExtentsAndGiveThemBack) {
  const Piece small = pieces->take(Bytes(256)).value();
  {
    const Piece large = pieces->take(kExtent * 3 + Bytes(1)).value();
    EXPECT_EQ(arena.free_extents(), kExtents - 5);
    std::memset(large.data(), 1, to_size(large.bytes()));
    // The rest of its last extent serves other pieces.
    EXPECT_EQ(pieces->take(kExtent - Bytes(256)).value().bytes(), kExtent - Bytes(256));
    EXPECT_EQ(arena.free_extents(), kExtents - 5);
  }
  EXPECT_EQ(pieces->bytes(), kExtent);
  EXPECT_EQ(arena.free_extents(), kExtents - 1);
}

TEST_F(PiecesTest, RefusesWhatTheArenaHasNot) {
  const Piece held = pieces->take(kExtent * 6).value();
  const auto refused = pieces->take(kExtent * 3);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("2 of 8"), std::string::npos) << refused.error().message;
  EXPECT_EQ(pieces->take(Bytes(INT64_MAX)).error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(pieces->take(kExtent * 2).ok());
}

TEST_F(PiecesTest, MovedPiecesAreGivenBackOnce) {
  Piece a = pieces->take(Bytes(512)).value();
  std::byte* const where = a.data();
  Piece b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: what a move leaves
  EXPECT_EQ(b.data(), where);
  b = pieces->take(Bytes(512)).value();
  EXPECT_EQ(pieces->take(Bytes(512)).value().data(), where);
}

using PiecesDeathTest = PiecesTest;

TEST_F(PiecesDeathTest, PiecesMustNotOutliveThem) {
  const Piece held = pieces->take(Bytes(1)).value();
  EXPECT_DEATH(pieces.reset(), "outlive");
}

// Compared with the naive model: each piece has bytes of its own, whatever was taken and given back
// before; free neighbours are merged; no request is refused that fits an empty arena's rest.
TEST_F(PiecesTest, RandomHistoriesKeepEveryPiecesBytes) {
  const std::uint64_t seed = 20'261'121;
  RecordProperty("seed", std::to_string(seed));
  Random random(seed);
  struct Held {
    Piece piece;
    int mark;
  };
  std::vector<Held> held;
  int refused = 0;
  for (int step = 0; step < rounds(20'000); ++step) {
    if (held.empty() || random.below(100) < 52) {
      const Bytes bytes(1 + random.below(random.below(10) == 0 ? 150'000 : 3'000));
      auto taken = pieces->take(bytes);
      if (!taken.ok()) {
        ++refused;
        EXPECT_EQ(taken.error().code, ErrorCode::kResourceExhausted);
      } else {
        ASSERT_GE(taken->bytes(), bytes);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(taken->data()) % 256, 0u);
        const int mark = static_cast<int>(random.below(256));
        std::memset(taken->data(), mark, to_size(taken->bytes()));
        held.push_back({std::move(taken).value(), mark});
        continue;
      }
    }
    if (held.empty()) continue;
    std::swap(held[static_cast<std::size_t>(random.below(std::ssize(held)))], held.back());
    const Held& gone = held.back();
    const auto* const bytes = reinterpret_cast<const unsigned char*>(gone.piece.data());
    for (std::int64_t i = 0; i < gone.piece.bytes().count; ++i) ASSERT_EQ(bytes[i], gone.mark);
    held.pop_back();
  }
  EXPECT_GT(refused, rounds(10)) << "the arena was never full";
  held.clear();
  EXPECT_LE(arena.free_extents(), kExtents);
  EXPECT_EQ(arena.extent_bytes() * (kExtents - arena.free_extents()), pieces->bytes());
  // The first run of extents is whole again.
  const Piece all = pieces->take(pieces->bytes()).value();
  EXPECT_EQ(pieces->bytes(), all.bytes());
}

}  // namespace
}  // namespace causeway::device::pieces_test
