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
  // The part of the device's memory for KV, at least a frame. The cache of weights has the rest.
  Bytes kv_memory = gib(8);
  // Host memory to which KV rotates, at the profile's rates; zero: KV does not rotate.
  Bytes kv_host_memory = {};
  schedule::BudgetLimits rotation = {};
  // The number of extents and the link rate follow from memory and profile.
  weights::ResidencyOptions residency;
  Bytes ring = {};  // of each streamed model; zero: stream_plan.h chooses
  engine::StepStart step_start = engine::StepStart::kJustInTime;
  std::optional<Nanos> step_timeout = {};  // as CoreOptions has it
  // Baselines. whole_models: a cached model comes and leaves as a whole (full reload). copies_out:
  // in addition its weights are copied to host memory before their memory gets another use (sleep
  // and wake).
  bool whole_models = false;
  bool copies_out = false;
  // Either baseline with C2CServe's HybridGEMM (paper §9.4.1): a step reads at home what has not
  // arrived. This needs steps that start earlier: StepStart::kWhenIdle.
  bool reads_at_home = false;
  // With reads_at_home: HybridGEMM as the paper measured it (hybrid_gemm.h), with this α. A model
  // that exceeds the cache, or its max_resident, is then not streamed: what is not kept in memory
  // is read at home by every step.
  std::optional<fleet::StepAlphaOptions> alpha = {};
  schedule::Options schedule;
  bool prefix_caching = true;
  Faults faults;
  // For checkers: tokens follow from the contents of KV frames (shadow_kv.h).
  bool shadow_kv = false;
  std::uint64_t seed = 1;
  // For fleets: equal steps that differ only in time and tokens are taken together. The report is
  // the same.
  bool fast_forward = false;
  // For fleets: a slice stays behind the others until something is asked of it or one of its
  // requests may end (fleet_slices.h), as with fast_forward. The report is the same. The fleet sets
  // it.
  bool own_clock = false;
  // The simulation stops there, and reports what it has.
  Nanos virtual_time_max = seconds(30 * 86'400);
};

struct SimulationReport {
  std::string profile;
  LatencyReport total;
  std::vector<std::pair<std::string, LatencyReport>> models;
  request::Observation engine;
  SimulatedCounters device;
  weights::Residency::Counters weights;
  Bytes kv_in_bytes;            // of KV that was copied from host memory
  Bytes kv_out_bytes;           // of KV that was copied to host memory
  Bytes streamed_bytes;         // of weights that passed through rings
  Bytes link_bytes;             // weights that arrived, streamed_bytes, and what steps read at home
  Bytes weights_out_bytes;      // of weights that were copied to host memory (copies_out)
  Nanos duration;               // virtual, from the first arrival to the last end
  std::int64_t unfinished = 0;  // requests that virtual_time_max cut off
};

// Runs the workload. Models that exceed the cache, or their max_resident, are streamed,
// or with an α read at home.
// kInvalidArgument: for example no models, memory that holds no frame, a model without groups, a
// profile over which no KV moves, or limits out of their range; kResourceExhausted: there is not
// even memory for the ring of a streamed model.
Result<SimulationReport> run(const SimulationOptions& options, const Workload& workload);

// Checks the options alone, with the errors of run(): whether a slice can be made of them.
Status check_slice(const SimulationOptions& options);
Status check_workload(const Workload& workload, std::size_t models);

std::string to_text(const SimulationReport& report);
std::string to_json(const SimulationReport& report);

}  // namespace causeway::simulate
