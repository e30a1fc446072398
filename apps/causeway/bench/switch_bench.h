// What switching between models costs: a slice whose cache holds fewer models than it serves, in
// this process, on random weights made in host memory. Beside every figure stands its limit, taken
// in the same run: the bytes that must cross over what the copy engine gives, a prefill alone, a
// neighbour's decode alone, a plain read of the same files.
//
//   switch_stage.h   the slice, its models, how they are asked
//   switch_cached.cc models that are cached: what a switch is held against
//   switch_home.cc   models that come from home, in turn; idle and beside a neighbour that decodes
//   switch_zipf.cc   models in Zipf order; idle and beside a neighbour
//   switch_disk.cc   a model that comes from its files
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/figure.h"
#include "bench/neighbour.h"
#include "bench/slice_parts.h"

namespace causeway::bench {

struct SwitchSettings {
  std::vector<NamedConfig> configs;  // of the models in turn; only shapes count
  SliceSettings slice;               // weights are the bench's to set
  std::int64_t models = 3;           // at least; two of them have room at the same time
  std::int64_t rounds = 5;
  std::int64_t prompt = 512;
  std::int64_t output = 32;
  NeighbourSettings neighbour;  // no sequence: without
  engine::StepStart start = engine::StepStart::kJustInTime;
  bool baselines = false;  // also the other ways to start a step of a model on its way
  bool from_disk = false;
  std::filesystem::path disk_dir;  // where files are written; empty: a folder that is removed
  std::function<void(const std::string& what)> progress;
};

struct SwitchReport {
  std::vector<Figure> rows;
};

// kUnavailable without a GPU; kResourceExhausted when the models do not fit into host memory, or
// two into the device's; kIo when the files cannot be written.
Result<SwitchReport> bench_switch(const SwitchSettings& settings, const Clock& clock);

nlohmann::ordered_json report_json(const SwitchReport& report);

}  // namespace causeway::bench
