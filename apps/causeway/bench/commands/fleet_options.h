// The options of a simulated fleet: how a machine is divided into slices, and which models are put
// where. One definition for all commands that have them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "options.h"
#include "simulate/fleet_simulation.h"

namespace causeway::app {

class FleetOptions {
 public:
  // `models_max`: what holds when the option is not given. `group`: of --help. Answers the options
  // beside --slices, which mean nothing without a fleet.
  std::vector<Option> declare(Options& app, std::int64_t models_max,
                              const std::string& group = "Options");

  // Writes what the options say, and the profile of a slice of `fleet.slice.profile`.
  Status apply(std::uint64_t seed, simulate::FleetSimulationOptions& fleet) const;

  // As they were given, for slices that are not simulated.
  const std::string& slices() const { return slices_; }
  const std::string& placement() const { return placement_; }

 private:
  // A GPU in parts of its SMs, where --slices names them.
  Status apply_parts(simulate::FleetSimulationOptions& fleet) const;

  std::int64_t machines_ = 1;
  std::string slices_ = "1";
  std::int64_t models_max_ = 1;
  std::string placement_ = "bandwidth";
  double drain_after_ms_ = 2000, room_timeout_ms_ = 60'000, disk_gb_per_s_ = 0;
  std::uint64_t host_bytes_ = 0;
  bool fast_forward_ = false, two_threads_ = false;
};

}  // namespace causeway::app
