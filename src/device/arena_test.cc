#include "device/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/testing/rounds.h"
#include "device/host/host_arena_memory.h"
#include "device/memory_headroom.h"

namespace causeway::device::arena_test {
namespace {

constexpr Bytes kExtent = kib(64);

// Records which extents are mapped; fails when told to, or when more than `most` would be mapped.
struct Mapped {
  std::set<std::int64_t> extents;
  bool fail = false;
  std::int64_t most = 1 << 20;
  int trims = 0;
  std::vector<std::int64_t> counts;  // of extents, by call of map()
  Bytes bytes() const { return kExtent * std::ssize(extents); }
};

class CountingMemory final : public ArenaMemory {
 public:
  explicit CountingMemory(Mapped& mapped) : mapped_(mapped) {}
  std::byte* base() const override { return nullptr; }
  Status map(Bytes offset, Bytes bytes, Fill) override {
    const std::int64_t count = bytes / kExtent;
    if (mapped_.fail || std::ssize(mapped_.extents) + count > mapped_.most) {
      return exhausted("no memory");
    }
    mapped_.counts.push_back(count);
    for (std::int64_t e = 0; e < count; ++e) {
      EXPECT_TRUE(mapped_.extents.insert(offset / kExtent + e).second) << "mapped twice";
    }
    return {};
  }
  void unmap(Bytes offset, Bytes bytes) override {
    for (std::int64_t e = 0; e < bytes / kExtent; ++e) {
      EXPECT_EQ(mapped_.extents.erase(offset / kExtent + e), 1u) << "was not mapped";
    }
  }
  void trim() override { ++mapped_.trims; }
  Status alias(Bytes offset, Bytes bytes, Bytes source) override {
    for (std::int64_t e = 0; e < bytes / kExtent; ++e) {
      EXPECT_TRUE(mapped_.extents.contains(source / kExtent + e)) << "nothing to show";
    }
    return map(offset, bytes, Fill::kAsIs);
  }
  Bytes taken() const override { return mapped_.bytes(); }

 private:
  Mapped& mapped_;
};

struct ArenaTest : ::testing::Test {
  Mapped mapped;
  Arena arena{std::make_unique<CountingMemory>(mapped), 8, kExtent};
};

TEST_F(ArenaTest, EndsGrowTowardsEachOther) {
  const Extents kv = arena.allocate(2, Arena::End::kLow).value();
  const Extents weights = arena.allocate(3, Arena::End::kHigh).value();
  EXPECT_EQ(kv.first(), ExtentId(0));
  EXPECT_EQ(weights.first(), ExtentId(5));
  EXPECT_EQ(weights.offset(), kExtent * 5);
  EXPECT_EQ(arena.free_extents(), 3);
  EXPECT_EQ(mapped.bytes(), kExtent * 5);
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
  mapped.fail = true;
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
  EXPECT_EQ(mapped.bytes(), Bytes(0));
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
    ASSERT_EQ(mapped.bytes(), kExtent * std::ssize(owners));
  }
}

TEST(ArenaDeath, ExtentsMustNotOutliveIt) {
  EXPECT_DEATH(
      {
        Extents extents;
        Mapped mapped;
        Arena arena(std::make_unique<CountingMemory>(mapped), 1, kExtent);
        extents = arena.allocate(1, Arena::End::kLow).value();
      },
      "outlive");
}

TEST_F(ArenaTest, RangesAreAddressesUntilTheyAreCommitted) {
  AddressRange range = arena.reserve(5).value();
  EXPECT_EQ(range.offset(), kExtent * 3);
  EXPECT_EQ(range.bytes(), kExtent * 5);
  EXPECT_EQ(arena.free_extents(), 3);
  EXPECT_EQ(mapped.bytes(), Bytes(0));
  EXPECT_FALSE(arena.allocated(kExtent * 3, Bytes(1)));
  ASSERT_TRUE(range.commit(1, 3).ok());
  EXPECT_TRUE(range.committed(1, 3));
  EXPECT_FALSE(range.committed(0, 2));
  EXPECT_TRUE(arena.allocated(kExtent * 4, kExtent * 3));
  EXPECT_FALSE(arena.allocated(kExtent * 4, kExtent * 3 + Bytes(1)));
  range.decommit(2, 1);
  EXPECT_EQ(mapped.extents, (std::set<std::int64_t>{4, 6}));
  EXPECT_FALSE(arena.allocated(kExtent * 5, Bytes(1)));
  EXPECT_FALSE(arena.reserve(4).ok());
  EXPECT_EQ(arena.allocate(3, Arena::End::kHigh).value().first(), ExtentId(0));
  AddressRange moved = std::move(range);
  EXPECT_EQ(range.extents(), 0);
  EXPECT_EQ(range.bytes(), Bytes(0));
  EXPECT_TRUE(moved.committed(3, 1));
  moved = AddressRange();
  EXPECT_EQ(mapped.bytes(), Bytes(0));
  EXPECT_EQ(arena.free_extents(), 8);
}

TEST_F(ArenaTest, AFailedCommitLeavesNothing) {
  AddressRange range = arena.reserve(6).value();
  ASSERT_TRUE(range.commit(2, 1).ok());
  mapped.most = 3;
  const Status refused = range.commit(3, 3);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused.error().message, "memory for 3 extents, 0 MiB in all: no memory");
  EXPECT_EQ(mapped.bytes(), kExtent);
  EXPECT_FALSE(range.committed(3, 1));
  EXPECT_EQ(mapped.trims, 1);
  EXPECT_TRUE(range.commit(3, 2).ok());
}

TEST_F(ArenaTest, AliasesAreCommittedUntilTheyAreDecommitted) {
  AddressRange range = arena.reserve(6).value();
  ASSERT_TRUE(range.commit(4, 2).ok());
  ASSERT_TRUE(range.alias(0, 4, 2).ok());
  ASSERT_TRUE(range.alias(2, 4, 1).ok());
  EXPECT_TRUE(range.committed(0, 3));
  EXPECT_FALSE(range.committed(3, 1));
  EXPECT_DEATH((void)range.alias(0, 4, 1).ok(), "committed twice");
  EXPECT_DEATH((void)range.alias(3, 3, 1).ok(), "without memory");
  mapped.fail = true;
  EXPECT_EQ(range.alias(3, 4, 1).error().code, ErrorCode::kResourceExhausted);
  EXPECT_FALSE(range.committed(3, 1));
  range.decommit(0, 3);
  EXPECT_TRUE(range.committed(4, 2));
}

TEST_F(ArenaTest, MisuseOfARangeIsABug) {
  AddressRange range = arena.reserve(4).value();
  ASSERT_TRUE(range.commit(1, 1).ok());
  EXPECT_DEATH((void)range.commit(0, 2).ok(), "committed twice");
  EXPECT_DEATH(range.decommit(1, 2), "no memory");
  EXPECT_DEATH((void)range.commit(3, 2).ok(), "out of their range");
  EXPECT_DEATH((void)range.committed(-1, 1), "out of their range");
  EXPECT_DEATH((void)range.commit(1, INT64_MAX).ok(), "out of their range");
}

// 87 models of 16 GB: memory goes from one to the next, a few extents a batch.
TEST(ArenaRanges, HoldACatalogue) {
  Mapped mapped;
  Arena arena(std::make_unique<CountingMemory>(mapped), 65'536, kExtent);
  std::vector<AddressRange> models;
  for (int m = 0; m < 87; ++m) models.push_back(arena.reserve(500).value());
  EXPECT_EQ(arena.free_extents(), 65'536 - 87 * 500);
  mapped.most = 1200;
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (m >= 2) models[m - 2].decommit(0, 500);
    ASSERT_TRUE(models[m].commit(0, 500).ok());
    const Extents kv = arena.allocate(1, Arena::End::kLow).value();
    EXPECT_EQ(kv.first(), ExtentId(0));
  }
  EXPECT_LE(*std::max_element(mapped.counts.begin(), mapped.counts.end()), 16);
  EXPECT_EQ(models[85].commit(0, 0).ok(), true);
  // In the middle, after many batches; the error names all that was asked for.
  EXPECT_EQ(models[3].commit(0, 300).error().message,
            "memory for 300 extents, 18 MiB in all: no memory");
  EXPECT_EQ(std::ssize(mapped.extents), 1000);
  models.clear();
  EXPECT_EQ(arena.free_extents(), 65'536);
  EXPECT_TRUE(mapped.extents.empty());
}

// Allocations, ranges and commits in any order, against a list of what each extent is.
class ArenaHistory {
 public:
  static constexpr std::int64_t kCount = 64;
  static constexpr std::int64_t kMost = 40;  // extents with memory

  explicit ArenaHistory(std::uint64_t seed) : random_(seed) { mapped_.most = kMost; }

  void step() {
    const double what = random_.uniform();
    if (what < 0.2) {
      allocate();
    } else if (what < 0.35) {
      reserve();
    } else if (what < 0.65) {
      commit();
    } else if (what < 0.85) {
      decommit();
    } else {
      drop();
    }
  }
  void check() const {
    const auto is = [&](std::int64_t e, What what) { return extents_[to_index(e)] == what; };
    std::int64_t free = 0;
    for (std::int64_t e = 0; e < kCount; ++e) {
      free += is(e, What::kFree) ? 1 : 0;
      ASSERT_EQ(arena_.allocated(kExtent * e, kExtent), is(e, What::kBacked));
      ASSERT_EQ(mapped_.extents.contains(e), is(e, What::kBacked));
    }
    ASSERT_EQ(arena_.free_extents(), free);
  }
  int refused() const { return refused_; }

 private:
  enum class What { kFree, kReserved, kBacked };
  static std::size_t to_index(std::int64_t extent) { return static_cast<std::size_t>(extent); }

  // The nearest free run from an end, or -1.
  std::int64_t find(std::int64_t count, Arena::End end) const {
    for (std::int64_t i = 0; i + count <= kCount; ++i) {
      const std::int64_t first = end == Arena::End::kLow ? i : kCount - count - i;
      const auto begin = extents_.begin() + first;
      if (std::all_of(begin, begin + count, [](What w) { return w == What::kFree; })) return first;
    }
    return -1;
  }
  void set(std::int64_t first, std::int64_t count, What what) {
    std::fill_n(extents_.begin() + first, count, what);
  }
  std::int64_t backed() const {
    return std::count(extents_.begin(), extents_.end(), What::kBacked);
  }

  void allocate() {
    const auto end = random_.chance(0.5) ? Arena::End::kLow : Arena::End::kHigh;
    const std::int64_t count = random_.between(1, 6);
    const std::int64_t first = find(count, end);
    auto made = arena_.allocate(count, end);
    ASSERT_EQ(made.ok(), first >= 0 && backed() + count <= kMost);
    if (!made.ok()) return refuse(made.error());
    ASSERT_EQ(made->first(), ExtentId(first));
    set(first, count, What::kBacked);
    held_.push_back(std::move(made).value());
  }
  void reserve() {
    const std::int64_t count = random_.between(1, 20);
    const std::int64_t first = find(count, Arena::End::kHigh);
    auto made = arena_.reserve(count);
    ASSERT_EQ(made.ok(), first >= 0);
    if (!made.ok()) return refuse(made.error());
    ASSERT_EQ(made->offset(), kExtent * first);
    set(first, count, What::kReserved);
    ranges_.push_back(std::move(made).value());
  }
  // A run of one kind within some range; none: count 0.
  struct Run {
    AddressRange* range = nullptr;
    std::int64_t at = 0;  // in the arena
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  Run run_of(What what) {
    if (ranges_.empty()) return {};
    AddressRange& range = ranges_[to_index(random_.below(std::ssize(ranges_)))];
    Run run{&range, 0, random_.below(range.extents()), 0};
    run.at = range.offset() / kExtent + run.first;
    const std::int64_t most = random_.between(1, range.extents() - run.first);
    while (run.count < most && extents_[to_index(run.at + run.count)] == what) ++run.count;
    return run;
  }
  void commit() {
    const Run run = run_of(What::kReserved);
    if (run.count == 0) return;
    const Status status = run.range->commit(run.first, run.count);
    ASSERT_EQ(status.ok(), backed() + run.count <= kMost);
    if (!status.ok()) return refuse(status.error());
    set(run.at, run.count, What::kBacked);
  }
  void decommit() {
    const Run run = run_of(What::kBacked);
    if (run.count == 0) return;
    run.range->decommit(run.first, run.count);
    set(run.at, run.count, What::kReserved);
  }
  void drop() {
    if (random_.chance(0.5)) {
      drop_one(held_);
    } else {
      drop_one(ranges_);
    }
  }
  template <typename T>
  void drop_one(std::vector<T>& all) {
    if (all.empty()) return;
    std::swap(all[to_index(random_.below(std::ssize(all)))], all.back());
    set(all.back().offset() / kExtent, all.back().bytes() / kExtent, What::kFree);
    all.pop_back();
  }
  void refuse(const Error& error) {
    ++refused_;
    ASSERT_EQ(error.code, ErrorCode::kResourceExhausted);
  }

  Random random_;
  Mapped mapped_;
  Arena arena_{std::make_unique<CountingMemory>(mapped_), kCount, kExtent};
  std::vector<What> extents_ = std::vector<What>(kCount, What::kFree);
  std::vector<Extents> held_;
  std::vector<AddressRange> ranges_;
  int refused_ = 0;
};

TEST(ArenaRanges, RandomHistoriesAgreeWithAList) {
  for (std::uint64_t seed = 1; seed <= rounds(10u); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ArenaHistory history(seed);
    for (int i = 0; i < 3000; ++i) {
      history.step();
      history.check();
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(history.refused(), 50);
  }
}

// Each thread with a range or allocations of its own; allocated() is asked meanwhile.
TEST(ArenaRanges, ThreadsMapAtOnce) {
  Arena arena(reserve_host_arena(kExtent * 256, kExtent).value(), 256, kExtent);
  std::atomic<bool> stop{false};
  std::thread asker([&] {
    while (!stop.load()) {
      EXPECT_FALSE(arena.allocated(Bytes(0), kExtent * 256));
      EXPECT_LE(arena.free_extents(), 256);
    }
  });
  std::vector<std::thread> workers;
  for (int w = 0; w < 3; ++w) {
    workers.emplace_back([&, w] {
      Random random(static_cast<std::uint64_t>(w));
      AddressRange range = arena.reserve(40).value();
      for (int round = 0; round < rounds(40); ++round) {
        const std::int64_t first = random.below(20);
        ASSERT_TRUE(range.commit(first, 20).ok());
        const auto mark = static_cast<std::byte>(random.between(1, 255));
        std::fill_n(range.data() + (kExtent * first).count, (kExtent * 20).count, mark);
        const Extents extents = arena.allocate(2, Arena::End::kLow).value();
        EXPECT_EQ(extents.data()[0], std::byte{0});
        extents.data()[0] = mark;
        EXPECT_EQ(range.data()[(kExtent * (first + 20)).count - 1], mark);
        range.decommit(first, 20);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  stop.store(true);
  asker.join();
  EXPECT_EQ(arena.free_extents(), 256);
}

TEST(HostArenaMemory, IsZeroedAgainWhenHandedOutAgain) {
  Arena arena(reserve_host_arena(kExtent * 4, kExtent).value(), 4, kExtent);
  {
    const Extents extents = arena.allocate(2, Arena::End::kLow).value();
    EXPECT_EQ(extents.data(), arena.base());
    extents.data()[100] = std::byte{9};
  }
  const Extents extents = arena.allocate(3, Arena::End::kLow).value();
  EXPECT_EQ(extents.data()[100], std::byte{0});
  extents.data()[to_size(extents.bytes()) - 1] = std::byte{1};
}

TEST(HostArenaMemoryDeath, DecommittedExtentsFault) {
  Arena arena(reserve_host_arena(kExtent * 4, kExtent).value(), 4, kExtent);
  AddressRange range = arena.reserve(4).value();
  ASSERT_TRUE(range.commit(0, 3).ok());
  range.data()[0] = range.data()[kExtent.count * 2] = std::byte{7};
  range.decommit(1, 1);
  EXPECT_EQ(range.data()[0], std::byte{7});
  EXPECT_EQ(range.data()[kExtent.count * 2], std::byte{7});
  EXPECT_DEATH(const_cast<volatile std::byte*>(range.data())[kExtent.count] = std::byte{1}, "");
  EXPECT_DEATH(const_cast<volatile std::byte*>(range.data())[kExtent.count * 3] = std::byte{1}, "");
}

TEST(HostArenaMemoryDeath, FreeExtentsFault) {
  Arena arena(reserve_host_arena(kExtent * 2, kExtent).value(), 2, kExtent);
  const Extents extents = arena.allocate(1, Arena::End::kLow).value();
  EXPECT_DEATH(const_cast<volatile std::byte*>(arena.base())[kExtent.count] = std::byte{1}, "");
}

TEST(HostArenaMemory, RefusesWhatTheMachineHasNot) {
  EXPECT_EQ(reserve_host_arena(Bytes(-1), kExtent).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(reserve_host_arena(Bytes(INT64_MAX), kExtent).error().code,
            ErrorCode::kInvalidArgument);
  const Bytes huge = round_up(read_memory_headroom()->bytes, gib(1)) + gib(1);
  Arena arena(reserve_host_arena(huge, huge).value(), 1, huge);  // addresses cost nothing …
  EXPECT_EQ(arena.allocate(1, Arena::End::kLow).error().code,
            ErrorCode::kResourceExhausted);  // … memory does
}

}  // namespace
}  // namespace causeway::device::arena_test
