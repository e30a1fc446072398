#include "weights/weight_layout.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace causeway::weights::weight_layout_test {
namespace {

LoadPlan any_plan() {
  LoadPlan plan{*rc::gen::element(DType::kBF16, DType::kF32), {}};
  const int groups = *rc::gen::inRange(1, 5);
  for (int g = 0; g < groups; ++g) {
    PlannedGroup group{"g" + std::to_string(g), {}};
    const int tensors = *rc::gen::inRange(1, 6);
    for (int t = 0; t < tensors; ++t) {
      PlannedTensor tensor{"t" + std::to_string(t), {}};
      const auto cols = *rc::gen::inRange<std::int64_t>(1, 300);
      const int sources = *rc::gen::inRange(1, 4);
      for (int s = 0; s < sources; ++s) {
        tensor.sources.push_back({"s", *rc::gen::inRange<std::int64_t>(1, 40), cols});
      }
      group.tensors.push_back(tensor);
    }
    plan.groups.push_back(group);
  }
  return plan;
}

RC_GTEST_PROP(WeightLayout, TensorsAreAlignedDisjointAndInTheirGroups, ()) {
  const LoadPlan plan = any_plan();
  const auto layout = lay_out(plan);
  RC_ASSERT(layout.ok());
  Bytes end;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const PlacedGroup& group = layout->groups[g];
    RC_ASSERT(group.name == plan.groups[g].name);
    RC_ASSERT(group.offset % kGroupAlignment == Bytes(0));
    RC_ASSERT(group.offset >= end);
    end = group.offset;
    for (std::size_t t = 0; t < group.tensors.size(); ++t) {
      const PlacedTensor& tensor = group.tensors[t];
      std::int64_t rows = 0;
      for (const SourceTensor& source : plan.groups[g].tensors[t].sources) rows += source.rows;
      RC_ASSERT(tensor.rows == rows);
      RC_ASSERT(tensor.offset % kTensorAlignment == Bytes(0));
      RC_ASSERT(tensor.offset >= end);
      end = tensor.offset + size_of(plan.dtype) * (tensor.rows * tensor.cols);
    }
    RC_ASSERT(group.offset + group.bytes == end);
  }
  RC_ASSERT(layout->bytes == end);
}

TEST(WeightLayout, ATensorIsItsBaseAndItsOffset) {
  const auto layout = lay_out(
      {DType::kBF16,
       {{"a", {{"x", {{"x", 3, 5}}}}}, {"b", {{"x", {{"x", 7, 2}}}, {"y", {{"y", 1, 4}}}}}}});
  ASSERT_TRUE(layout.ok());
  const auto* base = reinterpret_cast<const std::byte*>(0x10000);
  const TensorView view = PlacedWeights{&*layout, base}.tensor("b", "y");
  EXPECT_EQ(view.data, base + 4096 + 256);
  EXPECT_EQ(view.rows, 1);
  EXPECT_EQ(view.cols, 4);
  EXPECT_DEATH((PlacedWeights{&*layout, base}.tensor("b", "z")), "z");
  EXPECT_DEATH((PlacedWeights{&*layout, base}.tensor("c", "x")), "c");
}

TEST(WeightLayout, MoreThanAnyMachineHasIsRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 33;
  const auto layout = lay_out({DType::kBF16, {{"a", {{"x", {{"x", kHuge, kHuge}}}}}}});
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace causeway::weights::weight_layout_test
