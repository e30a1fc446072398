#include "base/id_map.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "base/units.h"

namespace causeway::id_map_test {
namespace {

TEST(IdMap, IsAsAMap) {
  Random random(1);
  IdMap<ModelId, std::int64_t> map;
  std::map<ModelId, std::int64_t> expected;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const ModelId id(random.below(50));
    if (random.chance(0.5)) {
      EXPECT_EQ(map.emplace(id, i).second, expected.emplace(id, i).second);
    } else {
      EXPECT_EQ(map.erase(id), expected.erase(id));
    }
    const ModelId other(random.below(60) - 1);
    EXPECT_EQ(map.contains(other), expected.contains(other));
    EXPECT_EQ(map.find(other) == map.end(), !expected.contains(other));
    if (expected.contains(other)) {
      EXPECT_EQ(map.at(other), expected.at(other));
    }
    auto next = expected.begin();
    for (const auto& [known, value] : map) {
      ASSERT_NE(next, expected.end());
      EXPECT_EQ(known, next->first);
      EXPECT_EQ(value, (next++)->second);
    }
    EXPECT_EQ(next, expected.end());
  }
}

TEST(IdMap, ValuesStayWhereTheyAre) {
  IdMap<ModelId, int> map;
  const int* const first = &map.emplace(ModelId(3), 7).first->second;
  map.emplace(ModelId(1000), 8);
  EXPECT_EQ(&map.at(ModelId(3)), first);
  EXPECT_EQ(*first, 7);
}

}  // namespace
}  // namespace causeway::id_map_test
