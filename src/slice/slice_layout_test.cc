#include "slice/slice_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace causeway::slice::slice_layout_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr SliceGpu kH200{.processors = 132, .unit = 8, .units = 16};

SliceFacts h200s(int gpus, int gpu = 0) {
  return {.gpus = std::vector<SliceGpu>(static_cast<std::size_t>(gpus), kH200), .gpu = gpu};
}
// As a real one is split.
SliceFacts coarse_h200() {
  return {.gpus = {
              {.processors = 132, .unit = 8, .units = 15, .coarser = {{16, 8}, {32, 4}, {64, 2}}}}};
}
SliceFacts cpu(int threads) {
  return {.gpus = {{.processors = threads, .unit = 1, .units = threads}}, .threads = true};
}

std::vector<int> sizes(const SliceLayout& layout) {
  std::vector<int> sizes;
  for (const SlicePart& part : layout.parts) sizes.push_back(part.processors);
  return sizes;
}
std::vector<double> shares(const SliceLayout& layout) {
  std::vector<double> shares;
  for (const SlicePart& part : layout.parts) shares.push_back(part.share);
  return shares;
}
std::string refused(std::string_view text, const SliceFacts& facts) {
  const auto layout = parse_slices(text, facts);
  if (layout.ok()) return "nothing";
  EXPECT_EQ(layout.error().code, ErrorCode::kInvalidArgument);
  return layout.error().message;
}

TEST(SliceLayout, AWholeDeviceIsOneSlice) {
  for (const char* text : {"all", "1xall", "1x132", "1:all", "1:1x132"}) {
    const SliceLayout layout = parse_slices(text, h200s(2, 1)).value();
    ASSERT_EQ(layout.parts.size(), 1u) << text;
    EXPECT_EQ(layout.parts[0].gpu, 1);
    EXPECT_EQ(layout.parts[0].processors, 132);
    EXPECT_TRUE(layout.parts[0].whole);
    EXPECT_EQ(layout.parts[0].share, 1);
    EXPECT_THAT(layout.notes, IsEmpty());
  }
}

TEST(SliceLayout, PartsDivideMemoryByProcessors) {
  const SliceLayout two = parse_slices("2x56", h200s(1)).value();
  EXPECT_THAT(sizes(two), ElementsAre(56, 56));
  EXPECT_THAT(shares(two), ElementsAre(0.5, 0.5));
  EXPECT_FALSE(two.parts[0].whole);
  EXPECT_THAT(two.notes, IsEmpty());
  const SliceLayout mixed = parse_slices("1x64,2x32", h200s(1)).value();
  EXPECT_THAT(sizes(mixed), ElementsAre(64, 32, 32));
  EXPECT_THAT(shares(mixed), ElementsAre(0.5, 0.25, 0.25));
  EXPECT_THAT(sizes(parse_slices("4x32", h200s(1)).value()), ElementsAre(32, 32, 32, 32));
  EXPECT_THAT(shares(parse_slices("1x64", h200s(1)).value()), ElementsAre(1));
}

TEST(SliceLayout, SeveralGpus) {
  const SliceLayout layout = parse_slices("2:2x64;0:all", h200s(3)).value();
  ASSERT_EQ(layout.parts.size(), 3u);
  EXPECT_EQ(layout.parts[0].gpu, 2);
  EXPECT_EQ(layout.parts[1].share, 0.5);
  EXPECT_EQ(layout.parts[2].gpu, 0);
  EXPECT_TRUE(layout.parts[2].whole);
  const SliceLayout every = parse_slices("*:1x64+2x32", h200s(4)).value();
  ASSERT_EQ(every.parts.size(), 12u);
  EXPECT_EQ(every.parts[11].gpu, 3);
  EXPECT_EQ(every.parts[11].share, 0.25);
}

TEST(SliceLayout, WhatIsNoWholeUnitIsRoundedDownAndSaysSo) {
  const SliceLayout layout = parse_slices("2x66", h200s(1)).value();
  EXPECT_THAT(sizes(layout), ElementsAre(64, 64));
  EXPECT_THAT(layout.notes, ElementsAre("a slice of 66 SMs gets 64: GPU 0 has 132 SMs, of which "
                                        "slices get units of 8, 128 in all"));
  EXPECT_THAT(sizes(parse_slices("1x131", h200s(1)).value()), ElementsAre(128));
}

std::vector<int> split_units(const SliceLayout& layout) {
  std::vector<int> units;
  for (const SlicePart& part : layout.parts) units.push_back(part.unit);
  return units;
}

TEST(SliceLayout, ACoarserSplitIsTakenWhereTheFinestDoesNotSuffice) {
  const SliceFacts facts = coarse_h200();
  for (const auto& [text, unit] : std::map<std::string, int>{{"4x24", 0},
                                                             {"7x16", 0},
                                                             {"3x32,1x24", 0},
                                                             {"8x16", 16},
                                                             {"4x32", 16},
                                                             {"1x64,4x16", 16},
                                                             {"2x64", 16},
                                                             {"2x66", 16}}) {
    const auto layout = parse_slices(text, facts);
    ASSERT_TRUE(layout.ok()) << layout.error().message;
    EXPECT_THAT(split_units(*layout), Each(unit)) << text;
  }
  EXPECT_THAT(refused("3x40", facts), "nothing") << "120 SMs";
  EXPECT_THAT(refused("3x32,1x24,1x8", facts),
              HasSubstr("need 128 SMs together: GPU 0 has 132 SMs, of which slices get units of 8, "
                        "120 in all; in units of 16 alone, 128; in units of 32 alone, 128"));
  EXPECT_THAT(refused("9x16", facts), HasSubstr("need 144 SMs together"));
}

TEST(SliceLayout, OnTheCpuSizesAreThreads) {
  const SliceLayout layout = parse_slices("1x1,1x3", cpu(4)).value();
  EXPECT_THAT(sizes(layout), ElementsAre(1, 3));
  EXPECT_THAT(shares(layout), ElementsAre(0.25, 0.75));
  EXPECT_TRUE(parse_slices("1x4", cpu(4))->parts[0].whole);
  EXPECT_THAT(refused("3x2", cpu(4)), HasSubstr("need 6 threads together: device 0 has 4 threads"));
}

TEST(SliceLayout, RefusalsSayWhatThereIs) {
  EXPECT_THAT(refused("3x56", h200s(1)),
              HasSubstr("slices '3x56': its slices of GPU 0 need 168 SMs together: GPU 0 has 132 "
                        "SMs, of which slices get units of 8, 128 in all"));
  EXPECT_THAT(refused("1x132,1x8", h200s(1)), HasSubstr("need 136 SMs"));
  EXPECT_THAT(refused("1x200", h200s(1)), HasSubstr("need 200 SMs"));
  EXPECT_THAT(refused("2x7", h200s(1)), HasSubstr("7 SMs is less than a unit: GPU 0 has 132 SMs"));
  EXPECT_THAT(refused("all,1x8", h200s(1)), HasSubstr("all of GPU 0 it has no other"));
  EXPECT_THAT(refused("0x8", h200s(1)), HasSubstr("'0x8' is no slice"));
  EXPECT_THAT(refused("2:all", h200s(2)),
              HasSubstr("there is no GPU 2; there are 2, counted from"));
  EXPECT_THAT(refused("0:all;0:2x8", h200s(2)), HasSubstr("GPU 0 is named twice"));
  EXPECT_THAT(refused("1:all;*:2x8", h200s(2)), HasSubstr("GPU 1 is named twice"));
  EXPECT_THAT(refused("all;2x8", h200s(2)), HasSubstr("GPU 0 is named twice"));
  EXPECT_THAT(refused("one:all", h200s(2)), HasSubstr("'one' is no number of a GPU"));
  const SliceFacts undivided{.gpus = {{.processors = 80, .unit = 1, .units = 0}}};
  EXPECT_THAT(refused("2x8", undivided), HasSubstr("GPU 0 has 80 SMs, which cannot be divided"));
  for (const char* text : {"", "2", "x", "2x", "x56", "2x56,", "2x5x6", "2 x56", "+2x56", "2x-8",
                           "-1x8", "2x56;", "0:", ":all", "2x99999999999999999999", "ALL"}) {
    EXPECT_NE(refused(text, h200s(1)), "nothing") << text;
  }
  EXPECT_THAT(refused("2", h200s(1)), HasSubstr("'2' is no COUNTxSIZE, such as 2x64"));
  EXPECT_THAT(refused(std::string(5000, '1'), h200s(1)), HasSubstr("longer than 4096"));
  EXPECT_THAT(refused("2x\n\x1b\xff'", h200s(1)), HasSubstr("'2x???"
                                                            "?' is no COUNTxSIZE"));
}

// What every layout of a machine must be.
void expect_sound(const SliceLayout& layout, const SliceFacts& facts) {
  std::map<int, int> taken;
  std::map<int, double> share;
  ASSERT_FALSE(layout.parts.empty());
  for (const SlicePart& part : layout.parts) {
    ASSERT_GE(part.gpu, 0);
    ASSERT_LT(part.gpu, std::ssize(facts.gpus));
    const SliceGpu& gpu = facts.gpus[static_cast<std::size_t>(part.gpu)];
    taken[part.gpu] += part.processors;
    share[part.gpu] += part.share;
    ASSERT_GT(part.share, 0);
    ASSERT_EQ(part.whole, part.processors == gpu.processors);
    if (part.whole) {
      ASSERT_EQ(part.share, 1);
      continue;
    }
    ASSERT_GE(part.processors, gpu.unit);
    ASSERT_EQ(part.processors % gpu.unit, 0);
    ASSERT_LE(taken[part.gpu], gpu.unit * gpu.units);
  }
  for (const auto& [gpu, sum] : share) ASSERT_NEAR(sum, 1, 1e-9) << "of GPU " << gpu;
}

TEST(SliceLayout, HostileTextIsRefusedOrSound) {
  constexpr std::string_view kPieces[] = {"x", ",", ";",  ":",   "+",       "*",   "all",
                                          "1", "2", "8",  "16",  "64",      "132", "2147483647",
                                          "-", " ", "0x", "1x8", {"\0", 1}, "\xff"};
  Random random(31);
  int sound = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto pieces = random.below(12); pieces > 0; --pieces) {
      text += kPieces[static_cast<std::size_t>(random.below(std::ssize(kPieces)))];
    }
    const SliceFacts facts = random.chance(0.5) ? h200s(2, static_cast<int>(random.below(2)))
                                                : cpu(static_cast<int>(random.between(1, 40)));
    const auto layout = parse_slices(text, facts);
    if (layout.ok()) {
      ++sound;
      expect_sound(*layout, facts);
      ASSERT_FALSE(HasFatalFailure()) << text;
    } else {
      ASSERT_EQ(layout.error().code, ErrorCode::kInvalidArgument) << text;
      ASSERT_FALSE(layout.error().message.empty());
    }
  }
  EXPECT_GT(sound, 100);
  const std::string many(4000, 'x');
  EXPECT_FALSE(parse_slices(many, h200s(1)).ok());
  std::string sums;
  for (int i = 0; i < 150; ++i) sums += "2147483647x2147483640,";
  EXPECT_THAT(refused(sums + "1x8", h200s(1)), HasSubstr("together"));
}

// Any division of a GPU's units is given back as it was said.
TEST(SliceLayout, EveryDivisionCanBeSaid) {
  Random random(37);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    std::vector<int> wanted;
    for (int left = 16; left > 0;) {
      const auto size = static_cast<int>(random.between(1, left));
      const auto count = static_cast<int>(random.between(1, left / size));
      text += (text.empty() ? "" : ",") + std::to_string(count) + "x" + std::to_string(size * 8);
      wanted.insert(wanted.end(), static_cast<std::size_t>(count), size * 8);
      left -= size * count;
      if (random.chance(0.2)) break;
    }
    const auto layout = parse_slices(text, h200s(1));
    ASSERT_TRUE(layout.ok()) << text << ": " << layout.error().message;
    ASSERT_EQ(sizes(*layout), wanted) << text;
    expect_sound(*layout, h200s(1));
    ASSERT_FALSE(HasFatalFailure()) << text;
  }
}

}  // namespace
}  // namespace causeway::slice::slice_layout_test
