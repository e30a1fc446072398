// A catalogue on several slices of one link, in virtual time. FleetCore decides where models are
// and which slice serves a request; on each slice an EngineCore serves it. What the fleet's loop
// does with threads and files takes as long here as the options say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fleet/fleet_core.h"
#include "fleet/placement.h"
#include "simulate/fleet_faults.h"
#include "simulate/gpu_parts.h"
#include "simulate/simulate.h"

namespace causeway::simulate {

struct FleetSimulationOptions {
  // The options of one slice. The link of its profile is shared by all slices of a machine, and its
  // models are the catalogue.
  SimulationOptions slice;
  std::int64_t slices = 1;      // of a machine
  std::int64_t machines = 1;    // each has a link of its own
  std::int64_t models_max = 1;  // on one slice at the same time; 0: any number
  fleet::PlacementKind placement = fleet::PlacementKind::kBandwidth;
  fleet::FleetOptions fleet = {};
  // Models are loaded ahead of their requests as far as they fit.
  bool load_ahead = true;
  Bytes host_memory = {};  // for weights; zero: there is room for all models
  // The rate at which a model is read that is not in host memory; 0: no time.
  double disk_bytes_per_second = 0;
  Nanos attach = millis(1);          // time to make a model in host memory runnable on a slice
  bool keep_requests = false;        // fills FleetSimulationReport::requests
  // Fills FleetSimulationReport::outcomes instead of these and of latencies.
  bool keep_outcomes = false;
  // A second thread simulates slices that are behind: SimulationOptions::own_clock. The report is
  // the same, but for `carried`.
  bool two_threads = false;
  // Instead of `slices`, for one machine: its GPU is divided into parts of its SMs, and may be
  // divided anew while it serves. `slice` then describes the whole GPU, and models move between
  // parts.
  std::optional<GpuPartsOptions> gpu_parts = {};
  // The faults of the run. With faults, steps are taken one by one: fast_forward has no effect.
  FleetFaults faults = {};
  // How long a step or copies may keep a model on a slice that it is to leave; after that the slice
  // serves it again. 0: no limit.
  Nanos unload_timeout = {};
  // At the end, when all requests have ended and all faults are over, every model leaves.
  bool lets_go = false;
};

// What has crossed links until some time, by purpose.
struct FleetCarried {
  Bytes weights_in;    // arrivals, and through rings
  Bytes weights_home;  // by steps that read them at home
  Bytes weights_out;
  Bytes kv_in;
  Bytes kv_out;
};

struct FleetSimulationReport {
  SimulationReport serving;  // counters are the sums over all slices
  fleet::FleetCounters fleet;
  std::string placement;
  std::int64_t slices = 0;  // of all machines
  std::int64_t slices_lost = 0;
  // What all models together ask of the links, each streamed at its TPOT, in shares of its rate:
  // above 1 no placement can have all of them active at once. Zero: there is no link.
  double demand = 0;
  double link_busy = 0;  // bytes that crossed the links ÷ the bytes that they could have carried
  std::int64_t steps_passed = 0;  // the part of serving.device.steps that the fast-forward took
  // In ns, from a request that found weights missing to the first token of its model.
  Histogram switches;
  // Every second from the first arrival on; when requests or outcomes are kept, and not with the
  // fast-forward, where slices do not all stand at one time.
  std::vector<FleetCarried> carried;
  std::vector<ServedRequest> requests;  // in the order of the workload, when requests are kept
  Outcomes outcomes;                    // when these are
};

// The profile of one of `parts` equal slices of a machine: memory, memory bandwidth and compute are
// divided, the link is not. (MIG gives its slices less: seven instances of 132 SMs have 16 each.)
HardwareProfile slice_of(const HardwareProfile& machine, std::int64_t parts);

// The options of a slice when its machine is divided into `into` equal slices instead of `from`.
SimulationOptions divided(const SimulationOptions& slice, std::int64_t from, std::int64_t into);

// Errors as run(). Also kInvalidArgument for less than 1 or more than 64 slices a machine, more
// than 4,096 in all, host memory that holds no model, or faults that make no sense; kUnsupported
// for a link that hangs or slows down while steps read at home.
Result<FleetSimulationReport> run_fleet(const FleetSimulationOptions& options,
                                        const Workload& workload);

std::string to_text(const FleetSimulationReport& report);
std::string to_json(const FleetSimulationReport& report);

}  // namespace causeway::simulate
