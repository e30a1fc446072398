// A large fleet for timing decisions: 10,000 models on 1,000 slices, which share 250 links. One
// event a decision: requests arrive by a Zipf over the models, end, and what the core asks for is
// answered.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/random.h"
#include "fleet/fleet_core.h"

namespace causeway::fleet::testing {

inline constexpr std::int64_t kLargeFleetModels = 10'000;
inline constexpr std::int64_t kLargeFleetSlices = 1'000;
inline constexpr std::int64_t kLargeFleetSlicesOfLink = 4;
inline constexpr Bytes kLargeFleetWeights = gib(2);

struct LargeFleetScenario {
  bool moves;
  std::int64_t running;  // requests at a time
};

inline FleetSpec large_fleet_spec(const LargeFleetScenario& scenario) {
  FleetSpec spec;
  for (std::int64_t i = 0; i < kLargeFleetModels; ++i) {
    ModelSpec& model = spec.models.emplace_back();
    model.weights = kLargeFleetWeights;
    model.flops_per_token = 2e9;
    model.prompt = Tokens(500);
  }
  spec.links.assign(kLargeFleetSlices / kLargeFleetSlicesOfLink, {.bytes_per_second = 5e10});
  for (std::int64_t i = 0; i < kLargeFleetSlices; ++i) {
    spec.slices.push_back({.link = LinkId(i / kLargeFleetSlicesOfLink),
                           .models_max = scenario.moves ? 0 : 8,
                           .memory = gib(20),
                           .memory_bytes_per_second = 1e12,
                           .flops_per_second = 2e14});
  }
  return spec;
}

// Requests come to models as often as 1 ÷ rank.
class LargeFleetZipf {
 public:
  LargeFleetZipf() {
    for (std::int64_t i = 0; i < kLargeFleetModels; ++i) {
      sums_.push_back((sums_.empty() ? 0 : sums_.back()) + 1 / static_cast<double>(i + 1));
    }
  }
  ModelId draw(Random& random) const {
    const double at = random.uniform() * sums_.back();
    return ModelId(std::lower_bound(sums_.begin(), sums_.end(), at) - sums_.begin());
  }

 private:
  std::vector<double> sums_;
};

// All models are made known, and answers come at once.
class LargeFleet {
 public:
  explicit LargeFleet(const LargeFleetScenario& scenario)
      : scenario_(scenario),
        core_(large_fleet_spec(scenario),
              {.waiting_max = 1 << 20,
               .loads_max = 64,
               .room_timeout = seconds(10),
               .moves = scenario.moves},
              make_placement(PlacementKind::kBandwidth)) {
    for (std::int64_t i = 0; i < 30 * kLargeFleetModels; ++i) happen();
    decisions_ = Histogram();
  }

  // One event, timed.
  Nanos happen() {
    now_ += millis(1);
    const Event event = next();
    const Nanos begin = clock_.now();
    const std::vector<Action> actions = core_.on_event(event, now_);
    const Nanos took = clock_.now() - begin;
    for (const Action& action : actions) std::visit([this](const auto& one) { do_(one); }, action);
    decisions_.record(took.count);
    return took;
  }
  const Histogram& decisions() const { return decisions_; }
  const FleetCounters& counters() const { return core_.counters(); }

 private:
  Event next() {
    if (!answers_.empty()) {
      Event answer = std::move(answers_.front());
      answers_.pop_front();
      return answer;
    }
    if (std::ssize(running_) + core_.waiting() < scenario_.running) {
      return RequestArrived{RequestId(next_id_++), zipf_.draw(random_), {}, now_};
    }
    if (running_.empty()) return Woken{};
    const auto i = static_cast<std::size_t>(random_.below(std::ssize(running_)));
    std::swap(running_[i], running_.back());
    const RequestId ended = running_.back();
    running_.pop_back();
    return RequestEnded{ended};
  }
  void do_(const Route& route) { running_.push_back(route.request); }
  void do_(const Withdraw&) { CAUSEWAY_CHECK(false, "this placement has none migrate"); }
  void do_(const CancelOn&) {}
  void do_(const Refuse&) {}
  void do_(const Answered&) {}  // nothing here asks
  void do_(const LoadFailed&) {}
  void do_(const Resize&) {}  // nothing here asks for other slices, or another catalogue
  void do_(const Reread&) {}
  void do_(const ModelRemoved&) {}
  void do_(const ModelKept&) {}
  void do_(const Measure& one) {
    const Bytes room = kLargeFleetWeights * kLargeFleetModels;
    answers_.push_back(Measured{one.model, HostRoom{kLargeFleetWeights, core_.host_used(),
                                                    scenario_.moves ? room : room / 2}});
  }
  void do_(const Load& one) { answers_.push_back(LoadEnded{one.model, Bytes(0)}); }
  void do_(const Unload& one) { answers_.push_back(UnloadEnded{one.model, {}}); }
  void do_(const Drop& one) { answers_.push_back(DropEnded{one.model}); }

  const LargeFleetScenario scenario_;
  const RealClock clock_;
  const LargeFleetZipf zipf_;
  Random random_{1};
  FleetCore core_;
  Nanos now_;
  std::int64_t next_id_ = 0;
  std::vector<RequestId> running_;
  std::deque<Event> answers_;
  Histogram decisions_;
};

}  // namespace causeway::fleet::testing
