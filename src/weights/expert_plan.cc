#include "weights/expert_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace causeway::weights {
namespace {

constexpr std::size_t kExpertTensors = 2;  // gate and up, down: at the end of the group

class ExpertPlanner {
 public:
  ExpertPlanner(const WeightLayout& layout, const StreamOptions& options)
      : from_(layout), options_(options) {
    plan_.layout.dtype = layout.dtype;
    plan_.layout.groups.resize(layout.groups.size());
  }

  // A group that stays, without its experts.
  void keep(const ReadingStep& step) {
    const PlacedGroup& group = source(step);
    plan_.resident.push_back(step.group);
    plan_.home.push_back(group.offset);
    place(step, step.experts > 0 ? group.tensors.size() - kExpertTensors : group.tensors.size());
    if (step.experts > 0) add_layer(step, group);
  }
  void place_without_memory(const ReadingStep& step) { place(step, source(step).tensors.size()); }

  void place_slots() {
    plan_.slots_offset = round_up(end_, options_.extent);
    plan_.slot_bytes = round_up(plan_.expert_bytes(), kTensorAlignment);
    const Bytes budget = options_.extent * (options_.budget / options_.extent);
    const Bytes room = std::max(budget - plan_.slots_offset, Bytes(0));
    plan_.slots = std::min(room / plan_.slot_bytes, std::ssize(plan_.layers) * plan_.experts);
    end_ = round_up(plan_.slots_end(), options_.extent);
  }

  const ExpertPlan& plan() const { return plan_; }
  ExpertPlan take() {
    plan_.layout.bytes = end_;
    return std::move(plan_);
  }

 private:
  const PlacedGroup& source(const ReadingStep& step) const {
    return from_.groups.at(static_cast<std::size_t>(step.group));
  }

  // The group's first tensors, as far from each other as at home.
  void place(const ReadingStep& step, std::size_t tensors) {
    const PlacedGroup& group = source(step);
    PlacedGroup& placed = plan_.layout.groups.at(static_cast<std::size_t>(step.group));
    placed.name = group.name;
    placed.offset = round_up(end_, kGroupAlignment);
    for (std::size_t i = 0; i < tensors; ++i) {
      PlacedTensor tensor = group.tensors[i];
      tensor.offset = placed.offset + (tensor.offset - group.offset);
      placed.tensors.push_back(std::move(tensor));
    }
    placed.bytes =
        tensors < group.tensors.size() ? group.tensors[tensors].offset - group.offset : group.bytes;
    end_ = placed.offset + placed.bytes;
  }

  void add_layer(const ReadingStep& step, const PlacedGroup& group) {
    const PlacedTensor& gate_up = group.tensors[group.tensors.size() - 2];
    const PlacedTensor& down = group.tensors.back();
    const auto bytes_of_one = [&](const PlacedTensor& tensor) {
      CAUSEWAY_CHECK(tensor.rows % step.experts == 0, "experts of different sizes");
      return size_of(from_.dtype) * (tensor.rows / step.experts * tensor.cols);
    };
    const Bytes one = bytes_of_one(gate_up), other = bytes_of_one(down);
    CAUSEWAY_CHECK(plan_.layers.empty() || (plan_.experts == step.experts && plan_.gate_up == one &&
                                            plan_.down == other),
                   "layers with experts of different sizes");
    plan_.experts = step.experts;
    plan_.gate_up = one;
    plan_.down = other;
    plan_.layers.push_back({step.group, gate_up.offset, down.offset});
  }

  const WeightLayout& from_;
  const StreamOptions& options_;
  ExpertPlan plan_;
  Bytes end_;
};

}  // namespace

Result<ExpertPlan> plan_experts(const WeightLayout& layout, std::span<const ReadingStep> reading,
                                const StreamOptions& options) {
  CAUSEWAY_CHECK(options.extent.count > 0, "an extent without a size");
  ExpertPlanner planner(layout, options);
  for (const ReadingStep& step : reading) {
    if (!step.readable_at_home) planner.keep(step);
  }
  if (planner.plan().layers.empty()) return invalid_argument("the model has no experts");
  planner.place_slots();
  for (const ReadingStep& step : reading) {
    if (step.readable_at_home) planner.place_without_memory(step);
  }
  if (planner.plan().slots > 0) return planner.take();
  const ExpertPlan& plan = planner.plan();
  return exhausted("the dense part of the model and one of its experts take " +
                   std::to_string((plan.slots_offset + plan.slot_bytes).count) +
                   " bytes of the device, and have " + std::to_string(options.budget.count));
}

}  // namespace causeway::weights
