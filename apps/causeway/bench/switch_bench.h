// What switching between models costs: a slice whose cache holds fewer models than it serves, in
// this process, on random weights made in host memory. Beside every figure stands its limit, taken
// in the same run: the bytes that must cross over what the copy engine gives, a prefill alone, a
// neighbour's decode alone.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine_core.h"
#include "model/config.h"
#include "slice/machine.h"

namespace causeway::bench {

struct SwitchSettings {
  model::ModelConfig config;  // of every model; only shapes count
  std::string device = "cuda";
  int gpu = 0;
  double modelled_link = 0;  // bytes per second, on the CPU; 0: as fast as memory
  int modelled_links = 1;    // of so many devices
  slice::LinkOptions links = {};
  Bytes frame = mib(4);  // of KV
  Bytes kv;              // zero: the slice's choice
  std::int64_t rounds = 5;
  std::int64_t prompt = 512;
  std::int64_t output = 32;
  std::int64_t neighbour_batch = 32;  // 0: without
  std::int64_t neighbour_context = 1024;
  std::int64_t tokens_per_step_max = 8192;
  engine::StepStart start = engine::StepStart::kJustInTime;
  std::function<void(const std::string& what)> progress;
};

// One figure: milliseconds unless the unit says otherwise.
struct SwitchRow {
  std::string what;
  std::string unit = "ms";
  double measured = 0;  // median
  double least = 0;     // of the runs
  double most = 0;
  double limit = 0;   // 0: none
  double wanted = 0;  // at most; 0: nothing is demanded
  std::string limit_name;
  bool met() const { return wanted <= 0 || measured <= wanted; }
};

struct SwitchReport {
  std::vector<SwitchRow> rows;
};

// kUnavailable without a GPU; kResourceExhausted when three models do not fit into host memory, or
// two into the device's.
Result<SwitchReport> bench_switch(const SwitchSettings& settings, const Clock& clock);

void print_report(const SwitchReport& report);
nlohmann::ordered_json report_json(const SwitchReport& report);

}  // namespace causeway::bench
