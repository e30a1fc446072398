#include "kernels/parallel.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

namespace causeway::kernels::parallel_test {
namespace {

// The threads that work on many items beside each other.
std::set<std::thread::id> threads_used() {
  std::mutex mutex;
  std::set<std::thread::id> used;
  parallel_items(1000, [&](std::int64_t, int) {
    const std::lock_guard lock(mutex);
    used.insert(std::this_thread::get_id());
  });
  return used;
}

TEST(Parallel, AThreadThatIsLimitedTakesNoMore) {
  const int all = thread_count();
  std::thread([&] {
    EXPECT_EQ(thread_count(), all);
    limit_threads(1);
    EXPECT_EQ(thread_count(), 1);
    EXPECT_EQ(threads_used(), std::set{std::this_thread::get_id()});
    std::int64_t ranges = 0;
    parallel_ranges(1000, 1, [&](std::int64_t begin, std::int64_t end) {
      ++ranges;
      EXPECT_EQ(end - begin, 1000);
    });
    EXPECT_EQ(ranges, 1);
    std::thread([&] { EXPECT_EQ(thread_count(), all); }).join();
  }).join();
  EXPECT_EQ(thread_count(), all);
}

TEST(Parallel, ThreadsWithDifferentLimitsWorkBesideEachOther) {
  const auto limited = [](int threads) {
    return std::thread([threads] {
      limit_threads(threads);
      for (int round = 0; round < 20; ++round) {
        EXPECT_LE(std::ssize(threads_used()), threads);
      }
    });
  };
  std::thread one = limited(1), two = limited(2);
  one.join();
  two.join();
}

}  // namespace
}  // namespace causeway::kernels::parallel_test
