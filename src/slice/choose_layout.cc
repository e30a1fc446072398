#include "slice/choose_layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "slice/sm_rates.h"

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
  double step = 0;    // of one token, while no other part reads
  double target = 0;  // between tokens
  double steps = 0;   // a second
  double load = 0;    // of the part's time
};

OnPart on_part(const SliceGpu& gpu, int processors, const MeasuredDemand& asked,
               Tokens step_tokens) {
  OnPart on{.asked = &asked};
  const double a_token = asked.model.flops_per_token / (gpu.flops_per_second_each * processors);
  on.prompt = a_token * asked.prompt;
  on.chunk = a_token * std::min(asked.prompt, static_cast<double>(step_tokens.count));
  const double bandwidth = gpu.bytes_per_second_each * gpu.processors;
  const double part = bandwidth_alone(static_cast<double>(processors) / gpu.processors);
  on.step = static_cast<double>(asked.model.bytes_per_step.count) / (bandwidth * part);
  on.target = std::max(1e-9, to_seconds(asked.model.tpot));
  // Requests of a model share its steps, and need no more of them than the target asks for.
  on.steps = std::min(asked.rate * asked.output, 1 / on.target);
  on.load = asked.rate * on.prompt + on.steps * on.step;
  return on;
}

using Part = std::vector<OnPart>;

double load_of(const Part& part) {
  double load = 0;
  for (const OnPart& one : part) load += one.load;
  return load;
}

// The share of its time in which the part reads weights.
double reads(const Part& part) {
  double reads = 0;
  for (const OnPart& one : part) reads += one.steps * one.step;
  return std::min(reads, kBusyMost);
}

// The largest first, each to the part with the least load.
std::vector<Part> spread(std::vector<OnPart> models, int parts) {
  std::stable_sort(models.begin(), models.end(),
                   [](const OnPart& a, const OnPart& b) { return a.load > b.load; });
  std::vector<Part> spread(static_cast<std::size_t>(parts));
  for (const OnPart& one : models) {
    std::min_element(spread.begin(), spread.end(), [](const Part& a, const Part& b) {
      return load_of(a) < load_of(b);
    })->push_back(one);
  }
  return spread;
}

// While all parts read they have equal shares of the bandwidth, which is less than each has alone.
void share_bandwidth(std::vector<Part>& parts, double part_alone) {
  const auto count = static_cast<double>(parts.size());
  std::vector<double> busy;
  for (const Part& part : parts) busy.push_back(reads(part));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    double others = 1;  // all of them read
    for (std::size_t j = 0; j < parts.size(); ++j) others *= i == j ? 1 : busy[j];
    const double slower = 1 + others * std::max(0.0, count * part_alone - 1);
    for (OnPart& one : parts[i]) {
      one.load += one.steps * one.step * (slower - 1);
      one.step *= slower;
    }
  }
}

// How many of the model's requests are in time, a second.
double in_time(const OnPart& model, const Part& part) {
  const double load = load_of(part);
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
  std::vector<Part> of_part = spread(std::move(all), parts);
  if (parts > 1) {
    share_bandwidth(of_part, bandwidth_alone(static_cast<double>(processors) / gpu.processors));
  }
  double asked = 0, kept = 0;
  for (const Part& part : of_part) {
    for (const OnPart& one : part) {
      asked += one.asked->rate;
      kept += in_time(one, part);
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
