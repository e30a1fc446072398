// The home of all weights (docs/decisions/0008-home-and-cache.md; C2CServe §4). A model is loaded
// once, from safetensors into host regions, and never changes: switching it out is free.
//
// Thread-safe. load() blocks for the whole load and may run concurrently with everything else,
// including loads of other models; views stay valid while their PinnedModel lives, unload() or not.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "device/host_memory.h"
#include "weights/load_plan.h"
#include "weights/weight_layout.h"

namespace causeway::weights {

struct LoadProgress {
  Bytes done;
  Bytes total;
  Nanos elapsed;
  double bytes_per_second = 0;
  Nanos remaining;  // estimated from the rate so far
};

// Called on the caller's thread before a model's memory is released, when nothing uses it any more,
// so that devices make it unreachable.
using HomeLeaves = std::function<void(device::HostAddress address, Bytes bytes)>;

struct LoadOptions {
  int threads = 0;  // readers; 0: two a CPU, at most 64
  // Called on a reader thread, one call at a time, at most 10 times a second and once at the end.
  std::function<void(const LoadProgress&)> progress = {};
  std::function<bool()> cancelled = {};  // polled before each piece, by all readers at once
  // Called on a thread of its own when the model's memory is there, while the bytes are read, so
  // that devices make it reachable. Its error fails the load.
  std::function<Status(device::HostAddress address, Bytes bytes)> home_taken = {};
  HomeLeaves home_leaves = {};  // called when a load fails
};

// A model's files and how to load them. Everything is borrowed.
struct ModelFiles {
  const std::filesystem::path& directory;
  const LoadPlan& plan;
  const WeightLayout& layout;  // of the plan
};

// A loaded model that cannot be unloaded while this lives. Thread-safe.
class PinnedModel {
 public:
  class Model;  // the pool's own
  explicit PinnedModel(Model& model);
  ~PinnedModel();
  PinnedModel(const PinnedModel&) = delete;
  PinnedModel& operator=(const PinnedModel&) = delete;

  const WeightLayout& layout() const;
  PlacedWeights weights() const;  // at home
  Bytes bytes() const { return layout().bytes; }
  // The address of an offset in the model.
  device::HostAddress address(Bytes offset = Bytes(0)) const;

 private:
  Model& model_;
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

  // Reads model.safetensors, or the shards of model.safetensors.index.json, in the directory
  // (symbolic links of the hub cache are followed) and checks every tensor of the plan: present,
  // right shape, known dtype. kResourceExhausted: does not fit the budget (the message has the
  // numbers); kCorrupt, kNotFound, kUnsupported: names file and tensor; kInvalidArgument: it is
  // loaded already; kUnavailable: being loaded. On error nothing stays behind.
  Status load(ModelId model, const ModelFiles& files, const LoadOptions& options);

  // Adds a model whose bytes `fill` writes, instead of files. Errors as load().
  Status make(ModelId model, const WeightLayout& layout,
              const std::function<Status(std::span<std::byte>)>& fill, const LoadOptions& options);

  // Adds a model whose bytes are in a region that another process loaded and shares
  // (HostMemory::adopt). It takes nothing of the budget. The region belongs to the pool from now
  // on, also when this fails. kCorrupt: the layout does not fit the region; kInvalidArgument,
  // kUnavailable: as load(). `home_taken` is called, and its error fails this call.
  Status adopt(ModelId model, const WeightLayout& layout, RegionId region,
               const LoadOptions& options);

  // kUnavailable while pinned; kNotFound when not loaded.
  Status unload(ModelId model, const HomeLeaves& home_leaves = {});

  // kNotFound when not loaded.
  Result<std::unique_ptr<PinnedModel>> pin(ModelId model);

  bool is_loaded(ModelId model) const;
  PoolUse use() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace causeway::weights
