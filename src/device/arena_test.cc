#include "device/arena.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/random.h"
#include "device/host/host_arena_memory.h"
#include "device/memory_headroom.h"

namespace causeway::device {
namespace {

constexpr Bytes kExtent = kib(64);

// Only counts what is mapped; fails when told.
class CountingMemory final : public ArenaMemory {
 public:
  CountingMemory(Bytes& mapped, const bool& fail) : mapped_(mapped), fail_(fail) {}
  std::byte* base() const override { return nullptr; }
  Status map(Bytes, Bytes bytes) override {
    if (fail_) return exhausted("no memory");
    mapped_ += bytes;
    return {};
  }
  void unmap(Bytes, Bytes bytes) override { mapped_ -= bytes; }

 private:
  Bytes& mapped_;
  const bool& fail_;
};

struct ArenaTest : testing::Test {
  Bytes mapped;
  bool fail = false;
  Arena arena{std::make_unique<CountingMemory>(mapped, fail), 8, kExtent};
};

TEST_F(ArenaTest, EndsGrowTowardsEachOther) {
  const Extents kv = arena.allocate(2, Arena::End::kLow).value();
  const Extents weights = arena.allocate(3, Arena::End::kHigh).value();
  EXPECT_EQ(kv.first(), ExtentId(0));
  EXPECT_EQ(weights.first(), ExtentId(5));
  EXPECT_EQ(weights.offset(), kExtent * 5);
  EXPECT_EQ(arena.free_extents(), 3);
  EXPECT_EQ(mapped, kExtent * 5);
  EXPECT_TRUE(arena.allocated(Bytes(0), kExtent * 2));
  EXPECT_FALSE(arena.allocated(Bytes(0), kExtent * 2 + Bytes(1)));
  EXPECT_TRUE(arena.allocated(kExtent * 5, kExtent * 3));
  EXPECT_FALSE(arena.allocated(kExtent * 5, kExtent * 4));
  EXPECT_FALSE(arena.allocated(Bytes(-1), Bytes(1)));
  EXPECT_FALSE(arena.allocated(Bytes(INT64_MAX), Bytes(INT64_MAX)));
}

TEST_F(ArenaTest, SaysHowManyExtentsHoldSomeBytes) {
  EXPECT_EQ(arena.extents_for(Bytes(0)), 1);
  EXPECT_EQ(arena.extents_for(Bytes(1)), 1);
  EXPECT_EQ(arena.extents_for(kExtent), 1);
  EXPECT_EQ(arena.extents_for(kExtent + Bytes(1)), 2);
  EXPECT_EQ(arena.extents_for(Bytes(INT64_MAX)), (INT64_MAX >> 16) + 1);
}

TEST_F(ArenaTest, RefusesWithNumbersAndChangesNothing) {
  const Extents some = arena.allocate(5, Arena::End::kLow).value();
  const auto refused = arena.allocate(4, Arena::End::kHigh);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("3 of 8"), std::string::npos);
  fail = true;
  EXPECT_FALSE(arena.allocate(1, Arena::End::kLow).ok());
  EXPECT_EQ(arena.free_extents(), 3);
}

TEST_F(ArenaTest, HandlesMoveAndGiveBack) {
  Extents a = arena.allocate(1, Arena::End::kLow).value();
  Extents b = std::move(a);
  EXPECT_EQ(a.count(), 0);
  EXPECT_EQ(a.bytes(), Bytes(0));
  EXPECT_EQ(arena.free_extents(), 7);
  b = arena.allocate(2, Arena::End::kLow).value();
  EXPECT_EQ(arena.free_extents(), 6);
  b = Extents();
  EXPECT_EQ(arena.free_extents(), 8);
  EXPECT_EQ(mapped, Bytes(0));
}

TEST_F(ArenaTest, RandomHistoriesNeverOverlap) {
  Random random(5);
  std::vector<Extents> held;
  for (int i = 0; i < 20'000; ++i) {
    if (!held.empty() && random.chance(0.5)) {
      const auto victim = random.below(std::ssize(held));
      held[static_cast<std::size_t>(victim)] = std::move(held.back());
      held.pop_back();
    } else {
      const auto end = random.chance(0.5) ? Arena::End::kLow : Arena::End::kHigh;
      if (auto extents = arena.allocate(random.between(1, 4), end); extents.ok()) {
        held.push_back(std::move(extents).value());
      }
    }
    std::map<std::int64_t, int> owners;
    for (const Extents& extents : held) {
      for (std::int64_t e = 0; e < extents.count(); ++e) ++owners[extents.first().value + e];
    }
    for (const auto& [extent, count] : owners) {
      ASSERT_EQ(count, 1);
      ASSERT_LT(extent, 8);
    }
    ASSERT_EQ(arena.free_extents(), 8 - std::ssize(owners));
    ASSERT_EQ(mapped, kExtent * std::ssize(owners));
  }
}

TEST(ArenaDeath, ExtentsMustNotOutliveIt) {
  EXPECT_DEATH(
      {
        Extents extents;
        Bytes mapped;
        const bool fail = false;
        Arena arena(std::make_unique<CountingMemory>(mapped, fail), 1, kExtent);
        extents = arena.allocate(1, Arena::End::kLow).value();
      },
      "outlive");
}

TEST(HostArenaMemory, IsZeroedAgainWhenHandedOutAgain) {
  Arena arena(reserve_host_arena(kExtent * 4).value(), 4, kExtent);
  {
    const Extents extents = arena.allocate(2, Arena::End::kLow).value();
    EXPECT_EQ(extents.data(), arena.base());
    extents.data()[100] = std::byte{9};
  }
  const Extents extents = arena.allocate(3, Arena::End::kLow).value();
  EXPECT_EQ(extents.data()[100], std::byte{0});
  extents.data()[to_size(extents.bytes()) - 1] = std::byte{1};
}

TEST(HostArenaMemoryDeath, FreeExtentsFault) {
  Arena arena(reserve_host_arena(kExtent * 2).value(), 2, kExtent);
  const Extents extents = arena.allocate(1, Arena::End::kLow).value();
  EXPECT_DEATH(const_cast<volatile std::byte*>(arena.base())[kExtent.count] = std::byte{1}, "");
}

TEST(HostArenaMemory, RefusesWhatTheMachineHasNot) {
  EXPECT_EQ(reserve_host_arena(Bytes(-1)).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(reserve_host_arena(Bytes(INT64_MAX)).error().code, ErrorCode::kInvalidArgument);
  const Bytes huge = round_up(read_memory_headroom()->bytes, gib(1)) + gib(1);
  Arena arena(reserve_host_arena(huge).value(), 1, huge);  // addresses cost nothing …
  EXPECT_EQ(arena.allocate(1, Arena::End::kLow).error().code,
            ErrorCode::kResourceExhausted);  // … memory does
}

}  // namespace
}  // namespace causeway::device
