// A workload on a hardware profile, in virtual time: what `causeway simulate` runs. The engine, the
// scheduler, the KV bookkeeping and the cache of weights are the ones that serve; only clock,
// device and link are replaced, so that an hour of serving takes seconds and the same input gives
// the same report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "engine/engine_core.h"
#include "simulate/cost_model.h"
#include "simulate/hardware_profile.h"
#include "simulate/latency_recorder.h"
#include "simulate/simulated_executor.h"
#include "simulate/simulated_mover.h"
#include "simulate/workload.h"

namespace causeway::simulate {

struct SimulationOptions {
  HardwareProfile profile;
  std::vector<ModelShape> models;  // shape_of() each, for frames of `frame` bytes
  Bytes frame = mib(4);
  // Of the device's memory; the cache of weights has the rest. At least a frame.
  Bytes kv_memory = gib(8);
  // Host memory to which KV rotates, at the profile's rates; zero: it does not.
  Bytes kv_host_memory = {};
  schedule::BudgetLimits rotation = {};
  // Extents and link rate follow from memory and profile.
  weights::ResidencyOptions residency;
  Bytes ring = {};  // of each streamed model; zero: as stream_plan.h chooses
  engine::StepStart step_start = engine::StepStart::kJustInTime;
  std::optional<Nanos> step_timeout = {};  // as CoreOptions has it
  // Baselines: a model that the cache holds comes and gives way as a whole (full reload), and its
  // weights are copied to host memory before its memory is another's (sleep and wake).
  bool whole_models = false;
  bool copies_out = false;
  // And each of these with C2CServe's HybridGEMM (paper §9.4.1): a step reads at home what has not
  // arrived. For that it is to start before: StepStart::kWhenIdle.
  bool reads_at_home = false;
  schedule::Options schedule;
  bool prefix_caching = true;
  Faults faults;
  // For checkers: tokens follow from what KV frames hold (shadow_kv.h).
  bool shadow_kv = false;
  std::uint64_t seed = 1;
  // Of fleets: steps that differ in nothing but time and tokens are taken together. The report is
  // the same.
  bool fast_forward = false;
  Nanos virtual_time_max = seconds(30 * 86'400);  // then it ends with what it has
};

struct SimulationReport {
  std::string profile;
  LatencyReport total;
  std::vector<std::pair<std::string, LatencyReport>> models;
  request::Observation engine;
  SimulatedCounters device;
  weights::Residency::Counters weights;
  Bytes kv_in_bytes;            // of KV that was copied from host memory
  Bytes kv_out_bytes;           // and to it
  Bytes streamed_bytes;         // that passed through rings
  Bytes link_bytes;             // weights that arrived, those, and what steps read at home
  Bytes weights_out_bytes;      // that were copied to host memory; see copies_out
  Nanos duration;               // virtual, from the first arrival to the last end
  std::int64_t unfinished = 0;  // when virtual_time_max cut it short
};

// Models that exceed the cache, or their max_resident, are streamed. kInvalidArgument: no models,
// memory that holds no frame, a model without groups, a profile over which no KV moves, limits out
// of their range, …; kResourceExhausted: a model that is
// streamed has not even memory for a ring.
Result<SimulationReport> run(const SimulationOptions& options, const Workload& workload);

// As run() does, of options alone: whether a slice can be made of them.
Status check_slice(const SimulationOptions& options);
Status check_workload(const Workload& workload, std::size_t models);

std::string to_text(const SimulationReport& report);
std::string to_json(const SimulationReport& report);

}  // namespace causeway::simulate
