// EngineCore::check_integrity: compares core, scheduler, KV cache and residency with each other.
#include <string>
#include <unordered_set>

#include "engine/core_state.h"

namespace causeway::engine {

Status EngineCore::check_integrity() const {
  CAUSEWAY_TRY(state_->kv.check_integrity());
  CAUSEWAY_TRY(state_->scheduler.check_integrity(state_->kv));
  if (state_->border) CAUSEWAY_TRY(state_->border->check_integrity());
  if (state_->cache) CAUSEWAY_TRY(state_->cache->residency().check_integrity());
  const std::int64_t scheduled = state_->scheduler.sequences();
  if (scheduled != requests()) {
    return corrupt("engine: " + std::to_string(requests()) +
                   " requests, scheduler: " + std::to_string(scheduled));
  }
  // Only sequences and steps in flight hold frames, and the frames that they hold are not free.
  std::unordered_set<std::int64_t> held;
  for (const auto& [id, sequence] : state_->sequences) {
    if (sequence->output_tokens() >= sequence->request.max_tokens.count) {
      return corrupt("engine: request " + std::to_string(id.value) + " should have ended");
    }
    if (!state_->kv.is_open(id)) continue;
    for (const FrameId frame : state_->kv.table(id)) held.insert(frame.value);
  }
  for (const StepLane& lane : state_->lanes) {
    for (const StepInFlight& step : lane.steps) {
      for (const FrameId frame : step.abandoned_frames) held.insert(frame.value);
    }
  }
  const kv::FrameCounts counts = state_->kv.counts();
  const auto in_use = static_cast<std::int64_t>(held.size());
  // Copies hold frames as well, which only the cache knows.
  if (in_use > counts.in_use() || (!state_->rotation && in_use != counts.in_use())) {
    return corrupt("engine: sequences and the step in flight use " + std::to_string(in_use) +
                   " frames, but " + std::to_string(counts.referenced) + " are referenced and " +
                   std::to_string(counts.quarantined) + " quarantined");
  }
  return {};
}

}  // namespace causeway::engine
