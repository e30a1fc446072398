// The models that an executor can run, and which of them its step in flight belongs to: what the
// executors of all backends share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/units.h"

namespace causeway::engine {

// `Model` has a `forward` that can be null and a `layout` (kv::BlockLayout). Thread-safe.
template <typename Model>
class ExecutorModels {
 public:
  // `frame`: the size of the executor's frames.
  explicit ExecutorModels(Bytes frame) : frame_(frame) {}

  // kInvalidArgument: known already, nothing to run, or a layout for another frame size.
  Status add(ModelId id, Model model) {
    if (!id.valid() || model.forward == nullptr) {
      return invalid_argument("a model needs an id and a forward pass");
    }
    if (model.layout.frame != frame_) {
      return invalid_argument("the model's block layout is for frames of " +
                              std::to_string(model.layout.frame.count) +
                              " bytes; the executor's have " + std::to_string(frame_.count));
    }
    auto owned = std::make_unique<Model>(std::move(model));
    const std::lock_guard lock(mutex_);
    if (!models_.try_emplace(id, std::move(owned)).second) {
      return invalid_argument("model " + std::to_string(id.value) + " is in the executor already");
    }
    return {};
  }

  // kNotFound; kUnavailable while a step of it is in flight.
  Status remove(ModelId id) {
    std::unique_ptr<Model> dropped;  // destroyed outside the lock
    const std::lock_guard lock(mutex_);
    const auto at = models_.find(id);
    if (at == models_.end()) {
      return not_found("model " + std::to_string(id.value) + " is not in the executor");
    }
    if (in_flight_ == id) {
      return unavailable("a step of model " + std::to_string(id.value) + " is in flight");
    }
    dropped = std::move(at->second);
    models_.erase(at);
    return {};
  }

  // The model of a step that begins; it stays until end_step(). kUnavailable while another step is
  // in flight; kNotFound.
  Result<Model*> begin_step(ModelId id) {
    const std::lock_guard lock(mutex_);
    if (in_flight_.valid()) return unavailable("a step is in flight");
    const auto at = models_.find(id);
    if (at == models_.end()) {
      return not_found("model " + std::to_string(id.value) + " is not in the executor");
    }
    in_flight_ = id;
    return at->second.get();
  }
  void end_step() {
    const std::lock_guard lock(mutex_);
    in_flight_ = ModelId();
  }
  bool step_in_flight() const {
    const std::lock_guard lock(mutex_);
    return in_flight_.valid();
  }

 private:
  const Bytes frame_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<ModelId, std::unique_ptr<Model>> models_;
  ModelId in_flight_;  // invalid: no step
};

}  // namespace causeway::engine
