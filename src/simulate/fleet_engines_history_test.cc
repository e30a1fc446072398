#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>

#include "base/testing/histories.h"
#include "simulate/testing/fleet_engines_history.h"

namespace causeway::simulate::fleet_engines_history_test {
namespace {

using Report = FleetEnginesReport;

constexpr Counted<Report> kEnginesCounted[] = {
    {"requests", [](const Report& r) { return r.requests; }},
    {"finished", [](const Report& r) { return r.finished; }, 10},
    {"of these on other slices", [](const Report& r) { return r.resumed_finished; }, 0.25},
    {"cancelled", [](const Report& r) { return r.cancelled; }, 0.5},
    {"that ended in errors", [](const Report& r) { return r.errors; }, 0.5},
    {"of these of hanging devices", [](const Report& r) { return r.hung; }},
    {"tokens", [](const Report& r) { return r.tokens; }},
    {"steps", [](const Report& r) { return r.simulation.serving.device.steps; }},
    {"of these streamed",
     [](const Report& r) { return r.simulation.serving.device.streamed_steps; }, 0.25},
    {"instants", [](const Report& r) { return r.instants; }},
    {"slices lost", [](const Report& r) { return r.simulation.slices_lost; }, 0.5},
    {"requests that went on", [](const Report& r) { return r.simulation.fleet.resumed; }},
    {"machines divided anew", [](const Report& r) { return r.simulation.fleet.resizes; }, 0.25},
    {"requests withdrawn for it", [](const Report& r) { return r.simulation.fleet.withdrawn; },
     0.05},
    {"troubles of links", [](const Report& r) { return r.troubles; }, 0.25},
    {"jumps of the clock", [](const Report& r) { return r.jumps; }, 0.1},
    {"pauses", [](const Report& r) { return r.pauses; }, 0.1},
    {"loads", [](const Report& r) { return r.simulation.fleet.loads; }},
    {"of these lost", [](const Report& r) { return r.simulation.fleet.loads_lost; }, 0.25},
    {"unloads", [](const Report& r) { return r.simulation.fleet.unloads; }, 0.5},
    {"drains", [](const Report& r) { return r.simulation.fleet.drains; }, 0.03},
    {"moves of models", [](const Report& r) { return r.simulation.fleet.moves; }, 0.25},
    {"migrations", [](const Report& r) { return r.simulation.fleet.migrations; }},
    {"evictions", [](const Report& r) { return r.simulation.serving.weights.evictions; }, 0.25},
    {"preemptions", [](const Report& r) { return r.simulation.serving.engine.preemptions; }, 0.1},
    {"blocks of KV back",
     [](const Report& r) { return r.simulation.serving.engine.kv_copies.rotation_in; }, 0.25}};

// One history with --gtest_random_seed=N; without, a twentieth of those of one engine.
TEST(FleetEngines, RulesHoldAtEveryInstant) {
  const SeedRange seeds =
      seeds_of("CAUSEWAY_ENGINE_HISTORIES", CAUSEWAY_HISTORIES / 20, GTEST_FLAG_GET(random_seed));
  std::int64_t requests = 0, errors = 0;
  std::map<std::string, std::int64_t> causes;
  run_histories({"simulate_test", "FleetEngines"}, seeds, kEnginesCounted, [&](std::uint64_t seed) {
    Report report = run_fleet_engines_history(seed);
    requests += report.requests;
    errors += report.errors;
    for (const auto& [cause, times] : report.causes) causes[cause] += times;
    return report;
  });
  for (const auto& [cause, times] : causes) {
    std::cout << "  " << times << " errors: " << cause << "\n";
  }
  // One that ends early tests little. Few histories may have many, by chance.
  if (seeds.count() >= 100) {
    EXPECT_LT(errors, requests / 4);
  }
}

TEST(FleetEngines, TheSameSeedGivesTheSameHistory) {
  for (const std::uint64_t seed : {1, 7, 23}) {
    const auto once = run_fleet_engines_history(seed, true);
    const auto again = run_fleet_engines_history(seed, true);
    EXPECT_EQ(to_json(once.simulation), to_json(again.simulation));
    EXPECT_EQ(once.instants, again.instants);
  }
}

}  // namespace
}  // namespace causeway::simulate::fleet_engines_history_test
