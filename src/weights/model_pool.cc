#include "weights/model_pool.h"

#include <atomic>
#include <map>
#include <mutex>

#include "base/check.h"
#include "weights/checkpoint.h"
#include "weights/parallel_read.h"
#include "weights/pool_layout.h"

namespace causeway::weights {
namespace {

// A loaded model: immutable but for the number of its pins.
struct Model {
  std::vector<GroupRange> groups;
  std::map<std::string, std::map<std::string, WeightView, std::less<>>, std::less<>> weights;
  RegionId region;
  Bytes bytes;
  std::atomic<std::int64_t> pins{0};
};

class Pin final : public PinnedModel {
 public:
  explicit Pin(Model& model) : model_(model) { model_.pins.fetch_add(1); }
  ~Pin() override { model_.pins.fetch_sub(1); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  WeightView weight(std::string_view group, std::string_view tensor) const override {
    const auto in_group = model_.weights.find(group);
    CAUSEWAY_CHECK(in_group != model_.weights.end(), group);
    const auto found = in_group->second.find(tensor);
    CAUSEWAY_CHECK(found != in_group->second.end(), tensor);
    return found->second;
  }
  const std::vector<GroupRange>& groups() const override { return model_.groups; }
  Bytes bytes() const override { return model_.bytes; }

 private:
  Model& model_;
};

// Names the layout's tensors and groups with their places in memory.
std::unique_ptr<Model> make_model(const PoolLayout& layout, RegionId region,
                                  std::span<const std::byte> memory) {
  auto model = std::make_unique<Model>();
  model->region = region;
  model->bytes = layout.bytes;
  for (const PlacedGroup& group : layout.groups) {
    model->groups.push_back({group.name, {region, group.offset}, group.bytes});
    auto& weights = model->weights[group.name];
    for (const PlacedTensor& tensor : group.tensors) {
      weights[tensor.name] = {memory.data() + tensor.offset.count, tensor.rows, tensor.cols,
                              layout.dtype, WeightPlace::kHome};
    }
  }
  return model;
}

// Small numbers exactly: "0 MiB do not fit 0 MiB" helps nobody.
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

  // With the model's place reserved: allocates and reads. Releases what it allocated on error.
  Result<std::unique_ptr<Model>> read(const PoolLayout& layout, const Checkpoint& checkpoint,
                                      const LoadOptions& options) {
    const std::string name = checkpoint.path().parent_path().filename().string().substr(0, 80);
    CAUSEWAY_ASSIGN(const RegionId region, memory.allocate({.name = "causeway-weights-" + name,
                                                            .bytes = layout.bytes,
                                                            .huge_pages = true,
                                                            .touch_threads = options.threads}));
    const auto bytes = memory.resolve({region, Bytes(0)}, layout.bytes);
    const Status status = read_into(layout, checkpoint, bytes, options, clock);
    if (status.ok()) return make_model(layout, region, bytes);
    release(region);
    return status.error();
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

Status ModelPool::load(ModelId id, const std::filesystem::path& directory, const LoadPlan& plan,
                       const LoadOptions& options) {
  if (is_loaded(id)) return invalid_argument("the model is loaded already");
  CAUSEWAY_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(directory));
  CAUSEWAY_ASSIGN(const PoolLayout layout, plan_layout(plan, checkpoint));
  CAUSEWAY_TRY(state_->reserve(id, layout.bytes).with_context(directory.string()));
  auto model = state_->read(layout, checkpoint, options);
  if (!model.ok()) {
    state_->give_back(id, layout.bytes);
    return model.error();
  }
  const std::lock_guard lock(state_->mutex);
  state_->models[id] = std::move(model).value();
  return {};
}

Status ModelPool::unload(ModelId id) {
  std::unique_ptr<Model> model;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->models.find(id);
    if (found == state_->models.end()) return not_found("the model is not loaded");
    if (!found->second) return unavailable("the model is being loaded or unloaded");
    if (found->second->pins.load() > 0) return unavailable("the model is in use");
    model = std::move(found->second);
    // Null is "being loaded": nobody takes its place or its bytes before they are free.
  }
  state_->release(model->region);
  state_->give_back(id, model->bytes);
  return {};
}

Result<std::unique_ptr<PinnedModel>> ModelPool::pin(ModelId id) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->models.find(id);
  if (found == state_->models.end() || !found->second) return not_found("the model is not loaded");
  return std::unique_ptr<PinnedModel>(std::make_unique<Pin>(*found->second));
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
