#include "server/response_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/random.h"

namespace causeway::server::response_store_test {
namespace {

ResponseStoreOptions options_of(std::size_t bytes_max) {
  return {.bytes_max = bytes_max, .lifetime = seconds(10), .random = [next = 0ull]() mutable {
            return mix64(++next);
          }};
}

StoredResponse sized(std::size_t bytes) { return {std::string(bytes, 'c'), "r"}; }

TEST(ResponseStore, WithoutRoomNothingIsKept) {
  ResponseStore store{ResponseStoreOptions()};
  EXPECT_FALSE(store.keeps());
  store.put("a", sized(1), Nanos(0));
  EXPECT_FALSE(store.find("a", Nanos(0)));
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(ResponseStore, KeepsUntilItsTimeHasPassedOrItIsErased) {
  ResponseStore store(options_of(1 << 20));
  store.put("a", {"[1]", "{}"}, seconds(1));
  store.put("b", sized(1), seconds(2));
  EXPECT_EQ(store.find("a", seconds(10))->conversation, "[1]");
  EXPECT_EQ(store.find("a", seconds(10))->response, "{}");
  EXPECT_FALSE(store.find("a", seconds(11)));
  EXPECT_TRUE(store.find("b", seconds(11)));
  EXPECT_TRUE(store.erase("b", seconds(11)));
  EXPECT_FALSE(store.erase("b", seconds(11)));
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(ResponseStore, TheOldestMakeRoom) {
  const std::size_t each = 1000 + ResponseStore::kOverheadBytes + 2;
  ResponseStore store(options_of(3 * each));
  for (const char* id : {"a", "b", "c"}) store.put(id, sized(1000), Nanos(0));
  EXPECT_TRUE(store.find("a", Nanos(0))) << "being read makes it no younger";
  store.put("d", sized(1000), Nanos(0));
  EXPECT_FALSE(store.find("a", Nanos(0)));
  for (const char* id : {"b", "c", "d"}) EXPECT_TRUE(store.find(id, Nanos(0))) << id;
  store.put("e", sized(4 * each), Nanos(0));
  EXPECT_FALSE(store.find("e", Nanos(0))) << "it is larger than all room";
  EXPECT_TRUE(store.find("d", Nanos(0))) << "and nothing left for it";
  store.put("d", sized(5), Nanos(0));
  EXPECT_EQ(store.find("d", Nanos(0))->conversation.size(), 5u);
  EXPECT_EQ(store.bytes(), 2 * each + 5 + ResponseStore::kOverheadBytes + 2);
}

TEST(ResponseStore, IdsDiffer) {
  ResponseStore store(options_of(1));
  const std::string one = store.make_id();
  EXPECT_EQ(one.size(), 32u);
  EXPECT_NE(one, store.make_id());
}

// Against a list that is searched.
TEST(ResponseStore, IsAsTheRuleSaysInRandomHistories) {
  struct One {
    std::string id;
    std::size_t bytes;
    Nanos until;
  };
  Random random(11);
  for (int history = 0; history < 50; ++history) {
    const auto room = static_cast<std::size_t>(random.between(600, 20'000));
    ResponseStore store(options_of(room));
    std::deque<One> model;
    std::size_t bytes = 0;
    Nanos now;
    const auto remove = [&](const std::string& id) {
      for (auto one = model.begin(); one != model.end(); ++one) {
        if (one->id != id) continue;
        bytes -= one->bytes;
        model.erase(one);
        return true;
      }
      return false;
    };
    for (int step = 0; step < 200; ++step) {
      now += millis(random.between(0, 900));
      while (!model.empty() && model.front().until <= now) remove(model.front().id);
      const std::string id(1, static_cast<char>('a' + random.below(12)));
      const auto size = static_cast<std::size_t>(random.between(0, 4000));
      const std::int64_t what = random.below(4);
      if (what == 0) {
        const bool there =
            std::any_of(model.begin(), model.end(), [&](const One& one) { return one.id == id; });
        EXPECT_EQ(store.find(id, now).has_value(), there);
      } else if (what == 1) {
        EXPECT_EQ(store.erase(id, now), remove(id));
      } else {
        store.put(id, sized(size), now);
        remove(id);
        const std::size_t cost = size + 2 + ResponseStore::kOverheadBytes;
        if (cost > room) continue;
        while (bytes + cost > room) remove(model.front().id);
        model.push_back({id, cost, now + seconds(10)});
        bytes += cost;
      }
      ASSERT_EQ(store.bytes(), bytes) << history << ", " << step;
      ASSERT_LE(store.bytes(), room);
    }
  }
}

}  // namespace
}  // namespace causeway::server::response_store_test
