// A backend, assembled: what the fleet asks for (SliceBackend), and what the engine runs on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/step_executor.h"
#include "fleet/slice_backend.h"
#include "weights/model_pool.h"

namespace causeway::app {

class Backend : public fleet::SliceBackend {
 public:
  virtual engine::StepExecutor& executor() = 0;
  virtual std::int64_t frames() const = 0;
};

// Logs a load's progress every few seconds, so that a long one is seen to move.
std::function<void(const weights::LoadProgress&)> log_progress(std::string name);
// Logs that a model has been loaded, and how fast.
void log_loaded(const std::string& name, Bytes bytes, Nanos took);

}  // namespace causeway::app
