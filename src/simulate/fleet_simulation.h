// A catalogue on several slices of one link, in virtual time: FleetCore decides where models are
// and which slice serves a request, an EngineCore a slice serves it. What the fleet's loop does
// with threads and files takes the time here that the options say.
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
  // Of one slice; its profile's link is shared by all of its machine, its models are the catalogue.
  SimulationOptions slice;
  std::int64_t slices = 1;      // of a machine
  std::int64_t machines = 1;    // each with a link of its own
  std::int64_t models_max = 1;  // on a slice at once; 0: any number
  fleet::PlacementKind placement = fleet::PlacementKind::kBandwidth;
  fleet::FleetOptions fleet = {};
  // Models are loaded ahead of their requests as far as they fit.
  bool load_ahead = true;
  Bytes host_memory = {};            // for weights; zero: it has room for all
  double disk_bytes_per_second = 0;  // from which a cold model comes; 0: it takes no time
  Nanos attach = millis(1);          // to make a model in host memory runnable
  bool keep_requests = false;        // FleetSimulationReport::requests
  bool two_threads = false;          // with SimulationOptions::fast_forward; the report is the same
  // Instead of `slices`: of one machine, whose GPU is divided into parts of its SMs, and perhaps
  // anew while it serves. `slice` is then the whole of it, and models move.
  std::optional<GpuPartsOptions> gpu_parts = {};
  // What befalls it. Then steps are taken one by one: fast_forward has no effect.
  FleetFaults faults = {};
  // How long a model that is to leave a slice may be kept there by a step or by copies, before it
  // is served on; 0: for ever.
  Nanos unload_timeout = {};
  // When all requests have ended, and all that befalls it, every model leaves.
  bool lets_go = false;
};

struct FleetSimulationReport {
  SimulationReport serving;  // its counters are sums over the slices
  fleet::FleetCounters fleet;
  std::string placement;
  std::int64_t slices = 0;  // of all machines
  std::int64_t slices_lost = 0;
  // What all models together ask of the links, each streamed at its TPOT, in shares of its rate:
  // above 1 no placement can have all of them active at once. Zero: there is no link.
  double demand = 0;
  double link_busy = 0;           // bytes that crossed them ÷ what they could have brought
  std::int64_t steps_passed = 0;  // of serving.device.steps, by the fast-forward
  Histogram switches;  // ns, from a request that found weights missing to its model's first token
  std::vector<ServedRequest> requests;  // by their places in the workload, if they are kept
};

// One of `parts` equal slices of a machine: memory, its bandwidth and compute are divided, the link
// is not. (MIG gives its slices less than that: of 132 SMs seven instances have 16 each.)
HardwareProfile slice_of(const HardwareProfile& machine, std::int64_t parts);

// The same slice where its machine is divided into `into` equal slices instead of `from`.
SimulationOptions divided(const SimulationOptions& slice, std::int64_t from, std::int64_t into);

// As run(); kInvalidArgument also for slices below 1 or above 64 a machine or 4,096 in all, host
// memory that holds no model, or faults that make no sense; kUnsupported for a link that hangs or
// slows under steps that read at home.
Result<FleetSimulationReport> run_fleet(const FleetSimulationOptions& options,
                                        const Workload& workload);

std::string to_text(const FleetSimulationReport& report);
std::string to_json(const FleetSimulationReport& report);

}  // namespace causeway::simulate
