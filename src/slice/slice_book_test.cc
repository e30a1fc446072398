#include "slice/slice_book.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace causeway::slice::slice_book_test {
namespace {

TEST(SliceBook, AnySliceThatServesIsSeenByAll) {
  SliceBook book;
  EXPECT_FALSE(book.serving());
  const auto a = book.add(0, gib(2), [] { return Bytes(0); });
  auto b = book.add(1, gib(2), [] { return Bytes(0); });
  EXPECT_FALSE(book.serving());
  bool busy = false;
  b->set_serves([&] { return busy; });
  EXPECT_FALSE(book.serving());
  busy = true;
  EXPECT_TRUE(book.serving());
  b->set_serves({});
  EXPECT_FALSE(book.serving());
  b->set_serves([&] { return busy; });
  b.reset();
  EXPECT_FALSE(book.serving());
}

// Others have 2 GiB of a GPU, of which two slices take some.
TEST(SliceBook, WhatNeighboursTakeIsNotOthers) {
  SliceBook book;
  EXPECT_EQ(book.slices_use(0, gib(2)), Bytes(0));
  Bytes first, second;
  auto a = book.add(0, gib(2), [&] { return first; });
  EXPECT_EQ(book.slices_use(0, gib(2)), Bytes(0));
  a->set_beside(gib(1));
  first = gib(40);
  // 40 that it holds and half of what it may take beside that.
  EXPECT_EQ(book.slices_use(0, gib(42) + mib(512)), gib(40) + mib(512));
  auto b = book.add(0, gib(42) + mib(512), [&] { return second; });
  second = gib(20);
  EXPECT_EQ(book.slices_use(0, gib(62) + mib(512)), gib(60) + mib(512));
  // Another process takes 5 GiB: all of it is seen once the slices have what they may take.
  EXPECT_EQ(book.slices_use(0, gib(68)), gib(61));
  EXPECT_EQ(book.slices_use(1, gib(68)), Bytes(0));
  a.reset();
  EXPECT_EQ(book.slices_use(0, gib(27)), gib(20));
  b.reset();
  EXPECT_EQ(book.slices_use(0, gib(7)), Bytes(0));
  // Counted anew, and what the first one holds already is its own.
  const auto c = book.add(0, gib(8), [] { return gib(1); });
  EXPECT_EQ(book.slices_use(0, gib(8)), gib(1));
}

TEST(SliceBook, SlicesComeAndGoWhileOthersAsk) {
  SliceBook book;
  std::atomic<bool> stop{false};
  std::thread asker([&] {
    while (!stop) {
      (void)book.serving();
      EXPECT_LE(book.slices_use(0, gib(1)), gib(1));
    }
  });
  std::vector<std::thread> slices;
  for (int thread = 0; thread < 2; ++thread) {
    slices.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const auto entry = book.add(0, mib(1), [] { return mib(1); });
        entry->set_serves([] { return true; });
        EXPECT_TRUE(book.serving());
      }
    });
  }
  for (std::thread& slice : slices) slice.join();
  stop = true;
  asker.join();
  EXPECT_FALSE(book.serving());
}

}  // namespace
}  // namespace causeway::slice::slice_book_test
