#include "bench/kv_contents.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"

namespace causeway::bench {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
// The patterns of blocks that go out, that come in, and of what must be overwritten.
constexpr std::uint64_t kOut = 0, kIn = std::uint64_t{1} << 40, kPoison = std::uint64_t{2} << 40;

// Odd factors: no two words of a block are equal, nor the same words of two blocks.
std::uint64_t word_of(std::uint64_t block, std::size_t index) {
  return (block + 1) * 0x9E3779B97F4A7C15 + index * 0xBF58476D1CE4E5B9;
}

// work(0) … work(count − 1), on as many threads as the machine has, 16 at most.
void on_all_threads(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  std::atomic<std::int64_t> next{0};
  const auto run = [&] {
    for (std::int64_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> threads(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
  for (std::thread& thread : threads) thread = std::thread(run);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void write_pattern(std::span<std::byte> bytes, std::uint64_t block) {
  CAUSEWAY_CHECK(bytes.size() % kWord == 0, "patterns are of whole words");
  for (std::size_t i = 0; i < bytes.size() / kWord; ++i) {
    const std::uint64_t word = word_of(block, i);
    std::memcpy(bytes.data() + i * kWord, &word, kWord);
  }
}

bool has_pattern(std::span<const std::byte> bytes, std::uint64_t block) {
  CAUSEWAY_CHECK(bytes.size() % kWord == 0, "patterns are of whole words");
  for (std::size_t i = 0; i < bytes.size() / kWord; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i * kWord, kWord);
    if (word != word_of(block, i)) return false;
  }
  return true;
}

std::span<std::byte> KvContents::twin(const std::vector<BlockMove>& moves, std::int64_t i) const {
  return stage_.twins().bytes_of(moves[static_cast<std::size_t>(i)].twin);
}

void KvContents::fill(const std::vector<BlockMove>& moves, std::uint64_t first_block) {
  on_all_threads(count(), [&](std::int64_t i) {
    write_pattern(twin(moves, i), first_block + static_cast<std::uint64_t>(i));
  });
}

Status KvContents::expect(const std::vector<BlockMove>& moves, std::uint64_t first_block,
                          const char* where) const {
  std::atomic<std::int64_t> wrong{count()};
  on_all_threads(count(), [&](std::int64_t i) {
    if (has_pattern(twin(moves, i), first_block + static_cast<std::uint64_t>(i))) return;
    std::int64_t least = wrong;
    while (i < least && !wrong.compare_exchange_weak(least, i)) {
    }
  });
  if (wrong == count()) return {};
  return corrupt("block " + std::to_string(wrong) + " of " + std::to_string(count()) + " is not " +
                 where);
}

Status KvContents::copy(transfer::Direction direction, const std::vector<BlockMove>& frames,
                        const std::vector<BlockMove>& twins) {
  CopiesBothWays copies;
  auto& list = direction == transfer::Direction::kIn ? copies.in : copies.out;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    list.push_back(stage_.block_copy(direction, frames[i].frame, twins[i].twin));
  }
  return lanes_.batches(copies);
}

Status KvContents::prepare() {
  CAUSEWAY_CHECK(moves_.in.size() == moves_.out.size(), "as many blocks come as go");
  fill(moves_.out, kOut);
  CAUSEWAY_TRY(copy(transfer::Direction::kIn, moves_.out, moves_.out));
  fill(moves_.out, kPoison);
  CAUSEWAY_TRY(copy(transfer::Direction::kIn, moves_.in, moves_.out));
  fill(moves_.in, kIn);
  return {};
}

// What came into frames is looked at in the twins of what went out, which have been checked.
Status KvContents::check() {
  CAUSEWAY_TRY(expect(moves_.out, kOut, "in the twin to which it went"));
  CAUSEWAY_TRY(expect(moves_.in, kIn, "in the twin from which it came"));
  CAUSEWAY_TRY(copy(transfer::Direction::kOut, moves_.in, moves_.out));
  return expect(moves_.out, kIn, "in the frame to which it came");
}

}  // namespace causeway::bench
