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

struct HardwareProfile {
  std::string name;
  std::string description;
  double flops_per_second = 0;            // bf16 matrix products, as achieved
  double memory_bytes_per_second = 0;     // the device's memory, reading weights
  double attention_bytes_per_second = 0;  // likewise KV
  // Of attention over prompts, beyond what each token takes of it whatever its context; 0: as
  // products.
  double prompt_attention_flops_per_second = 0;
  double prompt_attention_token_seconds = 0;  // in each layer
  Bytes memory;                               // of the device: weights cached, and KV
  double link_bytes_per_second = 0;           // home to device; 0: the home is the device's memory
  double home_bytes_per_second = 0;  // of kernels that read weights at home; 0: as the link
  // Of KV between the device and host memory, while the other way is in use too; 0: it stays.
  double kv_in_bytes_per_second = 0;
  double kv_out_bytes_per_second = 0;
  Nanos step_overhead;          // sampling, bookkeeping: whatever the batch and the model
  Nanos layer_overhead;         // borders between the kernels of a layer, whatever they read
  Nanos prompt_layer_overhead;  // likewise of steps with prompts, whose kernels are more and apart
  // Of the engine's thread, which does nothing else meanwhile, before the kernels of a step run.
  // It passes while steps in front of it run.
  Nanos plain_launch;        // of a step that no graph holds: prompts, and the first two of a size
  Nanos shape_choice;        // beside it, of the kernels for the first prompts of so many tokens
  double copy_slowdown = 0;  // of memory, while copies reach the device: 0.07 for 7 %
  Nanos request_path;  // of a client on the same machine: HTTP, both ways, beside the first token
};

// kCorrupt names the field. Keys: name, description, tflops, memory_gb_per_s, memory_gb,
// link_gb_per_s, step_overhead_us; and, which may be left out, layer_overhead_us,
// prompt_layer_overhead_us (left out as layer_overhead_us), prompt_attention_tflops (left out as
// tflops), prompt_attention_token_ns, plain_launch_us, shape_choice_us, request_path_us,
// copy_slowdown, attention_gb_per_s (left out as memory_gb_per_s), home_gb_per_s (left out as
// link_gb_per_s), kv_in_gb_per_s and kv_out_gb_per_s (both or none; left out they are what the link
// gives).
Result<HardwareProfile> parse_profile(std::string_view json);

// "h200", "h100", "gh200", "gh200-144gb", "gb200", "rubin", "cpu-2core"; kNotFound lists them.
Result<HardwareProfile> find_profile(std::string_view name);
std::vector<std::string> profile_names();

}  // namespace causeway::simulate
