#include "bench/switch_bench.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/switch_stage.h"

namespace causeway::bench {
namespace {

using engine::StepStart;

const char* name_of(StepStart start) {
  switch (start) {
    case StepStart::kJustInTime: return "just in time";
    case StepStart::kAllCached: return "all cached";
    case StepStart::kAtOnce: return "at once";
    case StepStart::kWhenIdle: return "when idle";
  }
  return "";
}

// The other ways to start a step, on the same models at home: what a full reload before computing
// and reading through while holding the device would give.
Status measure_baselines(const SwitchSettings& settings, slice::ModelHome& home,
                         const SwitchLimits& limits, const Clock& clock,
                         std::vector<Figure>& rows) {
  for (const StepStart start :
       {StepStart::kJustInTime, StepStart::kAllCached, StepStart::kAtOnce}) {
    if (start == settings.start) continue;
    SwitchSettings without_disk = settings;
    without_disk.from_disk = false;
    SwitchStage stage(without_disk, home, clock, start);
    stage.say(std::string("baseline: ") + name_of(start));
    CAUSEWAY_TRY(stage.open());
    std::vector<Figure> figures;
    CAUSEWAY_TRY(measure_home(stage, limits, figures));
    if (start == StepStart::kAllCached) CAUSEWAY_TRY(measure_sleep(stage, limits, figures));
    CAUSEWAY_TRY(measure_beside(stage, limits, figures));
    for (Figure& figure : figures) {
      figure.start = name_of(start);
      figure.wanted = 0;  // of what serves
      rows.push_back(std::move(figure));
    }
  }
  return {};
}

// How long a switch takes against a full reload, and against sleep and wake, of the same run.
void add_ratios(std::vector<Figure>& rows) {
  struct Baseline {
    const char* what;
    const char* figure;
    double wanted;
  };
  constexpr Baseline kBaselines[] = {
      {"first token from home ÷ full reload", "first token, from home", 0.95},
      {"first token from home ÷ sleep and wake", "first token, another copied out before", 0.55}};
  const std::vector<Figure> measured = rows;
  const std::string baseline = name_of(StepStart::kAllCached);
  for (const Figure& of : measured) {
    if (of.what != "first token, from home" || !of.start.empty()) continue;
    for (const Baseline& against : kBaselines) {
      for (const Figure& other : measured) {
        if (other.what != against.figure || other.start != baseline || other.model != of.model) {
          continue;
        }
        rows.push_back(figure_of(against.what, Samples{{of.measured / other.measured}},
                                 {.value = 1, .name = "the baseline", .wanted = against.wanted})
                           .in("×"));
        rows.back().model = of.model;
      }
    }
  }
}

}  // namespace

Result<SwitchReport> bench_switch(const SwitchSettings& settings, const Clock& clock) {
  if (settings.configs.empty()) return invalid_argument("no model to switch between");
  CAUSEWAY_ASSIGN(const Bytes budget, settings.slice.home());
  slice::ModelHome home(clock, budget);
  SwitchReport report;
  SwitchLimits limits;
  {
    SwitchStage stage(settings, home, clock, settings.start);
    CAUSEWAY_TRY(stage.open());
    CAUSEWAY_ASSIGN(limits.link, stage.measure_link());
    CAUSEWAY_ASSIGN(limits.links, stage.measure_links());
    CAUSEWAY_TRY(measure_cached(stage, limits.cached, report.rows));
    CAUSEWAY_TRY(measure_home(stage, limits, report.rows));
    CAUSEWAY_TRY(measure_beside(stage, limits, report.rows));
    CAUSEWAY_TRY(measure_zipf(stage, report.rows));
    CAUSEWAY_TRY(measure_disk(stage, report.rows));
  }
  if (settings.baselines) {
    CAUSEWAY_TRY(measure_baselines(settings, home, limits, clock, report.rows));
    add_ratios(report.rows);
  }
  return report;
}

nlohmann::ordered_json report_json(const SwitchReport& report) {
  return {{"bench", "switch"}, {"rows", figures_json(report.rows)}};
}

}  // namespace causeway::bench
