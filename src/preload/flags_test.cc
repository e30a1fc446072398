#include "preload/flags.h"

#include <gtest/gtest.h>

#include "preload/testing/fake_driver.h"

namespace causeway::preload::flags_test {
namespace {

TEST(Flags, APairIsUsedAgainOnceItsStreamHasCome) {
  const Native native = load_native(fake_symbol);
  auto flags = Flags::create(native);
  ASSERT_TRUE(flags.ok());
  std::vector<FlagUse> uses;
  while (const auto use = (*flags)->take()) uses.push_back(*use);
  ASSERT_EQ(uses.size(), static_cast<std::size_t>(Flags::kPairs));
  // The pairs are given back before their streams have come: a late start must not count for the
  // next use.
  for (const FlagUse& use : uses) (*flags)->give_back(use);
  EXPECT_FALSE((*flags)->take().has_value());
  uses[5].start();
  const auto again = (*flags)->take();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->pair, uses[5].pair);
  EXPECT_EQ(again->number, uses[5].number + 1);
  EXPECT_FALSE(again->started());
  EXPECT_FALSE((*flags)->take().has_value());
}

}  // namespace
}  // namespace causeway::preload::flags_test
