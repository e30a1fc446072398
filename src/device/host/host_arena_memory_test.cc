// Aliases in an arena of the CPU backend while the system refuses mappings.
#include "device/host/host_arena_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "base/check.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace causeway::device::host_arena_memory_test {
namespace {

constexpr Bytes kExtent = kib(64);
constexpr std::int64_t kExtents = 6;
constexpr std::uint64_t kMark = 0x6d61726b65640a21;

// Memory of another thread: there until its owner unmaps it.
class Piece {
 public:
  explicit Piece(std::byte* at) : at_(at) {
    void* const made = ::mmap(at, to_size(kExtent), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CAUSEWAY_CHECK(made == at, "the addresses are not free");
    std::memcpy(made, &kMark, sizeof(kMark));
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  ~Piece() { ::munmap(at_, to_size(kExtent)); }
  // By a call that fails, where a read would be a fault.
  bool is_whole() const {
    std::uint64_t mark = 0;
    const iovec to{&mark, sizeof(mark)}, from{at_, sizeof(mark)};
    return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == sizeof(mark) && mark == kMark;
  }

 private:
  std::byte* at_;
};

// A system that refuses to map or move as its test says.
struct HostArenaAliases : ::testing::Test {
  HostArenaCalls calls() {
    HostArenaCalls made;
    made.map = [this](const HostArenaCalls::Map& asked) -> std::byte* {
      if (!refuse_maps) return system.map(asked);
      errno = ENOMEM;
      return nullptr;
    };
    made.move = [this](const HostArenaCalls::Move& asked) {
      if (moves_until_failure-- != 0) return system.move(asked);
      // As Linux fails when it has taken away already what was there.
      ::munmap(asked.to, to_size(asked.bytes));
      failed_at = asked.to;
      if (others_take) neighbour.emplace(asked.to);
      errno = ENOMEM;
      return false;
    };
    return made;
  }
  std::byte* at(std::int64_t extent) const { return range.data() + (kExtent * extent).count; }
  // Whether something is at the addresses: free ones could become another thread's.
  static bool is_held(std::byte* address) {
    void* const got = ::mmap(address, to_size(kExtent), PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) return errno == EEXIST;
    ::munmap(got, to_size(kExtent));
    return false;
  }
  void destroy_arena() {
    range = AddressRange();
    arena.reset();
  }

  HostArenaCalls system;
  bool refuse_maps = false;
  int moves_until_failure = -1;  // negative: none fails
  bool others_take = false;      // the addresses at once
  std::byte* failed_at = nullptr;
  std::optional<Piece> neighbour;
  std::unique_ptr<Arena> arena = std::make_unique<Arena>(
      reserve_host_arena(kExtent * kExtents, kExtent, calls()).value(), kExtents, kExtent);
  AddressRange range = arena->reserve(kExtents).value();
};

TEST_F(HostArenaAliases, AFailedOneLeavesNoHole) {
  for (const int failing : {0, 1, 2}) {
    ASSERT_TRUE(range.commit(4, 2).ok());
    moves_until_failure = failing;
    EXPECT_EQ(range.alias(0, 4, 2).error().code, ErrorCode::kResourceExhausted);
    ASSERT_NE(failed_at, nullptr);
    for (std::int64_t extent = 0; extent < kExtents; ++extent) {
      EXPECT_TRUE(is_held(at(extent))) << extent;
    }
    at(4)[0] = at(5)[0] = std::byte{7};  // are mapped as before
    range.decommit(4, 2);
    // What failed once can be used again, and is zeroed.
    ASSERT_TRUE(range.commit(0, kExtents).ok());
    for (std::int64_t extent = 0; extent < kExtents; ++extent) {
      EXPECT_EQ(at(extent)[0], std::byte{0}) << extent;
      at(extent)[0] = static_cast<std::byte>(extent + 1);
    }
    for (std::int64_t extent = 0; extent < kExtents; ++extent) {
      EXPECT_EQ(at(extent)[0], static_cast<std::byte>(extent + 1)) << "shared with another";
    }
    range.decommit(0, kExtents);
    EXPECT_EQ(arena->memory_taken(), Bytes(0));
  }
}

TEST_F(HostArenaAliases, AFailedOneTakesNothingFromAnotherThread) {
  ASSERT_TRUE(range.commit(4, 2).ok());
  others_take = true;
  moves_until_failure = 3;  // two for the first extent, one for the second's source
  EXPECT_EQ(range.alias(0, 4, 2).error().code, ErrorCode::kResourceExhausted);
  ASSERT_EQ(failed_at, at(1));
  EXPECT_TRUE(neighbour->is_whole());
  EXPECT_FALSE(range.committed(0, 1));

  EXPECT_TRUE(range.commit(0, 1).ok());
  const Status refused = range.commit(1, 1);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("restart"), std::string::npos);
  EXPECT_FALSE(range.alias(1, 4, 1).ok());
  EXPECT_TRUE(range.commit(2, 2).ok());
  EXPECT_TRUE(neighbour->is_whole());
  destroy_arena();
  EXPECT_TRUE(neighbour->is_whole());
}

TEST_F(HostArenaAliases, ALostSourceIsLeftAlone) {
  ASSERT_TRUE(range.commit(4, 2).ok());
  others_take = true;
  moves_until_failure = 0;
  EXPECT_FALSE(range.alias(0, 4, 2).ok());
  ASSERT_EQ(failed_at, at(4));
  EXPECT_FALSE(range.alias(0, 4, 1).ok());
  range.decommit(4, 2);
  EXPECT_EQ(arena->memory_taken(), Bytes(0));
  EXPECT_TRUE(neighbour->is_whole());
  destroy_arena();
  EXPECT_TRUE(neighbour->is_whole());
}

TEST_F(HostArenaAliases, OneThatCannotBeEndedIsNotHandedOut) {
  ASSERT_TRUE(range.commit(4, 1).ok());
  ASSERT_TRUE(range.alias(0, 4, 1).ok());
  refuse_maps = true;
  range.decommit(0, 1);
  EXPECT_EQ(range.commit(0, 1).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(arena->memory_taken(), kExtent);
  refuse_maps = false;
  ASSERT_TRUE(range.commit(0, 1).ok());
  at(4)[0] = std::byte{4};
  EXPECT_EQ(at(0)[0], std::byte{0}) << "still the same memory";
}

TEST_F(HostArenaAliases, AreRefusedWhereNothingCanBeMapped) {
  ASSERT_TRUE(range.commit(4, 1).ok());
  at(4)[0] = std::byte{9};
  refuse_maps = true;
  EXPECT_EQ(range.alias(0, 4, 1).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(at(4)[0], std::byte{9});
  EXPECT_TRUE(is_held(at(0)));
}

}  // namespace
}  // namespace causeway::device::host_arena_memory_test
