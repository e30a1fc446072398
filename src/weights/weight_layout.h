// Where each tensor of a model lies, the same in every memory: a tensor's address is a base, which
// differs by memory (host memory, a device's arena, a benchmark's buffer), and an offset, which
// does not.
//
//   base │ group 0: tensor │ tensor │ … ░░ │ group 1: tensor │ … │
//        ^ 4 KiB             ^ 256 B         ^ 4 KiB
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "weights/load_plan.h"

namespace causeway::weights {

inline constexpr Bytes kTensorAlignment = Bytes(256);  // what any kernel's loads want
inline constexpr Bytes kGroupAlignment = kib(4);

struct PlacedTensor {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Bytes offset;  // from the model's base
};

// A group of tensors, which one copy over the link moves.
struct PlacedGroup {
  std::string name;
  Bytes offset;  // from the model's base
  Bytes bytes;
  std::vector<PlacedTensor> tensors;
};

struct WeightLayout {
  DType dtype = DType::kBF16;
  Bytes bytes;
  std::vector<PlacedGroup> groups;  // in the plan's order
};

// kResourceExhausted for a model beyond 2^50 bytes.
Result<WeightLayout> lay_out(const LoadPlan& plan);

// A tensor as a kernel sees it: [rows, cols] row-major.
struct TensorView {
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kBF16;
};

// A model's weights in one memory. Borrows the layout and the memory.
struct PlacedWeights {
  const WeightLayout* layout = nullptr;
  const std::byte* base = nullptr;

  // The tensor of this name; a CHECK fails for a name that the plan did not have.
  TensorView tensor(std::string_view group, std::string_view tensor) const;
  bool has(std::string_view group, std::string_view tensor) const;
};

// Where a step reads a group (docs/decisions/0009-ways-to-read-a-weight.md).
enum class WeightPlace : std::uint8_t {
  kCached,  // at the cache's address, now
  kStaged,  // at the cache's address, once its semaphore has been raised
  kHome,    // at its home
};

struct WeightView {
  WeightPlace place = WeightPlace::kCached;
  // For kStaged: raised to `value` when the group is there.
  const device::Semaphore* ready = nullptr;
  std::uint32_t value = 0;
  // For kStaged, when the group passes through a ring: the executor raises `consumed` to this value
  // after its last read of the group.
  device::Semaphore* consumed = nullptr;
  std::uint32_t consumed_value = 0;
  // For a layer whose experts are cached one by one, by expert: its slot; -1: at home. Otherwise
  // empty.
  std::span<const std::int32_t> slots = {};
};

// Where the slots of cached experts are; each has gate, up and down of one expert
// (weights/expert_plan.h). No base: experts are read with their layers.
struct ExpertSlots {
  const std::byte* base = nullptr;
  Bytes bytes;    // from one slot to the next
  Bytes gate_up;  // bytes of an expert's gate and up, which its down follows

  const std::byte* slot(std::int32_t index) const { return base + (bytes * index).count; }
};

// By group of the layout, for one step; empty: every group is cached. Valid until the step has
// ended.
using StepWeights = std::span<const WeightView>;

}  // namespace causeway::weights
