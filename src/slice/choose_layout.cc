#include "slice/choose_layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace causeway::slice {
namespace {

constexpr double kBusyMost = 0.95;  // of a part, for how long its answers take

int processors_of(const SliceGpu& gpu, int parts) {
  return parts == 1 ? gpu.processors : gpu.units / parts * gpu.unit;
}

// A model on a part of the GPU: seconds.
struct OnPart {
  const MeasuredDemand* asked = nullptr;
  double prompt = 0;  // of one prompt
  double chunk = 0;   // the most of it that is computed in a step
  double step = 0;    // of one token
  double target = 0;  // between tokens
  double load = 0;    // of the part's time
};

OnPart on_part(const SliceGpu& gpu, int processors, const MeasuredDemand& asked,
               Tokens step_tokens) {
  OnPart on{.asked = &asked};
  const double a_token = asked.model.flops_per_token / (gpu.flops_per_second_each * processors);
  on.prompt = a_token * asked.prompt;
  on.chunk = a_token * std::min(asked.prompt, static_cast<double>(step_tokens.count));
  on.step = static_cast<double>(asked.model.bytes_per_step.count) /
            (gpu.bytes_per_second_each * processors);
  on.target = std::max(1e-9, to_seconds(asked.model.tpot));
  // Requests of a model share its steps, and need no more of them than the target asks for.
  const double steps = std::min(asked.rate * asked.output, 1 / on.target);
  on.load = asked.rate * on.prompt + steps * on.step;
  return on;
}

// How many of the model's requests are in time, a second.
double in_time(const OnPart& model, std::span<const OnPart> part, double load) {
  if (model.step > model.target) return 0;
  const double pace = std::min(model.target, model.step / (1 - std::min(load, kBusyMost)));
  double late = 0;  // prompts of others that come while one answers
  for (const OnPart& other : part) {
    if (&other == &model || model.step + other.chunk <= model.target) continue;
    late += other.asked->rate * model.asked->output * pace;
  }
  return model.asked->rate * std::exp(-late) / std::max(1.0, load);
}

bool fits(const SliceGpu& gpu, int parts, std::span<const MeasuredDemand> models) {
  if (gpu.memory == Bytes(0)) return true;
  const double room = kWeightsShare * static_cast<double>(gpu.memory.count) / parts;
  return std::all_of(models.begin(), models.end(), [&](const MeasuredDemand& one) {
    return static_cast<double>(one.model.bytes_per_step.count) <= room;
  });
}

}  // namespace

double share_in_time(const SliceGpu& gpu, int parts, std::span<const MeasuredDemand> models,
                     Tokens step_tokens) {
  const int processors = processors_of(gpu, parts);
  if (processors == 0 || (parts > 1 && !fits(gpu, parts, models))) return 0;
  std::vector<OnPart> all;
  for (const MeasuredDemand& one : models) {
    if (one.rate > 0) all.push_back(on_part(gpu, processors, one, step_tokens));
  }
  // The largest first, each to the part with the least.
  std::stable_sort(all.begin(), all.end(),
                   [](const OnPart& a, const OnPart& b) { return a.load > b.load; });
  std::vector<std::vector<OnPart>> of_part(static_cast<std::size_t>(parts));
  std::vector<double> load(static_cast<std::size_t>(parts));
  for (const OnPart& one : all) {
    const auto at =
        static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    of_part[at].push_back(one);
    load[at] += one.load;
  }
  double asked = 0, kept = 0;
  for (std::size_t i = 0; i < of_part.size(); ++i) {
    for (const OnPart& one : of_part[i]) {
      asked += one.asked->rate;
      kept += in_time(one, of_part[i], load[i]);
    }
  }
  return asked > 0 ? kept / asked : 1;
}

std::optional<int> choose_layout(LayoutState& state, const SliceGpu& gpu,
                                 std::span<const MeasuredDemand> models, Tokens step_tokens,
                                 const LayoutRules& rules, Nanos now) {
  const bool known = gpu.flops_per_second_each > 0 && gpu.bytes_per_second_each > 0;
  int best = state.parts;
  if (known) {
    double most = share_in_time(gpu, state.parts, models, step_tokens) + rules.gain;
    for (int parts = 1; parts <= kPartsMax; ++parts) {
      const double share = share_in_time(gpu, parts, models, step_tokens);
      if (parts == state.parts || share < most) continue;
      most = share;
      best = parts;
    }
  }
  if (best == state.parts) {
    state.better = 0;
    state.better_since.reset();
    return std::nullopt;
  }
  if (std::exchange(state.better, best) != best) state.better_since = now;
  const bool lasts = now - *state.better_since >= rules.lasting;
  if (!lasts || now - state.changed < rules.apart) return std::nullopt;
  return best;
}

std::vector<SlicePart> parts_of(const SliceGpu& gpu, int ordinal, int parts) {
  const int processors = processors_of(gpu, parts);
  CAUSEWAY_CHECK(parts >= 1 && processors > 0, "a GPU is divided into parts that it has");
  return std::vector<SlicePart>(
      static_cast<std::size_t>(parts),
      {.gpu = ordinal, .processors = processors, .whole = parts == 1, .share = 1.0 / parts});
}

}  // namespace causeway::slice
