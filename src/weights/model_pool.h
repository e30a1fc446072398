// The model pool: the home of all weights (decision 1; C2CServe §4). Each model is loaded once from
// its safetensors files into host regions and never changes, so that switching a model out is free.
//
// Thread-safe. load() blocks for the whole load and may run concurrently with everything else,
// including loads of other models; views stay valid while their PinnedModel lives, unload() or not.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/host_memory.h"
#include "weights/load_plan.h"

namespace causeway::weights {

// Where a kernel may read a weight now (decision 2). Host memory is both home and execution memory
// on the CPU backend.
enum class WeightPlace { kHome, kResident };

// A weight as a kernel sees it: [rows, cols] row-major in `place`. Borrowed from a PinnedModel.
struct WeightView {
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType dtype = DType::kBF16;
  WeightPlace place = WeightPlace::kHome;
};

// One group's place at home: what a copy of the whole group would move.
struct GroupRange {
  std::string name;
  device::HostAddress address;
  Bytes bytes;
};

struct LoadProgress {
  Bytes done;
  Bytes total;
  Nanos elapsed;
  double bytes_per_second = 0;
  Nanos remaining;  // estimate from the rate so far
};

struct LoadOptions {
  int threads = 0;  // readers; 0: two a CPU, at most 64
  // From a reader thread, one call at a time, at most 10 a second, and once more at the end.
  std::function<void(const LoadProgress&)> progress;
  std::function<bool()> cancelled;  // polled before each piece, by all readers at once
};

// A loaded model that cannot be unloaded while this lives. Move-only. Thread-safe.
class PinnedModel {
 public:
  virtual ~PinnedModel() = default;
  // The tensor `tensor` of `group`; a CHECK fails for a name that the plan did not have.
  virtual WeightView weight(std::string_view group, std::string_view tensor) const = 0;
  virtual const std::vector<GroupRange>& groups() const = 0;
  virtual Bytes bytes() const = 0;
};

struct PoolUse {
  Bytes budget;
  Bytes used;
  std::int64_t models = 0;
};

class ModelPool {
 public:
  // `memory` and `clock` are borrowed and must outlive the pool; the pool must outlive every
  // PinnedModel (a CHECK fails otherwise).
  ModelPool(device::HostMemory& memory, const Clock& clock, Bytes budget);
  ~ModelPool();
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  // Reads model.safetensors, or the shards of model.safetensors.index.json, in `directory`
  // (symbolic links of the hub cache are followed) and checks every tensor of the plan: present,
  // right shape, known dtype. kResourceExhausted: does not fit the budget (the message has the
  // numbers); kCorrupt, kNotFound, kUnsupported: names file and tensor; kInvalidArgument: it is
  // loaded already; kUnavailable: being loaded. On error nothing stays behind.
  Status load(ModelId model, const std::filesystem::path& directory, const LoadPlan& plan,
              const LoadOptions& options);

  // kUnavailable while pinned; kNotFound when not loaded.
  Status unload(ModelId model);

  // kNotFound when not loaded.
  Result<std::unique_ptr<PinnedModel>> pin(ModelId model);

  bool is_loaded(ModelId model) const;
  PoolUse use() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::weights
