#include "weights/weight_layout.h"

#include <algorithm>

#include "base/check.h"

namespace causeway::weights {
namespace {

// Beyond any machine's memory; sums below it cannot overflow.
constexpr Bytes kModelBytesMax = Bytes(std::int64_t{1} << 50);

Result<PlacedTensor> place(const PlannedTensor& planned, DType dtype, Bytes& end) {
  CAUSEWAY_CHECK(!planned.sources.empty(), "a planned tensor without sources");
  end = round_up(end, kTensorAlignment);
  PlacedTensor placed{planned.name, 0, planned.sources[0].cols, end};
  for (const SourceTensor& part : planned.sources) {
    CAUSEWAY_CHECK(part.cols == placed.cols, "stacked tensors of different widths");
    std::int64_t elements = 0;
    if (__builtin_mul_overflow(part.rows, part.cols, &elements) ||
        elements > (kModelBytesMax - end) / size_of(dtype)) {
      return exhausted("tensor " + part.name + " makes the model larger than 2^50 bytes");
    }
    placed.rows += part.rows;
    end += size_of(dtype) * elements;
  }
  return placed;
}

}  // namespace

Result<WeightLayout> lay_out(const LoadPlan& plan) {
  WeightLayout layout;
  layout.dtype = plan.dtype;
  for (const PlannedGroup& planned : plan.groups) {
    Bytes end = round_up(layout.bytes, kGroupAlignment);
    PlacedGroup group{planned.name, end, Bytes(0), {}};
    for (const PlannedTensor& tensor : planned.tensors) {
      CAUSEWAY_ASSIGN(PlacedTensor placed, place(tensor, plan.dtype, end));
      group.tensors.push_back(std::move(placed));
    }
    group.bytes = end - group.offset;
    layout.bytes = end;
    layout.groups.push_back(std::move(group));
  }
  return layout;
}

namespace {

// nullptr: there is none.
const PlacedTensor* find(const WeightLayout& layout, std::string_view group,
                         std::string_view tensor) {
  const auto of_name = [](std::string_view name) {
    return [name](const auto& one) { return one.name == name; };
  };
  const auto in = std::find_if(layout.groups.begin(), layout.groups.end(), of_name(group));
  if (in == layout.groups.end()) return nullptr;
  const auto found = std::find_if(in->tensors.begin(), in->tensors.end(), of_name(tensor));
  return found == in->tensors.end() ? nullptr : &*found;
}

}  // namespace

bool PlacedWeights::has(std::string_view group, std::string_view tensor) const {
  return find(*layout, group, tensor) != nullptr;
}

TensorView PlacedWeights::tensor(std::string_view group, std::string_view tensor) const {
  const PlacedTensor* const found = find(*layout, group, tensor);
  CAUSEWAY_CHECK(found != nullptr, std::string(group) + "." + std::string(tensor));
  return {base + found->offset.count, found->rows, found->cols, layout->dtype};
}

}  // namespace causeway::weights
