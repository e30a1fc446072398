// Steps in flight that end in order. An engine has two such lanes (docs/design/streaming.md): of
// resident models, and of streamed ones, whose long steps must not hold up the others. Internal
// to this room.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "schedule/scheduler.h"
#include "weights/weight_layout.h"

namespace causeway::engine {

struct Sequence;

// One step runs and one is enqueued behind it. With more, pending tokens would have to name the
// step that they come from.
inline constexpr int kStepsInFlightMax = 2;

struct StepInFlight {
  StepId id;
  Nanos started;   // or, if later, when the one before it ended
  Nanos computes;  // the time that it is expected to take
  schedule::Decision decision;
  std::vector<Sequence*> sequences;       // beside Decision::runs; null: ended
  std::vector<std::int64_t> scored;       // likewise: how many rows of it are scored
  std::vector<FrameId> abandoned_frames;  // of ended ones; the step still uses them
  std::vector<weights::WeightView> weights;  // as submitted
  bool awaits_masks = false;                 // StepExecutor::supply_masks() is due
  // Why the executor refused it; it fails when the steps before it have ended.
  std::string refused;
};

struct StepLane {
  explicit StepLane(int most) : in_flight_max(most) {}

  // Counts the lane's own steps from 0.
  static std::size_t slot_of(std::int64_t step) {
    return static_cast<std::size_t>(step % kStepsInFlightMax);
  }
  int in_flight() const { return static_cast<int>(started - ended); }
  StepInFlight& at(std::int64_t step) { return steps[slot_of(step)]; }
  const StepInFlight& at(std::int64_t step) const { return steps[slot_of(step)]; }
  StepInFlight& oldest() { return at(ended); }
  const StepInFlight& oldest() const { return at(ended); }
  StepInFlight& next() { return at(started); }
  StepInFlight& newest() { return at(started - 1); }
  const StepInFlight& newest() const { return at(started - 1); }
  // Nothing is enqueued after a step that was refused, or that awaits masks.
  bool has_room() const {
    if (in_flight() == 0) return true;
    return in_flight() < in_flight_max && newest().refused.empty() && !newest().awaits_masks;
  }

  int in_flight_max;
  std::array<StepInFlight, kStepsInFlightMax> steps;  // by slot_of
  std::int64_t started = 0;
  std::int64_t ended = 0;
};

}  // namespace causeway::engine
