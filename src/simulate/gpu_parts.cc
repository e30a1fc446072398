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

namespace {

constexpr double kMeasuredShare = 32.0 / 132;  // as PartProfile has it

// From `whole`, where `divided` is 0, to `part`, where it is 1.
Nanos between(Nanos whole, Nanos part, double divided) {
  return whole + nanos_from_seconds(to_seconds(part - whole) * divided);
}

// Beside what its processors alone make of a part.
void apply_measured(const PartProfile& measured, bool coarse, double share, HardwareProfile& part) {
  const PartProfile::Split& split = coarse ? measured.coarse : measured.fine;
  const double divided = std::min(1.0, (1 - share) / (1 - kMeasuredShare));
  if (split.layer_overhead > Nanos(0)) {
    for (Nanos* overhead : {&part.layer_overhead, &part.prompt_layer_overhead}) {
      *overhead = between(*overhead, split.layer_overhead, divided);
    }
  }
  if (split.attention > 0) part.attention_bytes_per_second *= 1 + (split.attention - 1) * divided;
  if (measured.link_bytes_per_second > 0) {
    part.link_bytes_per_second = measured.link_bytes_per_second;
  }
}

}  // namespace

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
  part.attention_bytes_per_second *= share;
  part.memory = machine.memory / parts;
  part.kv_in_bytes_per_second /= parts;
  part.kv_out_bytes_per_second /= parts;
  const bool coarse = gpu.unit > kH100Parts.unit;
  apply_measured(machine.parts, coarse, share, part);
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
