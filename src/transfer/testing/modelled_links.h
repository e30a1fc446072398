// The dispatcher on modelled links in virtual time, which tests use instead of a machine. The model
// has no priorities or depths, which are the dispatcher's task.
//
// One link works through its chunks in order, one crossing at a time each way, as a copy engine
// does; a relayed chunk takes the GPUs' peer link as well.
//
// Deterministic. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "device/link_profile.h"
#include "transfer/dispatcher.h"

namespace causeway::transfer::testing {

// Traffic of another program: one copy after the other over one path.
struct BackgroundTraffic {
  int source = device::kHostEnd;
  int target = 0;
  Bytes copy_bytes = mib(16);
  Nanos begin = {};
  Nanos end = seconds(3600);
};

// The long-run rate of a set of links in bytes per second, when each carries one copy after the
// other at the same time as `background`: to (or from) its own GPU, or through it to (or from)
// `target`.
struct SteadyLoad {
  Direction direction = Direction::kIn;
  LinkSet links;
  std::optional<int> target;
  std::vector<BackgroundTraffic> background;
};
double steady_rate(const device::LinkProfile& profile, const SteadyLoad& load);

struct SimulatedTask {
  TaskSpec spec;
  Nanos at;
};

struct SimulationSetup {
  device::LinkProfile profile;
  DispatchOptions options;
  PathFacts facts;
  Nanos notice = micros(5);  // until an end is seen and the next chunk begins its way
  // Before so long after a task came to an idle engine no end is seen: its thread wakes up.
  Nanos wake = {};
  std::vector<SimulatedTask> tasks;
  std::vector<BackgroundTraffic> background;
  Nanos limit = seconds(3600);  // virtual; what has not ended then never does
};

struct SimulatedEnd {
  Nanos at;
  bool ok = false;
};

struct SimulationResult {
  std::map<TaskId, SimulatedEnd> tasks;
  std::vector<std::array<LinkTraffic, kDirections>> links;
  std::vector<Bytes> background;  // bytes moved by each
  Nanos end;
};

SimulationResult simulate_transfers(SimulationSetup setup);

}  // namespace causeway::transfer::testing
