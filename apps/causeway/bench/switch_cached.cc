// Models that are cached: alone, and in turn with another that is cached, too.
#include <utility>

#include "bench/switch_stage.h"

namespace causeway::bench {
namespace {

constexpr double kSwitchSlack = 1;  // ms that a switch between cached models may cost

struct ShapeSamples {
  SwitchSamples alone, behind_other;
};

// Each model behind the other and behind itself, in turn: neither the models' places in memory nor
// the time of the run make a difference between the two.
Status take_turns(SwitchStage& stage, std::pair<std::int64_t, std::int64_t> pair,
                  std::vector<ShapeSamples>& samples) {
  const std::int64_t output = stage.settings().output;
  const auto samples_of = [&](std::int64_t model) -> ShapeSamples& {
    return samples[static_cast<std::size_t>(stage.shape_of(model))];
  };
  // The first of each brings it.
  for (int i = 0; i < 3; ++i) {
    CAUSEWAY_TRY(status_of(stage.ask(pair.first, output)));
    CAUSEWAY_TRY(status_of(stage.ask(pair.second, output)));
  }
  for (std::int64_t i = 0; i < stage.settings().rounds; ++i) {
    for (const std::int64_t model : {pair.first, pair.second}) {
      CAUSEWAY_ASSIGN(const Asked other, stage.ask(model, output));
      samples_of(model).behind_other.add(other);
      CAUSEWAY_ASSIGN(const Asked itself, stage.ask(model, output));
      samples_of(model).alone.add(itself);
    }
  }
  return {};
}

}  // namespace

Status measure_cached(SwitchStage& stage, std::vector<Cached>& cached, std::vector<Figure>& rows) {
  stage.say("models that are cached");
  std::vector<ShapeSamples> samples(static_cast<std::size_t>(stage.shapes()));
  for (std::int64_t other = 1; other < std::max<std::int64_t>(2, stage.shapes()); ++other) {
    CAUSEWAY_TRY(take_turns(stage, {0, other}, samples));
  }
  for (std::int64_t shape = 0; shape < stage.shapes(); ++shape) {
    const ShapeSamples& of = samples[static_cast<std::size_t>(shape)];
    Samples gaps = of.alone.gaps;
    gaps.add(of.behind_other.gaps);
    const Cached medians{
        .first = of.alone.first.median(), .second = of.alone.second.median(), .gap = gaps.median()};
    cached.push_back(medians);
    for (Figure row : {figure_of("first token, model cached", of.alone.first),
                       figure_of("first token, A→B→A, both cached", of.behind_other.first,
                                 {medians.first, "without a switch", medians.first + kSwitchSlack}),
                       figure_of("second token, model cached", of.alone.second),
                       figure_of("between tokens, model cached", gaps)}) {
      row.model = stage.name_of(shape);
      rows.push_back(std::move(row));
    }
  }
  return {};
}

}  // namespace causeway::bench
