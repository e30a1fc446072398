#include "preload/flags.h"

#include <gtest/gtest.h>

#include "preload/testing/fake_driver.h"

namespace causeway::preload {
namespace {

TEST(Flags, APairIsUsedAgainOnceItsStreamHasCome) {
  const Native native = load_native(fake_symbol);
  auto flags = Flags::create(native);
  ASSERT_TRUE(flags.ok());
  std::vector<Turn> turns;
  while (const auto turn = (*flags)->take()) turns.push_back(*turn);
  ASSERT_EQ(turns.size(), static_cast<std::size_t>(Flags::kPairs));
  // Given back before their streams have come: a late start must not be taken for another's.
  for (const Turn& turn : turns) (*flags)->give_back(turn);
  EXPECT_FALSE((*flags)->take().has_value());
  turns[5].start();
  const auto again = (*flags)->take();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->pair, turns[5].pair);
  EXPECT_EQ(again->number, turns[5].number + 1);
  EXPECT_FALSE(again->started());
  EXPECT_FALSE((*flags)->take().has_value());
}

}  // namespace
}  // namespace causeway::preload
