// --chunk-profile in the commands that simulate.
#pragma once

#include "base/result.h"
#include "simulate/simulate.h"

namespace causeway::app {

// kInvalidArgument unless there is no profile or the machine is one slice, as simulated slices have
// no processors by which tables are found. The log names models that are not in the profile.
Status check_simulated_profile(const simulate::SimulationOptions& simulation, bool one_slice);

}  // namespace causeway::app
