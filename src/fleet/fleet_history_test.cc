#include <gtest/gtest.h>

#include "base/testing/histories.h"
#include "base/testing/rounds.h"
#include "fleet/testing/fleet_history.h"

namespace causeway::fleet::fleet_history_test {
namespace {

using Report = testing::FleetHistoryReport;

constexpr Counted<Report> kFleetCounted[] = {
    {"requests", [](const Report& r) { return r.requests; }},
    {"routed", [](const Report& r) { return r.counters.routed; }, 5},
    {"refused", [](const Report& r) { return r.counters.refused; }, 1},
    {"cancelled while held", [](const Report& r) { return r.cancelled; }, 0.5},
    {"loads", [](const Report& r) { return r.counters.loads; }},
    {"of these failed", [](const Report& r) { return r.loads_failed; }, 0.1},
    {"and lost", [](const Report& r) { return r.counters.loads_lost; }, 0.1},
    {"unloads", [](const Report& r) { return r.counters.unloads; }, 0.5},
    {"models that did not let go", [](const Report& r) { return r.kept; }, 0.05},
    {"drops", [](const Report& r) { return r.drops; }, 0.05},
    {"drains", [](const Report& r) { return r.counters.drains; }, 0.1},
    {"best effort", [](const Report& r) { return r.counters.best_effort; }, 0.1},
    {"moves", [](const Report& r) { return r.counters.moves; }, 0.05},
    {"slices lost", [](const Report& r) { return r.slices_lost; }},
    {"requests that went on", [](const Report& r) { return r.counters.resumed; }, 0.1},
    {"that had ended", [](const Report& r) { return r.ended_late; }, 0.01},
    {"stalls", [](const Report& r) { return r.stalls; }, 0.1},
    {"times slices changed", [](const Report& r) { return r.counters.resizes; }, 0.25},
    {"requests withdrawn", [](const Report& r) { return r.counters.withdrawn; }, 0.1},
    {"times none opened", [](const Report& r) { return r.opened_none; }, 0.01},
    {"asks", [](const Report& r) { return r.asks; }},
    {"of these refused", [](const Report& r) { return r.asks_refused; }},
    {"models loaded", [](const Report& r) { return r.loaded_asked; }, 0.1},
    {"unloaded", [](const Report& r) { return r.unloaded_asked; }, 0.1},
    {"times all", [](const Report& r) { return r.slept; }, 0.1},
    {"of these behind requests", [](const Report& r) { return r.slept_behind; }, 0.01},
    {"and by cancelling", [](const Report& r) { return r.slept_aborting; }, 0.01},
    {"catalogues read", [](const Report& r) { return r.reloads; }},
    {"models found", [](const Report& r) { return r.found; }, 0.1},
    {"removed", [](const Report& r) { return r.counters.removed; }, 0.1},
    {"kept", [](const Report& r) { return r.gone_kept; }, 0.1},
    {"slices lost by a request", [](const Report& r) { return r.strikes; }, 0.1},
    {"requests suspected too often", [](const Report& r) { return r.suspects_ended; }, 0.1},
    {"moves of such that waited in more slices", [](const Report& r) { return r.waited_long; },
     0.1},
    {"models migrated", [](const Report& r) { return r.counters.migrations; }, 0.01},
    {"requests given back for it", [](const Report& r) { return r.given_back; }, 0.01}};

// One history with --gtest_random_seed=N, all of them without.
TEST(FleetHistory, RulesHoldAfterEveryEvent) {
  const SeedRange seeds =
      seeds_of("CAUSEWAY_FLEET_HISTORIES", rounds(5000), GTEST_FLAG_GET(random_seed));
  run_histories({"fleet_test", "FleetHistory"}, seeds, kFleetCounted, testing::run_fleet_history);
}

}  // namespace
}  // namespace causeway::fleet::fleet_history_test
