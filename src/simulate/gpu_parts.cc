#include "simulate/gpu_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "slice/sm_rates.h"

namespace causeway::simulate {

slice::SliceGpu hopper_parts() {
  slice::SliceGpu gpu = kH100Parts;
  gpu.coarser = {{16, 8}, {32, 4}, {64, 2}};
  return gpu;
}

int parts_most(const GpuPartsOptions& options) { return std::max(options.parts, slice::kPartsMax); }

HardwareProfile part_of(const HardwareProfile& machine, const slice::SliceGpu& gpu, int parts) {
  if (parts == 1) return machine;
  const int processors = slice::parts_of(gpu, 0, parts).front().processors;
  const double share = static_cast<double>(processors) / gpu.processors;
  const double bandwidth = slice::bandwidth_alone(share);
  HardwareProfile part = machine;
  part.name = fmt::format("{}, {} SMs", machine.name, processors);
  part.flops_per_second *= share;
  part.prompt_attention_flops_per_second *= share;
  part.prompt_attention_token_seconds /= share;
  part.memory_bytes_per_second *= bandwidth;
  part.attention_bytes_per_second *= bandwidth;
  part.memory = machine.memory / parts;
  part.kv_in_bytes_per_second /= parts;
  part.kv_out_bytes_per_second /= parts;
  return part;
}

GpuParts::GpuParts(const GpuPartsOptions& options, const SimulationOptions& whole)
    : options_(options), gpu_(options.gpu), asked_(whole.models.size()) {
  const double each = 1.0 / gpu_.processors;
  gpu_.flops_per_second_each = whole.profile.flops_per_second * each;
  gpu_.bytes_per_second_each = whole.profile.memory_bytes_per_second * each;
  gpu_.memory = whole.profile.memory;
  for (int parts = 1; parts <= parts_most(options); ++parts) {
    SimulationOptions& slice = by_parts_.emplace_back(whole);
    slice.profile = part_of(whole.profile, options.gpu, parts);
    slice.kv_memory = whole.kv_memory / parts;
    slice.kv_host_memory = whole.kv_host_memory / parts;
  }
  layout_.parts = options.parts;
}

std::optional<int> GpuParts::decide(const std::vector<Nanos>& targets, Nanos now) {
  if (!options_.resizes) return std::nullopt;
  const SimulationOptions& whole = slice_options(1);
  std::vector<slice::MeasuredDemand> measured;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const ModelShape& shape = whole.models[i];
    const fleet::ModelDemand asked = asked_[i].at(now);
    measured.push_back({.model = {.model = shape.name,
                                  .flops_per_token = shape.flops_per_token,
                                  .bytes_per_step = shape.weights_always,
                                  .tpot = targets[i]},
                        .rate = asked.rate,
                        .prompt = asked.prompt,
                        .output = asked.output});
  }
  return slice::choose_layout(layout_, gpu_, measured, Tokens(whole.schedule.tokens_per_step_max),
                              *options_.resizes, now);
}

void GpuParts::changed(int parts, Nanos now) {
  layout_.parts = parts;
  layout_.changed = now;
}

}  // namespace causeway::simulate
