// The changes of models, as events for clients that follow them: the form of llama.cpp's router
// (GET /models/sse). The fleet is looked at now and then, once for all followers; what comes and
// goes between two looks is not told, but a load that failed is.
//
//   look(fleet) ── differences ──▶ the last kEventsKept events ──▶ take(place), by each follower
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/fleet.h"

namespace causeway::server {

// "loaded", "loading", "sleeping" (in host memory, on no slice) or "unloaded".
std::string_view router_value(const fleet::ModelStatus& status);

// What the events of a model depend on.
struct WatchedModel {
  std::string_view value = "unloaded";  // router_value()
  std::int64_t loads_failed = 0;        // since the start
  int percent = -1;                     // of its load into host memory; negative: unknown

  bool operator==(const WatchedModel&) const = default;
};

using WatchedModels = std::map<std::string, WatchedModel>;

// The events, each a JSON object, for the changes from the first state to the second. Pure.
std::vector<std::string> model_events(const WatchedModels& before, const WatchedModels& after);

// Thread-safe.
class ModelWatch {
 public:
  // Looks at the fleet, unless it has been looked at within `period`. Takes time in proportion to
  // the catalogue.
  void look(const fleet::Fleet& fleet, Nanos now, Nanos period);
  // The position after the last event.
  std::int64_t place() const;
  // Returns the events since `place` as server-sent events, and moves `place` behind them; "":
  // there are none. nullopt: some of them are kept no longer.
  std::optional<std::string> take(std::int64_t& place) const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::optional<Nanos> looked_;
  bool looking_ = false;  // a thread is looking at the fleet
  WatchedModels models_;
  std::deque<std::string> events_;
  std::int64_t first_ = 0;  // the number of the first of events_
};

inline constexpr std::size_t kEventsKept = 4096;

}  // namespace causeway::server
