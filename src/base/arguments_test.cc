#include "base/testing/arguments.h"

#include <gtest/gtest.h>

namespace causeway::arguments_test {
namespace {

struct Read {
  std::uint64_t seed;
  int cases;
  double seconds;
  bool small;
};

Read read(std::vector<const char*> given) {
  given.insert(given.begin(), "some_test");
  Arguments arguments(static_cast<int>(given.size()), given.data());
  Read read{};
  read.seed = arguments.number("--seed", std::uint64_t{7});
  read.cases = arguments.number("--cases", 40);
  read.seconds = arguments.number("--seconds", 1.5);
  read.small = arguments.flag("--small");
  arguments.finish();
  return read;
}

TEST(ArgumentsTest, ReadsWhatIsAskedForInAnyOrder) {
  const Read all = read({"--small", "--seconds", "0.25", "--seed", "18446744073709551615"});
  EXPECT_EQ(all.seed, 18446744073709551615u);
  EXPECT_EQ(all.cases, 40);
  EXPECT_EQ(all.seconds, 0.25);
  EXPECT_TRUE(all.small);
  const Read none = read({});
  EXPECT_EQ(none.seed, 7u);
  EXPECT_FALSE(none.small);
}

TEST(ArgumentsTest, RefusesWhatItDoesNotUnderstand) {
  const auto refused = ::testing::ExitedWithCode(2);
  EXPECT_EXIT(read({"--sed", "5"}), refused, "unknown argument --sed");
  EXPECT_EXIT(read({"--seed"}), refused, "--seed needs a number");
  EXPECT_EXIT(read({"--seed", "-1"}), refused, "--seed -1: not a number");
  EXPECT_EXIT(read({"--cases", "3x"}), refused, "--cases 3x: not a number");
  EXPECT_EXIT(read({"--cases", "99999999999"}), refused, "not a number");
  EXPECT_EXIT(read({"--seed", "1", "--seed", "2"}), refused, "unknown argument --seed");
}

}  // namespace
}  // namespace causeway::arguments_test
