#include "weights/model_pool.h"

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "weights/checkpoint.h"
#include "weights/parallel_read.h"
#include "weights/read_plan.h"

namespace causeway::weights {

// Immutable but for the number of its pins.
class PinnedModel::Model {
 public:
  WeightLayout layout;
  RegionId region;
  std::span<std::byte> memory;
  Bytes budget;  // what it takes of the pool's
  std::atomic<std::int64_t> pins{0};
};

PinnedModel::PinnedModel(Model& model) : model_(model) { model_.pins.fetch_add(1); }
PinnedModel::~PinnedModel() { model_.pins.fetch_sub(1); }
const WeightLayout& PinnedModel::layout() const { return model_.layout; }
PlacedWeights PinnedModel::weights() const { return {&model_.layout, model_.memory.data()}; }
device::HostAddress PinnedModel::address(Bytes offset) const { return {model_.region, offset}; }

namespace {

using Model = PinnedModel::Model;
using Fill = std::function<Status(std::span<std::byte>)>;

// What makes the memory reachable, beside what fills it.
class Beside {
 public:
  Beside(const LoadOptions& options, device::HostAddress address, Bytes bytes) {
    if (!options.home_taken) return;
    work_ = [this, &options, address, bytes] { outcome_ = options.home_taken(address, bytes); };
    try {
      thread_ = std::thread(work_);
    } catch (const std::system_error&) {
      work_();  // takes longer, no more
    }
  }
  ~Beside() { (void)end(); }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  Status end() {
    if (thread_.joinable()) thread_.join();
    return outcome_;
  }

 private:
  std::function<void()> work_;
  Status outcome_;
  std::thread thread_;
};

// Small numbers are told exactly: "0 MiB do not fit 0 MiB" does not help.
std::string in_mib(Bytes bytes) {
  if (bytes < mib(10)) return std::to_string(bytes.count / kib(1).count) + " KiB";
  return std::to_string(bytes.count / mib(1).count) + " MiB";
}

}  // namespace

class ModelPool::State {
 public:
  State(device::HostMemory& host_memory, const Clock& pool_clock, Bytes budget_bytes)
      : memory(host_memory), clock(pool_clock), budget(budget_bytes) {}

  // Takes the model's bytes from the budget, and its place among the models.
  Status reserve(ModelId id, Bytes bytes) {
    const std::lock_guard lock(mutex);
    if (const auto found = models.find(id); found != models.end()) {
      return found->second ? invalid_argument("the model is loaded already")
                           : unavailable("the model is being loaded or unloaded");
    }
    if (bytes > budget - used) {
      return exhausted("the model needs " + in_mib(bytes) + ", but of the pool's " +
                       in_mib(budget) + " only " + in_mib(budget - used) +
                       " are free; unload a model or make the pool larger");
    }
    used += bytes;
    models[id] = nullptr;
    return {};
  }

  void give_back(ModelId id, Bytes bytes) {
    const std::lock_guard lock(mutex);
    used -= bytes;
    models.erase(id);
  }

  // With the model's place reserved: allocates and fills. Releases what it allocated on error.
  Result<std::unique_ptr<Model>> fill(const std::string& name, const WeightLayout& layout,
                                      const Fill& write, const LoadOptions& options) {
    auto model = std::make_unique<Model>();
    model->layout = layout;
    model->budget = layout.bytes;
    CAUSEWAY_ASSIGN(model->region, memory.allocate({.name = "causeway-weights-" + name,
                                                    .bytes = layout.bytes,
                                                    .huge_pages = true,
                                                    .touch_threads = options.threads}));
    model->memory = memory.resolve({model->region, Bytes(0)}, layout.bytes);
    Beside beside(options, {model->region, Bytes(0)}, layout.bytes);
    const Status written = write(model->memory);
    const Status reachable = beside.end();
    if (written.ok() && reachable.ok()) return model;
    if (options.home_leaves) options.home_leaves({model->region, Bytes(0)}, layout.bytes);
    release(model->region);
    return written.ok() ? reachable.error() : written.error();
  }

  // The whole of a load: takes the bytes from the budget, makes the model, and gives them back when
  // that fails.
  Status add(ModelId id, const std::filesystem::path& name, const WeightLayout& layout,
             const Fill& write, const LoadOptions& options) {
    CAUSEWAY_TRY(reserve(id, layout.bytes).with_context(name.string()));
    auto model = fill(name.filename().string().substr(0, 80), layout, write, options);
    if (!model.ok()) {
      give_back(id, layout.bytes);
      return model.error();
    }
    const std::lock_guard lock(mutex);
    models[id] = std::move(model).value();
    return {};
  }

  // With the model's place reserved. Releases the region on error.
  Result<std::unique_ptr<Model>> take(const WeightLayout& layout, RegionId region,
                                      const LoadOptions& options) {
    const device::HostAddress address{region, Bytes(0)};
    Status fits;
    if (layout.bytes > memory.region_bytes(region)) {
      fits = corrupt("a model of " + in_mib(layout.bytes) + " in shared memory of " +
                     in_mib(memory.region_bytes(region)));
    }
    if (fits.ok() && options.home_taken) {
      fits = options.home_taken(address, layout.bytes);
      if (!fits.ok() && options.home_leaves) options.home_leaves(address, layout.bytes);
    }
    if (!fits.ok()) {
      release(region);
      return fits.error();
    }
    auto model = std::make_unique<Model>();
    model->layout = layout;
    model->region = region;
    model->memory = memory.resolve(address, layout.bytes);
    return model;
  }

  void release(RegionId region) {
    const Status status = memory.release(region);
    CAUSEWAY_CHECK(status.ok(), status.ok() ? "" : status.error().message);
  }

  device::HostMemory& memory;
  const Clock& clock;
  const Bytes budget;
  mutable std::mutex mutex;  // guards what follows; not held while a model is read
  Bytes used;
  std::map<ModelId, std::unique_ptr<Model>> models;  // null while it is being loaded or unloaded
};

ModelPool::ModelPool(device::HostMemory& memory, const Clock& clock, Bytes budget)
    : state_(std::make_unique<State>(memory, clock, budget)) {}

ModelPool::~ModelPool() {
  for (const auto& [id, model] : state_->models) {
    CAUSEWAY_CHECK(model != nullptr, "the pool ends while a model is being loaded");
    CAUSEWAY_CHECK(model->pins.load() == 0, "the pool ends while a model is pinned");
    state_->release(model->region);
  }
}

Status ModelPool::load(ModelId id, const ModelFiles& files, const LoadOptions& options) {
  if (is_loaded(id)) return invalid_argument("the model is loaded already");
  CAUSEWAY_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(files.directory));
  CAUSEWAY_ASSIGN(const ReadPlan reads, plan_reads(files.plan, files.layout, checkpoint));
  return state_->add(
      id, files.directory, files.layout,
      [&](std::span<std::byte> memory) {
        return read_into(reads, checkpoint, memory, options, state_->clock);
      },
      options);
}

Status ModelPool::make(ModelId id, const WeightLayout& layout,
                       const std::function<Status(std::span<std::byte>)>& fill,
                       const LoadOptions& options) {
  if (is_loaded(id)) return invalid_argument("the model is loaded already");
  return state_->add(id, "made-" + std::to_string(id.value), layout, fill, options);
}

Status ModelPool::adopt(ModelId id, const WeightLayout& layout, RegionId region,
                        const LoadOptions& options) {
  if (const Status free = state_->reserve(id, Bytes(0)); !free.ok()) {
    state_->release(region);
    return free;
  }
  auto model = state_->take(layout, region, options);
  if (!model.ok()) {
    state_->give_back(id, Bytes(0));
    return model.error();
  }
  const std::lock_guard lock(state_->mutex);
  state_->models[id] = std::move(model).value();
  return {};
}

Status ModelPool::unload(ModelId id, const HomeLeaves& home_leaves) {
  std::unique_ptr<Model> model;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->models.find(id);
    if (found == state_->models.end()) return not_found("the model is not loaded");
    if (!found->second) return unavailable("the model is being loaded or unloaded");
    if (found->second->pins.load() > 0) return unavailable("the model is in use");
    model = std::move(found->second);
    // Null is "being loaded": no other model takes its place or its bytes before they are free.
  }
  if (home_leaves) home_leaves({model->region, Bytes(0)}, model->layout.bytes);
  state_->release(model->region);
  state_->give_back(id, model->budget);
  return {};
}

Result<std::unique_ptr<PinnedModel>> ModelPool::pin(ModelId id) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->models.find(id);
  if (found == state_->models.end() || !found->second) return not_found("the model is not loaded");
  return std::make_unique<PinnedModel>(*found->second);
}

bool ModelPool::is_loaded(ModelId id) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->models.find(id);
  return found != state_->models.end() && found->second != nullptr;
}

PoolUse ModelPool::use() const {
  const std::lock_guard lock(state_->mutex);
  std::int64_t loaded = 0;
  for (const auto& [id, model] : state_->models) loaded += model != nullptr;
  return {state_->budget, state_->used, loaded};
}

}  // namespace causeway::weights
