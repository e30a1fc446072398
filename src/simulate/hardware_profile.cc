#include "simulate/hardware_profile.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_numbers.h"

namespace causeway::simulate {
namespace {

// h200, h100: as measured; docs/design/simulate.md says where each figure comes from. gh200: vendor
// figures, derated as the H200's were found to be; KV as SuperInfer measured it both ways at once.
// gb200, rubin: one GPU of the Superchip as C2CServe's Table 2 has it (192 GB at 8 TB/s, 288 GB at
// 22 TB/s; C2C of 900 GB/s and 1.8 TB/s both ways together, where NVIDIA's Superchips have two GPUs
// to a CPU), bf16 of NVIDIA's pages for GB200 NVL72 and Vera Rubin NVL72 (dense; 2,500 and,
// preliminary, 4,000 TFLOPS a GPU); all derated as gh200 is: 0.79 of the products, 0.95 of HBM,
// 0.89 of the link, KV as its share of the link. Neither was measured. cpu-2core: the machine that
// the tests run on, with AMX.
constexpr std::string_view kProfiles = R"([
  {"name": "h200", "description": "NVIDIA H200 SXM on PCIe 5 x16",
   "tflops": 770, "memory_gb_per_s": 4420, "attention_gb_per_s": 3600,
   "prompt_attention_tflops": 400, "prompt_attention_token_ns": 30, "memory_gb": 141,
   "link_gb_per_s": 55, "home_gb_per_s": 51, "kv_in_gb_per_s": 46, "kv_out_gb_per_s": 46,
   "step_overhead_us": 50, "layer_overhead_us": 6.3, "prompt_layer_overhead_us": 40,
   "plain_launch_us": 1000, "shape_choice_us": 400,
   "request_path_us": 490, "copy_slowdown": 0.07,
   "part_layer_overhead_us": 6.5, "part_attention": 1.22,
   "coarse_part_layer_overhead_us": 9.8, "coarse_part_attention": 0.78,
   "part_link_gb_per_s": 51, "part_neighbour_slowdown": 0.17},
  {"name": "h100",
   "description": "NVIDIA H100 SXM on PCIe 5 x16",
   "tflops": 740, "memory_gb_per_s": 3095, "attention_gb_per_s": 2350,
   "prompt_attention_tflops": 400, "prompt_attention_token_ns": 30, "memory_gb": 80,
   "link_gb_per_s": 54, "home_gb_per_s": 51, "kv_in_gb_per_s": 40, "kv_out_gb_per_s": 40,
   "step_overhead_us": 50, "layer_overhead_us": 6.3, "prompt_layer_overhead_us": 40,
   "plain_launch_us": 1000, "shape_choice_us": 400,
   "request_path_us": 490, "copy_slowdown": 0.07,
   "part_layer_overhead_us": 6.5, "part_attention": 1.87,
   "coarse_part_layer_overhead_us": 9.8, "coarse_part_attention": 1.19,
   "part_link_gb_per_s": 50, "part_neighbour_slowdown": 0.17},
  {"name": "gh200", "description": "NVIDIA GH200, 96 GB HBM3, NVLink-C2C",
   "tflops": 780, "memory_gb_per_s": 3800, "memory_gb": 96, "link_gb_per_s": 400,
   "kv_in_gb_per_s": 179, "kv_out_gb_per_s": 181, "step_overhead_us": 300},
  {"name": "gh200-144gb", "description": "NVIDIA GH200, 144 GB HBM3e, NVLink-C2C",
   "tflops": 780, "memory_gb_per_s": 4650, "memory_gb": 144, "link_gb_per_s": 400,
   "kv_in_gb_per_s": 179, "kv_out_gb_per_s": 181, "step_overhead_us": 300},
  {"name": "gb200", "description": "one GPU of NVIDIA GB200, 192 GB HBM3e, NVLink-C2C",
   "tflops": 1975, "memory_gb_per_s": 7600, "memory_gb": 192, "link_gb_per_s": 400,
   "kv_in_gb_per_s": 179, "kv_out_gb_per_s": 181, "step_overhead_us": 300},
  {"name": "rubin", "description": "one GPU of NVIDIA Vera Rubin, 288 GB HBM4, NVLink-C2C",
   "tflops": 3160, "memory_gb_per_s": 20900, "memory_gb": 288, "link_gb_per_s": 800,
   "kv_in_gb_per_s": 358, "kv_out_gb_per_s": 362, "step_overhead_us": 300},
  {"name": "cpu-2core", "description": "two cores of a server CPU with AMX",
   "tflops": 1.2, "memory_gb_per_s": 20, "memory_gb": 8, "link_gb_per_s": 0,
   "step_overhead_us": 200}
])";

Result<double> number(const nlohmann::json& profile, const char* key, double low, double high) {
  const auto at = profile.find(key);
  if (at == profile.end() || !at->is_number()) {
    return corrupt(std::string("hardware profile: '") + key + "' must be a number");
  }
  const double value = at->get<double>();
  if (!(value >= low && value <= high)) {
    return corrupt(std::string("hardware profile: '") + key + "' is out of range");
  }
  return value;
}

Result<double> optional_number(const nlohmann::json& profile, const char* key, double otherwise,
                               double low, double high) {
  return profile.contains(key) ? number(profile, key, low, high) : Result<double>(otherwise);
}

Result<std::string> text(const nlohmann::json& profile, const char* key) {
  const auto at = profile.find(key);
  if (at == profile.end() || !at->is_string()) {
    return corrupt(std::string("hardware profile: '") + key + "' must be a string");
  }
  return at->get<std::string>();
}

struct TimeField {
  const char* key;
  Nanos HardwareProfile::*field;
};
// That may be left out: nothing.
constexpr TimeField kTimes[] = {
    {"plain_launch_us", &HardwareProfile::plain_launch},
    {"shape_choice_us", &HardwareProfile::shape_choice},
    {"request_path_us", &HardwareProfile::request_path},
};

Status add_times(const nlohmann::json& json, HardwareProfile& profile) {
  for (const TimeField& time : kTimes) {
    CAUSEWAY_ASSIGN(const double micros, optional_number(json, time.key, 0, 0, 1e9));
    profile.*time.field = nanos_from_seconds(micros * 1e-6);
  }
  return {};
}

Result<PartProfile::Split> split_from(const nlohmann::json& json, const char* layer_key,
                                      const char* attention_key) {
  CAUSEWAY_ASSIGN(const double layer, optional_number(json, layer_key, 0, 0, 1e9));
  CAUSEWAY_ASSIGN(const double attention, optional_number(json, attention_key, 0, 0, 100));
  return PartProfile::Split{.layer_overhead = nanos_from_seconds(layer * 1e-6),
                            .attention = attention};
}

Result<PartProfile> parts_from(const nlohmann::json& json) {
  PartProfile parts;
  CAUSEWAY_ASSIGN(parts.fine, split_from(json, "part_layer_overhead_us", "part_attention"));
  CAUSEWAY_ASSIGN(parts.coarse,
                  split_from(json, "coarse_part_layer_overhead_us", "coarse_part_attention"));
  CAUSEWAY_ASSIGN(const double link, optional_number(json, "part_link_gb_per_s", 0, 0, 1e6));
  CAUSEWAY_ASSIGN(parts.neighbour_slowdown,
                  optional_number(json, "part_neighbour_slowdown", 0, 0, 10));
  parts.link_bytes_per_second = link * 1e9;
  return parts;
}

Result<HardwareProfile> profile_from(const nlohmann::json& json) {
  if (!json.is_object()) return corrupt("hardware profile: an object is expected");
  HardwareProfile profile;
  CAUSEWAY_ASSIGN(profile.name, text(json, "name"));
  CAUSEWAY_ASSIGN(profile.description, text(json, "description"));
  CAUSEWAY_ASSIGN(const double tflops, number(json, "tflops", 1e-6, 1e6));
  CAUSEWAY_ASSIGN(const double memory_rate, number(json, "memory_gb_per_s", 1e-3, 1e6));
  CAUSEWAY_ASSIGN(const double memory, number(json, "memory_gb", 1e-3, 1e6));
  CAUSEWAY_ASSIGN(const double link, number(json, "link_gb_per_s", 0, 1e6));
  CAUSEWAY_ASSIGN(const double overhead, number(json, "step_overhead_us", 0, 1e9));
  CAUSEWAY_ASSIGN(profile.copy_slowdown, optional_number(json, "copy_slowdown", 0, 0, 10));
  CAUSEWAY_ASSIGN(const double attention,
                  optional_number(json, "attention_gb_per_s", memory_rate, 1e-3, 1e6));
  CAUSEWAY_ASSIGN(const double layer, optional_number(json, "layer_overhead_us", 0, 0, 1e9));
  CAUSEWAY_ASSIGN(const double prompt_layer,
                  optional_number(json, "prompt_layer_overhead_us", layer, 0, 1e9));
  CAUSEWAY_TRY(add_times(json, profile));
  CAUSEWAY_ASSIGN(profile.parts, parts_from(json));
  profile.layer_overhead = nanos_from_seconds(layer * 1e-6);
  profile.prompt_layer_overhead = nanos_from_seconds(prompt_layer * 1e-6);
  profile.attention_bytes_per_second = attention * 1e9;
  profile.flops_per_second = tflops * 1e12;
  CAUSEWAY_ASSIGN(const double prompt_attention,
                  optional_number(json, "prompt_attention_tflops", 0, 1e-6, 1e6));
  profile.prompt_attention_flops_per_second = prompt_attention * 1e12;
  CAUSEWAY_ASSIGN(const double token,
                  optional_number(json, "prompt_attention_token_ns", 0, 0, 1e9));
  profile.prompt_attention_token_seconds = token * 1e-9;
  CAUSEWAY_ASSIGN(const double home, optional_number(json, "home_gb_per_s", 0, 1e-3, 1e6));
  profile.home_bytes_per_second = home * 1e9;
  profile.memory_bytes_per_second = memory_rate * 1e9;
  profile.memory = Bytes(static_cast<std::int64_t>(memory * 1e9));
  profile.link_bytes_per_second = link * 1e9;
  CAUSEWAY_ASSIGN(const double kv_in, optional_number(json, "kv_in_gb_per_s", link, 0, 1e6));
  CAUSEWAY_ASSIGN(const double kv_out, optional_number(json, "kv_out_gb_per_s", link, 0, 1e6));
  if ((kv_in > 0) != (kv_out > 0)) {
    return corrupt(
        "hardware profile: KV moves both ways, or neither: kv_in_gb_per_s, "
        "kv_out_gb_per_s");
  }
  profile.kv_in_bytes_per_second = kv_in * 1e9;
  profile.kv_out_bytes_per_second = kv_out * 1e9;
  profile.step_overhead = nanos_from_seconds(overhead * 1e-6);
  return profile;
}

}  // namespace

Result<HardwareProfile> parse_profile(std::string_view json) {
  std::string buffer;
  const auto parsed = nlohmann::json::parse(plain_json_numbers(json, buffer), nullptr, false);
  if (parsed.is_discarded()) return corrupt("hardware profile: this is not JSON");
  return profile_from(parsed);
}

Result<HardwareProfile> find_profile(std::string_view name) {
  const auto all = nlohmann::json::parse(kProfiles);
  std::string known;
  for (const auto& profile : all) {
    const auto& its_name = profile.at("name").get_ref<const std::string&>();
    if (its_name == name) return profile_from(profile);
    known += (known.empty() ? "" : ", ") + its_name;
  }
  return not_found("there is no hardware profile '" + std::string(name) + "': use one of " + known);
}

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (const auto& profile : nlohmann::json::parse(kProfiles)) {
    names.push_back(profile.at("name").get<std::string>());
  }
  return names;
}

}  // namespace causeway::simulate
