#include "weights/expert_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/must.h"
#include "weights/weight_cache.h"

namespace causeway::weights::expert_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Bytes kExtent = kib(64);

struct Shape {
  std::int64_t layers = 3;
  std::int64_t experts = 4;
  std::int64_t hidden = 32;
  std::int64_t intermediate = 64;
  std::int64_t dense_layer = -1;  // this one has no experts
};

PlannedTensor tensor(const char* name, std::int64_t rows, std::int64_t cols) {
  return {name, {{name, rows, cols}}};
}

WeightLayout layout_of(const Shape& s) {
  LoadPlan plan;
  plan.groups.push_back({"embedding", {tensor("embedding", 100, s.hidden)}});
  for (std::int64_t i = 0; i < s.layers; ++i) {
    PlannedGroup group{"layers." + std::to_string(i), {tensor("qkv", 48, s.hidden)}};
    group.tensors.push_back(tensor("post_norm", 1, s.hidden));
    if (i != s.dense_layer) {
      group.tensors.push_back(tensor("experts_gate_up", s.experts * 2 * s.intermediate, s.hidden));
      group.tensors.push_back(tensor("experts_down", s.experts * s.hidden, s.intermediate));
    }
    plan.groups.push_back(std::move(group));
  }
  plan.groups.push_back({"head", {tensor("norm", 1, s.hidden), tensor("lm_head", 100, s.hidden)}});
  return must(lay_out(plan), "a layout");
}

std::vector<ReadingStep> reading_of(const Shape& s, bool tied) {
  std::vector<ReadingStep> reading;
  for (int i = 0; i < s.layers; ++i) {
    const bool sparse = i != s.dense_layer;
    reading.push_back({.group = i + 1, .experts = sparse ? static_cast<int>(s.experts) : 0});
  }
  reading.push_back({.group = static_cast<int>(s.layers) + 1});
  reading.push_back({.group = 0, .readable_at_home = !tied, .stays = tied});
  return reading;
}

TEST(ExpertPlanTest, DensePartsLieTogetherAndSlotsTakeTheRest) {
  const Shape shape{.dense_layer = 1};
  const WeightLayout layout = layout_of(shape);
  const auto plan = must(
      plan_experts(layout, reading_of(shape, false), {.extent = kExtent, .budget = kExtent * 2}));
  EXPECT_THAT(plan.resident, ElementsAre(1, 2, 3, 4));
  ASSERT_EQ(plan.layers.size(), 2u);
  EXPECT_EQ(plan.layers[0].group, 1);
  EXPECT_EQ(plan.layers[1].group, 3);
  EXPECT_EQ(plan.layers[1].gate_up, layout.groups[3].tensors[2].offset);
  EXPECT_EQ(plan.layers[1].down, layout.groups[3].tensors[3].offset);
  EXPECT_EQ(plan.gate_up, Bytes(2 * 64 * 32 * 2));
  EXPECT_EQ(plan.down, Bytes(64 * 32 * 2));
  EXPECT_EQ(plan.slots_offset, kExtent);
  EXPECT_EQ(plan.slots, 5);  // of 12 KiB in 64
  // Tensors of a group are as far from each other as at home.
  for (const int group : {1, 2, 3, 4}) {
    const PlacedGroup& placed = plan.layout.groups[static_cast<std::size_t>(group)];
    const PlacedGroup& home = layout.groups[static_cast<std::size_t>(group)];
    for (std::size_t t = 0; t < placed.tensors.size(); ++t) {
      EXPECT_EQ(placed.tensors[t].offset - placed.offset, home.tensors[t].offset - home.offset);
    }
    EXPECT_LE(placed.offset + placed.bytes, plan.slots_offset);
  }
  EXPECT_EQ(plan.layout.groups[1].tensors.size(), 2u);
  EXPECT_GE(plan.layout.groups[0].offset, plan.slots_end());  // without memory
}

TEST(ExpertPlanTest, NothingOverlapsWhateverTheShape) {
  Random random(5);
  int plans = 0;
  for (int round = 0; round < 200; ++round) {
    const Shape shape{.layers = random.between(1, 6),
                      .experts = random.between(1, 9),
                      .hidden = 8 * random.between(1, 9),
                      .intermediate = 8 * random.between(1, 9),
                      .dense_layer = random.between(-1, 0)};
    if (shape.layers == 1 && shape.dense_layer == 0) continue;
    const WeightLayout layout = layout_of(shape);
    const auto reading = reading_of(shape, random.chance(0.5));
    const Bytes budget = kExtent * random.between(1, 12);
    const auto made = plan_experts(layout, reading, {.extent = kExtent, .budget = budget});
    if (!made.ok()) {
      EXPECT_EQ(made.error().code, ErrorCode::kResourceExhausted);
      continue;
    }
    ++plans;
    const ExpertPlan& plan = *made;
    Bytes end;
    for (const int group : plan.resident) {
      const PlacedGroup& placed = plan.layout.groups[static_cast<std::size_t>(group)];
      EXPECT_GE(placed.offset, end);
      end = placed.offset + placed.bytes;
      for (const PlacedTensor& one : placed.tensors) {
        EXPECT_LE(one.offset + size_of(layout.dtype) * (one.rows * one.cols), end);
      }
    }
    EXPECT_LE(end, plan.slots_offset);
    EXPECT_EQ(plan.slots_offset % kExtent, Bytes(0));
    EXPECT_LE(plan.slots_end(), budget);
    EXPECT_GE(plan.slot_bytes, plan.gate_up + plan.down);
    EXPECT_GE(plan.slots, 1);
    EXPECT_LE(plan.slots, std::ssize(plan.layers) * plan.experts);
  }
  EXPECT_GT(plans, 50);
}

TEST(ExpertPlanTest, ABudgetWithoutRoomForASlotIsRefusedAndThenLayersAreStreamed) {
  const Shape shape{.layers = 8, .experts = 2, .hidden = 64, .intermediate = 256};
  const WeightLayout layout = layout_of(shape);
  const auto refused =
      plan_experts(layout, reading_of(shape, false), {.extent = kExtent, .budget = kExtent});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("and have 65536"));
  const StreamOptions roomy{.extent = kExtent, .budget = kExtent * 12};
  EXPECT_TRUE(must(streamed_model(layout, reading_of(shape, false), roomy)).experts);
  StreamOptions whole = roomy;
  whole.experts = ExpertPolicy::kWhole;
  const auto streamed = must(streamed_model(layout, reading_of(shape, false), whole));
  EXPECT_FALSE(streamed.experts);
  EXPECT_TRUE(streamed.stream);
}

}  // namespace
}  // namespace causeway::weights::expert_plan_test
