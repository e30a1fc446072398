// The models that an executor can run, and which of them its steps in flight belong to. The
// executors of all backends share it.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/dcheck.h"
#include "base/result.h"
#include "base/units.h"

namespace causeway::engine {

// `Model` has a `forward` that can be null and a `layout` (kv::BlockLayout). Thread-safe.
template <typename Model>
class ExecutorModels {
 public:
  // `frame`: the size of the executor's frames.
  explicit ExecutorModels(Bytes frame, int steps_in_flight_max = 1)
      : frame_(frame), steps_in_flight_max_(steps_in_flight_max) {}

  // kInvalidArgument: already known, no forward pass, or a layout for another frame size.
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
    if (std::find(in_flight_.begin(), in_flight_.end(), id) != in_flight_.end()) {
      return unavailable("a step of model " + std::to_string(id.value) + " is in flight");
    }
    dropped = std::move(at->second);
    models_.erase(at);
    return {};
  }

  // The model of a submitted step, which stays until the step ends. kUnavailable while as many
  // steps as allowed are in flight; kNotFound.
  Result<Model*> begin_step(ModelId id) {
    const std::lock_guard lock(mutex_);
    if (std::ssize(in_flight_) >= steps_in_flight_max_) return unavailable("a step is in flight");
    const auto at = models_.find(id);
    if (at == models_.end()) {
      return not_found("model " + std::to_string(id.value) + " is not in the executor");
    }
    in_flight_.push_back(id);
    return at->second.get();
  }
  bool knows(ModelId id) const {
    const std::lock_guard lock(mutex_);
    return models_.contains(id);
  }
  // The oldest step has ended.
  void end_step() {
    const std::lock_guard lock(mutex_);
    CAUSEWAY_DCHECK(!in_flight_.empty(), "a step ends that was not begun");
    in_flight_.pop_front();
  }
  // The newest step was not started after all.
  void take_back_step() {
    const std::lock_guard lock(mutex_);
    CAUSEWAY_DCHECK(!in_flight_.empty(), "a step is taken back that was not begun");
    in_flight_.pop_back();
  }
  bool step_in_flight() const {
    const std::lock_guard lock(mutex_);
    return !in_flight_.empty();
  }

 private:
  const Bytes frame_;
  const int steps_in_flight_max_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<ModelId, std::unique_ptr<Model>> models_;
  std::deque<ModelId> in_flight_;  // the oldest first
};

}  // namespace causeway::engine
