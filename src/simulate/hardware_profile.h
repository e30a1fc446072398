// What a machine can do, as data: the figures from which the simulated executor derives how long a
// step takes. Built-in profiles are JSON in hardware_profile.cc; others are read from files of the
// same form (see parse_profile).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace causeway::simulate {

// What differs in parts of a GPU's processors (gpu_parts.h), as it was measured on parts of 32 of
// 132 SMs, of the finest split of the SMs or of a coarser one. Zero: nothing does.
struct PartProfile {
  struct Split {
    Nanos layer_overhead;  // instead of either of the GPU's
    // The rate at which attention reads KV, as a share of what such a part of the SMs has of the
    // GPU's.
    double attention = 0;
  };
  Split fine, coarse;
  double link_bytes_per_second = 0;
  // What memory reads take longer for each other part on which a step runs: 0.2 for 20 %.
  double neighbour_slowdown = 0;
};

struct HardwareProfile {
  std::string name;
  std::string description;
  double flops_per_second = 0;            // bf16 matrix products, as achieved
  double memory_bytes_per_second = 0;     // the device's memory, reading weights
  double attention_bytes_per_second = 0;  // the same for reading KV
  // For attention over prompts, beyond the time that each token takes whatever its context is; 0:
  // the rate of products.
  double prompt_attention_flops_per_second = 0;
  double prompt_attention_token_seconds = 0;  // that time, in each layer
  Bytes memory;                               // of the device: cached weights and KV
  double link_bytes_per_second = 0;  // from home to the device; 0: the device's memory is the home
  double home_bytes_per_second = 0;  // of kernels that read weights at home; 0: the link's rate
  // KV between device and host memory while the other direction is in use too; 0: KV does not move.
  double kv_in_bytes_per_second = 0;
  double kv_out_bytes_per_second = 0;
  Nanos step_overhead;          // sampling and bookkeeping, the same for every batch and model
  Nanos layer_overhead;         // gaps between the kernels of a layer, whatever they read
  Nanos prompt_layer_overhead;  // the same for steps with prompts, which run more kernels
  // Time of the engine's thread, which does nothing else meanwhile, before the kernels of a step
  // can run. It overlaps with the steps that run before.
  // for a step without a CUDA graph: prompts, and the first two steps of a batch size
  Nanos plain_launch;
  Nanos shape_choice;  // in addition: choosing kernels for the first prompts of a number of tokens
  double copy_slowdown = 0;  // of memory bandwidth while copies reach the device: 0.07 for 7 %
  // HTTP both ways for a client on the same machine, part of the time to the first token
  Nanos request_path;
  PartProfile parts;
};

// kCorrupt names the field. Keys: name, description, tflops, memory_gb_per_s, memory_gb,
// link_gb_per_s, step_overhead_us; and, which may be left out, layer_overhead_us,
// prompt_layer_overhead_us (left out as layer_overhead_us), prompt_attention_tflops (left out as
// tflops), prompt_attention_token_ns, plain_launch_us, shape_choice_us, request_path_us,
// part_layer_overhead_us, part_attention, coarse_part_layer_overhead_us, coarse_part_attention,
// part_link_gb_per_s, part_neighbour_slowdown, copy_slowdown, attention_gb_per_s (left out as
// memory_gb_per_s), home_gb_per_s (left out as link_gb_per_s), kv_in_gb_per_s and kv_out_gb_per_s
// (both or none; left out they are what the link gives).
Result<HardwareProfile> parse_profile(std::string_view json);

// "h200", "h100", "gh200", "gh200-144gb", "gb200", "rubin", "cpu-2core"; kNotFound lists them.
Result<HardwareProfile> find_profile(std::string_view name);
std::vector<std::string> profile_names();

}  // namespace causeway::simulate
