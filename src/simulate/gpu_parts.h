// A GPU that is divided into equal parts of its SMs, as green contexts are, and which `--slices
// auto` divides anew while it serves: what `slice::choose_layout` decides of the demand that is
// measured, in virtual time.
//
//   share of the SMs     0   16/132   32/132   56/132   1
//   of HBM's bandwidth   0    0.54     0.77     0.89    1     a part that is alone
//
// Parts have their part of the FLOPs and of the memory's room. Its bandwidth they share
// (shared_memory.h), and the link. Source of the table: what green contexts of 16, 32 and 56 SMs of
// an H200 read (docs/design/simulate.md).
#pragma once

#include <optional>
#include <vector>

#include "fleet/demand_meter.h"
#include "simulate/simulate.h"
#include "slice/choose_layout.h"

namespace causeway::simulate {

// An H100, of which slices may have 120 of the SMs, in units of 8.
inline constexpr slice::SliceGpu kH100Parts = {.processors = 132, .unit = 8, .units = 15};

struct GpuPartsOptions {
  slice::SliceGpu gpu;  // processors, and which of them parts may have
  int parts = 1;        // at the start, no more than it has units; kPartsMax if it `resizes`
  std::optional<slice::LayoutRules> resizes = {};  // nullopt: it stays as it is
  Nanos drain_max = seconds(3);                    // of what runs when parts are to change
  Nanos reopen = seconds(2);                       // from then until the others serve
};

// Into how many parts it may be divided, at the start or later.
int parts_most(const GpuPartsOptions& options);

// The profile of one of so many parts.
HardwareProfile part_of(const HardwareProfile& machine, const slice::SliceGpu& gpu, int parts);

class GpuParts {
 public:
  // `whole`: of the GPU as one slice.
  GpuParts(const GpuPartsOptions& options, const SimulationOptions& whole);

  // Of each of so many parts. They live as long as this does.
  const SimulationOptions& slice_options(int parts) const {
    return by_parts_[static_cast<std::size_t>(parts - 1)];
  }
  int parts() const { return layout_.parts; }

  void arrived(std::size_t model, Tokens prompt, Nanos now) { asked_[model].arrived(prompt, now); }
  void ended(std::size_t model, Tokens output, Nanos now) { asked_[model].ended(output, now); }
  // Into how many parts it is to be divided now; nullopt: as it is. `targets`: between tokens.
  std::optional<int> decide(const std::vector<Nanos>& targets, Nanos now);
  // It has been.
  void changed(int parts, Nanos now);

 private:
  const GpuPartsOptions options_;
  slice::SliceGpu gpu_;                      // with what each processor does
  std::vector<SimulationOptions> by_parts_;  // 1, 2, …
  std::vector<fleet::DemandMeter> asked_;    // by model
  slice::LayoutState layout_;
};

}  // namespace causeway::simulate
