// Models that come from home, because the cache holds fewer of them than are asked in turn: with
// nothing else running, and while another model decodes.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "bench/neighbour.h"
#include "bench/switch_stage.h"

namespace causeway::bench {
namespace {

constexpr double kSlack = 10;             // ms, beside what a limit allows
constexpr std::int64_t kTries = 4;        // requests for each that is wanted from home whole
constexpr std::size_t kAloneTokens = 40;  // of the neighbour, between two that come

using Seen = std::function<Status(std::int64_t model, const Asked& asked, Nanos from)>;

// Asks the models from `first` on in turn until those of every shape have come from home whole
// `rounds` times, or enough was tried. `seen` hears of each that came whole, asked at `from`.
Status round_robin(SwitchStage& stage, std::int64_t first, std::int64_t output, const Seen& seen) {
  const std::int64_t rounds = stage.settings().rounds, models = stage.models() - first;
  std::vector<std::int64_t> left(static_cast<std::size_t>(stage.shapes()));
  const auto left_of = [&](std::int64_t model) -> std::int64_t& {
    return left[static_cast<std::size_t>(stage.shape_of(model))];
  };
  for (std::int64_t m = first; m < stage.models(); ++m) left_of(m) = rounds;
  const auto missing = [&] { return *std::max_element(left.begin(), left.end()) > 0; };
  for (std::int64_t i = 0; missing() && i < kTries * rounds * models; ++i) {
    const std::int64_t model = first + i % models;
    const Nanos from = stage.local().clock().now();
    CAUSEWAY_ASSIGN(const Asked asked, stage.ask(model, output));
    if (asked.crossed < stage.needed(model)) continue;  // some of it was still cached
    left_of(model) -= 1;
    CAUSEWAY_TRY(seen(model, asked, from));
  }
  return {};
}

// What idle and beside a neighbour have in common, of the models of a shape.
void add_arrival_rows(const SwitchStage& stage, const SwitchLimits& limits, std::int64_t shape,
                      const SwitchSamples& of, const std::string& where,
                      std::vector<Figure>& rows) {
  const Bytes needed = stage.needed(shape);
  const double floor = limits.floor_ms(needed);
  const double allowed = where.empty() ? 1.05 : 1.10;
  const std::string link =
      fmt::format("{:.2f} GB over {:.1f} GB/s", to_gigabytes(needed), limits.link / 1e9);
  rows.push_back(figure_of("first token, from home" + where, of.first,
                           {floor, link, allowed * floor + kSlack}));
  rows.push_back(figure_of("its weights there" + where, of.there, {.value = floor, .name = link}));
  rows.push_back(figure_of("second token after a switch" + where, of.second,
                           {.value = limits.of(shape).second, .name = "model cached"}));
}

void name_from(std::size_t begin, const std::string& model, std::vector<Figure>& rows) {
  for (; begin < rows.size(); ++begin) rows[begin].model = model;
}

struct NeighbourSamples {
  Samples alone;   // between its tokens
  Samples during;  // the same, while others come
  Samples worst;   // the longest of each time that one came
};

void add_neighbour_rows(const NeighbourSamples& of, const SwitchLimits& limits,
                        std::vector<Figure>& rows) {
  const double alone = of.alone.median();
  double prefill = 0;
  for (const Cached& cached : limits.cached) prefill = std::max(prefill, cached.first);
  rows.push_back(figure_of("the neighbour's tokens meanwhile", of.during,
                           {alone, "the neighbour alone", 1.10 * alone}));
  const double gap = alone + prefill;
  rows.push_back(
      figure_of("its longest gap", of.worst, {gap, "its step and a cached prefill", 1.25 * gap}));
}

}  // namespace

Status measure_home(SwitchStage& stage, const SwitchLimits& limits, std::vector<Figure>& rows) {
  stage.say("models that come from home");
  std::vector<SwitchSamples> samples(static_cast<std::size_t>(stage.shapes()));
  const Bytes out = stage.local().slice().link_bytes_out();
  CAUSEWAY_TRY(round_robin(stage, 0, stage.settings().output,
                           [&](std::int64_t model, const Asked& asked, Nanos) {
                             samples[static_cast<std::size_t>(stage.shape_of(model))].add(asked);
                             return Status();
                           }));
  for (std::int64_t shape = 0; shape < stage.shapes(); ++shape) {
    const SwitchSamples& of = samples[static_cast<std::size_t>(shape)];
    if (of.first.empty()) continue;
    const std::size_t begin = rows.size();
    add_arrival_rows(stage, limits, shape, of, "", rows);
    if (limits.links.links > 1) {
      rows.push_back(over_best_links(rows[begin], limits.links, stage.needed(shape)));
    }
    const double gap = limits.of(shape).gap;
    rows.push_back(
        figure_of("between tokens after a switch", of.gaps, {gap, "model cached", 1.02 * gap}));
    const double needed = to_gigabytes(stage.needed(shape));
    rows.push_back(figure_of("link bytes of a switch", of.gigabytes,
                             {needed, "what a step needs", 1.01 * needed})
                       .in("GB"));
    name_from(begin, stage.name_of(shape), rows);
  }
  const Bytes moved_out = stage.local().slice().link_bytes_out() - out;
  rows.push_back(
      figure_of("bytes that switches moved out", Samples{{to_gigabytes(moved_out)}}).in("GB"));
  return {};
}

Status measure_beside(SwitchStage& stage, const SwitchLimits& limits, std::vector<Figure>& rows) {
  if (stage.settings().neighbour.batch < 1) return {};
  stage.say("models that come from home while another decodes");
  const Clock& clock = stage.local().clock();
  Neighbour neighbour(stage.local(), stage.settings().neighbour);
  CAUSEWAY_TRY(neighbour.start());
  NeighbourSamples beside;
  std::vector<SwitchSamples> samples(static_cast<std::size_t>(stage.shapes()));
  const auto seen = [&](std::int64_t model, const Asked& asked, Nanos from) -> Status {
    const Nanos to = clock.now();
    // The gap that the prefill makes ends with the neighbour's next token.
    CAUSEWAY_TRY(neighbour.wait(2));
    const Samples gaps = neighbour.gaps(from, to);
    samples[static_cast<std::size_t>(stage.shape_of(model))].add(asked);
    beside.worst.add(gaps.most());
    beside.during.add(gaps);
    // Alone again, because its steps grow with its contexts.
    const Nanos quiet = clock.now();
    CAUSEWAY_TRY(neighbour.wait(kAloneTokens));
    beside.alone.add(neighbour.gaps(quiet, clock.now()));
    return {};
  };
  CAUSEWAY_TRY(round_robin(stage, 1, 2, seen));
  CAUSEWAY_TRY(neighbour.stop());
  for (std::int64_t shape = 0; shape < stage.shapes(); ++shape) {
    const SwitchSamples& of = samples[static_cast<std::size_t>(shape)];
    if (of.first.empty()) continue;
    const std::size_t first = rows.size();
    add_arrival_rows(stage, limits, shape, of, kBeside, rows);
    name_from(first, stage.name_of(shape), rows);
  }
  if (!beside.worst.empty()) add_neighbour_rows(beside, limits, rows);
  return {};
}

}  // namespace causeway::bench
