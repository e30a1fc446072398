#include "kernels/l2_discard.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

namespace causeway::kernels::l2_discard_test {
namespace {

TEST(L2Discard, OnlyWholeLinesAreDropped) {
  alignas(kDiscardLineBytes) char memory[4 * kDiscardLineBytes];
  const auto lines = [&](std::int64_t begin, std::int64_t end) {
    const DiscardLines found = discard_lines({memory + begin, end - begin});
    return std::pair(found.count == 0 ? 0 : found.first - memory, found.count);
  };
  using Lines = std::pair<std::ptrdiff_t, int>;
  EXPECT_EQ(lines(0, 512), Lines(0, 4));
  EXPECT_EQ(lines(0, 511), Lines(0, 3));
  EXPECT_EQ(lines(1, 512), Lines(128, 3));
  EXPECT_EQ(lines(127, 257), Lines(128, 1));
  EXPECT_EQ(lines(127, 256), Lines(128, 1));
  EXPECT_EQ(lines(127, 255), Lines(0, 0));
  EXPECT_EQ(lines(129, 255), Lines(0, 0));
  EXPECT_EQ(lines(128, 128), Lines(0, 0));
  EXPECT_EQ(discard_lines({}).count, 0);
}

}  // namespace
}  // namespace causeway::kernels::l2_discard_test
