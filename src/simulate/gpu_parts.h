// A GPU that is divided into equal parts of its SMs, as green contexts are. `--slices auto` divides
// it anew while it serves: slice::choose_layout decides from the measured demand, here in virtual
// time.
//
//   share of the SMs     0   16/132   32/132   64/132   1
//   of HBM's bandwidth   0    0.27     0.55     0.89    1     for a part that is alone
//
// Each part has its own share of the FLOPs, of the memory, and of the rate at which attention reads
// KV, which its processors limit. Parts share the memory's bandwidth (shared_memory.h) and the
// link. The table is what steps read on 16, 32 and 64 SMs of an H200 (slice/sm_rates.h); what else
// was measured of parts is in PartProfile (hardware_profile.h).
#pragma once

#include <optional>
#include <vector>

#include "fleet/demand_meter.h"
#include "simulate/simulate.h"
#include "slice/choose_layout.h"

namespace causeway::simulate {

// An H100: slices may have 120 of its SMs, in units of 8.
inline constexpr slice::SliceGpu kH100Parts = {.processors = 132, .unit = 8, .units = 15};
// With the splits of an H200 that reach 128, some of them.
slice::SliceGpu hopper_parts();

struct GpuPartsOptions {
  slice::SliceGpu gpu;  // its processors, and how many of them parts may have
  int parts = 1;        // at the start: no more than its units; kPartsMax if it `resizes`
  std::optional<slice::LayoutRules> resizes = {};  // nullopt: the division stays as it is
  Nanos drain_max = seconds(3);  // how long running requests may take to end before parts change
  Nanos reopen = seconds(2);     // time from then until the new parts serve
};

// Into how many parts it may be divided, at the start or later.
int parts_most(const GpuPartsOptions& options);

// The profile of one part when the GPU is divided into `parts`.
HardwareProfile part_of(const HardwareProfile& machine, const slice::SliceGpu& gpu, int parts);

class GpuParts {
 public:
  // `whole`: the options of the GPU as one slice.
  GpuParts(const GpuPartsOptions& options, const SimulationOptions& whole);

  // The options of one part when there are `parts`. The reference is valid as long as this object.
  const SimulationOptions& slice_options(int parts) const {
    return by_parts_[static_cast<std::size_t>(parts - 1)];
  }
  int parts() const { return layout_.parts; }

  void arrived(std::size_t model, Tokens prompt, Nanos now) { asked_[model].arrived(prompt, now); }
  void ended(std::size_t model, Tokens output, Nanos now) { asked_[model].ended(output, now); }
  // Into how many parts the GPU should be divided now; nullopt: as it is. `targets`: by model, for
  // the time between tokens.
  std::optional<int> decide(const std::vector<Nanos>& targets, Nanos now);
  // The GPU has been divided into `parts`.
  void changed(int parts, Nanos now);

 private:
  const GpuPartsOptions options_;
  slice::SliceGpu gpu_;                      // with the measured rates of one processor
  std::vector<SimulationOptions> by_parts_;  // for 1, 2, … parts
  std::vector<fleet::DemandMeter> asked_;    // by model
  slice::LayoutState layout_;
};

}  // namespace causeway::simulate
