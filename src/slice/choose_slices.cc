#include "slice/choose_slices.h"

#include <fmt/format.h>

#include <algorithm>

namespace causeway::slice {
namespace {

constexpr int kParts = 2;
ChosenSlices whole(std::string why) { return {"all", std::move(why)}; }

// How long a step takes that computes so many tokens of a prompt, or reads the weights once.
Nanos step_of(const SliceGpu& gpu, int processors, const SliceDemand& model, Tokens tokens) {
  const double computes = model.flops_per_token * static_cast<double>(tokens.count) /
                          (gpu.flops_per_second_each * processors);
  const double reads =
      static_cast<double>(model.bytes_per_step.count) / (gpu.bytes_per_second_each * processors);
  return nanos_from_seconds(std::max(computes, reads));
}

}  // namespace

ChosenSlices choose_slices(const SliceFacts& facts, std::span<const SliceDemand> models,
                           Tokens prompt_tokens) {
  const SliceGpu& gpu = facts.gpus[static_cast<std::size_t>(facts.gpu)];
  if (models.size() < 2) return whole("one model has no other beside it");
  if (gpu.flops_per_second_each <= 0 || gpu.bytes_per_second_each <= 0) {
    return whole("how fast a processor is, is not known here");
  }
  const int part = gpu.units / kParts * gpu.unit;
  if (part == 0) return whole("the GPU cannot be divided");
  const auto larger = [](const SliceDemand& a, const SliceDemand& b) {
    return a.bytes_per_step < b.bytes_per_step;
  };
  const SliceDemand& largest = *std::max_element(models.begin(), models.end(), larger);
  const double room = kWeightsShare * static_cast<double>(gpu.memory.count) / kParts;
  const bool limited = gpu.memory > Bytes(0);  // on the CPU weights are read at home
  if (limited && static_cast<double>(largest.bytes_per_step.count) > room) {
    return whole(fmt::format("the weights of {} would not fit in a half", largest.model));
  }
  for (const SliceDemand& model : models) {
    for (const SliceDemand& other : models) {
      if (&model == &other) continue;
      const Nanos own = step_of(gpu, gpu.processors, model, Tokens(1));
      const Nanos prompts = step_of(gpu, gpu.processors, other, prompt_tokens);
      const Nanos alone = step_of(gpu, part, model, Tokens(1));
      if (own + prompts <= model.tpot || alone > model.tpot) continue;
      return {
          fmt::format("{}x{}", kParts, part),
          fmt::format("{}'s tokens would come {:.0f} ms apart beside prompts of {}, and have "
                      "{:.0f} ms",
                      model.model, to_millis(own + prompts), other.model, to_millis(model.tpot))};
    }
  }
  return whole("every model keeps its targets beside prompts of any other");
}

}  // namespace causeway::slice
