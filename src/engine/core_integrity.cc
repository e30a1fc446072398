// EngineCore::check_integrity: core, scheduler, KV cache and residency, each against the others.
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
  // Only the sequences and the step in flight hold frames, and what they hold is not free.
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
  // Copies hold frames, too, which only the cache knows.
  if (in_use > counts.in_use() || (!state_->rotation && in_use != counts.in_use())) {
    return corrupt("engine: sequences and the step in flight use " + std::to_string(in_use) +
                   " frames, but " + std::to_string(counts.referenced) + " are referenced and " +
                   std::to_string(counts.quarantined) + " quarantined");
  }
  return {};
}

}  // namespace causeway::engine
